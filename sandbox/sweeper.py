"""Empties the /tmp of runs that are over: a process of its own beside each lane, which weighs little and does nothing else.

The file systems themselves are kept for the sake of their numbers (see places.py), so they cannot be dropped as they are. What there is to
remove depends on what a program left: neither the engine's interpreter nor its share of the processors is to know. How much it can be at
most, files and bytes, is the public limit of a run's /tmp.
"""

# ruff: noqa: PTH106, PTH108, PTH208 (relative to a directory that is mounted nowhere here)

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from .cgroups import LITTLE

__all__ = ["Sweeper", "empty", "main"]


class Sweeper:
    """The lane's side, for any of its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = self._done = 0
        self._begin()

    def _begin(self) -> None:
        """What one that has ended did not do is not done any more."""
        self._done = self._asked
        self._tally = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._socket, self._process = _start(self._tally)

    def is_done(self, number: int) -> bool:
        """Whether the directory of this number has been emptied."""
        with self._lock, contextlib.suppress(BlockingIOError):
            self._done += os.eventfd_read(self._tally)
        return self._done >= number

    def sweep(self, directory: int) -> int:
        """Have it emptied; returns its number before that is done, but may wait while much else is left to do."""
        with self._lock:
            while True:
                try:
                    socket.send_fds(self._socket, [b"."], [directory])
                    self._asked += 1
                    return self._asked
                except OSError:  # it has ended
                    self.close()
                    self._begin()

    def clear(self, directory: int) -> None:
        """Have it emptied, and wait for that."""
        number = self.sweep(directory)
        while not self.is_done(number):
            time.sleep(0.005)

    def close(self) -> None:
        """What is not emptied yet goes away with its file system."""
        os.close(self._tally)
        self._socket.close()
        self._process.kill()
        self._process.wait()


def _start(tally: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-I", "-m", "privid.sandbox.sweeper", str(theirs.fileno()), str(tally)]
        return ours, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                                      env={}, pass_fds=(theirs.fileno(), tally), start_new_session=True)


def empty(directory: int) -> None:
    """Remove all that a program has left in a directory, however much and however deep, for whoever is root. Step by step, since nothing
    can be moved in a file system that a user namespace of the program's made. What cannot be removed stays, and the rest goes."""
    home = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fchdir(directory)
        _remove_all()
    finally:
        os.fchdir(home)
        os.close(home)


def _remove_all() -> None:
    """What is in the working directory."""
    above: list[tuple[str, list[str]]] = []  # the directories that lead here, and what else is to be looked at in each
    left = _clear()
    while True:
        if left:
            name = left.pop()
            with contextlib.suppress(OSError):
                os.chdir(name)
                above.append((name, left))
                left = _clear()
        elif above:
            name, left = above.pop()
            os.chdir("..")
            with contextlib.suppress(OSError):
                os.rmdir(name)
        else:
            return


def _clear() -> list[str]:
    """Unlink all files of the working directory; its directories."""
    directories = list[str]()
    try:
        names = os.listdir()
    except OSError:
        return directories
    for name in names:
        try:
            os.unlink(name)
        except IsADirectoryError:
            directories.append(name)
        except OSError:
            continue
    return directories


def main(arguments: list[str]) -> None:
    """Usage: sweeper SOCKET TALLY; the socket is one end of a pair, and it ends when the other end is closed; what is done is counted."""
    os.setpriority(os.PRIO_PROCESS, 0, LITTLE)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(LITTLE))
    control, tally = socket.socket(fileno=int(arguments[0])), int(arguments[1])
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        for directory in descriptors:
            empty(directory)
            os.close(directory)
            os.eventfd_write(tally, 1)


if __name__ == "__main__":
    main(sys.argv[1:])
