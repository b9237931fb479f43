"""What must hold of a frozen child before it may see a frame, looked at from outside.

The child was made by a zygote in which an analyst's module ran, so nothing that it says of itself counts. It is frozen: what
is true when it is looked at stays true until it is thawed.
"""

# ruff: noqa: PTH116, PTH208 (hundreds of files in /proc are looked at before a slot; plain strings are faster)

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .bounds import Bounds, hold
from .cgroups import read_whole
from .syscalls import KCMP_KINDS, NAMESPACES, kcmp

__all__ = ["Allowed", "Refused", "Seen", "check_apart", "check_mappings", "check_settled", "has_holes", "look", "seems_ready"]

#: Of each mapping, whether it is private, and the device of its file.
_MAPPING = re.compile(rb"^\S+ ...(\S) \S+ (\S+) ", re.M)
_NO_FILE = b"00:00"
_NOTHING = b"0000000000000000"
_TIMERS = Path("/proc/self/timers").exists()  # kernels can be built without


class Refused(Exception):
    """The child is not what it must be; the text says in which respect."""


@dataclass(frozen=True)
class Seen:
    """What was seen of a child."""

    pid: int
    inner_pid: int  # as process 1 of the nursery knows it
    namespaces: tuple[int, ...]


class Allowed:
    """What a child may be and have: its user and group, its root, the files below which it may have mapped, its filters at least."""

    def __init__(self, uid: int, gid: int, root: Path, mapped: Iterable[Path], filters: int) -> None:
        self.root = root.stat()
        self.filters = filters
        self.listing = b""  # of the mappings of a child that was looked at: its siblings' are mostly the same
        devices = {path.stat().st_dev for path in mapped}
        self.mappings = {(b"p", b"%02x:%02x" % (os.major(device), os.minor(device))) for device in devices} | {(b"p", _NO_FILE)}
        self.status = {
            b"Uid": b"\t".join([b"%d" % uid] * 4), b"Gid": b"\t".join([b"%d" % gid] * 4), b"Groups": b"",
            b"Threads": b"1", b"NoNewPrivs": b"1", b"Seccomp": b"2", b"TracerPid": b"0", b"THP_enabled": b"0",
            **dict.fromkeys((b"CapInh", b"CapPrm", b"CapEff", b"CapAmb", b"SigPnd", b"ShdPnd"), _NOTHING),
        }


def seems_ready(pid: int, filters: int) -> bool:
    """A cheap look, before freezing: whether the child has come as far as it should."""
    try:
        status = _status(pid)
        return status[b"CapPrm"] == _NOTHING and int(status[b"Seccomp_filters"]) >= filters and not os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False


def look(pid: int, allowed: Allowed) -> Seen:
    """Check a child by itself; raises Refused."""
    try:
        status = _status(pid)
        for name, value in allowed.status.items():
            if status[name] != value:
                raise Refused(f"{name.decode()} is {status[name].decode()}")
        if int(status[b"Seccomp_filters"]) < allowed.filters:
            raise Refused("a filter is missing")
        if os.listdir(f"/proc/{pid}/fd"):
            raise Refused("it has descriptors")
        for place in ("cwd", "root"):
            found = os.stat(f"/proc/{pid}/{place}")
            if (found.st_dev, found.st_ino) != (allowed.root.st_dev, allowed.root.st_ino):
                raise Refused(f"its {place} is elsewhere")
        if (listing := read_whole(f"/proc/{pid}/maps")) != allowed.listing:
            check_mappings(listing, allowed)
            allowed.listing = listing
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


def check_mappings(listing: bytes, allowed: Allowed) -> None:
    """Everything that it has mapped is private, and of no file but those that nobody can write to."""
    found = _MAPPING.findall(listing)
    if len(found) != listing.count(b"\n"):
        raise Refused("its mappings cannot be read")
    for kind, device in set(found) - allowed.mappings:
        raise Refused("it has a shared mapping" if kind != b"p" else f"it has a file of device {device.decode()} mapped")


def check_settled(pid: int, bounds: Bounds) -> None:
    """No process has this one for its parent; its limits are these; no timer of it runs."""
    if read_whole(f"/proc/{pid}/task/{pid}/children").strip():
        raise Refused("it has children")
    if not hold(read_whole(f"/proc/{pid}/limits"), bounds):
        raise Refused("its limits are others")
    if _TIMERS and read_whole(f"/proc/{pid}/timers"):
        raise Refused("it has a timer")


def has_holes(*paths: Path) -> bool:
    """Whether one of these files has parts that are not there: who reads one makes a page, for everybody who has the file."""
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size and os.lseek(file.fileno(), 0, os.SEEK_HOLE) < size:
                    return True
    return False


def _status(pid: int) -> dict[bytes, bytes]:
    return {name: value.strip() for name, _, value in (line.partition(b":") for line in read_whole(f"/proc/{pid}/status").split(b"\n"))}
