"""Begins and ends slots at their exact times: a process of its own beside each lane, which does nothing else.

Theory of operation. Some milliseconds before a slot, the lane sends the slot's times and descriptors of all that must be touched: the file
that lets the program go, the one that kills it, the list of its tasks, the one that says what they weigh, and files whose times are to be
those of the slot. The gate sits on the lane's core with a priority above every program. At the end of a slot it takes the program's weight
from it, kills, sends the dying to other cores (to free what a hostile program has piled up can take the kernel seconds), and stays on the
core, spinning, until the next slot begins. So a program always starts on a core that was busy with the same loop for as long as the guard,
no work that another program caused is left on it, and elsewhere that work weighs little.

    lane (one of its hands)                                            gate
    number, begin, end, word + [go, kill, tasks, weight, *stamped] ->
    STOP                                                           ->                      end it now
                                                                   <-  ENDED number time   killed, at the end or because of STOP; begun then
                                                                   <-  LATE number 0       not begun: handed over after its beginning
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from .cgroups import LITTLE

__all__ = ["ENDED", "LATE", "MESSAGE", "STOP", "TURN", "main"]

TURN = struct.Struct("<qqqc")  # its number, begin and end by time.monotonic_ns(), and the word
MESSAGE = struct.Struct("<cqq")  # what, the number, when the program was let go (0 if it was not)
ENDED, LATE, STOP = b"e", b"l", b"x"
MOST_DESCRIPTORS = 16
#: Nanoseconds before a slot from which the gate spins, where the guard is longer: more than it takes a core to wake from its deepest sleep.
_SPIN = 3_000_000
#: Nanoseconds before a slot at which times of files are set: how long that takes, by some microseconds, is not to move the slot.
_STAMP = 300_000
#: Nanoseconds after its beginning at which a slot is not begun any more.
_TOO_LATE = 2_000_000
_PRIORITY = 20


@dataclass
class Turn:
    """A slot that was handed over."""

    hand: socket.socket
    number: int
    begin: int
    end: int
    word: bytes
    descriptors: list[int]
    started: int = 0

    def go(self) -> None:
        """Spin until the slot begins, then let its program go."""
        opener, _, _, _, *stamped = self.descriptors
        _spin(self.begin - _STAMP)
        for fd in stamped:
            os.utime(fd, (0, 0))
        _spin(self.begin)
        started = time.monotonic_ns()
        if started - self.begin > _TOO_LATE:
            self.tell(LATE)
            self.leave()
            return
        with contextlib.suppress(OSError):  # gone: the lane will see how
            os.write(opener, self.word)
        self.started = started

    def kill(self, elsewhere: frozenset[int], little: bytes) -> None:
        _, killer, tasks, weight, *_ = self.descriptors
        for fd, word in ((weight, little), (killer, b"1")):
            with contextlib.suppress(OSError):
                os.write(fd, word)
        self.tell(ENDED)  # at once: the lane must hear it before it hears that the program is gone
        with contextlib.suppress(OSError):
            for task in map(int, os.pread(tasks, 1 << 16, 0).split()):
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, task, LITTLE)
                    if elsewhere:
                        os.sched_setaffinity(task, elsewhere)
        self.leave()

    def leave(self) -> None:
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []

    def tell(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            self.hand.send(MESSAGE.pack(word, self.number, self.started))


def _spin(moment: int) -> None:
    while time.monotonic_ns() < moment:
        pass


class Gate:
    """One lane's slots. They do not overlap, so at most one runs; the next ones wait."""

    def __init__(self, hands: list[socket.socket], elsewhere: frozenset[int], little: bytes) -> None:
        self._hands = hands
        self._elsewhere, self._little = elsewhere, little
        self._running: Turn | None = None
        self._waiting: list[Turn] = []

    def serve(self) -> None:
        """Until no hand is left."""
        while self._hands:
            now = time.monotonic_ns()
            if self._running is not None:
                if now >= self._running.end:
                    self._running.kill(self._elsewhere, self._little)
                    self._running = None
                    continue
                self._listen(self._running.end - now)
            elif not self._waiting:
                self._listen(None)
            elif (left := self._waiting[0].begin - now) > _SPIN:
                self._listen(left - _SPIN)
            else:
                turn = self._waiting.pop(0)
                turn.go()
                if turn.descriptors:
                    self._running = turn

    def _listen(self, nanoseconds: int | None) -> None:
        ready, _, _ = select.select(self._hands, [], [], None if nanoseconds is None else nanoseconds / 1e9)
        for hand in ready:
            try:
                data, descriptors, _, _ = socket.recv_fds(hand, TURN.size, MOST_DESCRIPTORS)
            except OSError:
                data, descriptors = b"", []
            if len(data) == TURN.size:
                number, begin, end, word = TURN.unpack(data)
                self._waiting.append(Turn(hand, number, begin, end, word, descriptors))
                self._waiting.sort(key=lambda turn: turn.begin)
                continue
            self._stop(hand)
            if not data:
                hand.close()
                self._hands.remove(hand)

    def _stop(self, hand: socket.socket) -> None:
        for turn in [*self._waiting, *([] if self._running is None else [self._running])]:
            if turn.hand is hand:
                turn.kill(self._elsewhere, self._little)
        self._waiting = [turn for turn in self._waiting if turn.descriptors]
        if self._running is not None and not self._running.descriptors:
            self._running = None


def _low(descriptor: int) -> int:
    """Its number is that of a process that has thousands; select takes none above 1,023."""
    low = os.dup(descriptor)
    os.close(descriptor)
    return low


def main(arguments: list[str]) -> None:
    """Usage: gate CORES ELSEWHERE GROUPS LITTLE HAND... (cores as numbers with commas between them; hands as descriptors; GROUPS is what
    the paths of all groups of the lane begin with: what is left in them when the lane ends without a word is killed; LITTLE is what makes
    one weigh little)."""
    cores, elsewhere = (frozenset(int(core) for core in text.split(",") if core) for text in arguments[:2])
    hands = [socket.socket(fileno=_low(int(text))) for text in arguments[4:]]
    if cores:
        os.sched_setaffinity(0, cores)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    gc.disable()
    Gate(hands, elsewhere, arguments[3].encode()).serve()
    groups = Path(arguments[2])
    for group in groups.parent.glob(f"{groups.name}*"):
        with contextlib.suppress(OSError):
            (group / "cgroup.kill").write_text("1")


if __name__ == "__main__":
    main(sys.argv[1:])
