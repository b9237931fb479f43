"""How long things take by public sizes: slots, what comes before the first of a job, and imports between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from privid.model import Table
from privid.sandbox.nurse import broods, first_batch
from privid.video.cutout import is_whole

from .effort import MOST_SKIPPED, Effort
from .jobs import COLD, WARM
from .reading import reading_time
from .seams import LaneLike
from .series import Stretch
from .timetable import NANO, nanoseconds

__all__ = ["Durations"]

#: Chunks decoded ahead of their slots, beyond one per lane; more when they are small
AHEAD = 3
AHEAD_BYTES, AHEAD_MOST = 64 << 20, 64
#: Importing a module before its first slot, and what each of its first children takes; where that is not enough, the lane moves by whole
#: slots
BOOT, CHILD = {"python": NANO // 2}, NANO // 250
LONG_BOOT = 4 * NANO
#: Starting a decoder, on a machine that does other things too
LEAD = NANO // 2
LONGEST_ALLOWANCE = 5 * NANO
#: Rates of decoding that any machine reaches: of frames that are written, and of those on the way to them
PIXELS_PER_SECOND, SKIPPED_PIXELS_PER_SECOND = 100_000_000, 200_000_000
#: A chunk is given up that takes so many times as long, where its slot leaves that, and so much beyond it
SLOWEST, SPARE = 5, NANO // 10
#: modules whose imports are remembered
REMEMBERED = 1000


class Durations:
    """In nanoseconds, for one engine's lanes."""

    def __init__(self, lanes: Sequence[LaneLike], starts_warm: Callable[[Table], bool]) -> None:
        self._lanes, self._starts_warm = lanes, starts_warm
        self._guard = int(max(lane.guard for lane in lanes) * NANO)
        self._imports: dict[tuple[str, str], int] = {}  # what importing modules took, by their content and whose runs it was for

    def pitch(self, table: Table) -> int:
        """Length of one slot of a table: what its program may take, and the guard; or what reading takes, so that outputs never pile up; or
        what decoding takes, so that no slot waits for frames, which take the longer the more they show."""
        return max(nanoseconds(table.timeout) + self._guard, len(self._lanes) * max(reading_time(table), self._decoding(table)))

    def _decoding(self, table: Table) -> int:
        """Of one chunk, with the frames between it and the one before."""
        return self._writing(table) + self._cutting(table) + self._skipping(table, table.grid.step - table.grid.size)

    def _writing(self, table: Table) -> int:
        footage = table.camera.footage
        return NANO * table.grid.size * footage.width * footage.height // PIXELS_PER_SECOND

    def _cutting(self, table: Table) -> int:
        """Frames behind a mask or of a region are written once more."""
        return 0 if is_whole(table) else self._writing(table)

    def _skipping(self, table: Table, frames: int) -> int:
        footage = table.camera.footage
        return NANO * min(max(frames, 0), MOST_SKIPPED) * footage.width * footage.height // SKIPPED_PIXELS_PER_SECOND

    def effort(self, table: Table) -> Effort:
        """As long as a chunk's own slot leaves for it, and several times what it should take."""
        footage, cutting = table.camera.footage, self._cutting(table)
        usual = min(self.pitch(table) // len(self._lanes) - cutting, SLOWEST * (self._decoding(table) - cutting) + SPARE)
        return Effort(table.grid, usual, cutting, NANO * footage.width * footage.height // SKIPPED_PIXELS_PER_SECOND)

    def head(self, table: Table, first: int) -> int:
        """From the moment at which a decoder has been started to the first slot, whose chunk begins at this frame."""
        effort = self.effort(table)
        return self.setup(table) + effort.cutting + effort.limit(first, first=True)

    def setup(self, table: Table) -> int:
        """Frames must be there so long before a slot."""
        return (WARM if self.is_warm(table) else COLD).setup

    def is_warm(self, table: Table) -> bool:
        """Whether its program is to be started warm."""
        return table.warm and all(lane.warm for lane in self._lanes) and self._starts_warm(table)

    def ahead(self, table: Table) -> int:
        """How many chunks are decoded ahead of their slots."""
        footage = table.camera.footage
        small = AHEAD_BYTES // (table.grid.size * footage.width * footage.height * 3)
        return len(self._lanes) + max(AHEAD, min(small, AHEAD_MOST))

    def lead(self, table: Table, slots: int, first: int) -> int:
        """From a reservation to its first slot: time to start the decoder and to decode the first chunk, which begins at this frame, and to
        make what the program is started from. To come late costs a whole slot, so the longer the slots, the more is allowed for."""
        boot = 0
        if self.is_warm(table):
            children = min(first_batch(self.pitch(table) / NANO), -(-slots // len(self._lanes)))
            boot = self._import(table) + children * CHILD
        return LEAD + min(self.pitch(table) // 8, LONGEST_ALLOWANCE) + self.head(table, first) + boot

    def waits(self, table: Table, stretches: Sequence[Stretch]) -> int:
        """How much later the last of these slots is because frames that lie far from those before them take longer."""
        effort, unit = self.effort(table), self.pitch(table) // len(self._lanes)
        spans = sorted({(one.chunk, one.count) for one in stretches})
        views = sum(one.count for one in stretches) // max(1, sum(count for _, count in spans))
        there = begin = slots = 0  # when a chunk's frames are there, and its slot begins; and slots before it
        for (chunk, count), (following, _) in pairwise(spans):
            there += (count - 1) * effort.after(chunk, chunk + 1) + effort.after(chunk + count - 1, following)
            there += count * (views - 1) * effort.cutting
            begin = max(begin + count * views * unit, there)
            slots += count * views
        return begin - slots * unit

    def work(self, table: Table, slots: int) -> int:
        """Of each lane: its share of the slots, and the waits of all lanes for the imports that come after the first."""
        share = -(-slots // len(self._lanes))
        imports = broods(share, self.pitch(table) / NANO) - 1 if slots and self.is_warm(table) else 0
        return share * self.pitch(table) + imports * self._import(table)

    def _import(self, table: Table) -> int:
        """What importing a module takes: what it took the last time, or a guess."""
        return self._imports.get((table.executable.sha256, table.kept_for), BOOT.get(table.runtime, LONG_BOOT))

    def remember_import(self, table: Table, seconds: float) -> None:
        if len(self._imports) >= REMEMBERED:
            self._imports.clear()
        self._imports[table.executable.sha256, table.kept_for] = int(seconds * NANO)
