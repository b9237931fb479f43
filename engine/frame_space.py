"""Room for decoded frames, taken before a release is charged, by public sizes alone: what has its place cannot lack it later, so that
whether frames fit depends on no picture, of whatever job."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

from privid.errors import EngineUnavailable

__all__ = ["FrameSpace", "Held"]


class FrameSpace:
    """Bytes of the engine's place in memory, for all jobs together; a role has half of them at most."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.most = capacity // 2
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    @classmethod
    def within(cls, scratch: Path) -> FrameSpace:
        """Of what is free before there is any job, not all: programs and runtimes that come later need room, too."""
        state = os.statvfs(scratch)
        return cls(state.f_bavail * state.f_frsize // 4 * 3)

    def take(self, role: str, size: int) -> Held:
        """Refused, before anything is charged, if so much is not left."""
        with self._lock:
            left = min(self.most - self._held[role], self._capacity - self._held.total())
            if size <= left:
                self._held[role] += size
                return Held(self, role, size)
        raise EngineUnavailable(f"decoded frames of this release take {size >> 20} MB of memory, and {max(0, left) >> 20} MB are left",
                                detail="So much is taken for each table that is read, whatever its frames show.",
                                hint="Choose a shorter chunk, or wait until other releases are answered.")

    def give_back(self, role: str, size: int) -> None:
        with self._lock:
            self._held[role] -= size
            if not self._held[role]:
                del self._held[role]


class Held:
    """What one job has; given back once."""

    def __init__(self, space: FrameSpace, role: str, size: int) -> None:
        self._space: FrameSpace | None = space
        self._role, self._size = role, size

    def end(self) -> None:
        space, self._space = self._space, None
        if space is not None:
            space.give_back(self._role, self._size)
