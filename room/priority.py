"""The scheduler's priority of processes: of a process, and of its session where the scheduler shares by session first."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["PUBLIC", "QUICK", "SLOW", "priority_of", "set_priority", "set_share"]

#: Quick releases first, and all that their rows pass through; then the engine and slow releases; then what anybody can ask for, and often,
#: like the sessions of analysts. Not more than that: a computation keeps its core busy for its whole time.
QUICK, SLOW, PUBLIC = -10, -5, 0


def set_priority(pid: int, priority: int) -> None:
    """Of a process (0: this one) and its session. Does what the engine is allowed to do; privid doctor tells when that is nothing."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, priority)
    set_share(pid, priority)


def set_share(pid: int, priority: int) -> None:
    """Of its session alone: what it starts in a session of its own has none of it."""
    with suppress(OSError):
        _session(pid).write_text(str(priority))


def priority_of(pid: int) -> int:
    """What counts against others: that of its session where the scheduler shares by session first."""
    with suppress(OSError, ValueError):
        if Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1":
            return int(_session(pid).read_text().split()[-1])
    return os.getpriority(os.PRIO_PROCESS, pid)


def _session(pid: int) -> Path:
    return Path("/proc") / (str(pid) if pid else "self") / "autogroup"
