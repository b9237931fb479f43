"""What a release reads of one table."""

from __future__ import annotations

from dataclasses import dataclass

from privid.model import TableUse
from privid.room.evaluate import chunk_moments
from privid.sandbox.executable import Kind

from .series import Stretch
from .shapes import Wider

__all__ = ["Read"]


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
