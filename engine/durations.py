"""How long things take by public sizes: slots, what comes before the first of a job, and imports between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from privid.model import Table
from privid.sandbox.nurse import broods, first_batch
from privid.video.cutout import is_whole

from .reading import reading_time
from .seams import LaneLike
from .timetable import NANO, nanoseconds

__all__ = ["Durations"]

#: Chunks decoded ahead of their slots, beyond one per lane; more when they are small
AHEAD = 3
AHEAD_BYTES, AHEAD_MOST = 64 << 20, 64
#: Importing a module before its first slot, and what each of its first children takes; where that is not enough, the lane moves by whole
#: slots
BOOT, CHILD = {"python": NANO // 2}, NANO // 250
LONG_BOOT = 4 * NANO
#: Starting a decoder, on a machine that does other things too, and a rate of decoding that any machine reaches
LEAD = NANO // 2
LONGEST_ALLOWANCE = 5 * NANO
PIXELS_PER_SECOND = 100_000_000
#: modules whose imports are remembered
REMEMBERED = 1000


class Durations:
    """In nanoseconds, for one engine's lanes."""

    def __init__(self, lanes: Sequence[LaneLike], starts_warm: Callable[[Table], bool]) -> None:
        self._lanes, self._starts_warm = lanes, starts_warm
        self._guard = int(max(lane.guard for lane in lanes) * NANO)
        self._imports: dict[str, int] = {}  # what importing modules took, by their content

    def pitch(self, table: Table) -> int:
        """Length of one slot of a table: what its program may take, and the guard; or what reading takes, so that outputs never pile up; or
        what decoding takes, so that no slot waits for frames, which take the longer the more they show."""
        return max(nanoseconds(table.timeout) + self._guard, len(self._lanes) * max(reading_time(table), self._decoding(table)))

    def _decoding(self, table: Table) -> int:
        """Of one chunk; frames behind a mask or of a region are written once more."""
        footage = table.camera.footage
        return NANO * table.grid.size * footage.width * footage.height // PIXELS_PER_SECOND * (1 if is_whole(table) else 2)

    def is_warm(self, table: Table) -> bool:
        """Whether its program is to be started warm."""
        return table.warm and all(lane.warm for lane in self._lanes) and self._starts_warm(table)

    def ahead(self, table: Table) -> int:
        """How many chunks are decoded ahead of their slots."""
        footage = table.camera.footage
        small = AHEAD_BYTES // (table.grid.size * footage.width * footage.height * 3)
        return len(self._lanes) + max(AHEAD, min(small, AHEAD_MOST))

    def lead(self, table: Table, slots: int) -> int:
        """From a reservation to its first slot: time to start the decoder and to decode the first chunk, and to make what the program is
        started from. To come late costs a whole slot, so the longer the slots, the more is allowed for."""
        boot = 0
        if self.is_warm(table):
            children = min(first_batch(self.pitch(table) / NANO), -(-slots // len(self._lanes)))
            boot = self._import(table) + children * CHILD
        return LEAD + min(self.pitch(table) // 8, LONGEST_ALLOWANCE) + self._decoding(table) + boot

    def work(self, table: Table, slots: int) -> int:
        """Of each lane: its share of the slots, and the waits of all lanes for the imports that come after the first."""
        share = -(-slots // len(self._lanes))
        imports = broods(share, self.pitch(table) / NANO) - 1 if slots and self.is_warm(table) else 0
        return share * self.pitch(table) + imports * self._import(table)

    def _import(self, table: Table) -> int:
        """What importing a module takes: what it took the last time, or a guess."""
        return self._imports.get(table.executable.sha256, BOOT.get(table.runtime, LONG_BOOT))

    def remember_import(self, table: Table, seconds: float) -> None:
        if len(self._imports) >= REMEMBERED:
            self._imports.clear()
        self._imports[table.executable.sha256] = int(seconds * NANO)
