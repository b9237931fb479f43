"""What is left of the machine for an inner query: that one fails for want of it would show what the rows are.

The room shares disk and memory with whoever else is on the machine, the served database among them. So before a release is charged,
and again before its query begins, twice what it can need must be free.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["RESERVE", "free_disk", "free_memory", "is_enough"]

#: bytes that are kept free in any case
RESERVE = 64 << 20


def free_disk(directory: int | Path) -> int:
    """Bytes that the room can still write."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def free_memory() -> int:
    """Bytes that processes can still have without anything being swapped."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def is_enough(free: int, needed: int) -> bool:
    """
    >>> is_enough(1 << 30, 100 << 20), is_enough(100 << 20, 30 << 20), is_enough(0, 0)
    (True, False, True)
    """
    return needed == 0 or free >= 2 * needed + RESERVE
