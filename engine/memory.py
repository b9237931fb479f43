"""Memory that is left beside programs, whatever they do with theirs, and beside computations, whatever they really need."""

from __future__ import annotations

import threading

from privid.places import Places
from privid.room.space import free_memory, is_enough, total_memory
from privid.sandbox.cgroups import find_hierarchy

__all__ = ["STEADY", "Beside", "Ration", "judging", "needed_for", "reserved"]

#: the environment of processes that live long and hold rows for a while: what they have let go is free at once, however much it was
STEADY = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "2"}


#: all requests that are judged at a time have so much of the engine, or this part of a small machine; no role has more than half of it
JUDGING, _PART = 1 << 30, 8
#: what one takes: something whatever it is, and so many bytes for each of the message (rows of public tables were seen to take 13, and what
#: is short takes more)
_LEAST, _FACTOR = 4 << 20, 30
_PATIENCE = 30.0


def judging() -> Places:
    most = min(JUDGING, total_memory() // _PART)
    return Places(most, most // 2, "engine is busy with other statements", _PATIENCE)


def needed_for(length: int) -> int:
    """Bytes with which a request that has so many is judged, by its public size alone."""
    return _LEAST + _FACTOR * length


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
    """Disk and memory for computations that run at the same time, each counted with what it can need at most: what they really take follows
    from rows. Used by many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken: list[tuple[int, int]] = []

    def take(self, needed: tuple[int, int], free: tuple[int, int]) -> bool:
        """Waits until there is enough beside those that run, of what was free without them; False if there would not be, even so. Bytes of
        disk and of memory."""
        with self._changed:
            while not self._fits(needed, free):
                if not self._taken:
                    return False
                self._changed.wait()
            self._taken.append(needed)
            return True

    def give_back(self, needed: tuple[int, int]) -> None:
        with self._changed:
            self._taken.remove(needed)
            self._changed.notify_all()

    def _fits(self, needed: tuple[int, int], free: tuple[int, int]) -> bool:
        others = (sum(column) for column in zip((0, 0), *self._taken, strict=True))
        return all(is_enough(known - 2 * taken, wanted) for known, taken, wanted in zip(free, others, needed, strict=True))
