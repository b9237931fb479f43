"""Frames that several jobs want are decoded once: the second to ask finds them on the shelf.

Each gets a copy. One file for all would tell a program, by the number of its links and the time of its last change, when another's run over
the same frames was cleared away, and so how much that had printed. What is on the shelf has no name: a file beside those of chunks would
count in their numbers, and tell how far the decoding of another job has come.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from privid.model import Footage
from privid.sandbox.chunk import FRAMES_FILE

__all__ = ["Shelf"]

#: Bytes of frames that are kept for others after they were decoded; those of the job that decoded them do not count.
LIMIT = 256 << 20

#: a run of frames of some footage
_Key = tuple[Footage, int, int]


class Shelf:
    """Keeps frames while more than one job reads the same footage."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, tuple[int, int]] = OrderedDict()  # a descriptor, and bytes
        self._readers: dict[Footage, int] = {}
        self._turns: dict[Footage, threading.Lock] = {}
        self._size = 0

    def enter(self, footage: Footage) -> None:
        """A job begins to read."""
        with self._lock:
            self._readers[footage] = self._readers.get(footage, 0) + 1
            self._turns.setdefault(footage, threading.Lock())

    def leave(self, footage: Footage) -> None:
        with self._lock:
            self._readers[footage] -= 1
            if not self._readers[footage]:
                del self._readers[footage], self._turns[footage]
            if self._readers.get(footage, 0) < 2:
                for key in [key for key in self._kept if key[0] == footage]:
                    self._drop(key)

    def fetch(self, footage: Footage, first: int, count: int, into: Path, read: Callable[[int, int, Path], object]) -> None:
        """Frames into a directory: from the shelf, or by reading them. Jobs over one footage take turns, so that none is read twice."""
        if self._readers.get(footage, 0) < 2:
            read(first, count, into)
            return
        key = (footage, first, count)
        with self._turns[footage]:
            with self._lock:
                kept = os.dup(self._kept[key][0]) if key in self._kept else None
            if kept is not None:
                with os.fdopen(kept, "rb") as shelved:
                    _copy(shelved, into / FRAMES_FILE)
                return
            read(first, count, into)
            self._keep(key, into / FRAMES_FILE)

    def _keep(self, key: _Key, frames: Path) -> None:
        descriptor = os.memfd_create("frames", os.MFD_CLOEXEC)
        with frames.open("rb") as file, os.fdopen(descriptor, "wb", closefd=False) as shelved:
            _send(file, shelved)
            size = os.fstat(file.fileno()).st_size
        with self._lock:
            self._kept[key] = descriptor, size
            self._size += size
            while self._size > LIMIT and len(self._kept) > 1:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: _Key) -> None:
        descriptor, size = self._kept.pop(key)
        os.close(descriptor)
        self._size -= size


def _copy(frames: BinaryIO, target: Path) -> None:
    with target.open("wb") as file:
        _send(frames, file)
    target.chmod(0o644)


def _send(frames: BinaryIO, file: BinaryIO) -> None:
    """All of it, from the beginning, wherever others read."""
    place, size = 0, os.fstat(frames.fileno()).st_size
    while place < size and (sent := os.sendfile(file.fileno(), frames.fileno(), place, size - place)):
        place += sent
