"""A lane: runs one program after another, each for exactly its slot."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from privid.errors import SandboxFailed

from . import filter as system_calls
from .cgroups import Hierarchy, find_hierarchy
from .chunk import CHUNK_FILE, FRAMES_FILE
from .executable import Kind
from .root import make_root, remove_tree
from .run import Limits, Outcome, Run, RunResult
from .runtime import Runtime

__all__ = ["BASE_UID", "GUARD", "MIN_SLOT", "SANDBOX_GID", "Lane", "Limits", "Outcome", "RunResult"]

#: Seconds that the timetable leaves between the end of one slot and the beginning of the next in the same lane. In it the next sandbox is
#: set up (10 to 20 ms, twice that under load) and what was killed at the end of the slot goes away (a fork bomb: up to 70 ms).
#: It is part of the timetable, which is public; how much of it is needed is not waited for, so that no run can move the next one's start.
GUARD = 0.1
#: Shorter slots (seconds) would be all start and no program.
MIN_SLOT = 0.05

#: Run by root, lane i has a user of its own, so that not even per-user limits are shared between lanes.
BASE_UID = 64100
#: All lanes have this group; it owns the scratch directory, into which no other user can look.
SANDBOX_GID = 64099


class Lane:
    """Everything a run reads (executable, chunk directory) must be readable by the lane; below `scratch` what is readable by all is.

    `scratch` should be in RAM and allow execution. `cores` pins the lane's programs to processors of their own.
    """

    def __init__(self, index: int, *, runtime: Runtime, limits: Limits | None = None, scratch: Path,
                 cores: frozenset[int] | None = None) -> None:
        self.index = index
        self.limits = limits or Limits()
        self.uid, self.gid = (BASE_UID + index, SANDBOX_GID) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
        self._as_root = os.geteuid() == 0
        self._cores = cores
        self._runs = 0
        self._busy = threading.Lock()
        self._cancel = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._hierarchy: Hierarchy | None = find_hierarchy()
        if self._hierarchy is not None:
            self._hierarchy.sweep()
        self._open_scratch(scratch)
        self._directory = scratch / f"lane-{index}"
        remove_tree(self._directory)
        self._directory.mkdir(mode=0o755)
        self._directory.chmod(0o755)
        self._root = self._directory / "root"
        make_root(runtime, self._root)
        self._filter = self._directory / "filter"
        self._filter.write_bytes(system_calls.export())
        self._dead: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._undertaker = threading.Thread(target=self._bury, name=f"lane-{index}-undertaker", daemon=True)
        self._undertaker.start()

    def run(self, executable: Path, kind: Kind, chunk_dir: Path, begin: float, end: float) -> RunResult:
        """Run a program on a chunk from begin to end (time.monotonic()), and return at end, whatever the program does.

        Call it up to GUARD before begin; the sandbox is set up meanwhile. Raises SandboxFailed, possibly earlier than end, if the
        sandbox itself did not work.
        """
        with self._busy:
            self._forget_cancel()  # one that was meant for the run before
            mapped = self._check_readable(executable, kind, chunk_dir)
            self._runs += 1
            name = f"{os.getpid()}-{self.index}-{self._runs}"
            run = self._start(name, executable, kind, chunk_dir, cpu_seconds=end - begin, mapped=mapped)
            try:
                run.prepare(end, self._cores)
                _sleep_until(begin)
                _stamp(executable, chunk_dir)
                started = time.monotonic()
                run.open_gate()
                outcome = run.collect(end, self._cancel)
                result = run.result(outcome, started)
                if outcome is not Outcome.CANCELLED:
                    _sleep_until(end)
                return result
            finally:
                run.kill()
                self._dead.put(run)

    def cancel(self) -> None:
        """End the run under way, if any, at once; its result is Outcome.CANCELLED. Callable from any thread."""
        if self._busy.locked():
            os.eventfd_write(self._cancel, 1)

    def _forget_cancel(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._cancel)

    def close(self) -> None:
        """Wait until every run is buried, and leave nothing behind."""
        with self._busy:
            if self._undertaker.is_alive():
                self._dead.put(None)
                self._undertaker.join()
                os.close(self._cancel)
                remove_tree(self._directory)
                if self._hierarchy is not None:
                    self._hierarchy.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _start(self, name: str, executable: Path, kind: Kind, chunk_dir: Path, *, cpu_seconds: float, mapped: int) -> Run:
        group = None
        try:
            if self._hierarchy is not None:
                group = self._hierarchy.create(name, memory=self.limits.memory, processes=self.limits.processes)
            return Run(directory=self._directory, name=name, root=self._root, filter_file=self._filter, executable=executable, kind=kind,
                       chunk=chunk_dir, limits=self.limits, cpu_seconds=cpu_seconds, mapped=mapped, group=group,
                        user=(self.uid, self.gid) if self._as_root else None)
        except (OSError, SandboxFailed) as error:
            if group is not None:
                group.remove(patience=0)
            if isinstance(error, SandboxFailed):
                raise
            raise SandboxFailed(f"could not set up the sandbox: {error.strerror}") from None

    def _bury(self) -> None:
        while (run := self._dead.get()) is not None:
            run.bury()

    def _open_scratch(self, scratch: Path) -> None:
        """Let lanes, and nobody else, look into the scratch directory."""
        scratch.mkdir(parents=True, exist_ok=True)
        if not self._as_root:
            scratch.chmod(0o700)
            return
        os.chown(scratch, 0, SANDBOX_GID)
        scratch.chmod(0o710)
        for parent in scratch.resolve().parents:
            if not parent.stat().st_mode & 0o001:
                raise SandboxFailed(f"scratch directory {scratch} cannot be reached by lanes",
                                    detail=f"Directory {parent} is closed to other users.", hint="Choose a directory below /dev/shm.")

    def _check_readable(self, executable: Path, kind: Kind, chunk_dir: Path) -> int:
        """Refuse what the program could not read, for that would look like the program's own fault; the size of the frames."""
        needed = {executable: 0o5 if kind is Kind.PROGRAM else 0o4, chunk_dir: 0o5, chunk_dir / CHUNK_FILE: 0o4,
                  chunk_dir / FRAMES_FILE: 0o4}
        try:
            found = {path: path.stat() for path in needed}
        except OSError as error:
            raise SandboxFailed(f"could not read {error.filename}: {error.strerror}") from None
        for path, bits in needed.items():
            mode, group = found[path].st_mode, found[path].st_gid
            allowed = mode & bits == bits or (group == self.gid and mode >> 3 & bits == bits)
            if not (allowed if self._as_root else os.access(path, bits)):
                raise SandboxFailed(f"{path} is not readable by lanes", hint="Give it mode 0644, a directory or program 0755.")
        return found[chunk_dir / FRAMES_FILE].st_size


def _stamp(executable: Path, chunk_dir: Path) -> None:
    """Make file times say when the slot began and nothing else: how long decoding took depends on what other frames show."""
    for path in (executable, chunk_dir, chunk_dir / CHUNK_FILE, chunk_dir / FRAMES_FILE):
        os.utime(path, (0, 0))


def _sleep_until(moment: float) -> None:
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left)
