"""Where cold runs print to, and what of them is kept: numbers of files and devices that must not tell what happened meanwhile.

The kernel numbers the files of a file system in the order in which they are made, and a program can see the numbers of its standard output
and error. If they were made for each run, they would count everything that was made in memory since the run before, such as decoded
frames. So a lane makes them once, and gives them to its runs in turn.

It numbers file systems without a disk by the lowest number that is free. A run's /tmp is one, and its namespaces hold others. How soon they
go away depends on what the run has piled up, and the next one could tell from its own number. So a lane keeps them, emptied, until so many
more runs were started that everything of the run is over.
"""

# ruff: noqa: PTH208 (relative to a directory that is mounted nowhere here)

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["GENERATION", "Pins", "Place", "Places", "empty"]

#: Runs after which a place is used again.
_COUNT = 64
#: Runs whose file systems are let go together, as many runs later.
GENERATION = 64


@dataclass(eq=False)
class Place:
    """Standard output and error of one run."""

    output: Path  # files: a program that prints is neither stopped by it nor costs the engine time, and a pipe's number counts the pipes
    errors: Path  # and sockets of the whole machine
    holders: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def make(self) -> None:
        """Anew, if it is there already."""
        for path in (self.output, self.errors):
            path.unlink(missing_ok=True)
            path.touch(0o600)

    def hold(self) -> None:
        with self.lock:
            self.holders += 1

    def free(self) -> None:
        """One of its holders has let go: the run, which nobody is left of, or who reads what it printed."""
        with self.lock:
            self.holders -= 1
            if not self.holders:
                for path in (self.output, self.errors):
                    with contextlib.suppress(FileNotFoundError):  # its lane has ended
                        os.truncate(path, 0)


class Places:
    """All places of a lane."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        self._lock = threading.Lock()
        self._all = deque(Place(directory / f"{number}.out", directory / f"{number}.err") for number in range(_COUNT))
        for place in self._all:
            place.make()

    def take(self) -> Place:
        """The next in turn, whichever are free; one that somebody still has open after so many runs is replaced."""
        with self._lock:
            place = self._all[0]
            self._all.rotate(-1)
            if place.holders:
                place = self._all[-1] = Place(place.output, place.errors)
                place.make()
            place.hold()
            return place


class Pins:
    """Descriptors that keep the file systems of runs from being numbered anew. When they are closed depends on the number of runs alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._generations: deque[list[int]] = deque([[]])

    def turn(self) -> list[int]:
        """Where the run that begins puts its own."""
        with self._lock:
            self._runs += 1
            if self._runs % GENERATION == 0:
                self._generations.append([])
                if len(self._generations) > 2:
                    threading.Thread(target=_close, args=(self._generations.popleft(),), name="pins", daemon=True).start()
            return self._generations[-1]

    def close(self) -> None:
        with self._lock:
            while self._generations:
                _close(self._generations.pop())


def _close(descriptors: list[int]) -> None:
    for fd in descriptors:
        os.close(fd)


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
