"""Where cold runs print to, and what of them is kept: numbers of files and devices that must not tell what happened meanwhile.

The kernel numbers the files of a file system in the order in which they are made, and a program can see the numbers of its standard
output and error. So each run has a file system of its own for these two, in which their numbers are always the same: whatever earlier runs
did, and however slowly they go away, there is nothing that a run and another both have. Only root can make one. For an ordinary user's
engine a lane makes the files of many runs once and gives them out in turn; where one is still held when its turn comes round, the slot
slips.

The kernel numbers file systems without a disk by the lowest number that is free. A run's /tmp is one, as is that of its outputs, and its
namespaces hold others. How soon they go away depends on what the run has piled up, and the next one could tell from its own number. So a
lane keeps them, emptied, until so many more runs were started that everything of the run is over. Those of a brood are kept for a time,
from the moment at which the timetable has no more use for it (stock.py).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from .hands import Late
from .syscalls import ATTR_NODEV, ATTR_NOEXEC, ATTR_NOSUID, new_tmpfs

__all__ = ["GENERATION", "Pins", "Place", "Places", "pinned"]

#: Runs after which a place of an ordinary user's lane is used again.
_COUNT = 256
#: Runs whose file systems are let go together, as many runs later; fewer where there are few descriptors.
GENERATION = 512


class Place:
    """Standard output and error of one run: files, because a program that prints is neither stopped by them nor costs the engine time,
    and a pipe's number counts the pipes and sockets of the whole machine. Here they are the only two of a file system; opened, they have no
    name any more, and they are gone when the last who has them open is."""

    def __init__(self, size: int, pins: list[int] | None) -> None:
        self._size, self._pins = size, pins

    @contextlib.contextmanager
    def made(self) -> Iterator[tuple[Path, Path]]:
        """Their paths, while they have some."""
        directory = new_tmpfs({"size": str(self._size), "nr_inodes": "3", "mode": "0700"}, ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC)
        try:
            if self._pins is not None:
                self._pins.append(os.dup(directory))
            paths = Path(f"/proc/self/fd/{directory}/out"), Path(f"/proc/self/fd/{directory}/err")
            for path in paths:
                path.touch(0o600)
            yield paths
            for path in paths:
                path.unlink()
        finally:
            os.close(directory)

    def hold(self) -> None:
        """Whoever reads what was printed has it open."""

    def free(self) -> None:
        """One of its holders has let go: the run, which nobody is left of, or who reads what it printed."""


class _Kept(Place):
    """Files that are used again."""

    def __init__(self, paths: tuple[Path, Path]) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self.holders = 0
        for path in paths:
            path.touch(0o600)

    @contextlib.contextmanager
    def made(self) -> Iterator[tuple[Path, Path]]:
        yield self._paths

    def hold(self) -> None:
        with self._lock:
            self.holders += 1

    def free(self) -> None:
        with self._lock:
            self.holders -= 1
            if not self.holders:
                for path in self._paths:
                    with contextlib.suppress(FileNotFoundError):  # its lane has ended
                        os.truncate(path, 0)


class Places:
    """All places of a lane of an ordinary user."""

    def __init__(self, directory: Path, count: int = _COUNT) -> None:
        directory.mkdir(mode=0o700)
        self._lock = threading.Lock()
        self._all = deque(_Kept((directory / f"{number}.out", directory / f"{number}.err")) for number in range(count))

    def take(self) -> Place:
        """The next in turn, whichever are free. Raises Late if it is still held after so many runs: it is never made anew."""
        with self._lock:
            place = self._all[0]
            self._all.rotate(-1)
            if place.holders:
                raise Late
            place.hold()
            return place


def pinned(pid: int) -> list[int]:
    """Descriptors of the namespaces of a process that hold file systems."""
    return [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("mnt", "ipc")]


class Pins:
    """Descriptors that keep the file systems of cold runs from being numbered anew. When they are closed depends on the number of runs
    alone; so many may be kept."""

    def __init__(self, most: int = 2 * GENERATION) -> None:
        self._generation = max(1, min(GENERATION, most // 2))
        self._lock = threading.Lock()
        self._runs = 0
        self._generations: deque[list[int]] = deque([[]])

    def turn(self) -> list[int]:
        """Where the run that begins puts its own."""
        with self._lock:
            self._runs += 1
            if self._runs % self._generation == 0:
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
