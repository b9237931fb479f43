"""Empties the /tmp of runs that are over: a process of its own beside each lane, of the least weight, which does nothing else.

The file systems themselves are kept for the sake of their numbers (see places.py), so they cannot be dropped as they are. What there is to
remove depends on what a program left: neither the engine's interpreter nor its share of the processors is to know. How much it can be at
most, files and bytes, is the public limit of a run's /tmp.
"""

# ruff: noqa: PTH208 (relative to a directory that is mounted nowhere here)

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path

from .cgroups import LEAST

__all__ = ["Sweeper", "empty", "main"]


class Sweeper:
    """The lane's side, for any of its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, self._process = _start()

    def sweep(self, directory: int) -> None:
        """Have it emptied; returns before that is done, but may wait while much else is left to do."""
        with self._lock:
            while True:
                try:
                    socket.send_fds(self._socket, [b"."], [directory])
                    return
                except OSError:  # it has ended
                    self.close()
                    self._socket, self._process = _start()

    def close(self) -> None:
        """What is not emptied yet goes away with its file system."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


def _start() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-I", "-m", "privid.sandbox.sweeper", str(theirs.fileno())]
        return ours, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                                      env={}, pass_fds=(theirs.fileno(),), start_new_session=True)


def empty(directory: int) -> None:
    """Remove all that a program has left in a directory, however much and however deep, for whoever is root."""
    with contextlib.suppress(OSError):
        while names := os.listdir(directory):
            for name in names:
                if not _unlinked(name, directory):
                    _flatten(name, directory)


def _flatten(name: str, top: int) -> None:
    """Remove a directory; the directories in it come to the top, so that depth costs nothing."""
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        for below in os.listdir(inner):
            if not _unlinked(below, inner):
                os.rename(below, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _unlinked(name: str, directory: int) -> bool:
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    return True


def main(arguments: list[str]) -> None:
    """Usage: sweeper SOCKET, which is one end of a pair; ends when the other end is closed."""
    os.setpriority(os.PRIO_PROCESS, 0, int(LEAST))
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_bytes(LEAST)
    control = socket.socket(fileno=int(arguments[0]))
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        for directory in descriptors:
            empty(directory)
            os.close(directory)


if __name__ == "__main__":
    main(sys.argv[1:])
