"""The engine's place in memory: decoded frames, programs, and the lanes' root file systems.

Where the engine is root it is a file system of its own, in a mount namespace of its own: nobody else can fill it, nor see how full it is,
and it goes with the last process. An ordinary user's lies in /dev/shm, which everybody has.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from contextlib import ExitStack, suppress
from pathlib import Path

from privid.closed import open_file, write_file
from privid.sandbox import syscalls
from privid.sandbox.root import remove_tree

__all__ = ["make_scratch", "part_mounts"]

_MEMORY = Path("/dev/shm")
_LOCK = "lock"
#: the directory on which the file system is mounted
_OWN = "own"


def part_mounts() -> bool:
    """As root: what is mounted from now on is seen by this process and those that it starts alone, while what the machine mounts goes on
    coming in. To be called before there is any other thread. False where that is not possible."""
    if os.geteuid() != 0:
        return False
    try:
        syscalls.unshare_mounts()
    except OSError:
        return False
    return True


def make_scratch(state: Path, cleanup: ExitStack, *, apart: bool = False) -> Path:
    """A fresh directory in memory, removed at the end; `apart`: mounts are our own. What engines that were killed have left is cleared away
    first.

    An engine holds a lock in its directory for as long as it lives, however it ends. The path is noted in `state` for operators.
    """
    _clear()
    path = _MEMORY / f"privid-{secrets.token_hex(8)}"
    path.mkdir(mode=0o700)
    cleanup.callback(remove_tree, path)
    lock = open_file(path / ".lock", os.O_RDWR)
    cleanup.callback(os.close, lock)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (path / ".lock").rename(path / _LOCK)  # seen by others only once it is held
    scratch = _own(path, cleanup) if apart else path  # lanes let themselves in
    write_file(state / "engine.scratch", f"{scratch}\n")
    return scratch


def _own(path: Path, cleanup: ExitStack) -> Path:
    """A file system that has room for half of the memory, as /dev/shm has."""
    path.chmod(0o711)
    own = path / _OWN
    own.mkdir(mode=0o700)
    fd = syscalls.new_tmpfs({"mode": "0700", "size": "50%", "nr_inodes": "0"}, syscalls.ATTR_NOSUID)
    try:
        syscalls.move_mount(fd, str(own))
    finally:
        os.close(fd)
    cleanup.callback(syscalls.umount, str(own))
    return own


def _clear() -> None:
    for path in _MEMORY.iterdir():
        if re.fullmatch(r"privid-[0-9a-f]{16}", path.name):
            with suppress(OSError):  # being made, being removed, locked, or another user's
                if path.lstat().st_uid == os.getuid():
                    with (path / _LOCK).open("r") as lock:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        remove_tree(path)
