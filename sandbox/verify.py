"""What must hold of a frozen child before it may see a frame, looked at from outside.

The child was made by a zygote in which an analyst's module ran, so nothing that it says of itself counts. It is frozen: what
is true when it is looked at stays true until it is thawed.
"""

# ruff: noqa: PTH116, PTH208 (hundreds of files in /proc are looked at before a slot; plain strings are faster)

from __future__ import annotations

import errno
import fcntl
import functools
import itertools
import os
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from .cgroups import read_whole
from .syscalls import KCMP_KINDS, NAMESPACES, kcmp

__all__ = ["Refused", "Seen", "check_alone", "check_apart", "look", "seems_ready"]

_SHARED = re.compile(rb" [r-][w-][x-]s ")
_NO_CAPABILITIES = b"0000000000000000"
# PROCMAP_QUERY: its own size, flags (a shared mapping; at the address or the next above it), the address, and room for the answer
_QUERY = struct.Struct("<9Q4I2Q")
_FIND_MAPPING = 3 << 30 | _QUERY.size << 16 | ord("f") << 8 | 17
_SHARED_OR_NEXT = 0x08 | 0x10


class Refused(Exception):
    """The child is not what it must be; the text says in which respect."""


@dataclass(frozen=True)
class Seen:
    """What was seen of a child."""

    pid: int
    inner_pid: int  # as process 1 of the nursery knows it
    namespaces: tuple[int, ...]


def seems_ready(pid: int, filters: int) -> bool:
    """A cheap look, before freezing: whether the child has come as far as it should."""
    try:
        status = _status(pid)
        return status[b"CapPrm"] == _NO_CAPABILITIES and int(status[b"Seccomp_filters"]) >= filters and not os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False


def look(pid: int, *, uid: int, gid: int, root: os.stat_result, filters: int) -> Seen:
    """Check a child by itself; raises Refused."""
    try:
        status = _status(pid)
        expected = {
            b"Uid": b"\t".join([b"%d" % uid] * 4), b"Gid": b"\t".join([b"%d" % gid] * 4), b"Groups": b"",
            b"Threads": b"1", b"NoNewPrivs": b"1", b"Seccomp": b"2", b"TracerPid": b"0",
            **dict.fromkeys((b"CapInh", b"CapPrm", b"CapEff", b"CapAmb"), _NO_CAPABILITIES),
        }
        for name, value in expected.items():
            if status[name] != value:
                raise Refused(f"{name.decode()} is {status[name].decode()}")
        if int(status[b"Seccomp_filters"]) < filters:
            raise Refused("a filter is missing")
        if os.listdir(f"/proc/{pid}/fd"):
            raise Refused("it has descriptors")
        for place in ("cwd", "root"):
            found = os.stat(f"/proc/{pid}/{place}")
            if (found.st_dev, found.st_ino) != (root.st_dev, root.st_ino):
                raise Refused(f"its {place} is elsewhere")
        if _shares_memory(pid):
            raise Refused("it has a shared mapping")
        # seen from the host, from the nursery, and from inside, where it must be the first of its namespace
        pids = status[b"NSpid"].split()
        if len(pids) != 3 or pids[2] != b"1":
            raise Refused("it is not the first process of a namespace of its own")
        if status[b"NSpgid"] != status[b"NSpid"] or status[b"NSsid"] != status[b"NSpid"]:
            raise Refused("it has its process group or session from its zygote")  # a signal to the group would reach the others
        spaces = tuple(os.stat(f"/proc/{pid}/ns/{name}").st_ino for name in NAMESPACES)
        if os.stat(f"/proc/{pid}/ns/pid_for_children").st_ino != spaces[NAMESPACES.index("pid")]:
            raise Refused("its children would be in another namespace")
        return Seen(pid, int(pids[1]), spaces)
    except FileNotFoundError:
        raise Refused("it is gone") from None


def check_apart(children: Sequence[Seen], others: Sequence[int]) -> None:
    """No two children, and no child and any of the other processes, share a namespace, memory, descriptors, or the like."""
    used: set[int] = {os.stat(f"/proc/{pid}/ns/{name}").st_ino for pid in others for name in NAMESPACES}
    for child in children:
        if used.intersection(child.namespaces) or len(set(child.namespaces)) != len(NAMESPACES):
            raise Refused("it shares a namespace")
        used.update(child.namespaces)
    pids = [child.pid for child in children] + list(others)
    for name, kind in KCMP_KINDS.items():
        order = functools.cmp_to_key(lambda a, b, kind=kind: (0, -1, 1)[kcmp(a, b, kind)])  # type: ignore[misc]
        ordered = sorted(pids, key=order)
        if any(kcmp(a, b, kind) == 0 for a, b in itertools.pairwise(ordered)):
            raise Refused(f"it shares {name}")


def check_alone(pid: int) -> None:
    """No process has this one for its parent."""
    if read_whole(f"/proc/{pid}/task/{pid}/children").strip():
        raise Refused("it has children")


def _shares_memory(pid: int) -> bool:
    """Whether it has a mapping that others could share. Kernels since 6.11 can be asked for the first; others list all."""
    fd = os.open(f"/proc/{pid}/maps", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _FIND_MAPPING, bytearray(_QUERY.pack(_QUERY.size, _SHARED_OR_NEXT, *[0] * 13)))
        return True
    except OSError as error:
        return error.errno != errno.ENOENT and _SHARED.search(read_whole(f"/proc/{pid}/maps")) is not None
    finally:
        os.close(fd)


def _status(pid: int) -> dict[bytes, bytes]:
    return {name: value.strip() for name, _, value in (line.partition(b":") for line in read_whole(f"/proc/{pid}/status").split(b"\n"))}
