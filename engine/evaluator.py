"""The evaluator: a process of its own that has inner queries evaluated in the room.

It alone knows when an inner query ends. A computation begins when a lane is free, there is memory for it beside the others by their
bounds, and a session is in hand in which all that is public has been done: objects are made, the query is planned. From then on it takes
its whole allowance, to the nanosecond that the clock gives: rows are handed
over when it is over less the margin for noise, and the lane is free again when all of it is over. What goes wrong, and what takes too
long, is handed over as nothing, at the same moment. Meanwhile a process of the room keeps a core busy, however soon the query ended, so
that the load of the machine does not tell. What no row of a video takes part in has nothing of this to hide: it ends when it ends.

One lane per core that programs leave, for quick computations, and one for slow ones, which wait for each other.
"""

from __future__ import annotations

import argparse
import os
import queue
import socket
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg

from privid.errors import PrividError
from privid.model import Key
from privid.room.inner import run, set_up, spin
from privid.room.pool import RoomConnection, RoomPool
from privid.room.priority import QUICK, SLOW, set_priority
from privid.room.remote import RemoteRoom

from .blocks import Blocks
from .evaluation import Begun, Changed, Done, Suspected, Task, Withdraw, Withdrawn, receive, send
from .kept import Entry, Kept
from .log import Log
from .memory import Ration
from .room_session import RoomSession
from .server import Server
from .timetable import NANO

__all__ = ["Evaluator", "KeptChunks", "main"]

#: seconds that a lane waits for a query that does not end
_PATIENCE = 30
#: seconds between looks for rows that a program's output is still being turned into
_LOOK = 0.002


class KeptChunks(Kept):
    """The rows of the chunk cache, which another process writes."""

    def wait(self, until: int, address: int) -> Entry:
        """The rows of a run whose slot is over; until that moment they may still have to be read."""
        while (found := self.get(address)) is None:
            if time.monotonic_ns() > until:
                raise TimeoutError
            time.sleep(_LOOK)
        return found


class Evaluator:
    """Takes tasks from one socket and serves the room's scans on another."""

    def __init__(self, control: socket.socket, pool: RoomPool, room: RemoteRoom, lanes: int) -> None:
        self._control, self._pool, self._room, self._ration = control, pool, room, Ration()
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: set[int] = set()  # tasks that can still be withdrawn
        self._open: dict[str, tuple[Task, int]] = {}  # by handle: what the room may read, and until when
        self._quick: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._slow: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for tasks in (*[self._quick] * lanes, self._slow):
            threading.Thread(target=self._lane, args=(tasks,), name="lane", daemon=True).start()

    def serve(self) -> None:
        """Until the engine is gone."""
        while (message := receive(self._control)) is not None:
            match message:
                case Task():
                    with self._lock:
                        self._waiting.add(message.ident)
                    (self._slow if message.slow else self._quick).put(message)
                case Withdraw(ident):
                    if self._take(ident):
                        self.say(Withdrawn(ident))
                case Changed(number, name):
                    self._room.change(number, name)

    def say(self, message: object) -> None:
        with self._sending, suppress(OSError):  # the engine is gone, and this process goes
            send(self._control, message)

    def blocks(self, handle: object, table: int) -> tuple[Blocks, int]:
        """What the room may read under a handle, and until when."""
        with self._lock:
            task, until = self._open[handle]  # type: ignore[index]
        return task.blocks[table], until

    def _take(self, ident: int) -> bool:
        """Whether a task was still waiting: a lane that takes it begins it, and nobody withdraws it any more; or the other way round."""
        with self._lock:
            there = ident in self._waiting
            self._waiting.discard(ident)
        return there

    # Lanes

    def _lane(self, tasks: queue.SimpleQueue[Task]) -> None:
        while True:
            task = tasks.get()
            needed = task.files, task.memory
            fits = self._ration.take(needed, task.free)
            session = self._session(task) if fits else None
            if self._take(task.ident):
                self._evaluate(task, session, fits)
            elif session is not None:
                session.close()
            if fits:
                self._ration.give_back(needed)

    def _session(self, task: Task) -> RoomConnection | None:
        """In hand, with all that no row decides behind it, before the time begins to count."""
        try:
            session = self._pool.take(task.settings)
        except (PrividError, psycopg.Error):
            return None
        try:
            set_up(session, task.statements, task.publics, task.query)
        except Exception:  # it was possible when it was rehearsed, so that it is the room's end, and public
            session.close()
            return None
        return session

    def _evaluate(self, task: Task, session: RoomConnection | None, fits: bool) -> None:
        begin = time.monotonic_ns()
        end = begin + task.allowance
        until = end - task.margin
        self.say(Begun(task.ident, begin, fits))
        with self._lock:
            self._open[task.handle] = task, until
        rows: Future[list[Key]] = Future()
        work = threading.Thread(target=self._work, args=(task, session, until, rows), name="work", daemon=True)
        work.start()
        done = _outcome(task, rows, until)
        if not task.public:
            _sleep_until(until)
        with self._lock:
            del self._open[task.handle]
        self.say(done)
        if session is not None and not rows.done():
            threading.Thread(target=_stop, args=(session,), name="stop", daemon=True).start()
        if not task.public:
            _sleep_until(end)
        work.join(_PATIENCE)  # of a query beyond its bound, if there is one: its backend has the core that the next one needs

    def _work(self, task: Task, session: RoomConnection | None, until: int, rows: Future[list[Key]]) -> None:
        """In a thread of its own: nothing that happens here holds up the lane."""
        try:
            if session is None:
                raise ConnectionError
            if task.slow:
                set_priority(session.info.backend_pid, SLOW)
            rows.set_result(run(session, until))
            if not task.public:
                spin(session, until)
        except Exception as error:
            if not rows.done():
                rows.set_exception(error)
                if not task.public:
                    with suppress(Exception), self._pool.take({}) as another:
                        spin(another, until)
        finally:
            if session is not None:
                with suppress(Exception):
                    session.close()


def _outcome(task: Task, rows: Future[list[Key]], until: int) -> Done:
    """Neither the words nor the values of an error: both could depend on the video."""
    try:
        return Done(task.ident, rows.result(max(0, until - time.monotonic_ns()) / NANO))
    except Exception as error:
        return Done(task.ident, None, type(error).__name__, getattr(error, "sqlstate", None))


def _stop(session: RoomConnection) -> None:
    """Its statement ends at the same moment by itself; this is for one that does not."""
    with suppress(psycopg.Error):
        session.cancel()


def _sleep_until(moment: int) -> None:
    while (left := moment - time.monotonic_ns()) > 0:
        time.sleep(left / NANO)


def main() -> None:
    """Until the engine closes its end, or dies."""
    parser = argparse.ArgumentParser(prog="python -m privid.engine.evaluator", description="Evaluates inner queries for an engine.")
    for name, kind in (("control", int), ("listener", int), ("room", Path), ("uid", int), ("connections", int), ("chunks", Path),
                       ("lanes", int)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    options = parser.parse_args()
    sys.setswitchinterval(0.0005)
    set_priority(0, QUICK)
    control = socket.socket(fileno=options.control)
    evaluators: list[Evaluator] = []
    room = RemoteRoom(options.room, options.connections, lambda number: evaluators[0].say(Suspected(number)))
    pool = RoomPool(room, stock=options.lanes + 2, at_once=2 * options.lanes + 4, public=1)
    evaluators.append(Evaluator(control, pool, room, options.lanes))
    chunks = KeptChunks(options.chunks)
    scans = Server(socket.socket(fileno=options.listener), options.uid, partial(RoomSession, evaluators[0], chunks), Log())
    threading.Thread(target=scans.serve, name="scans", daemon=True).start()
    with suppress(OSError):
        evaluators[0].serve()
    os._exit(0)  # whatever is being evaluated: nobody is left to tell


if __name__ == "__main__":
    main()
