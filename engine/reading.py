"""The engine's side of the reader, and how long reading takes at most.

When the rows of a chunk are there depends on what its program printed. So it shows nowhere: another process reads (reader.py), and
nobody asks for the rows of a slot before the moment at which they are there in any case, whatever was printed in this slot and in all
that were to be read before it (`schedule`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from privid.errors import SandboxFailed
from privid.model import Table
from privid.sandbox.confine import complaints
from privid.sandbox.printed import Printed
from privid.sandbox.rows import output_limit

from .kept import Cell
from .memory import STEADY
from .reader import DONE, FAILED, Output, hand_over

if TYPE_CHECKING:
    from .jobs import Slot

__all__ = ["Readings", "Unread", "keeping_time", "parsing_time", "reading_time", "schedule"]

#: nanoseconds for each output, for ten bytes of the longest that is read, for each row, for each value, and for each number that is put
#: between the bounds of its column: several times what they take
_EACH, _TEN_BYTES, _ROW, _VALUE, _SETTLED = 4_000_000, 2_000, 12_000, 1_000, 6_000
#: nanoseconds of processor time for each output, and the share of the rest: more than it takes; to parse it, and to keep its rows
_PARSING_EACH, _PARSING_SHARE = 450_000, 5
_KEEPING_EACH, _KEEPING_SHARE = 400_000, 20


def reading_time(table: Table) -> int:
    """Nanoseconds for the output of one run: a function of the definition."""
    values = _VALUE * len(table.untrusted) + _SETTLED * sum(column.bounds is not None for column in table.untrusted)
    lines = max(_TEN_BYTES * output_limit(table.untrusted, table.max_rows) // 10, _ROW * table.max_rows)
    return _EACH + lines + table.max_rows * values


def parsing_time(table: Table) -> int:
    """Nanoseconds of processor time that are spent on taking an output apart, whatever it is."""
    return _PARSING_EACH + (reading_time(table) - _EACH) // _PARSING_SHARE


def keeping_time(table: Table) -> int:
    """Nanoseconds of processor time that are spent on the rows of an output, whatever they are."""
    return _KEEPING_EACH + (reading_time(table) - _EACH) // _KEEPING_SHARE


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
        self._handed: dict[Slot, None] = {}  # those of them that have run, or run now
        self._handed_before = 0

    def add(self, slots: Sequence[Slot]) -> None:
        with self._lock:
            self._slots += slots

    def drop(self, slots: Iterable[Slot]) -> None:
        """These were given up: nothing of them is read, and nobody waits for it."""
        gone = set(slots)
        with self._lock:
            self._slots = [slot for slot in self._slots if slot not in gone]
            self._handed = {slot: None for slot in self._handed if slot not in gone}

    def read_by(self, wanted: Sequence[Slot], more: Sequence[tuple[int, int]] = ()) -> int:
        """When all rows of these slots are there, whatever was printed, in them and in all others; `more`: ends of slots to come, and what
        reading them takes, whose rows count too. 0 for none."""
        if not wanted and not more:
            return 0
        with self._lock:
            slots, before = list(self._slots), self._before
        slots.sort(key=_order)
        ends = [(slot.place.end, slot.job.reading) for slot in slots]
        moments = list(schedule(ends, before))
        among = set(wanted)
        found = max((moment for slot, moment in zip(slots, moments, strict=True) if slot in among), default=0)
        if more:
            found = max(found, *schedule(sorted([*ends, *more]), before))
        self._forget(slots, moments)
        return found

    def hand(self, slot: Slot) -> None:
        """A slot is handed to its lane, which it leaves with an output."""
        with self._lock:
            self._handed[slot] = None

    def due(self, slot: Slot) -> int:
        """When the rows of one slot that was handed over are there, whatever was printed, in it and in those that end before it; 0 if
        that is past. As many slots are looked at as wait to be read, which the timetable bounds."""
        with self._lock:
            order, found, now = sorted(self._handed, key=_order), 0, time.monotonic_ns()
            for one, moment in zip(order, schedule(((one.place.end, one.job.reading) for one in order), self._handed_before), strict=True):
                if one is slot:
                    found = moment
                if moment <= now:
                    del self._handed[one]
                    self._handed_before = moment
        return found

    def _forget(self, slots: Sequence[Slot], moments: Sequence[int]) -> None:
        """Those that have been read by now, once they are the most of all."""
        past = bisect_right(moments, time.monotonic_ns())
        if 2 * past > len(slots):
            gone = set(slots[:past])
            with self._lock:
                self._slots = [slot for slot in self._slots if slot not in gone]
                self._before = max(self._before, moments[past - 1])


def _order(slot: Slot) -> tuple[int, int]:
    """In which outputs are read, by the timetable."""
    return slot.place.end, slot.place.lane


class Readings:
    """The reader as the engine has it; one output at a time. It is replaced when it has died."""

    def __init__(self, segments: Path) -> None:
        self._segments = segments
        self._lock = threading.Lock()
        self._sock, self._process = self._start()

    def read(self, cell: Cell, table: Table, printed: Printed | None) -> bool:
        """Have what was printed read and kept; None if the run went wrong. True if it became defaults, which only a counter for the owner
        learns; nothing else here depends on what it was."""
        output = Output(cell.offset, cell.size, table.untrusted, table.max_rows, 0 if printed is None else printed.size,
                        parsing_time(table), keeping_time(table), 3 * reading_time(table) // 4)
        with self._lock:
            with suppress(OSError):
                segment = cell.open(self._segments)
                try:
                    hand_over(self._sock, output, segment, None if printed is None else printed.fileno())
                finally:
                    os.close(segment)
                if (word := self._sock.recv(1)) in (DONE, FAILED):
                    return word == FAILED
            self._end()
            self._sock, self._process = self._start()
        raise SandboxFailed("the reader of programs' output ended", hint="The operator finds the cause in the engine's log.")

    def close(self) -> None:
        with self._lock:
            self._end()

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            process = subprocess.Popen([sys.executable, "-P", "-m", "privid.engine.reader", "--control", str(theirs.fileno())],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaints(),
                                       pass_fds=(theirs.fileno(),), cwd="/", env=os.environ | STEADY, start_new_session=True)
        finally:
            theirs.close()
        with suppress(OSError):
            ours.recv(1)  # that it is there: the first output waits no longer than others
        return ours, process

    def _end(self) -> None:
        """At the end of its socket it ends."""
        self._sock.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
            return
        self._process.kill()
        self._process.wait()
