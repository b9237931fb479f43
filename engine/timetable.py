"""The public timetable: which chunk runs on which lane, from when to when.

All times are integer nanoseconds of the monotonic clock. Slot i of a reservation begins at exactly start + i * pitch, or when its frames
are sure to be there, where these lie far from those before them. Every decision here is made from public facts only: which chunks, the
table's timeout, what was reserved before. Nothing that a chunk does or shows can move another chunk's slot.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from operator import add

__all__ = ["NANO", "Place", "Timetable", "nanoseconds"]

NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """One slot: a lane, and when it begins. It lasts one pitch."""

    lane: int
    begin: int
    pitch: int

    @property
    def end(self) -> int:
        return self.begin + self.pitch

    def later(self, slots: int) -> Place:
        return Place(self.lane, self.begin + slots * self.pitch, self.pitch)


class Timetable:
    """When each lane is free. Not thread-safe: the runner holds its lock around it."""

    def __init__(self, lanes: int) -> None:
        self.free_at = [0] * lanes

    def reserve(self, earliest: Sequence[int], pitch: int, turns: Sequence[Callable[[int], int] | None] = ()) -> list[Place]:
        """Slots for chunks in order, none before its moment, each on the lane that is free first (ties: lowest number). `turns`: when it is
        free, of lanes where the job takes turns with others, by how much of it the job has had.

        >>> [(p.lane, p.begin) for p in Timetable(2).reserve([100, 103, 106], 10)]
        [(0, 100), (1, 103), (0, 110)]
        """
        free = [turn or partial(add, max([free, *earliest[:1]])) for free, turn in zip_longest(self.free_at, turns)]
        had, late = [0] * len(free), [0] * len(free)  # late: by its frames
        lanes = [(turn(0), lane) for lane, turn in enumerate(free)]
        heapq.heapify(lanes)
        places: list[Place] = []
        for moment in earliest:
            begin, lane = lanes[0]
            place = Place(lane, max(begin, moment), pitch)
            had[lane] += pitch
            late[lane] += place.begin - begin
            heapq.heapreplace(lanes, (free[lane](had[lane]) + late[lane], lane))
            self.free_at[lane] = place.end
            places.append(place)
        return places

    def slip(self, lane: int, by: int) -> None:
        """Everything reserved on a lane has moved back (always by whole slots)."""
        self.free_at[lane] += by

    def release(self, lane: int, remaining: Iterable[Place]) -> None:
        """After a cancel: the lane is free when the last slot still reserved on it ends."""
        self.free_at[lane] = max((place.end for place in remaining), default=0)


def nanoseconds(seconds: Fraction) -> int:
    """A duration, rounded up to a whole nanosecond."""
    return -(-seconds.numerator * NANO // seconds.denominator)
