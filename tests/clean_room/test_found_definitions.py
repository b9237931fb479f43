"""Definitions of an analyst that were evaluated with the rights of somebody else in 0.3.0: of
whoever explained, read or restored a table, and of the owner who read it raw."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import psycopg
import pytest

from tests.conftest import RunningStack

from .evil import DUMP, OPTION_LIST, others
from .pair import Pair

#: expressions that are no constants; 0.3.0 evaluated those that PostgreSQL calls immutable
NO_CONSTANTS = [
    "analyst.evil()",
    "lower(analyst.evil())",
    "analyst.steal('x')",
    "'a' OPERATOR(analyst.###) 'b'",
    "('x'::analyst.trap)::text",
]


def client(stack: RunningStack, program: str, *arguments: str, script: str = "") -> str:
    """What a program of PostgreSQL's, run by the superuser, writes."""
    place = ["-h", str(stack.layout.run), "-p", str(stack.layout.socket_port), "-U", "privid"]
    done = subprocess.run(
        [program, *place, *arguments, "privid"],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


# ------------------------------------------------------------------ casts


@pytest.mark.parametrize("cast", ["{0} AS other_{0}", "other_{0} AS {0}", "{0} AS text", "text AS {0}"])
def test_an_enum_with_a_cast_in_either_direction_is_refused_until_it_is_dropped(
    pair: Pair, unique: Callable[[str], str], cast: str
) -> None:
    name = unique("casted")
    pair.stack.run(f"CREATE TYPE {name} AS ENUM ('a'); CREATE TYPE other_{name} AS ENUM ('a')")
    pair.stack.run(
        f"CREATE FOREIGN TABLE {name}_t (chunk timestamptz, kind {name} DEFAULT 'a') "
        f"SERVER event_a OPTIONS ({OPTION_LIST})"
    )
    pair.stack.run(f"EXPLAIN SELECT count(*) FROM {name}_t")
    pair.stack.run(f"CREATE CAST ({cast.format(name)}) WITH INOUT")
    with pytest.raises(psycopg.Error, match="cannot have casts of its own") as caught:
        pair.stack.run(f"EXPLAIN SELECT count(*) FROM {name}_t")
    hint = caught.value.diag.message_hint or ""
    pair.stack.run(hint.partition(";")[0])
    pair.stack.run(f"EXPLAIN SELECT count(*) FROM {name}_t")


# ------------------------------------------------------------------ defaults


@pytest.mark.parametrize("default", NO_CONSTANTS)
def test_a_default_with_code_of_an_analyst_is_refused_when_it_is_made(
    evil: Pair, unique: Callable[[str], str], default: str
) -> None:
    name = unique("evil")
    made = (
        f"CREATE FOREIGN TABLE {name} (chunk timestamptz, plate text DEFAULT %s) "
        f"SERVER event_a OPTIONS ({OPTION_LIST})"
    )
    with pytest.raises(psycopg.Error) as caught:
        evil.stack.run(made % default)
    assert caught.value.diag.sqlstate == "22023", caught.value
    evil.stack.run(made % "'none'")
    for change in (f"ALTER plate SET DEFAULT {default}", f"ADD other text DEFAULT {default}"):
        for kind in ("FOREIGN TABLE", "TABLE"):
            with pytest.raises(psycopg.Error) as caught:
                evil.stack.run(f"ALTER {kind} {name} {change}")
            assert caught.value.diag.sqlstate == "22023", caught.value


def test_a_default_is_also_refused_when_it_comes_from_a_parent(
    evil: Pair, unique: Callable[[str], str]
) -> None:
    parent, name = unique("parent"), unique("evil")
    evil.stack.run(f"CREATE TABLE {parent} (plate text)")
    evil.stack.run(
        f"CREATE FOREIGN TABLE {name} (chunk timestamptz, plate text DEFAULT 'none') "
        f"INHERITS ({parent}) SERVER event_a OPTIONS ({OPTION_LIST})"
    )
    with pytest.raises(psycopg.Error) as caught:
        evil.stack.run(f"ALTER TABLE {parent} ALTER plate SET DEFAULT analyst.evil()")
    assert caught.value.diag.sqlstate == "22023", caught.value


def test_ordinary_tables_are_altered_as_ever(evil: Pair, unique: Callable[[str], str]) -> None:
    name = unique("ordinary")
    told: list[str | None] = []
    with evil.stack.connect("analyst") as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        connection.execute(f"CREATE TABLE {name} (plate text)".encode())
        connection.execute(f"CREATE TABLE {name}_kid () INHERITS ({name})".encode())
        for change in (
            "ALTER plate SET DEFAULT analyst.evil()",
            "ADD n int DEFAULT 3",
            "RENAME n TO m",
            f"RENAME TO {name}_too",
        ):
            connection.execute(f"ALTER TABLE {name} {change}".encode())
        connection.execute(f"ALTER TABLE {name}_too SET SCHEMA event_a".encode())
    assert told == []


@pytest.fixture(scope="module")
def planted(evil: Pair) -> Pair:
    """A table with such a default in spite of it, as one of an earlier version."""
    dump = DUMP.format("planted", OPTION_LIST)
    with evil.stack.connect("privid") as connection:
        connection.execute(dump.replace("DEFAULT planted.evil()", "DEFAULT 'none'").encode())
        connection.execute(
            "CREATE TABLE planted.form (chunk timestamptz, plate text DEFAULT planted.evil())"
        )
        connection.execute("""
            UPDATE pg_attrdef SET adbin = form.adbin FROM pg_attrdef form
            WHERE pg_attrdef.adrelid = 'planted.t'::regclass
              AND form.adrelid = 'planted.form'::regclass""")
        connection.execute("DROP TABLE planted.form")
    others(evil)
    return evil


@pytest.mark.parametrize("user", ["second", "owner", "privid"])
@pytest.mark.parametrize(
    "statement",
    [
        "EXPLAIN SELECT count(*) FROM planted.t",
        "SELECT count(*) FROM planted.t",
        "SELECT * FROM planted.t LIMIT 1",
        "ANALYZE planted.t",
    ],
)
def test_nobody_else_evaluates_a_default(planted: Pair, user: str, statement: str) -> None:
    for raw in ("off",) if user == "second" else ("off", "on"):
        with planted.stack.connect(user) as connection:
            if raw == "on":
                connection.execute("SET privid.raw = on")
            try:
                connection.execute(statement.encode())
            except psycopg.Error as error:
                assert error.diag.sqlstate != "XX000", error
        assert others(planted) == []


def test_the_dump_of_an_earlier_version_runs_no_code_when_a_superuser_restores_it(
    evil: Pair,
) -> None:
    others(evil)
    told = client(evil.stack, "psql", "-X", "-q", script=DUMP.format("dumped", OPTION_LIST))
    assert others(evil) == [], told
    restored = evil.stack.run(
        "SELECT count(*) FROM pg_proc WHERE pronamespace = 'dumped'::regnamespace"
    )
    assert restored == [(3,)], told


def test_a_schema_goes_through_pg_dump_and_back_without_running_code(planted: Pair) -> None:
    dump = client(planted.stack, "pg_dump", "-s", "-n", "planted")
    assert "DEFAULT planted.evil()" in dump and "CREATE FOREIGN TABLE" in dump
    assert others(planted) == []
    told = client(planted.stack, "psql", "-X", "-q", script=dump.replace("planted", "replanted"))
    assert others(planted) == [], told


# ------------------------------------------------------------------ where an owner reads raw

#: what the analyst makes, and what the owner asks
TRAPS = {
    "a view that calls a function": (
        "CREATE VIEW event_a.{0} AS SELECT chunk, analyst.steal(plate) FROM event_a.t",
        "SELECT * FROM event_a.{0}",
    ),
    "a view that filters by a function": (
        "CREATE VIEW event_a.{0} AS SELECT v FROM event_a.t WHERE analyst.steal(plate) <> ''",
        "SELECT count(*) FROM event_a.{0}",
    ),
    "a view that casts to a domain": (
        "CREATE VIEW event_a.{0} AS SELECT plate::analyst.trap FROM event_a.t",
        "SELECT * FROM event_a.{0}",
    ),
    "a function over rows": (
        "CREATE FUNCTION event_a.{0}() RETURNS SETOF event_a.t LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM analyst.tell(plate) FROM event_a.t; END $$",
        "SELECT * FROM event_a.{0}()",
    ),
    "a function in SQL": (
        "CREATE FUNCTION event_a.{0}() RETURNS SETOF text LANGUAGE sql STABLE AS "
        "$$ SELECT analyst.steal(plate) FROM event_a.t $$",
        "SELECT * FROM event_a.{0}()",
    ),
    "a rule": (
        "CREATE VIEW event_a.{0} AS SELECT 1 AS one; "
        "CREATE RULE note AS ON INSERT TO event_a.{0} DO INSTEAD "
        "INSERT INTO analyst.booty SELECT current_user, plate FROM event_a.t; "
        "GRANT INSERT ON event_a.{0} TO owner",
        "INSERT INTO event_a.{0} VALUES (1)",
    ),
}


@pytest.mark.parametrize(("definition", "question"), TRAPS.values(), ids=TRAPS)
def test_what_an_owner_reads_raw_passes_no_code_of_an_analyst(
    evil: Pair, unique: Callable[[str], str], definition: str, question: str
) -> None:
    name = unique("trap")
    evil.stack.run(definition.format(name))
    if "VIEW" in definition:
        evil.stack.run(f"GRANT SELECT ON event_a.{name} TO owner")
    others(evil)
    with evil.stack.connect("owner") as connection:
        connection.execute("SET privid.raw = on")
        try:
            connection.execute(question.format(name).encode())
        except psycopg.Error as error:
            assert error.diag.sqlstate != "XX000", error
    assert [what for _, what in others(evil) if what in ("X", "none")] == []


def test_an_owner_still_reads_a_table_raw(evil: Pair) -> None:
    rows = evil.stack.run(
        "SELECT plate, count(*) FROM event_a.t GROUP BY 1 ORDER BY 2",
        user="owner",
        settings={"privid.raw": "on"},
    )
    assert rows == [("X", 5), ("none", 75)]
