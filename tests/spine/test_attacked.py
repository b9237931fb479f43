"""Holes that attackers found in the clean room before it was released. Each statement here leaked, or ran code with another's rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from .conftest import World
from .world import plan_of

#: conditions on trusted columns of which PostgreSQL's own functions and those that cannot raise have different opinions
TWO_OPINIONS = {
    "a number beyond all bounds": "(extract(epoch FROM chunk) * 1e200 * 1e200) IS NULL",
    "text that is cut": f"length(chunk::text || '{'x' * 8192}') = 8192",
    "a text that is no number": "(to_char(chunk, '\"NaN\"')::float8 = 'NaN'::float8) IS NOT TRUE",
}


def failures(world: World) -> int:
    """Releases whose inner query failed or was late, by the engine's own log."""
    log: str = (world.stack.data / "log" / "engine.log").read_text()
    return log.count('"room failed"') + log.count('"room late"')


@pytest.mark.parametrize("condition", TWO_OPINIONS.values(), ids=TWO_OPINIONS)
def test_chunks_are_judged_by_the_very_functions_that_choose_rows(world: World, condition: str) -> None:
    statement = f"SELECT count(*) FROM (SELECT v FROM {{t}} UNION ALL SELECT v FROM {{t}} WHERE {condition}) u"
    plan = plan_of(world.rows(f"EXPLAIN (FORMAT JSON) {statement.format(t='calm')}")[0][0])
    once, both = world.rows("SELECT count(*) FROM open_calm")[0][0], world.rows(statement.format(t="open_calm"))[0][0]
    assert plan["Sensitivity"] == 8 * both / once


def test_public_rows_are_chosen_by_the_very_functions_that_join_them(world: World) -> None:
    world.rows("CREATE TABLE IF NOT EXISTS twice (k text, n numeric)")
    world.rows("INSERT INTO twice SELECT 'car', NULL UNION ALL SELECT 'car', 1e150 FROM generate_series(1, 5)")
    with pytest.raises(psycopg.Error) as caught:
        world.rows("SELECT d.k, count(t.v) FROM twice d LEFT JOIN calm t ON t.kind = d.k WHERE (d.n * 1e200) IS NULL GROUP BY d.k")
    assert caught.value.diag.sqlstate == "PV002"


def test_public_rows_are_chosen_in_the_time_zone_of_the_session(world: World) -> None:
    world.rows("CREATE TABLE IF NOT EXISTS zoned (k text, ts timestamptz)")
    world.rows("INSERT INTO zoned VALUES ('car', '2026-01-01 00:00+00'), ('car', '2026-01-01 05:00+00')")
    statement = ("SELECT d.k, count(t.v) FROM zoned d LEFT JOIN calm t ON t.kind = d.k "
                 "WHERE d.ts::text LIKE '2026-01-01 00:00:00%' OR d.ts::text LIKE '%+09' GROUP BY d.k")
    assert world.stack.run(statement, settings={"TimeZone": "UTC"})[0][0] == "car"
    with pytest.raises(psycopg.Error, match="has no rule"):
        world.stack.run(statement, settings={"TimeZone": "Asia/Tokyo"})


@pytest.mark.parametrize("unit", ["epochs", "quarters", "decade", "century", "timezone", "dow", "week", "x", "", "SECONDS", "us", "m", "y"])
def test_a_unit_of_time_that_a_program_writes_is_refused(world: World, unit: str) -> None:
    units = (f"kind || '{unit}'", f"substring('{unit}' || kind, 1, {len(unit)})")
    since = "chunk - '2026-01-01 00:00+00'::timestamptz"
    conditions = " OR ".join(f'coalesce(pg_catalog."extract"({one}, {since}), 0) > -1' for one in units)
    with pytest.raises(psycopg.Error, match="unit that is not constant"):
        world.rows(f"SELECT count(*) FROM calm WHERE {conditions}", reuse="off")


def test_a_value_that_is_off_its_grid_is_no_error(world: World) -> None:
    parts = [f"range(CASE WHEN v > 5 THEN {x} ELSE 0 END, 0, 1)::float8" for x in (0.1, 0.2, 0.3)]
    value = f"(({parts[0]} + {parts[1]}) - {parts[2]})::numeric"
    with pytest.raises(psycopg.Error, match="has no rule without a range"):
        world.rows(f"SELECT sum({value}) FROM calm", reuse="off")
    assert len(world.rows(f"SELECT sum(range({value}, -1, 1)) FROM calm", reuse="off")) == 1


@pytest.fixture(scope="module")
def traps(world: World) -> Iterator[World]:
    """What an analyst lays out for an owner who reads raw rows, or explains."""
    with world.connect() as connection:
        connection.execute("""
            CREATE TABLE caught (how text, who text);
            GRANT INSERT ON caught TO PUBLIC; GRANT USAGE ON SCHEMA analyst TO PUBLIC; GRANT SELECT ON calm, open_calm, truth TO PUBLIC;
            CREATE FUNCTION catch(how text, x anyelement) RETURNS boolean LANGUAGE plpgsql AS
                $$ BEGIN INSERT INTO analyst.caught VALUES (how, current_user); RETURN true; END $$;
            CREATE FUNCTION catch_early(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
                $$ BEGIN PERFORM analyst.catch('constraint', 1); RETURN true; END $$;
            CREATE DOMAIN snare AS float8 CHECK (catch('domain', VALUE));
            CREATE DOMAIN trap_text AS text CHECK (catch('key', VALUE));
            CREATE TYPE trap_row AS (a snare, b float8);
            CREATE TYPE trap_size AS ENUM ('small', 'large');
            CREATE FUNCTION trap_json(trap_size) RETURNS json LANGUAGE plpgsql AS
                $$ BEGIN PERFORM analyst.catch('cast', $1); RETURN to_json($1::text); END $$;
            CREATE CAST (trap_size AS json) WITH FUNCTION trap_json(trap_size);
            CREATE TABLE trap_parent (chunk timestamptz, v float8, kind text, flag boolean, size world_size);
            CREATE VIEW trap_of_parent AS SELECT catch('parent', v) FROM trap_parent;
            CREATE FUNCTION trap_rows() RETURNS SETOF float8 LANGUAGE sql STABLE AS 'SELECT v FROM analyst.open_calm';
            CREATE VIEW trap_of_function AS SELECT catch('inlined', f) FROM trap_rows() f;
            CREATE VIEW trap_of_domain WITH (security_invoker = true) AS SELECT ('{' || v::text || '}')::snare[] AS ok FROM open_calm;
            CREATE VIEW trap_of_record AS
                SELECT count(*) FROM calm WHERE v > (jsonb_populate_record(null::trap_row, '{"a": 1, "b": -1}')).b;
            CREATE TABLE trap_keys (k trap_text);
            INSERT INTO trap_keys VALUES ('car'), ('bus');
            CREATE VIEW trap_of_keys AS SELECT k, count(v) FROM trap_keys LEFT JOIN calm ON kind = k GROUP BY k;
            CREATE TABLE trap_public (k text); CREATE TABLE trap_child (CHECK (catch_early(1))) INHERITS (trap_public);
            CREATE VIEW trap_of_child AS SELECT k, count(v) FROM trap_public LEFT JOIN calm ON kind = k GROUP BY k;
            GRANT SELECT ON trap_parent, trap_of_parent, trap_of_function, trap_of_domain, trap_of_record, trap_of_keys, trap_keys,
                trap_public, trap_child, trap_of_child TO PUBLIC;
            DELETE FROM caught""")
    yield world


def caught_by(world: World) -> list[tuple[Any, ...]]:
    return world.rows("SELECT how, who FROM caught WHERE who <> 'analyst'", user="analyst")


RAW = [
    "SELECT * FROM analyst.trap_of_function",
    "SELECT * FROM analyst.trap_rows()",
    "SELECT * FROM analyst.trap_of_domain",
    "SELECT row_to_json(t) FROM analyst.open_calm t",
    "SELECT to_jsonb(size) FROM analyst.open_calm",
    "SELECT ('{' || v || '}')::analyst.snare[] FROM analyst.open_calm",
    "SELECT v::analyst.snare FROM analyst.open_calm",
    "SELECT format('%s', analyst.catch('call', v)) FROM analyst.open_calm",
]


@pytest.mark.parametrize("statement", RAW)
def test_nothing_of_an_analyst_runs_when_an_owner_reads_raw_rows(traps: World, statement: str) -> None:
    with traps.connect("owner") as connection:
        connection.execute("SET privid.raw = on")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(statement.encode())
        assert caught.value.diag.sqlstate in ("PV001", "PV002", "42501"), caught.value
    assert caught_by(traps) == []


def test_a_child_of_a_table_brings_no_condition_into_an_owners_reading(traps: World, unique: Callable[[str], str]) -> None:
    name = unique("kid")
    traps.rows(f"CREATE TABLE {name} (CHECK (analyst.catch_early(1))) INHERITS (open_calm)")
    try:
        with traps.connect("owner") as connection:
            connection.execute("SET privid.raw = on")
            with pytest.raises(psycopg.Error, match="parent or a child"):
                connection.execute("SELECT count(*) FROM analyst.open_calm")
    finally:
        traps.rows(f"DROP TABLE {name}")
    assert caught_by(traps) == []


def test_a_parent_of_a_table_hands_no_raw_rows_to_code_of_an_analyst(traps: World) -> None:
    traps.rows("ALTER FOREIGN TABLE open_calm INHERIT trap_parent")
    try:
        with traps.connect("owner") as connection:
            connection.execute("SET privid.raw = on")
            for statement in ("SELECT * FROM analyst.trap_of_parent", "SELECT * FROM analyst.trap_parent"):
                with pytest.raises(psycopg.Error) as caught:
                    connection.execute(statement.encode())
                assert caught.value.diag.sqlstate == "PV001"
    finally:
        traps.rows("ALTER FOREIGN TABLE open_calm NO INHERIT trap_parent")
    assert caught_by(traps) == []


def test_an_owner_still_counts_and_copies_raw_rows(traps: World) -> None:
    with traps.connect("owner") as connection:
        connection.execute("SET privid.raw = on")
        statement = "SELECT kind, size, count(*), avg(v), max(chunk) FROM analyst.open_calm WHERE v > 2 GROUP BY 1, 2 ORDER BY 1"
        assert connection.execute(statement.encode()).fetchall()
        connection.execute("CREATE TEMP TABLE mine AS SELECT kind, v, chunk, privid.label(size) AS size FROM analyst.open_calm")
        assert connection.execute("SELECT count(*) FROM mine").fetchall() == traps.rows("SELECT count(*) FROM truth")


@pytest.mark.parametrize("view", ["trap_of_record", "trap_of_keys", "trap_of_child"])
@pytest.mark.parametrize("verb", ["EXPLAIN ", ""])
@pytest.mark.parametrize("role", ["owner", "privid"])
def test_a_release_runs_no_code_of_whoever_defined_it(traps: World, view: str, verb: str, role: str) -> None:
    statement = f"{verb}SELECT * FROM analyst.{view}"
    if view == "trap_of_child":
        traps.rows(statement, user=role)
    else:
        with pytest.raises(psycopg.Error, match="cannot be used in a release"):
            traps.rows(statement, user=role)
    assert caught_by(traps) == []


def test_what_is_evaluated_while_a_statement_is_planned_reads_nothing_raw(traps: World) -> None:
    traps.rows("""
        CREATE OR REPLACE FUNCTION peek_early() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
            $$ DECLARE x float8; BEGIN SELECT v INTO x FROM analyst.open_calm LIMIT 1;
               INSERT INTO analyst.caught VALUES ('peeked', current_user); RETURN 1; END $$;
        CREATE OR REPLACE VIEW trap_of_limit AS
            SELECT flag FROM stormy GROUP BY flag ORDER BY count(*) DESC LIMIT peek_early();
        GRANT SELECT ON trap_of_limit, stormy TO PUBLIC""")
    with traps.connect("owner") as connection:
        connection.execute("SET privid.raw = on; PREPARE p(bigint) AS SELECT v FROM analyst.open_calm LIMIT $1")
        for statement in ("EXPLAIN SELECT * FROM analyst.trap_of_limit", "EXECUTE p(analyst.peek_early())",
                          "EXPLAIN ANALYZE EXECUTE p(analyst.peek_early())", "SELECT * FROM analyst.open_calm LIMIT analyst.peek_early()"):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement.encode())
            assert caught.value.diag.sqlstate in ("PV001", "PV002", "42501"), (statement, caught.value)
    assert caught_by(traps) == []


@pytest.mark.parametrize("statement", [
    "SELECT t.tableoid FROM calm t LIMIT 0", "SELECT t.ctid FROM calm t WHERE false", "SELECT t FROM calm t LIMIT 0",
    f"SELECT count(*) FROM calm WHERE {' + '.join(['v'] * 1500)} > 1",
    "SELECT count(*) FROM " + "(SELECT * FROM " * 120 + "calm" + ") q" * 120,
])
def test_odd_and_deep_statements_are_refused_in_words(world: World, statement: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.rows(statement)
    assert caught.value.diag.sqlstate in ("PV001", "PV002"), caught.value


def test_row_security_of_a_public_table_chooses_its_rows_wherever_it_stands(world: World) -> None:
    world.rows("""CREATE TABLE guarded (k text, hidden boolean); INSERT INTO guarded VALUES ('car', false), ('bus', true);
                  ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; ALTER TABLE guarded FORCE ROW LEVEL SECURITY;
                  CREATE POLICY visible ON guarded USING (NOT hidden AND k < 'd')""")
    for statement in ("SELECT count(*) FROM {t} t JOIN guarded g ON g.k = t.kind",
                      "SELECT count(*) FROM {t} t JOIN (VALUES ('car'), ('bus')) x(k) ON x.k = t.kind JOIN guarded g ON g.k = t.kind"):
        assert world.rows(statement.format(t="open_calm")) == world.rows(statement.format(t="truth"))


def test_a_cancelled_release_keeps_nobody_waiting(world: World) -> None:
    for _ in range(5):
        with world.connect() as connection:
            connection.execute("SET privid.reuse = off; SET statement_timeout = '20ms'; SET privid.allowance = '10min'")
            conditions = " OR ".join(f"kind || kind || kind LIKE '%{letter}%b%c%d%e%'" for letter in "fghijklmnopqrstuvwx")
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute(f"SELECT count(*) FROM calm WHERE {conditions}".encode())
    with world.connect() as connection:
        connection.execute("SET privid.reuse = off; SET statement_timeout = '8s'")
        assert connection.execute("SELECT count(*) FROM calm").fetchall()
