"""One warm run: a frozen child of a brood gets its chunk, is thawed for its slot, and killed at the end of it."""

# ruff: noqa: PTH123 (hundreds of files in /proc are looked at before a slot; plain strings are faster)

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from privid.errors import SandboxFailed

from .brood import Brood
from .child import Child
from .chunk import CHUNK_FILE, FRAMES_FILE
from .hands import Booked, Hand, OwnHand, Stop
from .printed import Printed
from .run import Limits, Outcome, RunResult, follow

__all__ = ["WarmRun"]

_GLANCE = 0.0003
_MOMENT = 1.0
_PF_EXITING = 0x4


class WarmRun:
    """The counterpart of Run for a child that exists already."""

    def __init__(self, brood: Brood, child: Child, chunk: Path, limits: Limits) -> None:
        self._brood = brood
        self._child = child
        self._limits = limits
        self._over = 0.0  # when the program had ended
        child.open_output()
        for name in (FRAMES_FILE, CHUNK_FILE):
            os.link(chunk / name, child.box / name)

    def book(self, hand: Hand | OwnHand, begin: float, end: float) -> None:
        """Have the child thawed when its slot begins."""
        child = self._child
        with contextlib.ExitStack() as opened:
            def use(path: str, mode: int, directory: int | None = None) -> int:
                fd = os.open(path, mode | os.O_CLOEXEC, dir_fd=directory)
                opened.callback(os.close, fd)
                return fd

            thaw = use(f"{child.group.stroke}/cgroup.freeze", os.O_WRONLY)
            stamped = [use(f"{child.box}{name}", os.O_RDONLY) for name in ("", f"/{CHUNK_FILE}", f"/{FRAMES_FILE}")]
            stamped += [use(".", os.O_RDONLY, child.tmpfs), child.output, child.errors]
            hand.book(begin, end, Booked(b"0", thaw, *child.group.open_stroke(opened, child.seen.pid), stamped))

    def collect(self, hand: Hand | OwnHand, stop: Stop | None) -> Outcome:
        """Wait until the program ends, or its time is over."""
        def judge() -> Outcome | None:
            status = self._status(over=hand.over)
            return None if status is None else self._ended(status, hand)

        watched = {self._brood.control.fileno(): self._listen}
        with contextlib.ExitStack() as opened:
            with contextlib.suppress(ProcessLookupError):  # gone already
                pidfd = os.pidfd_open(self._child.seen.pid)
                opened.callback(os.close, pidfd)
                watched[pidfd] = self._see_end
            outcome = follow(hand, stop, watched, judge)
        if outcome is not Outcome.OK or not self._over:
            self._over = time.monotonic()
        if not hand.kills:
            self.kill()
        if outcome is None:
            return Outcome.FLOODED if self._flooded() else Outcome.TIMED_OUT
        return outcome

    def kill(self) -> None:
        self._child.group.kill()

    def result(self, outcome: Outcome, started: float) -> RunResult:
        size = os.fstat(self._child.errors).st_size
        tail = os.pread(self._child.errors, self._limits.stderr, max(0, size - self._limits.stderr))
        return RunResult(outcome, Printed(self._child.output) if outcome is Outcome.OK else None, tail, started, self._over,
                         warm=True)

    def _status(self, *, over: bool) -> int | None:
        """How the program ended, or None while it runs. Process 1 tells it when everything of the child is gone; that takes a few
        milliseconds longer than the end of the program, which may be that of its slot."""
        told = self._told()
        if told is not None or not over:
            return told
        try:
            with open(f"/proc/{self._child.seen.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b") ")[2].split()
            return int(fields[49]) if int(fields[6]) & _PF_EXITING else None
        except OSError:  # buried: process 1 has told it, or is about to
            patience = time.monotonic() + _MOMENT
            while self._brood.listen() and (told := self._told()) is None and time.monotonic() < patience:
                time.sleep(_GLANCE)
            return told

    def _told(self) -> int | None:
        return self._brood.ended.pop(self._child.seen.inner_pid, None)

    def _ended(self, status: int, hand: Hand | OwnHand) -> Outcome:
        if self._flooded():
            return Outcome.FLOODED
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL and time.monotonic() >= hand.end:
            return Outcome.TIMED_OUT
        return Outcome.OK if code == 0 else Outcome.CRASHED

    def _flooded(self) -> bool:
        return os.fstat(self._child.output).st_size > self._limits.stdout

    def _listen(self) -> bool:
        if not self._brood.listen():
            raise SandboxFailed("the process that warm children belong to is gone")
        return True

    def _see_end(self) -> bool:
        self._over = time.monotonic()
        return False
