"""A handle: what a backend may ask for after its release was charged, or after an owner asked for raw rows."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from privid.model import Plan, TableUse

from .chunks import ChunkCache
from .jobs import Job
from .rows import header, pad_columns
from .timetable import deadline

__all__ = ["Charge", "Handle", "Scan"]

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
    """What makes a handle a release: the plan, its number in the ledger, and the public facts of its deadline."""

    plan: Plan
    release: int
    arrived: int  # nanoseconds of the monotonic clock
    quantum: int  # nanoseconds


@dataclass(eq=False)
class Handle:
    """Bound to one connection. Without a charge it is an owner's raw access."""

    charge: Charge | None
    pin: int  # in the chunk cache
    scans: dict[int, Scan] = field(default_factory=dict)  # by the table's index in the request
    ident: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def jobs(self) -> list[Job]:
        return [scan.job for scan in self.scans.values()]

    def deadline(self, now: int) -> int:
        """When the answer, or the error, may leave: after the last reserved slot and a whole number of quanta."""
        assert self.charge is not None
        ends = [end for job in self.jobs if (end := job.end) is not None]
        return deadline(max([self.charge.arrived, *ends]), self.charge.quantum, now)
