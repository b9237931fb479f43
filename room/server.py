"""The room: a PostgreSQL of the engine's own, in which the inner query of a release is evaluated.

A thread makes it, watches it, and makes a fresh one when it has died or does not answer any more. The
thread lives as long as the engine; the server ends with the thread, even when the engine is killed.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import psycopg

from privid.errors import EngineUnavailable, PrividError

from .cluster import Cluster, make_pristine, next_cluster
from .description import Description, describe
from .facts import (
    Connection,
    Facts,
    Served,
    check_facts,
    check_time_zones,
    read_facts,
    read_time_zones,
)
from .place import Place
from .user import RoomUser, claim_user

__all__ = ["Report", "RoomServer", "unavailable"]

#: seconds between attempts to make a room that cannot be made
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)
_REPLACED = "It is being replaced, or cannot be started."

C = TypeVar("C", bound=Connection)


class Report(Protocol):
    """Takes one line for the operator's log."""

    def __call__(self, event: str, /, **fields: str | int | None) -> None: ...


def _ignore(event: str, /, **fields: str | int | None) -> None:
    pass


class RoomServer:
    """One per engine. Connections come from a RoomPool."""

    def __init__(self, data: Path, *, connections: int = 40, report: Report = _ignore) -> None:
        self._data, self.connections, self._report = data, connections, report
        self._changed = threading.Condition()
        self._current: Cluster | None = None
        self._failure: BaseException | None = None
        self._suspected = 0  # number of a cluster that did not answer somebody
        self._stopping = False
        self._told: list[Callable[[int, str], None]] = []
        self._place: Place | None = None
        self._user: RoomUser | None = None
        self._thread: threading.Thread | None = None
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    # Beginning and end

    def start(self, served: Served) -> None:
        """Makes the room like the served database, and returns when it answers. Refuses if it is not alike."""
        with served.connection() as conn:
            facts = read_facts(conn)
        self._user = claim_user()
        try:
            self._place = Place(self._data, self._user)
            self._thread = threading.Thread(target=self._supervise, args=(facts,), name="room",
                                            daemon=True)
            self._thread.start()
            with self._changed:
                self._changed.wait_for(lambda: self._current or self._failure)
            if self._failure is not None:
                raise self._failure
            self.check_equal(served)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the server and removes its directory."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        os.eventfd_write(self._wake, 1)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._place is not None:
            self._place.remove()
            self._place = None
        if self._user is not None:
            self._user.close()

    def check_equal(self, served: Served) -> None:
        """Refuses a room that would evaluate an expression otherwise than the served database."""
        with (ThreadPoolExecutor(1) as beside, served.connection() as there,
              self.connect(psycopg.Connection) as here):
            check_facts(read_facts(there), read_facts(here))
            zones = beside.submit(read_time_zones, there)  # each server has a core for it
            room = read_time_zones(here)
            check_time_zones(zones.result(), room)

    # For those who connect

    @property
    def place(self) -> Place:
        if self._place is None:
            raise unavailable("The engine is being started or stopped.")
        return self._place

    @property
    def uid(self) -> int:
        """The user of its processes: who may call on the engine's socket in the room."""
        return self.place.user.uid

    @property
    def number(self) -> int:
        """Of the server that runs, 0 for none; a replaced one has another."""
        current = self._current
        return current.number if current is not None else 0

    def connect(self, kind: type[C], patience: float = 10.0) -> C:
        """A new session; while the server is being replaced, waits for it, but not for ever."""
        deadline = time.monotonic() + patience
        while True:
            cluster = self._wait(deadline)
            try:
                return cluster.connect(kind)
            except psycopg.OperationalError as error:
                self.suspect(cluster.number)
                if time.monotonic() > deadline:
                    raise unavailable(_REPLACED) from error
                time.sleep(0.02)

    def _wait(self, deadline: float) -> Cluster:
        with self._changed:
            self._changed.wait_for(lambda: self._current or self._stopping,
                                   deadline - time.monotonic())
            if self._current is None or self._stopping:
                raise unavailable(_REPLACED)
            return self._current

    def observe(self, tell: Callable[[int, str], None]) -> None:
        """Tells which server runs, now and whenever that changes: its number and its folder, or 0 and nothing."""
        with self._changed:
            self._told.append(tell)
            tell(*self._named())

    def _named(self) -> tuple[int, str]:
        current = self._current
        return (current.number, current.name) if current is not None else (0, "")

    def suspect(self, number: int) -> None:
        """A session with the server of this number has failed: see whether it still answers."""
        self._suspected = number
        os.eventfd_write(self._wake, 1)

    def listen(self, backlog: int = 64) -> socket.socket:
        """A socket for the engine, on which the room's scans call: open to root and the room's user."""
        place = self.place
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listener.bind(place.through("engine.sock"))
            os.chmod("engine.sock", 0o600, dir_fd=place.fd)
            os.chown("engine.sock", place.user.uid, place.user.gid, dir_fd=place.fd,
                     follow_symlinks=False)
            listener.listen(backlog)
        except BaseException:
            listener.close()
            raise
        return listener

    def describe(self) -> Description:
        """What an operator wants to know; privid.room.describe tells it to other processes, too."""
        return describe(self._data)

    # The thread

    def _supervise(self, facts: Facts) -> None:
        number = failures = 0
        made = False
        while not self._stopping:
            number += 1
            try:
                if not made:
                    make_pristine(self.place, facts, self.connections)
                    made = True
                cluster = next_cluster(self.place, number, self.connections)
            except Exception as error:  # whatever it is, this thread goes on
                if number == 1:
                    self._publish(None, error if isinstance(error, PrividError) else _failed(error))
                    return
                self._report("room not replaced", error=type(error).__name__, number=number,
                             detail=error.detail if isinstance(error, PrividError) else None)
                self._pause(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
                continue
            if number > 1:
                self._report("room replaced", number=number, attempts=failures + 1)
            failures = 0
            self._publish(cluster)
            self._watch(cluster)
            self._publish(None)
            self._end(cluster)

    def _end(self, cluster: Cluster) -> None:
        try:
            cluster.end()
        except Exception as error:  # what is left now is removed at the end
            self._report("room not removed", error=type(error).__name__, number=cluster.number)

    def _publish(self, cluster: Cluster | None, failure: BaseException | None = None) -> None:
        with self._changed:
            self._current, self._failure = cluster, failure
            self._changed.notify_all()
            for tell in self._told:
                tell(*self._named())

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)

    def _watch(self, cluster: Cluster) -> None:
        """Returns when the server is to be ended, or has ended."""
        poll = select.poll()
        for file in (cluster.pidfd, cluster.stderr, self._wake):
            poll.register(file, select.POLLIN)
        while not self._stopping:
            ready = dict(poll.poll())
            if cluster.stderr in ready:
                cluster.drain()
            if cluster.pidfd in ready:
                self._report("room ended", number=cluster.number, status=cluster.process.wait(),
                             detail=cluster.told)
                return
            if self._wake in ready:
                os.eventfd_read(self._wake)
                if self._suspected == cluster.number and not cluster.answers():
                    self._report("room does not answer", number=cluster.number)
                    return
                self._suspected = 0


def unavailable(detail: str) -> EngineUnavailable:
    """What is raised where there is no session to be had."""
    return EngineUnavailable("could not reach the engine's own PostgreSQL", detail=detail,
                             hint="Try again; if it does not help, the engine's log tells more.")


def _failed(error: BaseException) -> PrividError:
    told = (str(error).strip().splitlines() or [type(error).__name__])[0]
    failure = PrividError("could not make the engine's own PostgreSQL",
                          detail=told.rstrip(".") + ".",
                          hint="See whether the machine has memory and disk left for it.")
    failure.__cause__ = error
    return failure
