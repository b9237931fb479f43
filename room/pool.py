"""Sessions in the room: those for releases are ready beforehand and used once, public work shares a few.

Nothing that a release leaves in a session (a plan, a cache, a temporary object, a setting) meets
another release.
"""

from __future__ import annotations

import resource
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import pq

from privid.errors import EngineUnavailable, InvalidValue

from .facts import Connection
from .priority import PUBLIC, set_priority
from .server import unavailable
from .settings import request_settings
from .shares import Shares

__all__ = ["Connection", "RoomConnection", "RoomLike", "RoomPool", "Wanting", "apply_settings"]

#: Work of the kind that a release does: the catalogs are in the session's caches then, and it has its
#: temporary schema.
_WARMING = (
    "CREATE TEMPORARY TABLE warm (c0 text, c1 float8, c2 timestamptz)",
    "DROP TABLE pg_temp.warm",
    "BEGIN",
    """CREATE FOREIGN TABLE pg_temp.t0 (c0 timestamptz, c1 text, c2 float8)
       SERVER room OPTIONS (handle '', number '0')""",
    "CREATE TYPE pg_temp.e0 AS ENUM ('a')",
    """CREATE TEMPORARY TABLE p0
       (c0 text, c1 float8, c2 numeric, c3 int8, c4 timestamptz, c5 pg_temp.e0)""",
    "CREATE UNIQUE INDEX ON pg_temp.p0 (c0)",
    """SELECT a.c0, pg_catalog.count(*), pg_catalog.sum(room.range(b.c1, 0, 1)),
              room.total_avg(b.c1), room.total_sum(room.total_add(a.c1, b.c1))
       FROM pg_temp.p0 a JOIN pg_temp.p0 b ON a.c0 OPERATOR(pg_catalog.=) b.c0
       WHERE b.c4 OPERATOR(pg_catalog.<) '2000-01-01' GROUP BY 1 ORDER BY 1""",
    "ROLLBACK",
)


#: sessions that are being ended, and the server's own look at whether it answers
_SPARE = 8
#: seconds after which the stock is filled up, while there is some
_LEISURE = 0.05
#: bytes of its own beyond which a session is not used again: PostgreSQL keeps what it has read (rules of time zones, plans, catalogs)
_GROWN = 64 << 20
#: who waits for a session for public work has so many times as much patience: longer than the work of another may take (evaluate.py)
_TURN = 4
#: seconds after which a session that goes on is told again that nobody waits for it
_INSIST = 0.05


C = TypeVar("C", bound=Connection)


class RoomLike(Protocol):
    """What a pool asks of the room's server: RoomServer, or RemoteRoom in another process."""

    connections: int

    @property
    def number(self) -> int:
        """Of the server that runs, 0 for none."""

    def connect(self, kind: type[C], patience: float = 10.0) -> C: ...

    def suspect(self, number: int) -> None: ...


class Wanting(Protocol):
    """Whoever waits for a piece of work, and may leave."""

    def check(self) -> None:
        """Raises when nobody waits any more."""

    def calling(self, call: Callable[[], None], /) -> AbstractContextManager[None]:
        """Calls when that happens, as long as the block lasts."""


class RoomConnection(psycopg.Connection[tuple[object, ...]]):
    """A session for one release. Closing it makes way for another."""

    number = 0  # of the server that it is with
    _closed_by: Callable[[], None] | None = None

    def when_closed(self, call: Callable[[], None]) -> None:
        self._closed_by = call

    def close(self) -> None:
        super().close()
        call, self._closed_by = self._closed_by, None
        if call is not None:
            call()


class RoomPool:
    """A stock of sessions that nobody has used, and a few that are used again for public work."""

    def __init__(self, server: RoomLike, *, stock: int = 3, at_once: int = 16, public: int = 4,
                 patience: float = 10.0) -> None:
        if server.connections < at_once + stock + public + _SPARE:
            raise ValueError("the room has too few connections for this pool")
        self._server, self._stock, self._patience = server, stock, patience
        self._places = threading.BoundedSemaphore(at_once)
        self._public = Shares(public)
        self._changed = threading.Condition()
        self._ready: list[RoomConnection] = []
        self._idle: list[RoomConnection] = []
        self._waiting = 0
        self._closed = False
        self._local = threading.local()
        self._thread = threading.Thread(target=self._refill, name="room stock", daemon=True)
        self._thread.start()

    # For releases

    def take(self, settings: Mapping[str, str] | None = None) -> RoomConnection:
        """A session for one release, with those settings of its request that matter. The caller closes it."""
        deadline = time.monotonic() + self._patience
        if not self._places.acquire(timeout=self._patience):
            raise EngineUnavailable("too many releases are being evaluated",
                                    hint="Try again when some have been answered.")
        try:
            conn = self._take(deadline)
        except BaseException:
            self._places.release()
            raise
        conn.when_closed(self._places.release)
        try:
            if chosen := request_settings(settings or {}):
                with self._reported(conn):
                    apply_settings(conn, chosen)
            return conn
        except BaseException:
            conn.close()
            raise

    def _take(self, deadline: float) -> RoomConnection:
        """The oldest of the stock that still lives."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                while True:
                    while self._ready:
                        conn = self._ready.pop(0)
                        self._changed.notify_all()
                        if conn.number == self._server.number and not _has_ended(conn):
                            return conn
                        conn.close()
                    if self._closed or not self._changed.wait(deadline - time.monotonic()):
                        raise unavailable("It has no session for a release.")
            finally:
                self._waiting -= 1

    def _refill(self) -> None:
        """The thread that makes sessions, also when several wait for one."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._lacks(), 1.0)
                if self._ready:  # a release has just begun with one, and is not to be disturbed
                    self._changed.wait_for(
                        lambda: self._closed or self._waiting > len(self._ready), _LEISURE)
                if self._closed:
                    return
                # of a server that was replaced
                stale = [conn for conn in self._ready if conn.number != self._server.number]
                self._ready = [conn for conn in self._ready if conn not in stale]
                wanted = self._lacks()
            for conn in stale:
                conn.close()
            if not wanted:
                continue
            try:
                conn = self._fresh()
            except Exception:
                time.sleep(0.05)  # the server is being replaced, and the log says so; this thread goes on
                continue
            with self._changed:
                self._ready.append(conn)
                self._changed.notify_all()

    def _lacks(self) -> bool:
        return len(self._ready) < max(self._stock, self._waiting)

    def _fresh(self) -> RoomConnection:
        number = self._server.number
        conn = self._server.connect(RoomConnection, patience=1.0)
        conn.number = number  # a session with one that was made meanwhile is taken for an old one
        try:
            for statement in _WARMING:
                conn.execute(statement.encode())
        except BaseException:
            conn.close()
            raise
        return conn

    # For public work

    @contextmanager
    def public(self) -> Iterator[Connection]:
        """Lends a session for work on what is public. Errors of PostgreSQL pass, except that it is gone."""
        somebody, role = getattr(self._local, "wanted", (None, ""))
        if somebody is not None:
            somebody.check()
        check = somebody.check if somebody is not None else lambda: None
        with self._public.one(role, _TURN * self._patience, check) as free:
            if not free:
                raise EngineUnavailable("the engine is too busy to look at public rows",
                                        hint="Try again.")
            check()
            conn = self._lend()
            try:
                with self._reported(conn), _given_up(conn, somebody):
                    yield conn
            finally:
                self._give_back(conn)

    @contextmanager
    def wanted_by(self, somebody: Wanting, role: str = "") -> Iterator[None]:
        """Public work of this thread, in the block, is given up when nobody waits for it any more. It is that of a login role, whichever it
        acts as: roles have turns at the sessions."""
        self._local.wanted = somebody, role
        try:
            yield
        finally:
            self._local.wanted = None, ""

    def _lend(self) -> RoomConnection:
        while True:
            with self._changed:
                conn = self._idle.pop() if self._idle else None
            if conn is None:
                number = self._server.number
                conn = self._server.connect(RoomConnection, self._patience)
                conn.number = number
                set_priority(conn.info.backend_pid, PUBLIC)
                return conn
            if conn.number == self._server.number and not _has_ended(conn):
                return conn
            conn.close()

    def _give_back(self, conn: RoomConnection) -> None:
        if not conn.closed and conn.info.transaction_status == pq.TransactionStatus.IDLE and not _has_grown(conn):
            with self._changed:
                if not self._closed:
                    self._idle.append(conn)
                    return
        conn.close()

    @contextmanager
    def _reported(self, conn: RoomConnection) -> Iterator[None]:
        """A session that broke is an error of ours, and lets the server be looked at."""
        try:
            yield
        except psycopg.OperationalError as error:
            if not conn.closed and not conn.broken:
                raise
            self._server.suspect(conn.number)
            raise unavailable("A session with it broke.") from error

    def close(self) -> None:
        """Ends all sessions but those that are lent; they end when they come back."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        for conn in self._ready + self._idle:
            conn.close()


def apply_settings(conn: Connection, settings: Mapping[str, str], local: bool = False) -> None:
    """Sets them for the session, or for its transaction; what cannot be used is refused as PostgreSQL does."""
    try:
        conn.execute("SELECT pg_catalog.set_config(n, v, %s) "
                     "FROM unnest(%s::text[], %s::text[]) s(n, v)",
                     (local, list(settings), list(settings.values())))
    except (psycopg.DataError, psycopg.ProgrammingError) as error:
        told = error.diag
        raise InvalidValue(told.message_primary or "a setting of the session cannot be used",
                           detail=told.message_detail, hint=told.message_hint) from error


@contextmanager
def _given_up(conn: RoomConnection, somebody: Wanting | None) -> Iterator[None]:
    """Ends what the session does when nobody waits for it any more; a session that was told so is not used again."""
    if somebody is None:
        yield
        return

    told, left = threading.Event(), threading.Event()

    def stop() -> None:
        while not left.is_set():  # PostgreSQL forgets a cancel that comes between two statements
            with suppress(psycopg.Error):
                conn.cancel()
            left.wait(_INSIST)

    def give_up() -> None:
        told.set()
        threading.Thread(target=stop, name="give up", daemon=True).start()

    try:
        with somebody.calling(give_up):
            yield
    except psycopg.errors.QueryCanceled:
        somebody.check()
        raise
    finally:
        left.set()
        if told.is_set():
            conn.close()


def _has_grown(conn: RoomConnection) -> bool:
    """Whether its process holds more than one for public work needs."""
    try:
        _, resident, shared = Path(f"/proc/{conn.info.backend_pid}/statm").read_text().split()[:3]
    except OSError:
        return True  # it has ended
    return (int(resident) - int(shared)) * resource.getpagesize() > _GROWN


def _has_ended(conn: psycopg.Connection[Any]) -> bool:
    """Whether the server has closed the session: something can be read, though nobody has asked anything."""
    if conn.closed:
        return True
    poll = select.poll()
    poll.register(conn.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
