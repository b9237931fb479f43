"""The engine's side of the reader, and how long reading takes at most.

When the rows of a chunk are there depends on what its program printed. So it shows nowhere: another process reads (reader.py), and
nobody asks for the rows of a slot before the moment at which they are there in any case, whatever was printed in this slot and in all
that were to be read before it (`schedule`).
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from privid.errors import SandboxFailed
from privid.model import Table
from privid.sandbox.rows import output_limit

from .evaluation import receive, send
from .reader import Output

if TYPE_CHECKING:
    from .jobs import Slot

__all__ = ["Readings", "Unread", "reading_time", "schedule"]

#: nanoseconds for each output, for ten bytes of the longest that is read, for each value, and for each number that is put between the
#: bounds of its column: several times what they take
_EACH, _TEN_BYTES, _VALUE, _SETTLED = 4_000_000, 2_000, 500, 6_000


def reading_time(table: Table) -> int:
    """Nanoseconds for the output of one run: a function of the definition."""
    values = _VALUE * len(table.untrusted) + _SETTLED * sum(column.bounds is not None for column in table.untrusted)
    return _EACH + _TEN_BYTES * output_limit(table.untrusted, table.max_rows) // 10 + table.max_rows * values


def schedule(slots: Iterable[tuple[int, int]], free: int = 0) -> Iterator[int]:
    """When each output has been read at the latest, one after the other; slots are their ends, ascending, and what reading takes. `free`:
    when those before them have been read.

    >>> list(schedule([(10, 3), (11, 3), (50, 1)]))
    [13, 16, 51]
    """
    for end, needed in slots:
        free = max(free, end) + needed
        yield free


class Unread:
    """The slots whose output may still have to be read, by the timetable. Whoever computes with them holds nobody's lock meanwhile: a lane
    needs the board's in time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: list[Slot] = []
        self._before = 0  # when those that are no longer here had been read

    def add(self, slots: Sequence[Slot]) -> None:
        with self._lock:
            self._slots += slots

    def read_by(self, wanted: Sequence[Slot], more: Sequence[tuple[int, int]] = ()) -> int:
        """When all rows of these slots are there, whatever was printed, in them and in all others; `more`: ends of slots to come, and what
        reading them takes, whose rows count too. 0 for none."""
        if not wanted and not more:
            return 0
        with self._lock:
            slots, before = list(self._slots), self._before
        due = sorted(((slot.place.end, slot.job.reading, slot) for slot in slots), key=lambda one: one[0])
        ends = [(end, needed) for end, needed, _ in due]
        moments = list(schedule(ends, before))
        among = set(wanted)
        found = max((moment for (_, _, slot), moment in zip(due, moments, strict=True) if slot in among), default=0)
        if more:
            found = max(found, *schedule(sorted([*ends, *more]), before))
        self._forget([slot for _, _, slot in due], moments)
        return found

    def due(self, slot: Slot) -> int:
        """When the rows of one slot are there, whatever was printed, in it and in those that end before it; 0 if that is long past."""
        with self._lock:
            slots, before = list(self._slots), self._before
        end = slot.place.end
        due = sorted((one for one in slots if one.place.end <= end), key=lambda one: one.place.end)
        for one, moment in zip(due, schedule(((one.place.end, one.job.reading) for one in due), before), strict=True):
            if one is slot:
                return moment
        return 0

    def _forget(self, slots: Sequence[Slot], moments: Sequence[int]) -> None:
        """Those that have been read by now, once they are the most of all."""
        past = bisect_right(moments, time.monotonic_ns())
        if 2 * past > len(slots):
            gone = set(slots[:past])
            with self._lock:
                self._slots = [slot for slot in self._slots if slot not in gone]
                self._before = max(self._before, moments[past - 1])


class Readings:
    """The reader as the engine has it; one output at a time. It is replaced when it has died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock, self._process = self._start()

    def read(self, table: Table, stdout: bytes | None) -> tuple[int, bytes]:
        """Number of rows, and their columns as they are kept."""
        columns = table.untrusted
        cut = None if stdout is None else stdout[:output_limit(columns, table.max_rows)]
        with self._lock:
            try:
                output: Output = columns, table.max_rows, cut
                send(self._sock, output)
                found = receive(self._sock)
            except OSError:
                found = None
            if isinstance(found, tuple):
                return found
            self._end()
            self._sock, self._process = self._start()
        raise SandboxFailed("the reader of programs' output ended", hint="The operator finds the cause in the engine's log.")

    def close(self) -> None:
        with self._lock:
            self._end()

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            process = subprocess.Popen([sys.executable, "-m", "privid.engine.reader", "--control", str(theirs.fileno())],
                                       stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
        finally:
            theirs.close()
        with suppress(OSError):
            receive(ours)  # that it is there: the first output waits no longer than others
        return ours, process

    def _end(self) -> None:
        """At the end of its socket it ends."""
        self._sock.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
            return
        self._process.kill()
        self._process.wait()
