"""The inner query of one release: its objects are made in a transaction that never ends well, its rows read, and all of it forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import RawCursor

from privid.errors import InvalidValue, NoRule
from privid.model import Key, Table, TableUse

from .deparse import Inner, enum_ddl, public_ddl, table_ddl
from .pool import Connection, RoomPool
from .public import copy_rows

__all__ = ["objects", "rehearse", "run_inner", "spin"]


#: steps of plans that have a bound. A sort has one because little is sorted at once; a merge join would sort without it.
_BOUNDED = {"Foreign Scan", "Seq Scan", "Function Scan", "Values Scan", "Subquery Scan", "Result", "Append", "Aggregate", "Group", "Unique",
            "Hash", "Hash Join", "Nested Loop", "Materialize", "SetOp", "Sort", "Incremental Sort", "Limit"}
#: of a rehearsal, which plans and runs nothing
_TIMEOUT = 10_000


def rehearse(pool: RoomPool, inner: Inner, tables: Sequence[Table], uses: Sequence[TableUse]) -> None:
    """Has PostgreSQL read and plan the query, with nothing in its tables: what it refuses, it refuses before the charge. So is a plan with
    steps whose time is not bounded (relations.py)."""
    with pool.public() as conn, conn.transaction(force_rollback=True):
        try:
            conn.execute("; ".join([f"SET LOCAL statement_timeout = {_TIMEOUT}", *objects(inner, tables, uses, "")]).encode())
            (plan,) = conn.execute(f"EXPLAIN (FORMAT JSON) {inner.query}".encode()).fetchall()[0]
        except psycopg.DataError as error:  # a constant that no value of a program plays a part in
            told = error.diag
            raise InvalidValue(told.message_primary or "a constant of the statement cannot be used",
                               detail=told.message_detail, hint=told.message_hint) from error
        except (psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.OperationalError) as error:
            if conn.closed or conn.broken:
                raise
            raise NoRule("statement has a form that cannot be computed", detail=_sentence(error.diag.message_primary),
                         hint="Write it with simpler expressions, or compute the value inside the executable.") from error


    for step in _steps(plan):
        if step not in _BOUNDED:
            raise NoRule("statement has a form that cannot be computed in bounded time", detail=f"PostgreSQL plans it with a step {step}.",
                         hint="Join by equalities between columns of one type, and order fewer rows.")


def _steps(plan: object) -> Iterator[str]:
    """The kinds of nodes in a plan, as EXPLAIN (FORMAT JSON) shows it."""
    if isinstance(plan, list):
        for part in plan:
            yield from _steps(part)
    elif isinstance(plan, dict):
        if "Node Type" in plan:
            yield str(plan["Node Type"])
        for part in plan.values():
            yield from _steps(part)


def _sentence(text: str | None) -> str | None:
    return f"{text[:1].upper()}{text[1:]}." if text else None


def objects(inner: Inner, tables: Sequence[Table], uses: Sequence[TableUse], handle: str) -> list[str]:
    """The statements that make what the query reads."""
    most = {use.table.index: use.count * use.table.max_rows for use in uses}
    made = [enum_ddl(name, labels) for name, labels in inner.enums.values()]
    made += [table_ddl(tables[index], name, inner.enums, handle, most.get(index, 0)) for index, name in inner.tables]
    return made + [public_ddl(public, name, inner.enums) for public, name in inner.publics]


def run_inner(conn: Connection, statements: Sequence[str], publics: Sequence[tuple[str, Sequence[Key]]], query: str,
              deadline: int) -> list[Key]:
    """The query's rows as text, after its objects are made and public rows copied. The transaction stays open, to end with the session."""
    left = max(1, (deadline - time.monotonic_ns()) // 1_000_000)
    conn.execute("; ".join(["BEGIN", f"SET LOCAL statement_timeout = {left}", *statements]).encode())
    for name, rows in publics:
        copy_rows(conn, name, rows)
    with RawCursor(conn) as cursor:
        cursor.execute(query.encode(), prepare=False, binary=False)
        result = cursor.pgresult
        assert result is not None
        columns, value = range(result.nfields), result.get_value
        return [tuple(None if (text := value(row, column)) is None else text.decode() for column in columns)
                for row in range(result.ntuples)]


def spin(conn: Connection, until: int) -> None:
    """Keeps the session's process busy until a moment of the monotonic clock, in nanoseconds."""
    conn.execute("SELECT room.spin(%s)", (until,))
