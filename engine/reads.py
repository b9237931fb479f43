"""What a release reads of a table: which runs, where they lie in the chunk cache, and the disk that is set aside for their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from privid.model import TableUse
from privid.room.evaluate import chunk_moments
from privid.sandbox.executable import Kind

from .blocks import Blocks
from .frame_space import Held
from .kept import Cells
from .series import Stretch
from .shapes import Wider

__all__ = ["Prepared", "Read", "of_nothing"]


@dataclass(frozen=True)
class Read:
    """One table of a release: its runs by all that decides their rows, what it is run and read as, and where those runs lie in the chunk
    cache. What there is of each run is computed when it is to run."""

    use: TableUse
    kind: Kind
    stretches: list[Stretch]
    wider: Wider
    kept: list[Stretch]

    def each(self) -> tuple[list[tuple[int, int]], list[int], list[bytes]]:
        """Chunk and region of each run in order of time, where it stands in time, and its key in the chunk cache."""
        table, stretches = self.use.table, self.kept
        runs = [(one.chunk + n, one.region) for one in stretches for n in range(one.count)]
        moments = [moment for one in stretches for moment in chunk_moments(table, (one.chunk, one.chunk + one.count))]
        keys = [key for one in stretches for key in one.all_keys()]
        if table.regions is None:
            return runs, moments, keys
        order = sorted(range(len(runs)), key=runs.__getitem__)
        return [runs[n] for n in order], [moments[n] for n in order], [keys[n] for n in order]


class Prepared(NamedTuple):
    """A read, and space for the rows of those of its runs that are not kept."""

    read: Read
    cells: Cells
    space: Held | None = None  # for decoded frames and the program
    program: bytes = b""  # what is to be run, where anything is


def of_nothing(use: TableUse) -> Blocks:
    """The rows that a table would have if no run printed anything: those that fill it up, where it is padded, or none. No video takes
    part."""
    runs = use.runs() if use.table.pad else []
    moments = {chunk: at for span in use.chunks for chunk, at in zip(range(*span), chunk_moments(use.table, span), strict=True)}
    return Blocks.of(use, runs, [moments[chunk] for chunk, _ in runs], [None] * len(runs))
