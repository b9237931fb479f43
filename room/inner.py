"""The inner query of one release: its objects are made in a transaction that never ends well, its rows read, and all of it forgotten.

What is public is done first, and takes as long as it takes: the objects are made, the public rows loaded, the query planned. Only what is
left, which reads rows of a video, has to fit into a bound.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from psycopg import RawCursor

from privid.model import Key

from .facts import Connection
from .public import copy_rows

__all__ = ["QUERY", "make", "run", "set_up", "spin"]

#: the name of the prepared query
QUERY = "inner_query"
#: milliseconds that a statement before the query may take: the rehearsal has shown that they are quick
_TIMEOUT = 60_000


def make(conn: Connection, statements: Sequence[str], copied: Sequence[tuple[str, Sequence[Key]]]) -> None:
    """Makes what the query reads, with the public rows in it."""
    if statements:
        conn.execute("; ".join(statements).encode())
    for name, rows in copied:
        copy_rows(conn, name, rows)


def set_up(conn: Connection, statements: Sequence[str], copied: Sequence[tuple[str, Sequence[Key]]], query: str) -> None:
    """All that is public. The plan is kept: EXPLAIN has it made, and EXECUTE finds it."""
    make(conn, ["BEGIN", f"SET LOCAL statement_timeout = {_TIMEOUT}", "SET LOCAL plan_cache_mode = force_generic_plan", *statements],
         copied)
    conn.execute(f"PREPARE {QUERY} AS {query}; EXPLAIN EXECUTE {QUERY}".encode())


def run(conn: Connection, deadline: int) -> list[Key]:
    """The query's rows as text. The transaction stays open, to end with the session."""
    left = max(1, (deadline - time.monotonic_ns()) // 1_000_000)
    conn.execute(f"SET LOCAL statement_timeout = {left}".encode())
    with RawCursor(conn) as cursor:
        cursor.execute(f"EXECUTE {QUERY}".encode(), prepare=False, binary=False)
        result = cursor.pgresult
        assert result is not None
        columns, value = range(result.nfields), result.get_value
        return [tuple(None if (text := value(row, column)) is None else text.decode() for column in columns)
                for row in range(result.ntuples)]


def spin(conn: Connection, until: int) -> None:
    """Keeps the session's process busy until a moment of the monotonic clock, in nanoseconds."""
    conn.execute("SELECT room.spin(%s)", (until,))
