"""Frames that several jobs want are decoded once: the second to ask finds them on the shelf.

Each gets a copy. One file for all would tell a program, by the number of its links and the time of its last change, when another's run over
the same frames was cleared away, and so how much that had printed.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
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

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, tuple[Path, int]] = OrderedDict()
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
                kept = self._kept[key][0].open("rb") if key in self._kept else None
            if kept is not None:
                with kept:
                    _copy(kept, into / FRAMES_FILE)
                return
            read(first, count, into)
            self._keep(key, into / FRAMES_FILE)

    def _keep(self, key: _Key, frames: Path) -> None:
        path = self._directory / secrets.token_hex(8)
        with self._lock:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            path.touch()
        with frames.open("rb") as file:
            _copy(file, path)
        with self._lock:
            size = frames.stat().st_size
            self._kept[key] = path, size
            self._size += size
            while self._size > LIMIT and len(self._kept) > 1:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: _Key) -> None:
        path, size = self._kept.pop(key)
        path.unlink(missing_ok=True)
        self._size -= size
        if not self._kept:
            with suppress(OSError):  # another is being written
                self._directory.rmdir()


def _copy(frames: BinaryIO, target: Path) -> None:
    with target.open("wb") as file:
        left = os.fstat(frames.fileno()).st_size
        while left and (sent := os.sendfile(file.fileno(), frames.fileno(), None, left)):
            left -= sent
    target.chmod(0o644)
