"""What the engine asks of the room before a release is charged: expressions over chunks, facts about public rows, a rehearsal. The inner
query itself is evaluated by a process of its own (privid.engine.evaluator)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from privid.errors import EngineUnavailable
from privid.model import Evaluate, Key, PublicRows, Table, TableUse

from .allowance import Bound
from .cluster import files_in_memory
from .deparse import Inner
from .evaluate import make_evaluate
from .facts import Facts, Served, read_facts
from .plans import Planned
from .pool import RoomPool, Wanting
from .premises import Order
from .premises import Room as Premises
from .public import is_unique, matching
from .query import rehearse
from .server import Report, RoomServer
from .settings import HASH_FACTOR, SORT_MEMORY
from .space import RESERVE, Gauge, is_enough, rounded

__all__ = ["Room", "lacking_disk"]

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
        return is_unique(self.pool, self.settings, columns, rows, places)

    def matching(self, columns: Columns, rows: Sequence[Key], condition: str) -> list[Key]:
        return matching(self.pool, self.settings, columns, rows, condition)


def lacking_disk(rows: int) -> EngineUnavailable:
    """Of an engine that could not keep so many bytes of rows."""
    return EngineUnavailable(f"keeping the rows of this release could take {max(1, rows >> 20)} MB of disk, and less is free",
                             detail="As much must be free as all rows can take at most, so that how many there are does not show.",
                             hint="Choose fewer chunks, fewer text columns or a smaller max_rows, or let the operator make room.")


class Room:
    """One per engine, used by many threads."""

    def __init__(self, data: Path, served: Served, report: Report) -> None:
        with served.connection() as conn:
            facts = read_facts(conn)
        #: what the bounds of its time rely on
        self.premises = Premises(order=_order(facts), sort_memory=SORT_MEMORY, hash_memory=SORT_MEMORY * HASH_FACTOR)
        self._server = RoomServer(data, report=report)
        self._server.start(served)
        self.gauge = Gauge(self.directory)
        self._pool = RoomPool(self._server, stock=0)

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

    def wanted_by(self, somebody: Wanting, role: str) -> AbstractContextManager[None]:
        """What this thread asks in the block, for a role, is given up when nobody waits for it any more."""
        return self._pool.wanted_by(somebody, role)

    def rehearse(self, inner: Inner, tables: Sequence[Table], uses: Sequence[TableUse], settings: Mapping[str, str]) -> Planned:
        """Refuses an inner query that PostgreSQL would refuse, or plan with steps that have no bound; what the bound must know of the
        plan otherwise."""
        return rehearse(self._pool, inner, tables, uses, settings)

    @staticmethod
    def space(needed: Bound) -> tuple[int, int]:
        """Bytes of disk and of memory that a query can need at most, of which twice as much must be free; of files that are in memory no
        more than they can be, because nobody else can take that."""
        if files_in_memory():
            return 0, rounded(needed.memory) + -(-needed.files // 2)
        return rounded(needed.files), rounded(needed.memory)

    def check_space(self, files: int, memory: int) -> None:
        """Refuses what could fail because others have taken disk or memory."""
        disk, free = self.gauge.free()
        for what, there, needed in (("disk", disk, files), ("memory", free, memory)):
            if not is_enough(there, needed):
                raise EngineUnavailable(f"computing this release could take {needed >> 20} MB of {what}, and less than twice that is free",
                                        detail="Twice as much must be free, so that it cannot fail for want of it.",
                                        hint="Choose fewer chunks or a smaller max_rows, or let the operator make room.")

    def check_kept(self, rows: int, files: int) -> None:
        """Refuses what could fill the disk with rows that are kept."""
        disk, _ = self.gauge.free()
        if rows and disk < rows + 2 * rounded(files) + RESERVE:
            raise lacking_disk(rows)

    # For the process that evaluates

    @property
    def directory(self) -> Path:
        return self._server.place.path

    @property
    def connections(self) -> int:
        """Sessions that are left for releases."""
        return self._server.connections

    def observe(self, tell: Callable[[int, str], None]) -> None:
        """Tells which server runs, now and whenever that changes."""
        self._server.observe(tell)

    def suspect(self, number: int) -> None:
        """A session with the server of this number has failed."""
        self._server.suspect(number)
