"""The inner query of one release: its objects are made in a transaction that never ends well, its rows read, and all of it forgotten."""

from __future__ import annotations

import time
from collections.abc import Sequence

from psycopg import RawCursor

from privid.model import Key

from .facts import Connection
from .public import copy_rows

__all__ = ["make", "run_inner", "spin"]


def make(conn: Connection, statements: Sequence[str], copied: Sequence[tuple[str, Sequence[Key]]]) -> None:
    """Makes what the query reads, with the public rows in it."""
    if statements:
        conn.execute("; ".join(statements).encode())
    for name, rows in copied:
        copy_rows(conn, name, rows)


def run_inner(conn: Connection, statements: Sequence[str], copied: Sequence[tuple[str, Sequence[Key]]], query: str,
              deadline: int) -> list[Key]:
    """The query's rows as text. The transaction stays open, to end with the session."""
    left = max(1, (deadline - time.monotonic_ns()) // 1_000_000)
    make(conn, ["BEGIN", f"SET LOCAL statement_timeout = {left}", *statements], copied)
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
