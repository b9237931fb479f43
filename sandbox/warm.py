"""One warm run: a frozen child of a brood gets its chunk, is thawed for its slot, and killed at the end of it."""

# ruff: noqa: PTH123 (hundreds of files in /proc are looked at before a slot; plain strings are faster)

from __future__ import annotations

import contextlib
import math
import os
import selectors
import time
from pathlib import Path

from .brood import Brood, Child
from .chunk import CHUNK_FILE, FRAMES_FILE
from .run import Limits, Outcome, RunResult, uncopied

__all__ = ["WarmRun"]

_MIB = 1 << 20
_GLANCE = 0.0003
_PF_EXITING = 0x4


class WarmRun:
    """The counterpart of Run for a child that exists already."""

    def __init__(self, brood: Brood, child: Child, chunk: Path, limits: Limits) -> None:
        self._brood = brood
        self._child = child
        self._limits = limits
        self._stdout = bytearray()
        child.open()
        for name in (FRAMES_FILE, CHUNK_FILE):
            os.link(chunk / name, child.box / name)

    @property
    def box(self) -> Path:
        return self._child.box

    def start(self) -> None:
        os.write(self._child.thaw, b"0")

    def collect(self, end: float, cancel_fd: int) -> Outcome:
        """Read what the program prints until it ends, floods, or its time is over; then kill what is left of it."""
        child, brood = self._child, self._brood
        outcome: Outcome | None = None
        pause = math.inf  # between looks at a program that has closed its output
        with selectors.PollSelector() as selector:
            for fd in (child.output, brood.control.fileno(), cancel_fd):
                selector.register(fd, selectors.EVENT_READ)
            while outcome is None and (left := end - time.monotonic()) > 0:
                for key, _ in selector.select(min(left, pause)):
                    if key.fd == cancel_fd:
                        outcome = Outcome.CANCELLED
                    elif key.fd == child.output:
                        if not self._read():
                            selector.unregister(child.output)
                            pause = _GLANCE
                    elif brood.listen() is None:
                        outcome = Outcome.CRASHED  # process 1 is gone, and with it the child
                if len(self._stdout) > self._limits.stdout:
                    outcome = Outcome.FLOODED
                elif outcome is None and (status := self._status(closed=pause < math.inf)) is not None:
                    outcome = self._ended(status)
        self.kill()
        return Outcome.TIMED_OUT if outcome is None else outcome

    def kill(self) -> None:
        if self._child.kill >= 0:
            with contextlib.suppress(OSError):
                os.write(self._child.kill, b"1")

    def result(self, outcome: Outcome, started: float) -> RunResult:
        ended = time.monotonic()
        size = os.fstat(self._child.errors).st_size
        tail = os.pread(self._child.errors, self._limits.stderr, max(0, size - self._limits.stderr))
        return RunResult(outcome, uncopied(self._stdout) if outcome is Outcome.OK else b"", tail, started, ended)

    def bury(self) -> None:
        """Free what the run held; what it pinned stays until its whole brood is closed."""
        self.kill()
        for name in (FRAMES_FILE, CHUNK_FILE):
            (self._child.box / name).unlink(missing_ok=True)
        self._child.close()
        self._child.group.remove(patience=10)

    def _status(self, *, closed: bool) -> int | None:
        """How the program ended, or None while it runs. Process 1 tells it when everything of the child is gone; that takes a few
        milliseconds longer than the end of the program, which is to be seen as soon as it has closed its output."""
        told = self._brood.ended.pop(self._child.seen.inner_pid, None)
        if told is not None or not closed:
            return told
        try:
            with open(f"/proc/{self._child.seen.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b") ")[2].split()
        except OSError:
            return None  # process 1 will tell
        return int(fields[49]) if int(fields[6]) & _PF_EXITING else None

    def _ended(self, status: int) -> Outcome:
        while len(self._stdout) <= self._limits.stdout and self._read():
            pass
        if len(self._stdout) > self._limits.stdout:
            return Outcome.FLOODED
        return Outcome.OK if os.waitstatus_to_exitcode(status) == 0 else Outcome.CRASHED

    def _read(self) -> bool:
        try:
            data = os.read(self._child.output, _MIB)
        except BlockingIOError:
            return False
        self._stdout += data
        return bool(data)
