"""The scheduler's priority of processes: of a process, and of its session where the scheduler shares by session first."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["PUBLIC", "QUICK", "SLOW", "set_priority"]

#: quick releases first, slow ones after them, and what anybody can ask for, and often, after everything else
QUICK, SLOW, PUBLIC = -10, -5, 10


def set_priority(pid: int, priority: int) -> None:
    """Does what the engine is allowed to do; privid doctor tells when that is nothing."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, priority)
    with suppress(OSError):
        (Path("/proc") / str(pid) / "autogroup").write_text(str(priority))
