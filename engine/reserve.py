"""Makes the files of many chunks at once, before any frame of them is decoded.

The kernel numbers the files of a file system in the order in which they are made, and a program can see the numbers of its own. Were they
made when a chunk is decoded, those of one job would tell how far the decoding of another had come, and so how long its pictures took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from privid.sandbox.chunk import CHUNK_FILE, FRAMES_FILE

from .jobs import Slot

__all__ = ["BATCH", "directory", "reserved"]

#: Chunks whose files are made together: an empty one takes three kilobytes.
BATCH = 2048


def directory(slot: Slot) -> Path:
    """Where a chunk's frames and facts are."""
    return slot.job.folder / f"chunk-{slot.chunk}{f'-{slot.region}' if slot.job.table.regions else ''}"


def reserved(slots: Sequence[Slot]) -> Iterator[Slot]:
    """The slots of a job in order, each with its files made."""
    left: Iterable[Slot] = iter(slots)
    while batch := list(islice(left, BATCH)):
        for slot in batch:
            frames = directory(slot)
            frames.mkdir()
            for name in (FRAMES_FILE, CHUNK_FILE):
                (frames / name).touch(0o644)
        yield from batch
