"""Statements and rows that are as bad as they can be: trees, SQL, and what fills the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from privid.calculus.reader import parse_select
from privid.model import Column, Table, TableUse
from privid.room.allowance import worst_case
from privid.room.plans import Planned
from privid.room.premises import Room
from tests.calculus import builders as b
from tests.calculus.builders import Json

from .pathological import colliding_texts, worst_order
from .yard import Yard

__all__ = ["CASES", "Case", "allowed", "honest", "sized"]

WIDE = "repeat(U&'\\+01D49C', 1024)"  # a letter of four bytes
PLATE, SPEED = b.col("plate"), b.col("speed")


@dataclass(frozen=True)
class Case:
    name: str
    rows: int
    select: Json
    sql: str
    fill: Callable[[Yard, int], None]
    tables: int = 1


def sized(rows: int, *names: str, chunks: int = 10, index: int = 0) -> Table:
    """A table of so many rows in all, with these columns besides chunk."""
    made = b.table(chunks=chunks, max_rows=-(-rows // chunks), index=index)
    kept: tuple[Column, ...] = tuple(c for c in made.columns if c.name in ("chunk", *names))
    return replace(made, columns=kept)


def allowed(
    select: Json, *tables: Table, room: Room | None = None, planned: Planned | None = None
) -> Fraction:
    uses = [TableUse(table, ((0, table.grid.count),)) for table in tables]
    return worst_case(parse_select(select), (), tables, uses, planned=planned, room=room)


def honest(case: Case) -> Fraction:
    """What the case is allowed."""
    return allowed(
        case.select, *(sized(case.rows, "plate", "speed", index=i) for i in range(case.tables))
    )


def _texts(expression: str) -> Callable[[Yard, int], None]:
    return lambda yard, rows: yard.fill(rows=str(rows), plate=expression)


def _numbers(expression: str) -> Callable[[Yard, int], None]:
    return lambda yard, rows: yard.fill(rows=str(rows), speed=expression)


def _likes() -> Case:
    """Twenty patterns that almost fit at every place, where one plate is seen: finding S2."""
    patterns = ["%" + "\U0001d49c" * 60 + chr(ord("a") + i) + "%" for i in range(20)]
    like = b.either(*(b.call("~~(text,text)", PLATE, b.const(p, "text")) for p in patterns))
    select = b.select(
        [b.count()],
        where={
            "e": "case",
            "type": "boolean",
            "loc": -1,
            "else": b.const("false", "boolean"),
            "whens": [[b.call("<>(text,text)", PLATE, b.const("x", "text")), like]],
        },
    )
    sql = " OR ".join(f"plate LIKE '{p}'" for p in patterns)
    return Case(
        "twenty patterns in an arm of CASE",
        20,
        select,
        f"SELECT count(*) FROM t WHERE CASE WHEN plate <> 'x' THEN {sql} ELSE false END",
        _texts(WIDE),
    )


def _concatenations() -> Case:
    """Texts that double until they are cut, and a search for one in the other."""
    tree, sql = PLATE, "plate"
    for _ in range(4):
        tree = b.call("||(text,text)", tree, tree, type_="text")
        sql = f"room.total_concat({sql}, {sql})"
    sought = b.call("||(text,text)", b.const("b", "text"), PLATE, type_="text")
    select = b.select(
        [b.count()], where=b.at_least(b.call("strpos(text,text)", tree, sought, type_="int4"), 1)
    )
    return Case(
        "a text of 8,192 characters searched for one of 1,024",
        10,
        select,
        f"SELECT count(*) FROM t WHERE strpos({sql}, room.total_concat('b', plate)) >= 1",
        _texts(WIDE),
    )


def _numerics() -> Case:
    """Digits that double with every product, and a division."""
    tree = b.call("numeric(float8)", SPEED, type_="numeric")
    sql = "speed::numeric"
    for op, word in (("+", "add"), ("*", "mul"), ("*", "mul"), ("/", "div"), ("%", "mod")):
        tree = b.call(
            f"{op}(numeric,numeric)",
            tree,
            b.call("+(numeric,numeric)", tree, b.const("1.7", "numeric"), type_="numeric"),
            type_="numeric",
        )
        sql = f"room.total_{word}({sql}, room.total_add({sql}, 1.7))"
    select = b.select([b.count()], where=b.at_least(tree, 0, ">"))
    return Case(
        "a tower of numeric arithmetic",
        100,
        select,
        f"SELECT count(*) FROM t WHERE {sql} > 0",
        _numbers("1.2345678901234e-80 * i"),
    )


def _self_join() -> Case:
    """All rows have one key."""
    on = b.call("=(float8,float8)", SPEED, b.col("speed", rel=2))
    joined = b.join("inner", b.scan(0, 1), b.scan(1, 2), on)
    inner = b.grouped([b.count()], [SPEED], source=joined)
    return Case(
        "a self join of rows with one key",
        1500,
        b.select([b.count()], source=b.subquery(inner)),
        "SELECT count(*) FROM (SELECT a.speed, count(*) FROM t a JOIN t b ON a.speed = b.speed "
        "GROUP BY a.speed) q",
        _numbers("1.5"),
        tables=2,
    )


def _groups() -> Case:
    def fill(yard: Yard, rows: int) -> None:
        yard.fill(rows="0", plate="''")
        yard.run("INSERT INTO t SELECT unnest(%s::text[])", list(colliding_texts(rows)))

    inner = b.grouped([b.count()], [PLATE])
    return Case(
        "groups of texts with one hash",
        1500,
        b.select([b.count()], source=b.subquery(inner)),
        "SELECT count(*) FROM (SELECT plate, count(*) FROM t GROUP BY plate) q",
        fill,
    )


def _distinct() -> Case:
    def fill(yard: Yard, rows: int) -> None:
        yard.fill(rows="0", speed="0")
        yard.run("INSERT INTO t SELECT unnest(%s::float8[])", list(worst_order(rows)))

    return Case(
        "count(DISTINCT) in the worst order",
        8_000,
        b.select([b.count(SPEED, distinct=True)]),
        "SELECT count(DISTINCT speed) FROM t",
        fill,
    )


def _spill() -> Case:
    inner = b.grouped([b.count()], [PLATE])
    return Case(
        "groups that do not fit into memory",
        60_000,
        b.select([b.count()], source=b.subquery(inner)),
        "SELECT count(*) FROM (SELECT plate, count(*) FROM t GROUP BY plate) q",
        _texts("repeat(md5(i::text), 128)"),
    )


def _first_rows() -> Case:
    inner = b.rows(
        PLATE,
        SPEED,
        limit=b.const("5000", "int8"),
        order=[{"expr": PLATE, "desc": True, "nulls_first": False}],
    )
    return Case(
        "the first 5,000 of long texts that differ at their end",
        10_000,
        b.select([b.count()], source=b.subquery(inner)),
        "SELECT count(*) FROM (SELECT plate, speed FROM t ORDER BY plate DESC, speed LIMIT 5000) q",
        lambda yard, rows: yard.fill(
            rows=str(rows), plate="repeat('a', 4090) || i % 100000", speed="i"
        ),
    )


#: quick enough for every run of the tests; the last two are for the bench
CASES = (
    _likes(),
    _concatenations(),
    _numerics(),
    _self_join(),
    _groups(),
    _distinct(),
    _spill(),
    _first_rows(),
)
