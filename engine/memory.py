"""Memory that is left beside programs, whatever they do with theirs."""

from __future__ import annotations

from privid.room.space import free_memory, total_memory
from privid.sandbox.cgroups import find_hierarchy

__all__ = ["Beside", "reserved"]


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
