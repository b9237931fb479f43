"""Raw rows are those of tables that carry nobody's code, and that nothing of another role is read beside."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import psycopg
import pytest

from .evil import OPTION_LIST, others
from .pair import Pair
from .plunder import loot, owner_of

#: what the analyst hangs on his table, and how it is taken away
CARRIED = {
    "statistics": (
        "CREATE STATISTICS event_a.trap ON (plate || raid.early('statistics')) FROM event_a.{0}",
        "statistics object event_a.trap",
        "DROP STATISTICS event_a.trap",
    ),
    "a constraint": (
        "ALTER FOREIGN TABLE event_a.{0} ADD CONSTRAINT trap CHECK (raid.early(note) <> '')",
        "constraint trap on foreign table event_a.{0}",
        "ALTER FOREIGN TABLE event_a.{0} DROP CONSTRAINT trap",
    ),
    "a trigger": (
        "CREATE TRIGGER trap BEFORE INSERT ON event_a.{0} EXECUTE FUNCTION raid.fire()",
        "trigger trap on foreign table event_a.{0}",
        "DROP TRIGGER trap ON event_a.{0}",
    ),
    "a child": (
        "CREATE TABLE event_a.{0}_kid (CHECK (raid.early('kid') <> '')) INHERITS (event_a.{0})",
        "child",
        "DROP TABLE event_a.{0}_kid",
    ),
    "a parent": (
        "CREATE TABLE event_a.{0}_mum (plate text); "
        "ALTER FOREIGN TABLE event_a.{0} INHERIT event_a.{0}_mum",
        "parent",
        "ALTER FOREIGN TABLE event_a.{0} NO INHERIT event_a.{0}_mum",
    ),
}


@pytest.fixture(scope="module")
def table(plunder: Pair) -> Callable[[str], str]:
    """A table of the analyst's that others may read."""

    def made(name: str) -> str:
        plunder.stack.run(
            f"CREATE FOREIGN TABLE event_a.{name} (chunk timestamptz, plate text DEFAULT 'none', "
            f"note text DEFAULT '') SERVER event_a OPTIONS ({OPTION_LIST})"
        )
        plunder.stack.run(f"GRANT SELECT ON event_a.{name} TO PUBLIC")
        return name

    return made


@pytest.mark.parametrize(("hang", "what", "drop"), CARRIED.values(), ids=CARRIED)
def test_a_table_that_carries_code_is_not_read_raw(
    plunder: Pair,
    table: Callable[[str], str],
    unique: Callable[[str], str],
    hang: str,
    what: str,
    drop: str,
) -> None:
    name = table(unique("carries"))
    plunder.stack.run(hang.format(name))
    loot(plunder)
    for role in ("owner", "privid"):
        for verb in ("", "EXPLAIN", "EXPLAIN ANALYZE"):
            statement = f"{verb} SELECT plate FROM event_a.{name} WHERE plate = 'X'"
            with plunder.stack.connect(role) as connection:
                connection.execute("SET privid.raw = on; SET constraint_exclusion = on")
                with pytest.raises(psycopg.Error, match="cannot be read while it has") as caught:
                    connection.execute(statement.encode())
                assert caught.value.diag.sqlstate == "PV001"
                assert what.format(name) in str(caught.value)
    assert loot(plunder) == (set(), [])
    plunder.stack.run(drop.format(name))
    with owner_of(plunder) as connection:
        read = connection.execute(f"SELECT count(*) FROM event_a.{name}".encode())
        assert read.fetchall() == [(80,)]


def test_rules_and_row_security_have_no_place_on_a_table_of_a_camera(
    plunder: Pair, table: Callable[[str], str], unique: Callable[[str], str]
) -> None:
    name = table(unique("plain"))
    for statement in (
        f"ALTER FOREIGN TABLE event_a.{name} ENABLE ROW LEVEL SECURITY",
        f"CREATE RULE trap AS ON INSERT TO event_a.{name} DO INSTEAD NOTHING",
    ):
        with pytest.raises(psycopg.Error, match="not supported for foreign tables"):
            plunder.stack.run(statement)


STORING = ("CREATE TEMP TABLE got AS SELECT {0} AS size FROM event_a.t", "SELECT {0} AS size INTO TEMP got FROM event_a.t",
           "EXPLAIN (ANALYZE) CREATE TEMP TABLE got AS SELECT {0} AS size FROM event_a.t",
           "CREATE TEMP TABLE got AS WITH x AS (SELECT {0} AS size FROM event_a.t) TABLE x",
           "INSERT INTO mine SELECT {0} FROM event_a.t", "WITH x AS (INSERT INTO mine SELECT {0} FROM event_a.t RETURNING 1) TABLE x",
           "UPDATE mine SET size = t.size FROM event_a.t")


@pytest.mark.parametrize("statement", STORING)
def test_no_raw_value_is_stored_of_a_type_that_an_analyst_can_define_casts_for(plunder: Pair, statement: str) -> None:
    with owner_of(plunder) as connection:
        connection.execute("CREATE TEMP TABLE mine (size analyst.event_size)")
        with pytest.raises(psycopg.Error, match="cannot be stored") as caught:
            connection.execute(statement.format("size").encode())
        assert caught.value.diag.sqlstate == "PV001"
        assert "privid.label(" in (caught.value.diag.message_hint or "")


def test_an_enum_with_a_cast_is_no_type_of_a_column_and_labels_are_stored_as_text(plunder: Pair) -> None:
    plunder.stack.run("""
        CREATE FUNCTION raid.cast_size(analyst.event_size) RETURNS text LANGUAGE plpgsql AS
            $$ BEGIN RETURN raid.plunder('cast'); END $$;
        CREATE CAST (analyst.event_size AS text) WITH FUNCTION raid.cast_size AS IMPLICIT""")
    asked = ("SELECT * FROM (SELECT size, count(*) FROM event_a.t GROUP BY size) q WHERE size = 'small'",
             "SELECT size, count(*) FROM event_a.t GROUP BY size HAVING size = 'small'",
             "SELECT count(*) FROM event_a.t WHERE size::text = 'small'", "EXPLAIN SELECT count(*) FROM event_a.t")
    try:
        loot(plunder)
        for role, raw, statement in itertools.product(("owner", "privid"), ("off", "on"), asked):
            with plunder.stack.connect(role) as connection:
                connection.execute(f"SET privid.raw = {raw}".encode())
                with pytest.raises(psycopg.Error, match=r"cannot have casts of its own|cannot call this function|in a release") as caught:
                    connection.execute(statement.encode())
                assert caught.value.diag.sqlstate in ("PV001", "PV002"), caught.value
        assert loot(plunder) == (set(), [])
    finally:
        plunder.stack.run("DROP CAST (analyst.event_size AS text)")
    with owner_of(plunder) as connection:
        connection.execute("CREATE TEMP TABLE got AS SELECT privid.label(size) AS size FROM event_a.t")
        found = connection.execute("SELECT size, count(*) FROM got GROUP BY 1 ORDER BY 1").fetchall()
    assert found == [("large", 5), ("small", 75)]


#: raw statements that also touch what another role made
BESIDE = [
    "SELECT count(*) FROM event_a.t, raid.listed",
    "SELECT count(*) FROM event_a.t WHERE plate IN (SELECT k FROM raid.listed)",
    "WITH x AS (SELECT k FROM raid.keys) SELECT count(*) FROM event_a.t, x",
    "SELECT count(*) FROM event_a.t, raid.parted",
    "INSERT INTO raid.listed SELECT plate FROM event_a.t",
]


@pytest.mark.parametrize("statement", BESIDE)
@pytest.mark.parametrize("verb", ["", "EXPLAIN "])
def test_a_raw_statement_touches_no_other_table_of_another_role(
    plunder: Pair, statement: str, verb: str
) -> None:
    loot(plunder)
    with owner_of(plunder) as connection:
        with pytest.raises(psycopg.Error, match="of another role") as caught:
            connection.execute(f"{verb}{statement}".encode())
        assert caught.value.diag.sqlstate == "PV001"
    assert loot(plunder) == (set(), [])


def test_statistics_that_are_made_meanwhile_wait_for_the_owner(
    plunder: Pair, table: Callable[[str], str], unique: Callable[[str], str]
) -> None:
    name = table(unique("waits"))
    with owner_of(plunder) as connection, connection.transaction():
        connection.execute(f"SELECT count(*) FROM event_a.{name}".encode())
        with pytest.raises(psycopg.errors.LockNotAvailable):
            plunder.stack.run(
                f"CREATE STATISTICS event_a.late ON plate, note FROM event_a.{name}",
                settings={"lock_timeout": "300ms"},
            )
    assert others(plunder) == []


#: what may hang on a table of the owner's own that raw rows are written to, and would see them
SEEING = {
    "check": "CHECK (raid.early(plate) <> '')",
    "generated column": "more text GENERATED ALWAYS AS (raid.early(plate)) STORED",
    "index": "CONSTRAINT x EXCLUDE USING btree (raid.early(plate) WITH =)",
}


@pytest.mark.parametrize("seeing", SEEING)
def test_raw_rows_are_not_written_where_code_would_see_them(plunder: Pair, seeing: str) -> None:
    loot(plunder)
    with owner_of(plunder) as connection:
        connection.execute(f"CREATE TEMP TABLE mine (plate text, {SEEING[seeing]})".encode())
        for statement in ("INSERT INTO mine SELECT plate FROM event_a.t", "EXPLAIN INSERT INTO mine SELECT plate FROM event_a.t",
                          "UPDATE mine SET plate = t.plate FROM event_a.t"):
            with pytest.raises(psycopg.Error, match="raw rows cannot be written to table") as caught:
                connection.execute(statement.encode())
            assert caught.value.diag.sqlstate == "PV001"
        connection.execute("CREATE TEMP TABLE plain (plate text PRIMARY KEY)")
        connection.execute("INSERT INTO plain SELECT DISTINCT plate FROM event_a.t")
    ran, plates = loot(plunder)
    assert not plates and "trigger" not in ran
