"""Hash tables: those of joins are in memory as a whole, and what aggregates hold is counted beside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from privid.calculus.reader import parse_select
from privid.model import TableUse
from privid.room.allowance import bound, premises_of
from privid.room.plans import Planned, read_plan
from privid.room.premises import Room
from privid.room.relations import side_space
from privid.room.settings import memory_settings
from tests.calculus import builders as b
from tests.calculus.builders import Json

from .cases import PLATE, SPEED, sized
from .yard import Yard, own_yard


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    with own_yard() as made:
        yield made


def holds(yard: Yard, statement: str, memory: int, kind: str) -> Json:
    """What EXPLAIN tells of the step of a kind, where hash tables have so many bytes."""
    with yard.connection.transaction(force_rollback=True):
        for name, value in memory_settings(Room(sort_memory=64 << 10, hash_memory=memory)).items():
            yard.run(f"SET LOCAL {name} = '{value}'")
        ((plan,),) = yard.run(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}")
    steps = [plan[0]["Plan"]]
    for step in steps:
        steps += step.get("Plans", ())
    return next(step for step in steps if step["Node Type"] == kind)


@pytest.mark.parametrize("one_in", [2, 20])
def test_a_hash_table_with_memory_for_all_its_rows_is_never_split_and_others_are_without_end(yard: Yard, one_in: int) -> None:
    """One key is in most rows, and PostgreSQL expects few of them: it does not know how many groups there are."""
    rows = 50_000
    yard.fill(rows=str(rows), speed="i", plate=f"CASE i % {one_in} WHEN 0 THEN i::text ELSE 'x' END")
    yard.run("CREATE TEMP TABLE partners AS SELECT i::text AS plate FROM generate_series(1, 5000) i")
    statement = "SELECT count(*) FROM (SELECT speed, max(plate) AS plate FROM t GROUP BY speed) a JOIN partners b USING (plate)"
    whole = holds(yard, statement, -(-side_space(rows, 16) // (64 << 10)) * (64 << 10), "Hash")
    split = holds(yard, statement, 512 << 10, "Hash")
    yard.run("DROP TABLE partners")
    assert (whole["Actual Rows"], whole["Original Hash Batches"], whole["Hash Batches"]) == (rows, 1, 1)
    assert whole["Peak Memory Usage"] << 10 <= side_space(rows, 16)
    assert split["Original Hash Batches"] == 1 and split["Hash Batches"] >= 256


@pytest.mark.parametrize("memory", [64 << 10, 512 << 10, 4 << 20, 32 << 20])
@pytest.mark.parametrize("rows", [500, 5_000, 60_000])
def test_the_parts_with_which_a_join_begins_are_known_from_its_plan(yard: Yard, rows: int, memory: int) -> None:
    yard.fill(rows=str(rows), speed="i", plate="i::text")
    yard.run("ANALYZE t")
    for columns in ("a.speed", "a.plate || b.plate"):
        found = holds(yard, f"SELECT max({columns}) FROM t a JOIN t b ON a.speed = b.speed", memory, "Hash")
        told = read_plan([{"Plan": found}], lambda *_: 0, memory).batches
        assert max(told, 1) >= found["Original Hash Batches"], found


def test_every_join_of_a_level_may_hold_what_all_others_make() -> None:
    """Whatever the order in which they are written: PostgreSQL chooses another."""
    tables = [sized(rows, "speed", index=index) for index, rows in enumerate((1_000, 10, 1_000))]
    uses = [TableUse(table, ((0, table.grid.count),)) for table in tables]

    def largest(*order: int) -> int:
        source = b.scan(order[0], order[0] + 1)
        for index in order[1:]:
            source = b.join("inner", source, b.scan(index, index + 1), b.call(
                "=(float8,float8)", b.col("speed", rel=order[0] + 1), b.col("speed", rel=index + 1)))
        select = b.select([b.count()], source=b.subquery(b.grouped([b.count()], [b.col("speed", rel=order[0] + 1)], source=source)))
        return premises_of(parse_select(select), (), tables, uses, Room(sort_memory=1 << 16, hash_memory=1 << 16)).hash_memory

    found = [largest(*order) for order in permutations(range(3))]
    assert min(found) == max(found) > 1_000 * 1_000 * 3 * 8


def test_what_aggregates_hold_is_in_the_bound_of_memory(yard: Yard) -> None:
    """A text that is longer than those before it is held in its place, when the hash table has its groups already."""
    groups, memory = 2_000, 512 << 10
    table = sized(2 * groups, "plate", "speed")
    uses = [TableUse(table, ((0, table.grid.count),))]

    def bytes_of(agg: Json) -> int:
        select = b.select([b.count()], source=b.subquery(b.grouped([agg], [SPEED])))
        return bound(parse_select(select), (), [table], uses, planned=Planned(), room=Room(sort_memory=64 << 10, hash_memory=memory)).memory

    yard.fill(rows=str(2 * groups), speed=f"i % {groups}", plate=f"CASE WHEN i <= {groups} THEN 'x' ELSE repeat('y', 4096) END")
    found = holds(yard, "SELECT speed, max(plate) FROM t GROUP BY speed", memory, "Aggregate")
    held = found["Peak Memory Usage"] << 10
    assert held > groups * 4096 > 8 * memory
    longest = b.aggregate("max(text)", PLATE, type_="text")
    assert bytes_of(longest) - bytes_of(b.count()) >= held
