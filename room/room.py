"""What the engine asks of the room: expressions over chunks, facts about public rows, and the inner queries of releases."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from privid.errors import EngineUnavailable
from privid.model import Evaluate, Key, PublicRows, Table, TableUse

from .deparse import Inner
from .evaluate import make_evaluate
from .facts import Facts, Served, read_facts
from .plans import Planned
from .pool import Connection, RoomConnection, RoomPool
from .premises import Order
from .premises import Room as Premises
from .public import is_unique, matching
from .query import rehearse, run_inner, spin
from .server import Report, RoomServer
from .settings import HASH_FACTOR, SORT_MEMORY

__all__ = ["Room"]

Columns = Sequence[tuple[str, Sequence[str] | None]]


def _order(facts: Facts) -> Order:
    """What puts texts in order in a database like this."""
    if facts.provider == "icu":
        return Order.ICU
    return Order.BYTES if facts.collate in ("C", "POSIX", "C.UTF-8", "C.utf8") else Order.LIBC


@dataclass(frozen=True)
class _PublicRows:
    """Implements model.PublicRows for one request."""

    pool: RoomPool
    settings: Mapping[str, str]

    def is_unique(self, columns: Columns, rows: Sequence[Key], places: Sequence[int]) -> bool:
        return is_unique(self.pool, columns, rows, places)

    def matching(self, columns: Columns, rows: Sequence[Key], condition: str) -> list[Key]:
        return matching(self.pool, self.settings, columns, rows, condition)


class Room:
    """One per engine, used by many threads."""

    def __init__(self, data: Path, served: Served, report: Report) -> None:
        with served.connection() as conn:
            facts = read_facts(conn)
        #: what the bounds of its time rely on
        self.premises = Premises(order=_order(facts), sort_memory=SORT_MEMORY, hash_memory=SORT_MEMORY * HASH_FACTOR)
        self._server = RoomServer(data, report=report)
        self._server.start(served)
        self._pool = RoomPool(self._server)

    def close(self) -> None:
        self._pool.close()
        self._server.stop()

    def check(self) -> None:
        """Refuses what could not be computed, before it is charged."""
        if not self._server.number:
            raise EngineUnavailable("the engine's own PostgreSQL is being replaced", hint="Try again.")

    # The socket on which its foreign tables call

    def listen(self) -> socket.socket:
        return self._server.listen()

    @property
    def uid(self) -> int:
        return self._server.uid

    # What is public

    def evaluate(self, settings: Mapping[str, str]) -> Evaluate:
        return make_evaluate(self._pool, settings)

    def public_rows(self, settings: Mapping[str, str]) -> PublicRows:
        return _PublicRows(self._pool, settings)

    def rehearse(self, inner: Inner, tables: Sequence[Table], uses: Sequence[TableUse], settings: Mapping[str, str]) -> Planned:
        """Refuses an inner query that PostgreSQL would refuse, or plan with steps that have no bound; what the bound must know of the
        plan otherwise."""
        return rehearse(self._pool, inner, tables, uses, settings)

    # One release

    def take(self, settings: Mapping[str, str]) -> RoomConnection:
        """A session that nobody has used and nobody will use again."""
        return self._pool.take(settings)

    def query(self, conn: Connection, inner: Inner, tables: Sequence[Table], uses: Sequence[TableUse], handle: str,
              deadline: int) -> list[Key]:
        return run_inner(conn, inner, tables, uses, handle, deadline)

    def spin(self, conn: Connection, until: int) -> None:
        spin(conn, until)

    def stop(self, conn: Connection) -> None:
        """Ends what the session does, from another thread."""
        with suppress(psycopg.Error):
            conn.cancel()
