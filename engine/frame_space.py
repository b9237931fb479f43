"""Room for decoded frames and programs, taken before a release is charged, by public sizes alone: what has its place cannot lack it later,
so that whether frames fit depends on no picture, of whatever job, and on no program that comes after it."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from privid.errors import EngineUnavailable
from privid.model import Executable

from .copies import Copy, size_of

__all__ = ["FrameSpace", "Held"]

_HINT = "Choose a shorter chunk or smaller files, or wait until other releases are answered."


class FrameSpace:
    """Bytes of the engine's place in memory, for all jobs together; a role has half of them at most. Programs of a role, with the files
    attached to them, are there once for all of its jobs, and counted once."""

    def __init__(self, capacity: int, scratch: Path) -> None:
        self._capacity, self._scratch = capacity, scratch
        self.most = capacity // 2
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._copies: dict[tuple[str, str], Copy] = {}
        self._users: Counter[tuple[str, str]] = Counter()

    @classmethod
    def within(cls, scratch: Path) -> FrameSpace:
        """Of what is free before there is any job, not all: runtimes that come later need room, too."""
        state = os.statvfs(scratch)
        return cls(state.f_bavail * state.f_frsize // 4 * 3, scratch)

    def take(self, role: str, frames: int, executable: Executable) -> Held:
        """Refused, before anything is charged, if so much is not left."""
        key = role, executable.sha256
        with self._lock:
            program = 0 if key in self._copies else size_of(executable)
            left = min(self.most - self._held[role], self._capacity - self._held.total())
            if frames + program <= left:
                self._held[role] += frames + program
                self._users[key] += 1
                return Held(self, role, frames, executable, self._copies.setdefault(key, Copy(self._scratch)))
        raise EngineUnavailable(f"decoded frames and the program of this release take {frames + program >> 20} MB of memory, "
                                f"and {max(0, left) >> 20} MB are left",
                                detail="So much is taken for each table that is read, whatever its frames show.", hint=_HINT)

    def advice(self, frames: int, executables: Sequence[Executable]) -> list[str]:
        """For EXPLAIN: that a release over several tables would take more than a role can have."""
        needed = frames + sum({one.sha256: size_of(one) for one in executables}.values())
        return [] if needed <= self.most else [
            f"A release would be refused: decoded frames and programs take {needed >> 20} MB of memory, and a role can have "
            f"{self.most >> 20} MB. Choose a shorter chunk or smaller files."]

    def give_back(self, role: str, frames: int, executable: Executable) -> None:
        key = role, executable.sha256
        with self._lock:
            self._held[role] -= frames
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                self._copies.pop(key).clear()  # before others have its space
                self._held[role] -= size_of(executable)
            if not self._held[role]:
                del self._held[role]


class Held:
    """What one job has; given back once."""

    def __init__(self, space: FrameSpace, role: str, frames: int, executable: Executable, copy: Copy) -> None:
        self._space: FrameSpace | None = space
        self._role, self._frames, self._executable = role, frames, executable
        self.copy = copy

    def end(self) -> None:
        space, self._space = self._space, None
        if space is not None:
            space.give_back(self._role, self._frames, self._executable)
