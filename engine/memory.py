"""Memory that is left beside programs, whatever they do with theirs, and beside computations, whatever they really need."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from privid.room.space import free_memory, is_enough, total_memory
from privid.sandbox.cgroups import find_hierarchy

__all__ = ["Beside", "Ration", "reserved"]

#: seconds after a computation until what it had is free again
_SETTLED = 1.0


def reserved(bound: int) -> int:
    """What is set aside for programs that can take so much at most: that, but not more than half of the machine, so that small ones can
    answer too; what they lose by it, docs/limitations.md says."""
    return min(bound, total_memory() // 2)


class Beside:
    """Counts what programs have, and have left behind, as free, and takes away what is set aside for them. Only control groups tell the
    first; where there are none, what is free is what is free."""

    def __init__(self, reserve: int) -> None:
        self._reserve, self._hierarchy = reserve, find_hierarchy()

    def free(self) -> int:
        """Bytes."""
        if self._hierarchy is None:
            return free_memory()
        used = self._hierarchy.used()  # first: what is added meanwhile is missing then, rather than there twice
        return used + free_memory() - self._reserve


class Ration:
    """Disk and memory for computations that run at the same time, each counted with what it can need at most: what is free is looked at
    only while none runs, because what they really take follows from rows. Used by many threads."""

    def __init__(self, free: Callable[[], tuple[int, int]]) -> None:
        self._free = free  # bytes of disk and of memory
        self._changed = threading.Condition()
        self._known: tuple[int, int] | None = None
        self._taken: list[tuple[int, int]] = []
        self._ended = 0.0  # when the last has ended

    def take(self, needed: tuple[int, int]) -> bool:
        """Waits until there is enough beside those that run; False if there would not be, even without them."""
        with self._changed:
            while True:
                if self._known is None or (not self._taken and time.monotonic() > self._ended + _SETTLED):
                    self._known = self._free()
                if self._fits(needed):
                    self._taken.append(needed)
                    return True
                if not self._taken:
                    return False
                self._changed.wait()

    def give_back(self, needed: tuple[int, int]) -> None:
        with self._changed:
            self._taken.remove(needed)
            self._ended = time.monotonic()
            self._changed.notify_all()

    def _fits(self, needed: tuple[int, int]) -> bool:
        assert self._known is not None
        others = (sum(column) for column in zip((0, 0), *self._taken, strict=True))
        return all(is_enough(known - 2 * taken, wanted) for known, taken, wanted in zip(self._known, others, needed, strict=True))
