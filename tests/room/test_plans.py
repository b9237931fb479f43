"""What the bounds take for granted of a plan is looked up in the plan that PostgreSQL makes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from privid.calculus.reader import parse_select
from privid.calculus.tree import FromPublic
from privid.errors import InvalidValue, NoRule
from privid.model import Table, TableUse
from privid.room import query as room_query
from privid.room.allowance import bound as bound_of
from privid.room.calls import CALLS
from privid.room.deparse import Inner
from privid.room.inner import QUERY, run, set_up
from privid.room.plans import Planned, read_plan
from privid.room.pool import RoomPool
from privid.room.premises import Room
from privid.room.query import objects, publics, rehearse
from privid.room.sources import has_hash
from tests.calculus import builders as b
from tests.calculus.builders import Json

from .cases import PLATE, SPEED, allowed, sized

Session = psycopg.Connection[tuple[Any, ...]]

NESTED = Planned(nested_loops=1)


def planned(pool: RoomPool, query: str, *rows: int, public: FromPublic | None = None) -> Planned:
    """What is known of a query's plan, over foreign tables t0, t1, ... and public rows p0."""
    tables = [sized(count, "plate", "speed", index=index) for index, count in enumerate(rows)]
    return rehearse(pool, inner_of(query, tables, public), tables, uses_of(tables), {})


def inner_of(query: str, tables: list[Table], public: FromPublic | None = None) -> Inner:
    publics = () if public is None else ((public, "p0"),)
    return Inner({}, tuple((t.index, f"t{t.index}") for t in tables), publics, query, 1)


def uses_of(tables: list[Table]) -> list[TableUse]:
    return [TableUse(table, ((0, table.grid.count),)) for table in tables]


def public_of(rows: int) -> FromPublic:
    select = parse_select(b.select([b.count()], source=b.values(*(f"k{i}" for i in range(rows)))))
    (found,) = select.sources
    assert isinstance(found, FromPublic)
    return found


# A side that is computed again for each row of the other

#: c3 is speed, c4 is plate
GROUPED = "(SELECT c3, c4 FROM pg_temp.t0 GROUP BY c3, c4 HAVING pg_catalog.count(*) = 1) a"
REFETCHED = f"SELECT 1 FROM {GROUPED} JOIN pg_temp.t1 b ON a.c3 = b.c3 WHERE a.c3 = 7"


def test_a_join_that_asks_the_engine_again_for_each_row_is_refused(pool: RoomPool) -> None:
    with pytest.raises(NoRule, match="cannot be computed in bounded time") as refused:
        planned(pool, REFETCHED, 500, 20)
    assert "Nested Loop over a step Foreign Scan" in (refused.value.detail or "")
    assert "constant" in (refused.value.hint or "")


def test_the_same_join_is_planned_otherwise_where_its_key_is_free(pool: RoomPool) -> None:
    assert planned(pool, REFETCHED.partition(" WHERE ")[0], 500, 20) == Planned()


def test_pairs_of_rows_that_were_set_aside_are_counted(pool: RoomPool) -> None:
    query = "SELECT 1 FROM pg_temp.t0 a JOIN pg_temp.t1 b ON a.c3 = b.c3 WHERE a.c3 = 7"
    assert planned(pool, query, 500, 20).nested_loops == 1
    query = "SELECT 1 FROM pg_temp.t0 a JOIN pg_temp.t1 b ON a.chunk::pg_catalog.date = b.chunk"
    assert planned(pool, query, 500, 20).nested_loops == 1
    query = query.replace("b.chunk", "b.chunk::pg_catalog.date")
    assert planned(pool, query, 500, 20).nested_loops == 0


def test_an_aggregate_that_is_one_row_may_be_joined_with_what_is_read_once(pool: RoomPool) -> None:
    query = "SELECT 1 FROM (SELECT pg_catalog.max(c3) AS m FROM pg_temp.t0) a, pg_temp.t1 b"
    assert planned(pool, query, 500, 20).nested_loops == 1


def scan(kind: str = "Foreign Scan", *below: Json, **more: Any) -> Json:
    return {"Node Type": kind, "Plan Rows": 1, "Plan Width": 8, **({"Plans": list(below)} if below else {}), **more}


def facts_of(node: Json, public: int = 2) -> Planned:
    return read_plan([{"Plan": node}], lambda name, condition: public)


@pytest.mark.parametrize("inner", [
    scan(), scan("Append", scan()), scan("Subquery Scan", scan()), scan("Hash Join", scan(), scan()),
    scan("Aggregate", scan(), Strategy="Hashed"), scan("Limit", scan("Materialize", scan())),
    scan("Nested Loop", scan(), scan("Materialize", scan())), scan("Seq Scan", Filter="dear(x)"),
    scan("Result", **{"One-Time Filter": "dear()"}), scan("SetOp", scan()), scan("Unique", scan()),
], ids=lambda node: str(node["Node Type"]))
def test_what_would_be_computed_for_each_row_must_be_set_aside(inner: Json) -> None:
    with pytest.raises(NoRule, match="bounded time"):
        facts_of(scan("Nested Loop", scan(), inner))
    assert facts_of(scan("Nested Loop", scan(), scan("Materialize", inner))).nested_loops >= 1
    one = scan("Subquery Scan", scan("Aggregate", scan(), Strategy="Plain"))
    assert facts_of(scan("Nested Loop", one, inner)).nested_loops >= 1


def test_public_rows_of_which_one_is_found_may_be_joined_with_what_is_read_once(
    pool: RoomPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL takes them for one row; how many they are is looked up."""
    query = ("SELECT 1 FROM pg_temp.t0 a JOIN pg_temp.p0 b ON a.c4 = b.c1 WHERE a.c4 = 'k1' "
             "AND b.c1 || '' = 'k1'")
    assert planned(pool, query, 500, public=public_of(3_000)).nested_loops == 1
    with monkeypatch.context() as patch, pytest.raises(NoRule, match="bounded time"):
        patch.setattr(room_query, "_count", lambda conn, name, condition: 2)
        planned(pool, query, 500, public=public_of(3_000))
    table = scan("Seq Scan", Filter="(c1 = 'k'::text)", **{"Relation Name": "p0"})
    assert facts_of(scan("Nested Loop", table, scan()), public=1).nested_loops == 1
    with pytest.raises(NoRule, match="bounded time"):
        facts_of(scan("Nested Loop", table, scan()), public=2)
    with pytest.raises(NoRule, match="bounded time"):
        facts_of(scan("Nested Loop", scan("Seq Scan"), scan()), public=1)


@pytest.mark.parametrize("node", [
    scan("Merge Join", scan(), scan()), scan("Memoize", scan()), scan("CTE Scan"), scan("WindowAgg"),
    scan("Incremental Sort", scan()), scan("Aggregate", scan(), Strategy="Mixed"), scan("Gather"),
    scan("Aggregate", scan(), Strategy="Hashed", **{"Partial Mode": "Partial"}),
    scan("Result", scan("Result", **{"Parent Relationship": "SubPlan"})),
    scan("Result", scan("Result", **{"Parent Relationship": "InitPlan"})),
], ids=lambda node: str(node["Node Type"]))
def test_a_step_without_a_bound_is_refused_wherever_it_stands(node: Json) -> None:
    for whole in (node, scan("Hash Join", scan(), scan("Hash", node))):
        with pytest.raises(NoRule, match="bounded time"):
            facts_of(whole)


def test_what_shows_no_plan_is_refused() -> None:
    plans: list[object] = [[], None, [{}], [{"Plan": scan()}, {"Plan": scan()}]]
    for plan in plans:
        with pytest.raises(NoRule):
            read_plan(plan, lambda name, condition: 0)


def test_a_query_is_planned_and_run_with_the_memory_that_its_bound_relies_on(pool: RoomPool) -> None:
    tables = [sized(2_000, "speed", index=index) for index in range(2)]
    inner = inner_of("SELECT 1 FROM pg_temp.t0 a JOIN pg_temp.t1 b ON a.c3 = b.c3", tables)
    told = []
    for memory in (1 << 20, 64 << 10, 3 << 30):
        room = Room(sort_memory=64 << 10, hash_memory=64 << 10).holding(memory)
        with_room = replace(inner, premises=room)
        told.append(rehearse(pool, with_room, tables, uses_of(tables), {}).batches)
        with pool.take() as conn, conn.transaction(force_rollback=True):
            conn.execute("; ".join(objects(with_room, tables, uses_of(tables), "")).encode())
            shown = [conn.execute(b"SELECT pg_catalog.pg_size_bytes(pg_catalog.current_setting('work_mem'))").fetchone(),
                     conn.execute(b"SELECT pg_catalog.current_setting('hash_mem_multiplier')::int8").fetchone()]
            assert shown == [(room.sort_memory,), (room.hash_memory // room.sort_memory,)]
            assert room.hash_memory >= memory and room.hash_memory % room.sort_memory == 0
    assert told[0] == told[2] == 0 < told[1]  # what is expected is read from the plan


# Sorts

@pytest.mark.parametrize(("query", "found"), [
    ("SELECT c3 FROM pg_temp.t0 ORDER BY c3 LIMIT 5", Planned()),
    ("SELECT c3, pg_catalog.count(DISTINCT c4) FROM pg_temp.t0 GROUP BY c3", Planned(group_sorts=1)),
    ("SELECT c3 FROM pg_temp.t0 EXCEPT SELECT c3 FROM pg_temp.t1", Planned()),
    ("SELECT DISTINCT c3, c4 FROM pg_temp.t0 ORDER BY c3, c4 LIMIT 5", None),
])
def test_a_sort_where_the_bound_has_none_is_found(
    pool: RoomPool, query: str, found: Planned | None
) -> None:
    facts = planned(pool, query, 500, 20)
    assert facts == found if found is not None else facts.other_sorts == 1 or facts == Planned()


def test_large_sets_are_sorted_and_the_bound_knows_it(pool: RoomPool) -> None:
    """PostgreSQL has no hash table for UNION that it takes for larger than its memory."""
    query = "SELECT c3, c4 FROM pg_temp.t0 UNION SELECT c3, c4 FROM pg_temp.t1"
    assert planned(pool, query, 1_000, 1_000) == Planned()
    assert planned(pool, query, 9_000_000, 9_000_000).other_sorts == 1
    table = sized(100_000, "plate")
    sets = b.setop("union", b.rows(PLATE), b.rows(PLATE), "text")
    select = b.select([b.count()], source=b.subquery(sets))
    assert allowed(select, table, planned=Planned(other_sorts=1)) > allowed(select, table)
    # not so one that is in the sum already
    distinct = b.grouped([b.count(PLATE, distinct=True)], [SPEED])
    select, table = b.select([b.count()], source=b.subquery(distinct)), sized(1_000, "plate", "speed")
    few, more = (allowed(select, table, planned=Planned(group_sorts=n)) for n in (1, 2))
    assert few == allowed(select, table) == more  # there is no hash table that it could stand for


# The rehearsal plans what will run

def test_the_plan_of_the_rehearsal_is_that_of_the_run(
    pool: RoomPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public rows, which decide who is hashed, are there in both."""
    shown: list[Any] = []
    monkeypatch.setattr(room_query, "read_plan", lambda plan, *_: shown.append(plan))
    query = "SELECT 1 FROM pg_temp.t0 a JOIN pg_temp.p0 b ON a.c4 = b.c1"
    plans = []
    for rows in (10, 20_000):
        tables, public = [sized(4_000, "plate", "speed")], public_of(rows)
        inner = inner_of(query, tables, public)
        rehearse(pool, inner, tables, uses_of(tables), {})
        with pool.take() as conn:
            set_up(conn, objects(inner, tables, uses_of(tables), ""), publics(inner), query)
            (plan,) = conn.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {QUERY}".encode()).fetchall()[0]
        assert plan == shown[-1]
        plans.append(str(plan))
    assert "p0" in plans[0].partition("Hash Cond")[2] and plans[0] != plans[1]


#: eight lists joined by expressions, each of which PostgreSQL compares with all others for every order of the lists
MANY_CLASSES = "SELECT count(*) FROM (VALUES (1.0::float8), (2)) v0(d) " + " ".join(
    f"JOIN (VALUES (1.0::float8), (2)) v{i}(d) ON " + " AND ".join(f"v0.d + {k} = v{i}.d + {max(1, k - 1)}" for k in range(20))
    for i in range(1, 8))


def test_a_plan_is_made_before_the_time_begins_to_count(pool: RoomPool) -> None:
    def used(pid: int) -> int:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])

    with pool.take() as conn:
        pid = conn.info.backend_pid
        begun = used(pid)
        set_up(conn, [], [], MANY_CLASSES)
        planned = used(pid)
        assert run(conn, time.monotonic_ns() + 10**10) == [("0",)]
        assert planned - begun > 20_000_000 and used(pid) - planned < (planned - begun) // 4


def test_settings_of_the_request_are_those_of_the_rehearsal(pool: RoomPool) -> None:
    tables = [sized(10, "speed")]

    def check(settings: Mapping[str, str]) -> Planned:
        return rehearse(pool, inner_of("SELECT 1", tables), tables, uses_of(tables), settings)

    assert check({"timezone": "Asia/Tokyo"}) == Planned()
    with pytest.raises(InvalidValue, match="TimeZone"):
        check({"timezone": "nowhere"})


def test_public_rows_that_cannot_be_loaded_are_refused_before_the_charge(pool: RoomPool) -> None:
    select = b.select([b.count()], source=b.values("1", "many", type_="float8"))
    (public,) = parse_select(select).sources
    assert isinstance(public, FromPublic)
    with pytest.raises(InvalidValue, match="double precision"):
        planned(pool, "SELECT 1", public=public)


# Which equalities have a hash table

EQUALITIES = [fn for fn in CALLS if fn.startswith("pg_catalog.=(")]


def test_the_bound_hashes_the_equalities_that_postgresql_hashes(session: Session) -> None:
    rows = session.execute(
        "SELECT fn, oprcanhash FROM unnest(%s::text[]) fn "
        "JOIN pg_catalog.pg_operator o ON o.oid = to_regoperator(fn)", (EQUALITIES,)).fetchall()
    assert len(rows) == len(EQUALITIES) > 15
    assert {fn: has_hash(fn) for fn in EQUALITIES} == dict(rows)
    assert not has_hash("pg_catalog.=(date,timestamptz)") and has_hash("pg_catalog.=(int4,int8)")


def test_the_bound_looks_up_in_lists_where_postgresql_does(session: Session) -> None:
    """Where the hash functions of the two types are one (get_op_hash_functions)."""
    rows = session.execute(
        "SELECT fn, EXISTS (SELECT FROM pg_catalog.pg_amop p "
        "  JOIN pg_catalog.pg_am m ON m.oid = p.amopmethod AND m.amname = 'hash' "
        "  JOIN pg_catalog.pg_amproc l ON (l.amprocfamily, l.amproclefttype, l.amprocnum) "
        "    = (p.amopfamily, p.amoplefttype, 1) "
        "  JOIN pg_catalog.pg_amproc r ON (r.amprocfamily, r.amproclefttype, r.amprocnum) "
        "    = (p.amopfamily, p.amoprighttype, 1) "
        "  WHERE p.amopopr = to_regoperator(fn) AND l.amproc = r.amproc) "
        "FROM unnest(%s::text[]) fn", (EQUALITIES,)).fetchall()
    assert {fn: looked_up(fn) for fn in EQUALITIES} == dict(rows)
    assert sum(looked_up(fn) for fn in EQUALITIES) > 8


def looked_up(fn: str) -> bool:
    """Does a list that is ten times as long cost much the same?"""
    few, many = (allowed(b.select([b.count()], where=listed(fn, items)), sized(100_000, "plate"))
                 for items in (100, 1_000))
    return many < 2 * few


def listed(fn: str, items: int, subject: Json | None = None) -> Json:
    left, right = fn.partition("(")[2].rstrip(")").split(",")
    types = ["public.kind" if kind == "anyenum" else kind for kind in (left, right)]
    literals = {"anyenum": "car", "boolean": "t", "text": "x", "date": "2026-03-01",
                "interval": "1 day", "time": "12:00"}
    value = literals.get(right, "2026-03-01 06:00" if "time" in right else "1")
    array = {"e": "array", "items": [b.const(value, types[1])] * items, "type": "array", "loc": -1}
    of = subject or b.const(literals.get(left, "1"), types[0])
    return {"e": "any", "fn": fn, "all": "<>" in fn, "type": "boolean", "loc": -1, "args": [of, array]}


@pytest.mark.parametrize("name", ["=", "<>"])
def test_every_item_of_a_list_of_another_type_is_compared(name: str) -> None:
    table, number = sized(100_000, "speed"), b.call("int4(float8)", SPEED, type_="int4")

    def bound(types: str, items: int) -> Fraction:
        where = listed(f"pg_catalog.{name}({types})", items, number)
        return allowed(b.select([b.count()], where=where), table)

    assert bound("int4,int4", 6_000) < 2 * bound("int4,int4", 600)
    assert bound("int4,int8", 6_000) > 5 * bound("int4,int8", 600)


def test_every_item_of_a_list_in_a_column_of_union_all_is_compared() -> None:
    """PostgreSQL makes hash tables of lists before it has put these columns in their places."""
    table = sized(100_000, "speed")

    def bound(kind: str, items: int) -> Fraction:
        side = b.rows(b.in_list(SPEED, [float(i) for i in range(items)]))
        sets = b.setop("union", side, side, "boolean", all=kind == "all")
        return allowed(b.select([b.count()], source=b.subquery(sets),
                                where=b.position(1, "boolean", "v")), table)

    assert bound("distinct", 6_000) < 2 * bound("distinct", 600)
    assert bound("all", 6_000) > 5 * bound("all", 600)


# Joins that look at every pair

def joined(on: Json, second: Json, *more: Json) -> Json:
    source = b.join("inner", b.scan(0, 1), second, on)
    inner = b.grouped([b.count()], [SPEED], source=source, where=b.both(*more) if more else None)
    return b.select([b.count()], source=b.subquery(inner))


def test_moments_of_two_types_are_compared_pair_by_pair() -> None:
    """Even if one side has each only once."""
    tables = sized(5_000, "speed"), sized(1_000, "speed", chunks=1_000, index=1)
    grouped = b.subquery(b.grouped([b.count()], [b.col("chunk")], source=b.scan(1, 1)), rel=2)
    chunk, other = b.col("chunk"), b.position(1, "timestamptz", "ts", rel=2)
    day = b.call("date(timestamptz)", chunk, type_="date")
    once = allowed(joined(b.equal(chunk, other), grouped), *tables)
    pairs = allowed(joined(b.equal(day, other), grouped), *tables)
    assert pairs > 10 * once and pairs > Fraction(4 * 5_000 * 1_000 * 250, 10**9)


def test_where_postgresql_looks_at_pairs_they_and_conditions_on_them_are_charged() -> None:
    tables = sized(5_000, "speed"), sized(1_000, "speed", index=1)
    grouped = b.subquery(b.grouped([b.count()], [SPEED], source=b.scan(1, 1)), rel=2)
    other = b.position(1, "float8", "k", rel=2)
    dear = b.call("<>(text,text)", *(b.call("to_char(timestamptz,text)", b.col("chunk"),
                                            b.const("YYYY" * n, "text"), type_="text") for n in (1, 2)))
    plain, more = (joined(b.equal(SPEED, other), grouped, *tests) for tests in ((), (dear,)))
    hashed, nested = (allowed(plain, *tables, planned=p) for p in (Planned(), NESTED))
    pairs = Fraction(4 * 5_000 * 1_000, 10**9)
    assert hashed < 30 * pairs and nested > hashed + 120 * pairs
    # a condition of the level may be evaluated on every pair
    assert allowed(more, *tables, planned=NESTED) - nested > 2_000 * pairs


def test_three_relations_may_be_paired_in_any_order() -> None:
    """Two that have nothing to do with each other, and then the third."""
    public = b.values(*(str(i) for i in range(2_000)), type_="float8")
    on = b.equal(SPEED, b.position(1, "float8", "k", rel=3))
    few, many = sized(10, "speed"), sized(5_000, "speed", index=1)
    source = b.join("inner", b.join("inner", b.scan(0, 1), public, on), b.scan(1, 2), None)
    select = b.select([b.count()], source=source)
    pairs = Fraction(4 * 2_000 * 5_000, 10**9)
    assert allowed(select, few, many) < 20 * pairs
    assert allowed(select, few, many, planned=NESTED) > 120 * pairs


def test_public_rows_of_one_key_are_one_row() -> None:
    """So that a lookup of a constant, which PostgreSQL plans as a nested loop, stays quick."""
    public = b.values(*(f"k{i}" for i in range(2_000)))
    key = b.position(1, "text", "k", rel=3)
    source = b.join("inner", b.scan(0, 1), public, b.equal(PLATE, key))
    table = sized(10_000, "plate")
    pinned, free = (b.select([b.count()], source=source, where=b.compare("plate", op, "k1"))
                    for op in ("=", "<"))
    plain = allowed(pinned, table)
    assert allowed(pinned, table, planned=NESTED) < 2 * plain
    # not where PostgreSQL reads all of them, nor where the key is not set to one value
    whole = Planned(nested_loops=1, whole_scans=1)
    for select, facts in ((pinned, whole), (free, NESTED)):
        assert allowed(select, table, planned=facts) > 10 * plain


def test_what_is_set_aside_takes_files() -> None:
    tables = [sized(100_000, "plate"), sized(100_000, "plate", index=1)]
    on = b.equal(PLATE, b.col("plate", rel=2))
    source = b.join("inner", b.scan(0, 1), b.scan(1, 2), on)
    inner = b.grouped([b.count()], [PLATE], source=source)
    select = parse_select(b.select([b.count()], source=b.subquery(inner)))
    hashed, nested = (bound_of(select, (), tables, uses_of(tables), planned=p).files
                      for p in (Planned(), NESTED))
    assert nested - hashed > 4096 * 100_000
