"""Statements that PostgreSQL executes in unusual ways are handled on purpose: each releases exactly as often as it should."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from privid.cli.processes import wait_until

from .conftest import World
from .world import plan_of

FRESH = b"SET privid.reuse = off; SET privid.epsilon = 1"


def releases(world: World) -> int:
    return int(world.rows("SELECT count(*) FROM privid.releases WHERE camera = 'calm'")[0][0])


def test_a_rescan_reads_the_same_answer_again(world: World) -> None:
    before = releases(world)
    with world.connect() as connection:
        connection.execute(FRESH)
        connection.execute("SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
        rows = connection.execute("SELECT x, n FROM generate_series(1, 5) x LEFT JOIN (SELECT count(*) n FROM calm) q ON x > -1").fetchall()
    assert len({n for _, n in rows}) == 1 and len(rows) == 5
    assert releases(world) == before + 1


def test_a_common_table_expression_is_released_once_however_often_it_is_named(world: World) -> None:
    before = releases(world)
    with world.connect() as connection:
        connection.execute(FRESH)
        assert connection.execute("WITH w AS (SELECT count(*) n FROM calm) SELECT a.n - b.n FROM w a, w b").fetchall() == [(0,)]
    assert releases(world) == before + 1


def test_a_cursor_releases_once_and_moves_both_ways(world: World) -> None:
    before = releases(world)
    with world.connect(autocommit=False) as connection:
        connection.execute(FRESH)
        connection.execute("DECLARE c SCROLL CURSOR FOR SELECT chunk, count(*) FROM calm GROUP BY 1")
        assert releases(world) == before
        forth = connection.execute("FETCH 10 FROM c").fetchall()
        connection.execute("MOVE FORWARD ALL IN c")
        back = connection.execute("FETCH BACKWARD 10 FROM c").fetchall()
        again = connection.execute("FETCH ABSOLUTE 3 FROM c").fetchall()
    assert forth == back[::-1] and again == [forth[2]]
    assert releases(world) == before + 1


def test_a_generic_plan_takes_its_parameters_at_each_execution(world: World) -> None:
    with world.connect() as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute("PREPARE q(float8, text[]) AS SELECT count(*) FROM open_calm WHERE v > $1 AND kind = ANY ($2)")
        connection.execute("PREPARE p(float8, text[]) AS SELECT count(*) FROM truth WHERE v > $1 AND kind = ANY ($2)")
        for arguments in ("0, '{car}'", "10, '{car,bus}'", "20, '{}'", "NULL, '{car}'"):
            answers = [connection.execute(f"EXECUTE {name}({arguments})".encode()).fetchall() for name in "qp"]
            assert answers[0] == answers[1]


def test_parameters_of_the_extended_protocol_are_part_of_the_release(world: World) -> None:
    with world.connect(prepare_threshold=0) as connection:
        for low, kinds in ((0.0, ["car"]), (5.0, ["car", "bus"]), (9.0, ["tram"])):
            statement = "SELECT kind, count(*) FROM %s WHERE v > %%s AND kind = ANY (%%s) GROUP BY kind ORDER BY 1"
            answers = [connection.execute((statement % t).encode(), (low, kinds)).fetchall() for t in ("open_calm", "truth")]
            found = dict(answers[1])
            assert answers[0] == [(kind, found.get(kind, 0)) for kind in sorted(kinds)]


@pytest.mark.parametrize("moment", ["('01/03/2026 06:00:05+00'::text)::timestamptz", "('{01/03/2026 06:00:05+00}'::text[])[1]::timestamptz",
                                    "timestamptz '2026-03-02 08:03:09+00' + ('-1 2:03:04'::text)::interval", "$1::timestamptz"])
def test_constants_mean_what_the_session_says(world: World, moment: str) -> None:
    """The engine is told of values in one form, whatever the session's settings are: but for that they have been read under these."""
    with world.connect() as connection:
        connection.execute("SET DateStyle = 'ISO, DMY'; SET IntervalStyle = 'sql_standard'")
        answers = []
        for table in ("open_calm", "truth"):
            text = f"SELECT count(*) FROM {table} WHERE chunk < {moment}"
            if "$1" in moment:
                connection.execute(f"PREPARE of_{table} (text) AS {text}".encode())
                text = f"EXECUTE of_{table} ('01/03/2026 06:00:05+00')"
            answers.append(connection.execute(text.encode()).fetchall())
        assert answers[0] == answers[1] and answers[0][0][0] > 0


COUNTS = "(SELECT extract(second FROM chunk)::int4 AS s, count(*) AS n FROM calm GROUP BY 1) q WHERE n > -1000000"


@pytest.mark.parametrize("condition", [
    f"id NOT IN (SELECT s FROM {COUNTS})", f"(SELECT count(*) FROM {COUNTS} AND s = id) = 0",
    f"(EXISTS (SELECT FROM known WHERE known.id = moving.id) OR id = 77) AND id NOT IN (SELECT s FROM {COUNTS})"],
    ids=["hashed", "correlated", "beside an EXISTS with an alternative"])
def test_a_row_that_changed_meanwhile_is_judged_again_by_the_same_answer(world: World, condition: str) -> None:
    """PostgreSQL evaluates the condition anew for the row's latest version (EvalPlanQual): that is no second release."""
    world.rows("DROP TABLE IF EXISTS moving, known; CREATE TABLE moving (id int, seen boolean DEFAULT false);"
               "INSERT INTO moving VALUES (99);"
               "CREATE TABLE known (id int); INSERT INTO known VALUES (5), (99); ANALYZE known")
    before, seen = releases(world), []
    with world.connect(autocommit=False) as first, world.connect() as second, ThreadPoolExecutor() as pool:
        second.execute(FRESH)
        second.add_notice_handler(lambda diagnostic: seen.append(diagnostic.message_primary))
        first.execute("UPDATE moving SET id = 5")
        waiting = pool.submit(second.execute, f"UPDATE moving SET seen = true WHERE {condition}".encode())
        assert wait_until(lambda: world.rows(f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {second.info.backend_pid}",
                                             user="privid") == [("Lock",)], 30)
        first.commit()
        assert waiting.result(30).rowcount == 0
    assert world.rows("SELECT * FROM moving") == [(5, False)]
    assert releases(world) == before + 1 and len(seen) == 1


def test_functions_release_at_each_call(world: World) -> None:
    with world.connect() as connection:
        connection.execute("""
            CREATE OR REPLACE FUNCTION above(low float8) RETURNS bigint LANGUAGE plpgsql AS
                $$ BEGIN RETURN (SELECT count(*) FROM calm WHERE v > low); END $$;
            CREATE OR REPLACE FUNCTION above_sql(low float8) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM calm WHERE v > low'""")
        connection.execute(FRESH)
        for name in ("above", "above_sql"):
            before = releases(world)
            connection.execute(f"SELECT {name}(x) FROM generate_series(1, 8) x".encode())
            assert releases(world) == before + 8


def test_a_function_gives_the_answer_for_its_argument(world: World) -> None:
    with world.connect() as connection:
        connection.execute("""CREATE OR REPLACE FUNCTION open_above(low float8) RETURNS bigint LANGUAGE plpgsql AS
            $$ BEGIN RETURN (SELECT count(*) FROM open_calm WHERE v > low); END $$""")
        for low in (0, 8, 16):
            expected = connection.execute("SELECT count(*) FROM truth WHERE v > %s", (low,)).fetchall()
            assert connection.execute("SELECT open_above(%s)", (low,)).fetchall() == expected


def test_no_parallel_worker_takes_part_in_a_release(world: World) -> None:
    with world.connect() as connection:
        connection.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; "
                           "SET force_parallel_mode = on")
        explained = connection.execute("EXPLAIN (COSTS OFF) SELECT count(*) FROM open_calm").fetchall()
        assert not any("Gather" in line for (line,) in explained)
        answers = [connection.execute(f"SELECT count(*) FROM {t}".encode()).fetchall() for t in ("open_calm", "truth")]
        assert answers[0] == answers[1]


def test_explain_charges_nothing_and_runs_nothing(world: World) -> None:
    before, spent = releases(world), world.spent("calm")
    for form in ("", "(FORMAT JSON)", "(FORMAT YAML)", "(FORMAT XML)", "(VERBOSE)"):
        assert world.rows(f"EXPLAIN {form} SELECT kind, count(*) FROM calm WHERE kind IN ('a', 'b') GROUP BY 1")
    assert (releases(world), world.spent("calm")) == (before, spent)


def test_explain_tells_cost_and_error_under_the_agreed_names(world: World) -> None:
    plan = plan_of(world.rows("EXPLAIN (FORMAT JSON) SELECT count(*) FROM calm", epsilon="0.5")[0][0])
    assert plan["Sensitivity"] == 8 and plan["Noise Scale"] == 16 and plan["Epsilon"] == 0.5
    assert plan["Mechanism"] == "discrete Laplace" and plan["Chunks"] == 10 and plan["Frames Charged"] == 109
    assert plan["Error 95%"] == pytest.approx(16 * 2.9957, abs=1) and {"Budget Remaining", "Slots"} <= plan.keys()


def test_a_role_without_the_right_to_select_is_refused_before_anything_is_charged(world: World) -> None:
    world.rows("DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN IN ROLE privid_analyst; GRANT USAGE ON SCHEMA analyst TO stranger",
               user="privid")
    before = world.spent("calm")
    for statement in ("SELECT count(*) FROM analyst.calm", "EXPLAIN SELECT count(*) FROM analyst.calm"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            world.rows(statement, user="stranger")
    world.rows("GRANT SELECT ON calm TO stranger")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="foreign server"):
        world.rows("SELECT count(*) FROM analyst.calm", user="stranger")
    assert world.spent("calm") == before
    world.rows("CREATE VIEW analyst.shared AS SELECT count(*) FROM calm; GRANT SELECT ON analyst.shared TO stranger")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="foreign server"):
        world.rows("SELECT * FROM analyst.shared", user="stranger")
    assert world.spent("calm") == before
    world.rows("GRANT USAGE ON FOREIGN SERVER calm TO stranger", user="owner")
    assert len(world.rows("SELECT * FROM analyst.shared", user="stranger")) == 1


def test_an_analyst_whose_right_to_the_camera_is_revoked_releases_no_more(world: World) -> None:
    world.rows("REVOKE USAGE ON FOREIGN SERVER calm FROM analyst", user="owner")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            world.rows("SELECT count(*) FROM calm")
    finally:
        world.rows("GRANT USAGE ON FOREIGN SERVER calm TO analyst", user="owner")


def test_a_new_analyst_finds_a_schema_for_the_first_table(world: World) -> None:
    world.rows("DROP ROLE IF EXISTS fresh_one; CREATE ROLE fresh_one LOGIN IN ROLE privid_analyst", user="privid")
    world.rows("GRANT USAGE ON FOREIGN SERVER calm TO fresh_one", user="owner")
    world.stack.executable("world", b"#!/bin/sh\n", user="fresh_one")
    world.stack.table("first", "calm", "world", user="fresh_one")
    assert world.rows("SELECT schemaname FROM pg_tables WHERE tablename = 'first' UNION SELECT nspname FROM pg_class c "
                      "JOIN pg_namespace n ON n.oid = relnamespace WHERE relname = 'first'", user="fresh_one") == [("fresh_one",)]


def test_a_notice_tells_epsilon_scale_and_error(world: World) -> None:
    notices: list[Any] = []
    with world.connect() as connection:
        connection.add_notice_handler(lambda d: notices.append(d.message_primary))
        connection.execute(FRESH)
        connection.execute("SELECT count(*) FROM calm")
    assert len(notices) == 1
    assert "epsilon 1" in notices[0] and "scale 8" in notices[0] and "95 %" in notices[0]


def test_the_statement_waits_for_its_quantum_and_not_for_the_work(world: World) -> None:
    with world.connect() as connection:
        connection.execute(FRESH)
        durations = [row[0].total_seconds() for row in connection.execute(
            "SELECT duration FROM privid.releases WHERE camera = 'calm' AND state = 'answered' AND duration < interval '1 s'").fetchall()]
    assert durations and all(abs(d / 0.02 - round(d / 0.02)) < 0.5 for d in durations)
