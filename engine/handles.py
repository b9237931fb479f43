"""A handle: under it the room reads the rows of a release that was charged, and an owner's backend raw rows."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from privid.errors import EngineUnavailable
from privid.model import TableUse

from .chunks import ChunkCache
from .jobs import Job
from .rows import header, pad_columns
from .timetable import Place

__all__ = ["Charge", "Handle", "OpenHandles", "Scan"]

#: Blocks are gathered into messages of about this size.
_MESSAGE = 1024 * 1024


@dataclass(frozen=True)
class Scan:
    """One table's runs in order, and the job that brings those that were not kept."""

    use: TableUse
    runs: Sequence[tuple[int, int]]  # chunk and region
    moments: Sequence[int]  # the trusted column chunk, in PostgreSQL's microseconds
    keys: Sequence[bytes]  # in the chunk cache
    job: Job

    def bodies(self, cache: ChunkCache) -> Iterator[bytes]:
        """Bodies of B messages: the runs in order, as they become available."""
        table = self.use.table
        columns = table.untrusted
        regions = [name.encode() for name in table.region_names]
        gathered: list[bytes] = []
        size = 0
        for (_, region), moment, key in zip(self.runs, self.moments, self.keys, strict=True):
            self.job.wait(key)
            kept = cache.get(key)
            assert kept is not None, "pinned"
            rows, body = kept
            if table.pad and rows < table.max_rows:
                rows, body = table.max_rows, pad_columns(columns, body, rows, table.max_rows)
            if rows == 0:
                continue
            if size and size + len(body) > _MESSAGE:
                yield b"".join(gathered)
                gathered, size = [], 0
            head = header(rows, moment, regions[region])
            gathered += (head, body)
            size += len(head) + len(body)
        if gathered:
            yield b"".join(gathered)


@dataclass(frozen=True)
class Charge:
    """What makes a handle a release: its number in the ledger, and the public facts of its deadline."""

    release: int
    arrived: int  # nanoseconds of the monotonic clock
    begun: int  # when it had been charged
    allowance: int  # nanoseconds


@dataclass(eq=False)
class Handle:
    """Without a charge it is an owner's raw access."""

    charge: Charge | None
    pin: int  # in the chunk cache
    scans: dict[int, Scan] = field(default_factory=dict)  # by the table's index in the request
    ident: str = field(default_factory=lambda: secrets.token_hex(16))
    #: from the beginning of its turn in the room to the moment at which the answer, or the error, leaves
    turn: Place | None = None

    @property
    def jobs(self) -> list[Job]:
        return [scan.job for scan in self.scans.values()]

    @property
    def over(self) -> int:
        """When the last slot ends by the timetable."""
        assert self.charge is not None
        ends = [end for job in self.jobs if (end := job.end) is not None]
        return max([self.charge.begun, *ends])


class OpenHandles:
    """The releases that the room may read, by the secret names of their handles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handles: dict[str, Handle] = {}

    def add(self, handle: Handle) -> None:
        with self._lock:
            self._handles[handle.ident] = handle

    def remove(self, handle: Handle) -> None:
        with self._lock:
            self._handles.pop(handle.ident, None)

    def find(self, ident: Any) -> Handle:
        with self._lock:
            handle = self._handles.get(ident) if isinstance(ident, str) else None
        if handle is None:
            raise EngineUnavailable("release is no longer under way")
        return handle
