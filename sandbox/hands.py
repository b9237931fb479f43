"""The lane's side of its gate: one slot is handed over while another runs."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from privid.errors import SandboxFailed

from .gate import ENDED, LATE, MESSAGE, STOP, TURN

__all__ = ["HANDS", "Booked", "Hand", "Hands", "Late", "OwnHand", "Stop", "watch"]

#: Slots that a lane can be busy with: one runs, the next is prepared.
HANDS = 2
_NANO = 1_000_000_000
#: Seconds after a slot's end at which its gate must have answered, on a machine that is overloaded.
_PATIENCE = 5.0


class Late(Exception):
    """The run was ready only after its slot had begun, and was not started; nothing of it has happened."""


class Stop:
    """Ends a run from another thread, or keeps it from starting; set once, it stays set. With `early` the slot ends with its program, which
    is for one's own video only: how long a program takes depends on what it sees."""

    def __init__(self, early: bool = False) -> None:
        self.early = early
        self._abandoned = threading.Event()
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        os.eventfd_write(self._fd, 1)

    def abandon(self) -> None:
        """The engine ends, and nobody sees any more when a lane is free: the slot ends, too."""
        self.early = True
        self._abandoned.set()
        self.set()

    def wait(self, until: float) -> None:
        """For the end of a slot whose program has been ended."""
        self._abandoned.wait(max(0.0, until - time.monotonic()))

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)


@dataclass(frozen=True)
class Booked:
    """What must be touched when a slot begins and ends."""

    word: bytes
    go: int
    kill: int
    tasks: int
    weight: int  # the file that says what its processes weigh
    stamped: Sequence[int]  # files whose times must tell nothing but the slot


class Hand:
    """Books one slot after another, and hears when they have ended."""

    #: whether everything is killed at the end of a slot without our doing
    kills = True

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self.started = 0.0
        self.over = False
        self.end = 0.0
        self.deadline = 0.0  # when the gate must have said that the slot is over
        self._number = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def book(self, begin: float, end: float, booked: Booked) -> None:
        """Ask for a slot."""
        self.started, self.over, self.end, self.deadline = 0.0, False, end, end + _PATIENCE
        self._number += 1
        turn = TURN.pack(self._number, round(begin * _NANO), round(end * _NANO), booked.word)
        try:
            socket.send_fds(self._socket, [turn], [booked.go, booked.kill, booked.tasks, booked.weight, *booked.stamped])
        except OSError:
            raise _broken() from None

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(STOP)

    def hear(self) -> None:
        """Take what the gate says; call it when the descriptor is readable. Raises Late."""
        try:
            data = self._socket.recv(MESSAGE.size)
        except OSError:
            data = b""
        if len(data) != MESSAGE.size:
            raise _broken()
        word, number, started = MESSAGE.unpack(data)
        if number != self._number:  # of a slot that was given up
            return
        self.started, self.over = started / _NANO, True
        if word == LATE:
            raise Late
        assert word == ENDED

    def first(self, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """What was found readable, the gate's word before all else: it says whether the program ended or was ended."""
        own = self.fileno()
        return sorted(found, key=lambda pair: pair[0] != own) if len(found) > 1 else found

    def finish(self) -> None:
        """Wait for the end of the slot."""
        poll = watch(self.fileno())
        while not self.over:
            if not poll.poll(1000 * max(0.0, self.deadline - time.monotonic())):
                raise _broken()
            self.hear()

    def close(self) -> None:
        self._socket.close()


class OwnHand:
    """Where there can be no gate, the lane's thread begins slots itself, as well as it can, and kills at their end."""

    kills = False

    def __init__(self) -> None:
        self.started = self.end = self.deadline = 0.0

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.deadline

    def fileno(self) -> int:
        return -1

    def book(self, begin: float, end: float, booked: Booked) -> None:
        self.end = self.deadline = end
        _sleep_until(begin)
        for fd in booked.stamped:
            os.utime(fd, (0, 0))
        self.started = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # gone: the run will see how
            os.write(booked.go, booked.word)

    def stop(self) -> None:
        self.deadline = 0.0

    def hear(self) -> None:
        raise AssertionError("it has no descriptor that could be readable")

    def first(self, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return found

    def finish(self) -> None:
        _sleep_until(self.deadline)


def _sleep_until(moment: float) -> None:
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left)


def watch(*fds: int) -> select.poll:
    """Waits for any of these descriptors to be readable; -1 stands for one that there is not."""
    poll = select.poll()
    for fd in fds:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    return poll


class Hands:
    """A gate and the hands that use it. The gate ends when they are closed, or this process ends."""

    def __init__(self, cores: frozenset[int] | None, elsewhere: frozenset[int] | None, groups: Path, little: str) -> None:
        self._groups = groups  # what the paths of the lane's groups begin with
        self._little = little  # what makes one weigh little
        self._cores, self._elsewhere = cores or frozenset(), elsewhere or frozenset()
        self._making = threading.Lock()
        self._free: queue.SimpleQueue[Hand] = queue.SimpleQueue()
        self._all: list[Hand] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._open()

    def _open(self) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(HANDS)]
        theirs = [pair[1] for pair in pairs]
        places = [",".join(map(str, sorted(group))) for group in (self._cores, self._elsewhere)]
        command = [sys.executable, "-I", "-m", "privid.sandbox.gate", *places, str(self._groups), self._little]
        self._process = subprocess.Popen([*command, *(str(s.fileno()) for s in theirs)],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", env={},
                                         pass_fds=[s.fileno() for s in theirs], start_new_session=True)
        for end in theirs:
            end.close()
        self._all = [Hand(pair[0]) for pair in pairs]
        for hand in self._all:
            self._free.put(hand)

    @contextmanager
    def take(self) -> Iterator[Hand]:
        """A hand for one run; waits for one that is free."""
        hand = self._free.get()
        try:
            yield hand
            self._free.put(hand)
        except (SandboxFailed, OSError):
            self._mend(hand)
            raise
        except BaseException:
            self._free.put(hand)
            raise

    def _mend(self, hand: Hand) -> None:
        """A gate that has ended is started again; one that answers is kept."""
        with self._making:
            if self._process is None or self._process.poll() is None:
                self._free.put(hand)
                return
            if hand in self._all:
                for old in self._all:
                    old.close()
                while not self._free.empty():
                    self._free.get()
                self._open()

    def close(self) -> None:
        with self._making:
            for hand in self._all:
                hand.close()
            if self._process is not None:
                self._process.wait()
                self._process = None


def _broken() -> SandboxFailed:
    return SandboxFailed("the process that begins and ends the slots of a lane does not answer")
