"""A handle: what a charged release, or an owner's raw access, has under way."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from privid.errors import SandboxFailed
from privid.model import TableUse

from .blocks import Blocks
from .chunks import ChunkCache
from .jobs import Job
from .kept import Entry
from .quotas import Turn

__all__ = ["Charge", "Handle", "Scan"]


@dataclass(frozen=True)
class Scan:
    """One table's runs, and the job that brings those that were not kept."""

    use: TableUse
    blocks: Blocks
    keys: Sequence[bytes]  # of its runs, in the same order
    job: Job

    def bodies(self, cache: ChunkCache) -> Iterator[bytes]:
        """Bodies of B messages, as the runs become available."""

        waited = iter(self.keys)

        def kept(address: int) -> Entry:
            self.job.wait(next(waited))
            found = cache.get(address)
            if found is None:  # it is pinned, so that it was never there
                raise SandboxFailed("rows of a chunk could not be kept", hint="The operator finds the cause in the engine's log.")
            return found

        return self.blocks.bodies(kept)


@dataclass(frozen=True)
class Charge:
    """What makes a handle a release: its number in the ledger, and the public facts of its deadline."""

    release: int
    arrived: int  # nanoseconds of the monotonic clock
    begun: int  # when it had been charged
    allowance: int  # nanoseconds
    protected: bool  # False: its moments tell of nothing that is


@dataclass(eq=False)
class Handle:
    """Without a charge it is an owner's raw access."""

    charge: Charge | None
    pin: int  # in the chunk cache
    turn: Turn  # among those of its role
    scans: dict[int, Scan] = field(default_factory=dict)  # by the table's index in the request
    ident: str = field(default_factory=lambda: secrets.token_hex(16))
    #: when the answer, or the error, leaves if something is protected: known once the computation has begun
    deadline: int | None = None

    @property
    def jobs(self) -> list[Job]:
        return [scan.job for scan in self.scans.values()]
