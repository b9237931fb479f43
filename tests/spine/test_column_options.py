"""Columns with low, high and keys: plain aggregates are releases, and hold what the options promise whatever a program printed."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import psycopg
import pytest

from .conftest import World
from .world import PROGRAM, plan_of

COLUMNS = ("chunk timestamptz, v float8 OPTIONS (low '0', high '10') DEFAULT 0, kind text OPTIONS (keys 'none, car, person, tram') "
           "DEFAULT 'none', flag boolean DEFAULT false, size world_size DEFAULT 'small'")
#: the same rows by hand, from a table without options
BY_HAND = ("(SELECT chunk, range(v, 0, 10) AS v, CASE WHEN kind IN ('none', 'car', 'person', 'tram') THEN kind ELSE 'none' END AS kind "
           "FROM {t}) q")


@pytest.fixture(scope="module", autouse=True)
def bounded(world: World) -> None:
    for name in ("open_calm", "calm", "stormy"):
        world.stack.table(f"bounded_{name}", name, "world", columns=COLUMNS, max_rows="4", timeout="400ms")
    world.stack.camera("open_stormy", "stormy.mp4")
    world.stack.table("bounded_open_stormy", "open_stormy", "world", columns=COLUMNS, max_rows="4", timeout="400ms")


def privid(world: World, statement: str) -> dict[str, Any]:
    found = world.rows(f"EXPLAIN (FORMAT JSON) {statement}")[0][0]
    return plan_of(json.dumps(found))


@pytest.mark.parametrize("statement", [
    "SELECT sum(v)::float8 FROM {t}",
    "SELECT round(avg(v)::numeric, 9), round(variance(v)::numeric, 9), round(stddev_pop(v)::numeric, 9) FROM {t}",
    "SELECT kind, count(*), sum(v)::float8 FROM {t} GROUP BY kind HAVING count(*) > 0 ORDER BY kind",
    "SELECT count(DISTINCT kind) FROM {t}",
    "SELECT sum(least(v, 3))::float8, sum(CASE WHEN kind = 'car' THEN v ELSE 2 END)::float8 FROM {t} WHERE v < 9",
    "SELECT sum(m)::float8 FROM (SELECT date_bin('2 seconds', chunk, '2026-03-01 06:00+00') b, max(v) AS m FROM {t} GROUP BY 1) q",
    "SELECT sum(range(m, 0, 40))::float8, count(*) FROM (SELECT kind, sum(v)::float8 AS m FROM {t} GROUP BY kind HAVING avg(v) > 3 "
    "ORDER BY stddev_pop(v) LIMIT 5) q",
    "SELECT avg(range(m, 0, 10))::float8 FROM (SELECT chunk, avg(v)::float8 AS m FROM (SELECT chunk, v FROM {t} WHERE v > 2) p "
    "GROUP BY 1) q",
    "SELECT kind, count(*) FROM (SELECT kind FROM {t} UNION ALL SELECT kind FROM {t}) q GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
])
def test_an_unprotected_release_is_what_one_would_write_by_hand(world: World, statement: str) -> None:
    assert world.rows(statement.format(t="bounded_open_calm")) == world.rows(statement.format(t=BY_HAND.format(t="truth")))


def test_every_key_is_in_the_answer_in_the_order_of_the_option(world: World) -> None:
    assert [kind for kind, _ in world.rows("SELECT kind, count(*) FROM bounded_calm GROUP BY kind", epsilon="50")] == [
        "none", "car", "person", "tram"]
    assert world.rows("SELECT DISTINCT kind FROM bounded_calm") == [("none",), ("car",), ("person",), ("tram",)]
    assert privid(world, "SELECT DISTINCT kind FROM bounded_calm")["Frames Charged"] == 0


@pytest.mark.parametrize(("plain", "by_hand"), [
    ("sum(v)", "sum(range(v, 0, 10))"), ("avg(v)", "avg(range(v, 0, 10))"), ("variance(v)", "variance(range(v, 0, 10))"),
    ("stddev_pop(v)", "stddev_pop(range(v, 0, 10))"),
    ("percentile_cont(0.5) WITHIN GROUP (ORDER BY v)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY range(v, 0, 10))"),
    ("count(*), sum(v)", "count(*), sum(range(v, 0, 10))"),
])
def test_plain_aggregates_have_the_noise_of_their_range(world: World, plain: str, by_hand: str) -> None:
    found, wanted = (privid(world, f"SELECT {what} FROM bounded_calm") for what in (plain, by_hand))
    for name in ("Sensitivity", "Mechanism", "Noise Scale", "Error 95%", "Frames Charged"):
        assert found[name] == wanted[name], name
    assert world.rows(f"SELECT {plain} FROM bounded_calm", epsilon="1")[0]


def test_groups_by_key_have_the_noise_of_a_list(world: World) -> None:
    found = privid(world, "SELECT kind, count(*), sum(v) FROM bounded_calm GROUP BY kind")
    wanted = privid(world, "SELECT kind, count(*), sum(range(v, 0, 10)) FROM calm WHERE kind IN ('none', 'car', 'person', 'tram') "
                           "GROUP BY kind")
    assert (found["Sensitivity"], found["Noise Scale"]) == (wanted["Sensitivity"], wanted["Noise Scale"])


def raw(world: World, statement: str) -> list[tuple[Any, ...]]:
    with world.connect("owner") as connection:
        connection.execute("SET privid.raw = on")
        return connection.execute(statement.encode()).fetchall()


@pytest.fixture(scope="module")
def hostile(world: World) -> list[tuple[Any, ...]]:
    world.stack.executable("world", PROGRAM, user="owner")
    world.stack.table("bounded_seen", "open_stormy", "world", columns=COLUMNS.replace("world_size", "text"), user="owner", max_rows="4",
                      timeout="400ms")
    return raw(world, "SELECT v, kind FROM bounded_seen")


def test_hostile_output_is_within_the_options_for_an_owner_too(hostile: list[tuple[Any, ...]]) -> None:
    assert len(hostile) > 30
    assert {kind for _, kind in hostile} == {"none", "car"}
    values = {v for v, _ in hostile}
    assert values == {0.0, 10.0}, values
    assert not any(str(v).startswith("-") for v in values)


def test_a_release_over_hostile_output_is_that_of_the_rows_an_owner_sees(world: World, hostile: list[tuple[Any, ...]]) -> None:
    (total, mean, kinds), = world.rows("SELECT sum(v), avg(v), count(DISTINCT kind) FROM bounded_open_stormy")
    assert total == sum(v for v, _ in hostile)
    assert mean == pytest.approx(total / len(hostile))
    assert kinds == 2


def test_options_that_change_change_the_release_and_not_its_answer_of_before(world: World) -> None:
    world.stack.table("changing", "open_calm", "world", columns=COLUMNS, max_rows="4", timeout="400ms")
    first = world.rows("SELECT sum(v) FROM changing")
    world.rows("ALTER FOREIGN TABLE changing ALTER COLUMN v OPTIONS (SET high '5')")
    assert world.rows("SELECT sum(v)::float8 FROM changing") == world.rows("SELECT sum(range(v, 0, 5))::float8 FROM truth")
    world.rows("ALTER FOREIGN TABLE changing ALTER COLUMN v OPTIONS (SET high '10')")
    assert world.rows("SELECT sum(v) FROM changing") == first
    world.rows("ALTER FOREIGN TABLE changing ALTER COLUMN v OPTIONS (DROP low, DROP high)")
    with pytest.raises(psycopg.Error, match="has no rule without a range"):
        world.rows("SELECT sum(v) FROM changing")


@pytest.mark.parametrize(("change", "message"), [
    ("ALTER COLUMN v OPTIONS (SET low '3')", r'default of column "v" of foreign table "strict" is 0, but must lie between 3 and 10'),
    ("ALTER COLUMN v SET DEFAULT 11", r"is 11, but must lie between 0 and 10"),
    ("ALTER COLUMN v OPTIONS (SET high '-1')", r'is 0, which is greater than its option "high", -1'),
    ("ALTER COLUMN v OPTIONS (SET high 'NaN')", r'invalid value for option "high": "NaN"'),
    ("ALTER COLUMN v OPTIONS (SET high 'Infinity')", r'invalid value for option "high": "Infinity"'),
    ("ALTER COLUMN v OPTIONS (SET high '1e999')", r'invalid value for option "high": "1e999"'),
    ("ALTER COLUMN v OPTIONS (SET high '1e19')", r'value 1e19 of option "high" is out of bounds'),
    ("ALTER COLUMN v OPTIONS (SET high 'ten')", r'invalid value for option "high": "ten"'),
    ("ALTER COLUMN v OPTIONS (SET high '9.9999999')", r"not a multiple of 0.00001"),
    ("ALTER COLUMN v OPTIONS (DROP low)", r'option "high" of column "v" of foreign table "strict" needs option "low"'),
    ("ALTER COLUMN v OPTIONS (ADD keys 'a')", r"needs type text, but the column has type double precision"),
    ("ALTER COLUMN v DROP DEFAULT, ALTER COLUMN v TYPE text, ALTER COLUMN v SET DEFAULT '0'",
     r'option "low" of .* needs type double precision, but the column has type text'),
    ("ALTER COLUMN kind OPTIONS (SET keys 'car, person')", r'default of column "kind" of foreign table "strict" is not among its keys'),
    ("ALTER COLUMN kind OPTIONS (SET keys 'none, none')", r'has the key "none" twice'),
    ("ALTER COLUMN kind OPTIONS (SET keys 'none,,car')", r"cannot be read at character 6"),
    ("ALTER COLUMN kind OPTIONS (SET keys '')", r'invalid value for option "keys": ""'),
    ("ALTER COLUMN kind OPTIONS (SET keys 'none, \"car')", r"double quote without its counterpart"),
    ("ALTER COLUMN kind SET DEFAULT 'bus'", r"is not among its keys"),
    ("ALTER COLUMN kind OPTIONS (ADD low '0', ADD high '1')", r'option "low" of .* needs type double precision'),
    ("ALTER COLUMN flag OPTIONS (ADD keys 'f,t')", r"needs type text, but the column has type boolean"),
    ("ALTER COLUMN size OPTIONS (ADD keys 'small')", r"needs type text, but the column has type"),
    ("ALTER COLUMN chunk OPTIONS (ADD keys 'now')", r'column "chunk" of foreign table "strict" cannot have option "keys"'),
    ("ALTER COLUMN v OPTIONS (ADD lowest '0')", r'invalid option "lowest"'),
    ("OPTIONS (ADD low '0')", r'option "low" is not an option of a foreign table'),
])
def test_options_that_cannot_be_kept_are_refused_where_they_are_written(world: World, change: str, message: str) -> None:
    if not world.rows("SELECT 1 FROM pg_class WHERE relname = 'strict'"):
        world.stack.table("strict", "open_calm", "world", columns=COLUMNS, max_rows="4", timeout="400ms")
    with pytest.raises(psycopg.Error, match=message):
        world.rows(f"ALTER FOREIGN TABLE strict {change}")


def test_a_dump_keeps_the_options_and_a_restore_has_them(world: World) -> None:
    layout = world.stack.layout
    place = ["-h", str(layout.run), "-p", str(layout.socket_port), "-U", "privid"]
    dump = subprocess.run(["pg_dump", *place, "-s", "-t", "analyst.bounded_calm", "privid"], capture_output=True, text=True, timeout=60,
                          check=True).stdout
    world.rows("CREATE SCHEMA again AUTHORIZATION analyst", user="privid")
    subprocess.run(["psql", *place, "-X", "-q", "-v", "ON_ERROR_STOP=1", "privid"], text=True, timeout=60, check=True,
                   input=dump.replace("analyst.bounded_calm", "again.bounded_calm"))
    options = ("SELECT attname, unnest(attfdwoptions) FROM pg_attribute WHERE attrelid = '{}.bounded_calm'::regclass "
               "AND attfdwoptions IS NOT NULL ORDER BY 1, 2")
    assert world.rows(options.format("again")) == world.rows(options.format("analyst")) == [
        ("kind", "keys=none, car, person, tram"), ("v", "high=10"), ("v", "low=0")]
    ours, theirs = (privid(world, f"SELECT kind, sum(v) FROM {schema}.bounded_calm GROUP BY 1") for schema in ("again", "analyst"))
    assert ours["Sensitivity"] == theirs["Sensitivity"] == 160
