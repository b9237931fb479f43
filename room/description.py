"""What can be told of a room by any process that may look, as privid status and privid doctor do."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .place import possible_places, processes_in
from .priority import priority_of

__all__ = ["Description", "describe", "parent_of"]


@dataclass(frozen=True)
class Description:
    """One room, as it is now."""

    running: bool
    pid: int | None  # of its postmaster
    directory: Path
    memory: int  # bytes resident; what processes share is counted once
    priority: int | None  # of the scheduler, lower is sooner
    remark: str | None  # what an operator should know, as a sentence


def describe(data: Path) -> Description:
    """The room of an engine's data directory."""
    places = possible_places(data)
    for path in places:
        pids = _processes(path)
        pid = next((pid for pid in pids if parent_of(pid) not in pids), None)
        if pid is not None:
            priority = priority_of(pid)
            memory = sum(map(_resident, pids))
            return Description(True, pid, path, memory, priority, _remark(priority))
    place = next((path for path in places if path.is_dir()), places[0])
    return Description(False, None, place, 0, None, None)


def _processes(path: Path) -> list[int]:
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return processes_in(directory)
    finally:
        os.close(directory)


def parent_of(pid: int) -> int:
    with suppress(OSError, ValueError):
        stat = (Path("/proc") / str(pid) / "stat").read_text(errors="replace")
        # the command's name may hold spaces and brackets: count fields after its last bracket
        return int(stat.rpartition(")")[2].split()[1])
    return 0


def _resident(pid: int) -> int:
    """The process' share of the memory that it and others hold."""
    with suppress(OSError):
        for line in (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _remark(priority: int) -> str | None:
    if priority < 0:
        return None
    reason = ("the engine is not allowed to raise it" if os.geteuid() == 0
              else "an engine started by root raises it")
    return f"It runs at ordinary priority, so that programs of analysts can delay it; {reason}."
