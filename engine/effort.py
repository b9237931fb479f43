"""What decoding may take: as long as a slot can wait for, whatever the pictures show.

A slot begins when its frames must be there, or have been given up: so no slot waits for a decoder, and none tells how long one took.
"""

from __future__ import annotations

from dataclasses import dataclass

from privid.model import Grid

from .timetable import NANO

__all__ = ["FIRST", "MOST_SKIPPED", "NO_EFFORT", "Effort"]

#: What a decoder's first frames take beyond others
FIRST = NANO // 10
#: Frames on the way to others are no more than so many: there is a key frame at least so often
MOST_SKIPPED = 300


@dataclass(frozen=True)
class Effort:
    """For the chunks of a table, at most, in nanoseconds of processor time. All follows from which chunks are run."""

    grid: Grid
    usual: int  # a chunk after the one before it
    cutting: int  # of a chunk, or of one of its regions
    skipping: int  # a frame on the way to one that is written

    def limit(self, skipped: int, *, first: bool = False) -> int:
        """One chunk, so many frames after those that were decoded last, and all on the way to it; a decoder's first takes longer."""
        more = min(max(skipped - max(self.grid.step - self.grid.size, 0), 0), MOST_SKIPPED)
        return self.usual + self.skipping * more + (FIRST if first else 0)

    def after(self, before: int, chunk: int) -> int:
        """Until the frames of a chunk, or of another of its regions, are there, once those of the one before are."""
        if chunk == before:
            return self.cutting
        skipped = 0 if chunk == before + 1 else self.grid.frames(chunk)[0] - self.grid.frames(before)[1]
        return self.limit(skipped) + self.cutting

    @property
    def most(self) -> int:
        """For any chunk but the first."""
        return self.usual + self.skipping * MOST_SKIPPED + self.cutting


NO_EFFORT = Effort(Grid(0, 0, 1, 1), 0, 0, 0)
