"""What a process of ours gives up before it looks at bytes that others made: its user, files, network, other processes, endless memory.

Three do: the one that parses what programs printed, the one that looks at an upload, and the decoder of video. Afterwards each can read and
write the descriptors that it holds and compute, nothing else. The filter of system calls alone is enough for that; the other steps hold
where it would not. Namespaces are taken where this machine gives them; all else is needed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from privid.closed import make_directory

from .syscalls import (
    ATTR_NODEV,
    ATTR_NOEXEC,
    ATTR_NOSUID,
    ATTR_RDONLY,
    NAMESPACE_FLAGS,
    drop_capabilities,
    load_filter,
    make_private,
    make_undumpable,
    new_tmpfs,
    no_new_privileges,
    unshare,
)

__all__ = ["NOBODY", "Confinement", "complaints", "confine", "environment"]

NOBODY = 65534
_NEW_USER, _NEW_PID, _NEW_CGROUP, _NEW_IPC = 0x10000000, 0x20000000, 0x2000000, 0x8000000
#: one for all: a file system of each one's own would have a number, and runs would see by theirs when it is free again (places.py)
_EMPTY = Path("/run/privid/empty")


@dataclass(frozen=True)
class Confinement:
    """What is left to a process."""

    calls: bytes  # that it may make, as the kernel takes it (confined_calls.py)
    memory: int  # bytes of address space
    uid: int = NOBODY  # where it is root
    descriptors: int = 64
    processes: int | None = None  # of its user, if that is nobody else's
    seconds: int | None = None  # of processor time
    own_pids: bool = False  # in a pid namespace, as its first process; the one that asks for it ends


def environment() -> dict[str, str]:
    """For the start of such a process: where Python finds us, and nothing of what else is in ours."""
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}


def complaints() -> int | None:
    """Where such a process says why it died, as an argument of subprocess: in our log, but on no terminal, which is not for other users."""
    return subprocess.DEVNULL if os.isatty(2) else None


def confine(wanted: Confinement) -> None:
    """Gives everything up, for good. Raises when some part of it that is needed is not possible here."""
    for step in STEPS:
        step(wanted)


def enter_namespaces(wanted: Confinement) -> None:
    """No network, nobody to signal, and no mount in common with anybody. No IPC namespace, which has file systems: no call reaches one."""
    root = os.geteuid() == 0
    uid, gid = os.geteuid(), os.getegid()
    flags = NAMESPACE_FLAGS & ~(_NEW_CGROUP | _NEW_IPC | (_NEW_USER if root else 0) | (0 if wanted.own_pids else _NEW_PID))
    with suppress(OSError):
        unshare(flags)
        if not root:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        make_private("/")
        if wanted.own_pids and os.fork():
            os._exit(0)


def leave_files(wanted: Confinement) -> None:
    """As its file system one empty directory that cannot be written; where mounts are its own, or it is root."""
    with suppress(OSError):
        if os.geteuid() == 0:
            make_directory(_EMPTY, 0o555)
            empty = os.open(_EMPTY, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        else:
            empty = new_tmpfs({"size": "4k", "nr_inodes": "1", "mode": "555"}, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC)
        os.fchdir(empty)
        os.chroot(".")
        os.close(empty)


def set_limits(wanted: Confinement) -> None:
    for limit, value in ((resource.RLIMIT_AS, wanted.memory), (resource.RLIMIT_NOFILE, wanted.descriptors), (resource.RLIMIT_CORE, 0),
                         (resource.RLIMIT_NPROC, wanted.processes), (resource.RLIMIT_CPU, wanted.seconds)):
        if value is None:
            continue
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def change_user(wanted: Confinement) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(wanted.uid, wanted.uid, wanted.uid)
        os.setresuid(wanted.uid, wanted.uid, wanted.uid)
    drop_capabilities()
    make_undumpable()


def refuse_calls(wanted: Confinement) -> None:
    no_new_privileges()
    load_filter(wanted.calls)


#: in this order: each needs rights that a later one gives up
STEPS = (enter_namespaces, leave_files, set_limits, change_user, refuse_calls)
