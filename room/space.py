"""What is left of the machine for an inner query: that one fails for want of it would show what the rows are.

The room shares disk and memory with whoever else is on the machine, the served database among them. So before a release is charged,
and again before its query begins, twice what it can need must be free.

Whether that is so is told, and what is free depends on rows too, and on what programs do: so it is asked of a gauge that looks at nothing
while any program runs, its output is read, or anything is computed. Kept rows take the same space whatever they are (engine/kept.py).
And what is needed counts in powers of four.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["RESERVE", "Gauge", "free_disk", "free_memory", "is_enough", "rounded", "total_memory"]

#: bytes that are kept free in any case
RESERVE = 64 << 20


def free_disk(directory: int | Path) -> int:
    """Bytes that the room can still write."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def free_memory() -> int:
    """Bytes that processes can still have without anything being swapped."""
    return _memory("MemAvailable:")


def total_memory() -> int:
    """Bytes that the machine has."""
    return _memory("MemTotal:")


def _memory(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    return 0


def rounded(needed: int) -> int:
    """Up to a power of four, from 16 MB on.

    >>> rounded(0), rounded(1) >> 20, rounded(16 << 20) >> 20, rounded(17 << 20) >> 20
    (0, 16, 16, 64)
    """
    found = 16 << 20
    while found < needed:
        found *= 4
    return found if needed else 0


class Gauge:
    """What is free, as far as it does not depend on rows. Used by many threads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._known: tuple[int, int] | None = None
        #: bytes of memory that are free, whatever programs do with theirs
        self.memory: Callable[[], int] = free_memory
        #: when something was last computed, in seconds of the monotonic clock
        self.busy_until: Callable[[], float] = lambda: 0.0

    def free(self) -> tuple[int, int]:
        """Bytes of disk and of memory."""
        with self._lock:
            if self._known is None or time.monotonic() > self.busy_until() + 1:
                self._known = free_disk(self._directory), self.memory()
            return self._known


def is_enough(free: int, needed: int) -> bool:
    """
    >>> is_enough(1 << 30, 100 << 20), is_enough(100 << 20, 30 << 20), is_enough(0, 0)
    (True, False, True)
    """
    return needed == 0 or free >= 2 * needed + RESERVE
