"""The inner query of a charged release, evaluated in the room by its allowance.

What comes out is rows before noise, or nothing: whatever goes wrong, and whatever takes too long, gives the answer of an empty input.
From the moment the computation begins until just before the deadline one core is kept busy, however soon the query ends, so that the
load of the machine does not tell how long it took.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import TYPE_CHECKING

import psycopg

from privid.errors import PrividError
from privid.model import Key, Plan
from privid.room import Room
from privid.room.priority import QUICK as QUICK_PRIORITY
from privid.room.priority import SLOW as SLOW_PRIORITY
from privid.room.priority import set_priority

from .cancel import Cancelled
from .handles import Handle
from .log import Log
from .timetable import NANO, Place, Timetable, nanoseconds

if TYPE_CHECKING:
    from .judge import Judged

__all__ = ["Quiet", "Turns", "allowance_of", "compute", "hasten", "is_slow", "margin_of"]

#: seconds; what could take longer is slow, has a queue of its own, and is given so many times its bound, because quick ones go first
QUICK, SLOW_FACTOR = Fraction(1), 4
#: seconds between the end of the inner query and the deadline: for whatever the machine and this process do beside, and for noise on
#: each value of each group, several times what it takes
_MARGIN, _VALUE = Fraction(50, 1000), Fraction(15, 100_000)


def margin_of(plan: Plan) -> Fraction:
    """Seconds that noise may take."""
    return _MARGIN + _VALUE * len(plan.keys) * max(1, len(plan.columns))


def allowance_of(worst: Fraction, quantum: Fraction) -> Fraction:
    """Seconds from the beginning of a turn to its answer.

    >>> allowance_of(Fraction(1, 2), Fraction(1, 10)), allowance_of(Fraction(3), Fraction(1, 10))
    (Fraction(1, 2), Fraction(12, 1))
    """
    return max(quantum, worst if worst <= QUICK else SLOW_FACTOR * worst)


class Quiet:
    """Work for statements that are only judged gives way to quick computations: both want the interpreter."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._computing = 0

    @contextmanager
    def computing(self) -> Iterator[None]:
        with self._changed:
            self._computing += 1
        try:
            yield
        finally:
            with self._changed:
                self._computing -= 1
                self._changed.notify_all()

    def wait(self, longest: float = 1.0) -> None:
        """Until nothing computes, but not for ever."""
        with self._changed:
            self._changed.wait_for(lambda: not self._computing, longest)


class Turns:
    """Whose computation runs when: one at a time for each core, so that none takes another's time; slow ones wait for each other, not
    quick ones for them. Public, like the slots: a turn is taken at the end of the last slot, whatever the rows, and lasts as long as the
    allowance."""

    def __init__(self, cores: int) -> None:
        self._lock = threading.Lock()
        self._quick, self._slow = Timetable(cores), Timetable(1)

    def take(self, earliest: int, allowance: int) -> Place:
        with self._lock:
            return self._queue(allowance).reserve(1, allowance, earliest)[0]

    def give_back(self, turn: Place) -> None:
        """Nobody waits for its answer any more: whoever comes next need not either, unless somebody has a later turn already."""
        with self._lock:
            queue = self._queue(turn.pitch)
            if queue.free_at[turn.lane] == turn.end:
                queue.free_at[turn.lane] = min(turn.end, max(turn.begin, time.monotonic_ns()))

    def _queue(self, allowance: int) -> Timetable:
        return self._slow if is_slow(allowance) else self._quick


def is_slow(allowance: int) -> bool:
    return allowance > QUICK * NANO


def hasten() -> None:
    """Raise the priority of this thread, if that is allowed: nobody may keep a computation waiting."""
    set_priority(threading.get_native_id(), QUICK_PRIORITY)


def compute(room: Room, judged: Judged, handle: Handle, deadline: int, log: Log) -> tuple[list[Key], bool]:
    """Rows of the inner query and whether it succeeded, not later than the deadline (of the monotonic clock, in nanoseconds)."""
    assert handle.charge is not None
    release, work = handle.charge.release, None
    until = deadline - nanoseconds(margin_of(judged.plan))
    try:
        for job in handle.jobs:
            job.wait_all(until)  # the slots are over; what their programs said may still have to be read
        work = _Work(room, judged, handle.ident, until)
        return work.result(), True
    except (Cancelled, PrividError):
        raise  # of the timetable and the sandbox: public
    except TimeoutError:
        log.write("room late", release=release)
    except Exception as error:
        # neither the words nor the values of an error: both could depend on the video
        log.write("room failed", release=release, error=type(error).__name__, sqlstate=getattr(error, "sqlstate", None))
    if work is not None:
        work.give_up()
    return [], False


class _Work:
    """One connection of the room, used once, in a thread of its own: nothing that happens there can hold up the answer."""

    def __init__(self, room: Room, judged: Judged, handle: str, until: int) -> None:
        self._room, self._judged, self._handle, self._until = room, judged, handle, until
        self._rows: Future[list[Key]] = Future()
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._over = False
        threading.Thread(target=self._run, name="compute", daemon=True).start()

    def result(self) -> list[Key]:
        try:
            return self._rows.result(max(0, self._until - time.monotonic_ns()) / NANO)
        except PrividError as error:  # of the room, and so not public
            raise RuntimeError(type(error).__name__) from error

    def give_up(self) -> None:
        """Nobody waits for it any more. Its statement ends at the deadline by itself; asking for that takes time."""
        with self._lock:
            self._over = True
            if self._connection is not None:
                threading.Thread(target=self._room.stop, args=(self._connection,), name="stop", daemon=True).start()

    def _run(self) -> None:
        hasten()
        try:
            connection = self._room.take(self._judged.settings)
        except Exception as error:
            self._rows.set_exception(error)
            return
        with self._lock:
            over, self._connection = self._over, connection
        try:
            if not over:
                if is_slow(nanoseconds(self._judged.allowance)):
                    set_priority(connection.info.backend_pid, SLOW_PRIORITY)
                rows = self._room.query(connection, self._judged.inner, self._judged.tables, self._judged.plan.uses, self._handle,
                                        self._until)
                self._rows.set_result(rows)
                self._room.spin(connection, self._until)
        except Exception as error:
            if not self._rows.done():
                self._rows.set_exception(error)
                with suppress(Exception), self._room.take({}) as another:
                    self._room.spin(another, self._until)
        finally:
            with suppress(Exception):
                connection.close()
