"""The engine's place in memory: decoded frames, programs, and the lanes' root file systems."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from contextlib import ExitStack, suppress
from pathlib import Path

from privid.closed import open_file, write_file
from privid.sandbox.root import remove_tree

__all__ = ["make_scratch"]

_MEMORY = Path("/dev/shm")
_LOCK = "lock"


def make_scratch(state: Path, cleanup: ExitStack) -> Path:
    """A fresh directory in memory, removed at the end. What engines that were killed have left is cleared away first.

    An engine holds a lock in its directory for as long as it lives, however it ends. The path is noted in `state` for operators.
    """
    _clear()
    path = _MEMORY / f"privid-{secrets.token_hex(8)}"
    path.mkdir(mode=0o700)  # lanes let themselves in
    cleanup.callback(remove_tree, path)
    lock = open_file(path / ".lock", os.O_RDWR)
    cleanup.callback(os.close, lock)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (path / ".lock").rename(path / _LOCK)  # seen by others only once it is held
    write_file(state / "engine.scratch", f"{path}\n")
    return path


def _clear() -> None:
    for path in _MEMORY.iterdir():
        if re.fullmatch(r"privid-[0-9a-f]{16}", path.name):
            with suppress(OSError):  # being made, being removed, locked, or another user's
                if path.lstat().st_uid == os.getuid():
                    with (path / _LOCK).open("r") as lock:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        remove_tree(path)
