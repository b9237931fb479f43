"""Inner queries that are short, and long with subqueries in the place of their columns: PostgreSQL puts them there as soon as it plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from privid.calculus.reader import parse_select
from privid.errors import NoRule
from privid.model import TableUse
from privid.room.deparse import inner_query
from privid.room.inner import make
from privid.room.pool import RoomPool
from privid.room.query import objects, publics
from tests.calculus import builders as b
from tests.calculus.builders import Json

P = b.position(1, "text", "p")


def nullif(one: Json, other: Json) -> Json:
    return {"e": "nullif", "fn": "pg_catalog.=(text,text)", "args": [one, other], "type": "text", "loc": -1}


def long(letters: int) -> Json:
    return b.call("||(text,text)", b.col("plate"), b.const("x" * letters, "text"), type_="text")


def doubled(levels: int, letters: int, outside: int = 1) -> Json:
    """Found by attack: each level names the one below twice, and is written with it three times."""
    inner = b.select(targets=[("p", long(letters))])
    for _ in range(levels):
        inner = b.select(targets=[("p", nullif(P, P))], source=b.subquery(inner))
    return b.select([b.count(nullif(P, b.const(str(n), "text"))) for n in range(outside)], source=b.subquery(inner))


def grouped(levels: int) -> Json:
    """By what is long, in a subquery: it is a key, and what is shown of it."""
    inner = b.select(targets=[("p", long(8000))])
    for _ in range(levels):
        inner = b.select(targets=[("p", nullif(P, P))], source=b.subquery(inner))
    return b.select([b.count()], source=b.subquery(b.grouped([b.count()], by=[P], source=b.subquery(inner))))


def one_expression(depth: int) -> Json:
    """The same without any subquery."""
    inner = long(8000)
    for n in range(depth):
        inner = nullif(inner, b.const(str(n), "text"))
    return b.select([b.count(inner)])


def united(parts: int, letters: int) -> Json:
    """A condition goes down to every part of a UNION ALL."""
    union = b.union_all(*(b.rows(b.col("plate"), source=b.scan()) for _ in range(parts)), types=["text"])
    conditions = [b.call("=(text,text)", P, b.const(f"{n}" + "x" * letters, "text")) for n in range(50)]
    return b.select([b.count()], source=b.subquery(union), where=b.either(*conditions))


def ordered(columns: int, levels: int = 3) -> Json:
    """A LIMIT sorts by every column, and by its text."""
    inner = b.select(targets=[("p", long(8000))])
    for _ in range(levels):
        inner = b.select(targets=[("p", nullif(P, P))], source=b.subquery(inner))
    wide = b.select(targets=[(f"p{n}", nullif(P, P)) for n in range(columns)], source=b.subquery(inner), limit=b.const(1, "int8"))
    return b.select([b.count()], source=b.subquery(wide))


def looked_up(letters: int, joins: int) -> Json:
    """Conditions of joins, over what is long."""
    source = b.subquery(doubled_rows(6, letters))
    where = b.both(*(b.call("<>(text,text)", P, b.const(str(n), "text")) for n in range(joins)))
    return b.select([b.count()], source=source, where=where)


def doubled_rows(levels: int, letters: int) -> Json:
    inner = b.select(targets=[("p", long(letters))])
    for _ in range(levels):
        inner = b.select(targets=[("p", nullif(P, P))], source=b.subquery(inner))
    return inner


LONG: dict[str, Callable[[], Json]] = {
    "beside each other": lambda: doubled(8, 8000, 10),
    "one of them": lambda: doubled(10, 8000),
    "many short ones": lambda: doubled(8, 1, 80),
    "letters of four bytes": lambda: doubled(8, 2000, 10),
    "a key": lambda: grouped(9),
    "one expression": lambda: one_expression(14),
    "a union": lambda: united(60, 8000),
    "a limit": lambda: ordered(30, 5),
    "conditions": lambda: looked_up(8000, 20),
}


def written(select: Json) -> None:
    inner_query(parse_select(select), (), [b.table()])


@pytest.mark.parametrize("make_select", LONG.values(), ids=LONG)
def test_what_is_long_with_its_subqueries_is_refused_while_it_is_written(make_select: Callable[[], Json]) -> None:
    began = time.monotonic()
    with pytest.raises(NoRule, match="too long") as caught:
        written(make_select())
    assert caught.value.hint and caught.value.detail
    assert time.monotonic() - began < 20


def peak(pid: int) -> int:
    """The most memory that a process ever had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def largest(select: Callable[[int], Json], sizes: Sequence[int]) -> Json:
    """Of so many sizes the largest that is written."""
    found = None
    for size in sizes:
        try:
            written(select(size))
        except NoRule:
            break
        found = select(size)
    assert found is not None
    return found


WRITTEN: dict[str, Callable[[], Json]] = {
    "long constants": lambda: largest(lambda n: doubled(5, 8000, n), range(1, 90)),
    "short expressions": lambda: largest(lambda n: doubled(7, 1, n), range(1, 90)),
    "one long expression": lambda: largest(lambda n: doubled(7, n), range(100, 8000, 100)),
    "a union": lambda: largest(lambda n: united(n, 1000), range(1, 100)),
    "a limit": lambda: largest(ordered, range(1, 90)),
}


@pytest.mark.parametrize("make_select", WRITTEN.values(), ids=WRITTEN)
def test_what_is_just_short_enough_takes_little_memory_of_a_session(pool: RoomPool, make_select: Callable[[], Json]) -> None:
    table = b.table()
    uses = [TableUse(table, ((0, table.grid.count),))]
    inner = inner_query(parse_select(make_select()), (), [table])
    with pool.public() as conn, conn.transaction(force_rollback=True):
        make(conn, objects(inner, [table], uses, ""), publics(inner))
        before = peak(conn.info.backend_pid)
        conn.execute(f"EXPLAIN (FORMAT JSON) {inner.query}".encode())
        assert peak(conn.info.backend_pid) - before < 400
