"""Another user of the machine: somebody with a shell, no group of ours, and a list of everything that a stack has.

What there is to try is enumerated, not listed by hand: what lies below the stack's directories, and whatever else its processes have
open, mapped or listen on.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from privid.cli.layout import Layout
from privid.cli.processes import inside
from tests.conftest import REPOSITORY

__all__ = ["UID", "belongings", "family", "segments", "tried"]

#: a number that nobody has, neither an account nor a lane, a room or PostgreSQL
UID = 64_000

#: where processes have things of their own; what else they have open is the system's (libraries, devices)
_OURS = ("/dev/shm", "/run", "/var/run", "/tmp", "/var/tmp", "/var/lib/privid")
#: what is no stack's: the runtimes that all engines share hold public packages, confined processes have nothing but an empty directory, and
#: the others belong to the machine
_SHARED = ("/var/lib/privid/runtime", "/run/privid/empty", "/run/systemd", "/run/resolvconf")

_TRY = """
import fcntl, json, os, socket, stat, sys
def attempt(what, path, action):
    try:
        action()
    except OSError:
        return
    found.append([what, path])
def read(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pass
    finally:
        os.close(fd)
def connect(name):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(name)
found = []
for path in json.load(sys.stdin):
    if path.startswith("@"):
        attempt("connect", path, lambda: connect("\\0" + path[1:]))
        continue
    attempt("open", path, lambda: read(path))
    attempt("write", path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
    attempt("list", path, lambda: os.listdir(path))
    attempt("make", path, lambda: os.mkdir(path + "/mine"))
    attempt("connect", path, lambda: connect(path))
json.dump(found, sys.stdout)
"""


def tried(paths: set[str]) -> list[list[str]]:
    """What a stranger got to, of these paths: opened (and so could lock), wrote, listed or connected to."""
    done = subprocess.run(["/usr/bin/python3", "-I", "-c", _TRY], input=json.dumps(sorted(paths)), capture_output=True, text=True,
                          check=True, cwd="/", user=UID, group=UID, extra_groups=[])
    found: list[list[str]] = json.loads(done.stdout)
    return found


def family(layout: Layout, engine: int) -> set[int]:
    """PostgreSQL's processes, the engine, and all that it has started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found = {engine, *inside(layout.pg)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def belongings(layout: Layout, pids: set[int]) -> set[str]:
    """Every path of a stack, and every Unix socket that it listens on."""
    found = set(_below(layout.data))
    inodes = set()
    for pid in pids:
        for path in _held(pid):
            if path.startswith("socket:["):
                inodes.add(path[8:-1])
            elif _is_own(path):
                found |= set(_below(_top(path)))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[6] in inodes:
            found.add(fields[7])
    return found


def segments(pids: set[int]) -> list[str]:
    """System V segments of these processes that others may read or write."""
    lines = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return [line[1] for line in lines if int(line[4]) in pids and int(line[2], 8) & 0o077]


def _held(pid: int) -> Iterator[str]:
    """What a process has open or mapped."""
    place = Path("/proc") / str(pid)
    for folder in (place / "fd", place / "map_files"):
        with contextlib.suppress(OSError):
            for entry in folder.iterdir():
                with contextlib.suppress(OSError):
                    yield str(entry.readlink())
    with contextlib.suppress(OSError):
        yield str((place / "cwd").readlink())


def _is_own(path: str) -> bool:
    others = (*_SHARED, str(REPOSITORY))
    return any(path.startswith(place + "/") for place in _OURS) and not any(map(path.startswith, others)) and Path(path).exists()


def _top(path: str) -> Path:
    """The whole of what a path is part of: the entry of /dev/shm, of /run, ... that it lies below."""
    place = Path(next(place for place in _OURS if path.startswith(place + "/")))
    below = Path(path).relative_to(place).parts
    # what several stacks share is not taken for one; a directory of tests in /tmp is not the stack's
    return Path(path) if place.name in ("tmp", "run") else place / below[0]


def _below(top: Path) -> Iterator[str]:
    yield str(top)
    if stat.S_ISDIR(top.lstat().st_mode):
        for folder, folders, files in os.walk(top):
            yield from (f"{folder}/{name}" for name in (*folders, *files))
