"""Processes of an engine as they are seen from outside: its own PostgreSQL, and what is left."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from privid.cli.processes import identity

__all__ = ["Room", "command", "descendants", "standing"]


def _parent(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # the command's name may hold spaces and brackets: count fields after its last bracket
    return int(stat[stat.rindex(")") + 2:].split()[1])


def _program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name.split(" ")[0]
    return ""


def command(pid: int) -> str:
    with contextlib.suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return line.replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _all() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def descendants(root: int | None) -> list[int]:
    """All processes below one."""
    if root is None:
        return []
    children: dict[int | None, list[int]] = {}
    for pid in _all():
        children.setdefault(_parent(pid), []).append(pid)
    found, pending = list[int](), [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


@dataclass
class Room:
    """The engine's own PostgreSQL as it is now, if there is one."""

    postmaster: int | None = None
    #: those that serve a connection
    backends: list[int] = field(default_factory=list)
    everything: list[int] = field(default_factory=list)
    #: where its processes stand, which is the data directory
    directories: set[Path] = field(default_factory=set)

    @classmethod
    def of(cls, engine: int | None) -> Room:
        room = cls()
        room.everything = [pid for pid in descendants(engine) if _program(pid) == "postgres"]
        for pid in room.everything:
            if _parent(pid) not in room.everything:
                room.postmaster = pid
                with contextlib.suppress(OSError):
                    room.directories.add(Path(f"/proc/{pid}/cwd").readlink())
            elif "[local]" in command(pid):
                room.backends.append(pid)
        return room


def standing(directory: Path) -> dict[int, str]:
    """Processes that have their working directory below, or name it in their command."""
    found = {}
    for pid in _all():
        with contextlib.suppress(OSError):
            here = Path(f"/proc/{pid}/cwd").readlink().is_relative_to(directory)
            if here or f"{directory}/" in f"{command(pid)}/":
                found[pid] = command(pid)
    return {pid: line for pid, line in found.items()
            if pid != os.getpid() and "guard.py" not in line and identity(pid) is not None}
