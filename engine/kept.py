"""Rows of runs as they are kept on disk: in cells of equal size, allocated before anybody knows what will be in them.

A segment is a file of cells, each as large as the rows of a run of its table could be. All of it is written before the release is
charged, so that neither whether rows fit nor what is free on the disk follows from what a program printed, whoever else fills the disk.
The reader alone writes cells; whoever scans a table reads them; nobody waits for anybody.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["CELL_HEAD", "Cell", "Cells", "Entry", "Kept", "Segments", "segment_of", "segments_of", "write_cell"]

#: of a cell that has been written: a mark, whether the run failed, rows, bytes of the body, their checksum
_HEAD = struct.Struct("<4s?III")
_MARK = b"rows"
CELL_HEAD = _HEAD.size
#: an address is a segment's number and, in so many bits, where the cell begins in it
_OFFSET = 40
#: bytes that are written at once
_PIECE = 128 * 1024
#: bytes of a segment, unless one cell is larger
_SEGMENT = 16 * 1024 * 1024
#: files that are open at a time in each process
_OPEN = 16
_ZEROS = memoryview(bytes(1024 * 1024))


class Entry(NamedTuple):
    """What is kept of a run. Whether it failed is kept of every run, whichever table it ran for: a table that asks runs nothing again."""

    rows: int
    body: bytes  # encoded columns
    failed: bool = False


def segments_of(index: Path) -> Path:
    """The directory of the segments that belong to an index of the chunk cache."""
    return index.with_name("rows")


@dataclass(frozen=True, slots=True)
class Cell:
    """For the rows of one run."""

    address: int
    size: int

    @property
    def offset(self) -> int:
        """Where it begins in its segment."""
        return _offset(self.address)

    def open(self, directory: Path) -> int:
        """Its segment, for the one who writes."""
        return os.open(directory / str(segment_of(self.address)), os.O_WRONLY | os.O_CLOEXEC)


@dataclass(frozen=True)
class Cells:
    """Allocated for the runs of one job."""

    size: int  # bytes of each
    segments: tuple[int, ...]
    each: int  # cells of a segment; the last may have fewer
    count: int

    def __getitem__(self, number: int) -> Cell:
        if not 0 <= number < self.count:
            raise IndexError(number)
        segment, cell = divmod(number, self.each)
        return Cell((self.segments[segment] << _OFFSET) | cell * self.size, self.size)

    def within(self, segment: int) -> int:
        """How many of them a segment has."""
        return min(self.each, self.count - self.segments.index(segment) * self.each)


class Segments:
    """Makes and removes them. Used by many threads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock, self._last = threading.Lock(), max(self.all(), default=0)

    def allocate(self, count: int, size: int) -> Cells:
        """OSError if the disk has not so much, and then nothing is allocated."""
        each = max(1, _SEGMENT // size)
        with self._lock:
            numbers = tuple(range(self._last + 1, self._last + 1 + -(-count // each)))
            self._last += len(numbers)
        cells = Cells(size, numbers, each, count)
        try:
            for number in cells.segments:
                self._make(number, cells.within(number) * size)
        except OSError:
            for number in cells.segments:
                self.remove(number)
            raise
        return cells

    def _make(self, number: int, size: int) -> None:
        """Written once from beginning to end: a file system notes of space that was only allocated which parts have been written since,
        and takes space for its notes."""
        file = os.open(self._path(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, size)
            done = 0
            while done < size:
                done += os.pwrite(file, _ZEROS[:size - done], done)
        finally:
            os.close(file)

    def remove(self, number: int) -> None:
        """Its blocks are free at once, also while somebody has the file open."""
        path = self._path(number)
        with suppress(FileNotFoundError):
            os.truncate(path, 0)
            path.unlink()

    def all(self) -> set[int]:
        return {int(path.name) for path in self._directory.iterdir() if path.name.isdigit()}

    def keep_only(self, numbers: Iterable[int]) -> None:
        for number in self.all() - set(numbers):
            self.remove(number)

    def _path(self, number: int) -> Path:
        return self._directory / str(number)


def segment_of(address: int) -> int:
    """The number of the segment in which a cell lies."""
    return address >> _OFFSET


def _offset(address: int) -> int:
    return address & ((1 << _OFFSET) - 1)


def write_cell(file: int, offset: int, size: int, entry: Entry, pause: Callable[[], None] = lambda: None) -> None:
    """Keep the rows of a run; the head comes last, and with it they are there."""
    rows, body, failed = entry
    if CELL_HEAD + len(body) > size:
        raise ValueError("rows are longer than their definition allows")
    done = 0
    while done < len(body):
        done += os.pwrite(file, body[done:done + _PIECE], offset + CELL_HEAD + done)
        pause()
    os.pwrite(file, _HEAD.pack(_MARK, failed, rows, len(body), zlib.crc32(body)), offset)


class Kept:
    """Reads cells, in any thread of any process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._files: OrderedDict[int, int] = OrderedDict()  # open segments, the one that was used last at the end

    def get(self, address: int) -> Entry | None:
        """None while it has not been written, and if the segment has gone."""
        number, offset = segment_of(address), _offset(address)
        with self._lock:
            try:
                file = self._file(number)
            except FileNotFoundError:
                return None
            head = os.pread(file, CELL_HEAD, offset)
            if len(head) < CELL_HEAD or not head.startswith(_MARK):
                return None
            _, failed, rows, length, checksum = _HEAD.unpack(head)
            body = os.pread(file, length, offset + CELL_HEAD)
        return Entry(rows, body, failed) if len(body) == length and zlib.crc32(body) == checksum else None

    def close(self) -> None:
        with self._lock:
            while self._files:
                os.close(self._files.popitem()[1])

    def _file(self, number: int) -> int:
        file = self._files.get(number)
        if file is None:
            file = self._files[number] = os.open(self._directory / str(number), os.O_RDONLY | os.O_CLOEXEC)
            if len(self._files) > _OPEN:
                os.close(self._files.popitem(last=False)[1])
        self._files.move_to_end(number)
        return file
