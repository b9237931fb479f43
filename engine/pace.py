"""Processor time that is the same whatever there is to do, and evenly spread: others on the core cannot tell one from the other."""

from __future__ import annotations

import time

__all__ = ["Overspent", "Pace"]

#: nanoseconds that are worked at a stretch, and those between two looks at the clock of processor time
_STRETCH, _LOOK = 2_000_000, 200_000
#: nanoseconds that a busy machine may take on top before it counts as overspent
_GRACE = 2_000_000


class Overspent(Exception):
    """There was more to do than time is set aside for."""


class Pace:
    """`busy` nanoseconds of this thread's processor time, from the creation of this object until `span` nanoseconds later."""

    def __init__(self, busy: int, span: int) -> None:
        self._busy, self._span = busy, span
        self._begun, self._used_before = time.monotonic_ns(), time.thread_time_ns()
        self._looked = self._begun

    def pause(self) -> None:
        """Called often: sleeps if more was done than the time that has passed allows."""
        if time.monotonic_ns() - self._looked >= _LOOK:
            self._rest()

    def check(self) -> None:
        """Like pause; raises Overspent when nothing is left, and more is gone than a busy machine explains."""
        if time.monotonic_ns() - self._looked >= _LOOK and self._rest() > self._busy + _GRACE:
            raise Overspent

    def finish(self) -> None:
        """Work on nothing for what is left."""
        while self._rest() < self._busy:
            until = time.monotonic_ns() + _LOOK
            while time.monotonic_ns() < until:
                pass

    def _rest(self) -> int:
        """Processor time so far."""
        used, now = time.thread_time_ns() - self._used_before, time.monotonic_ns()
        early = self._span * min(used - _STRETCH, self._busy) // self._busy - (now - self._begun)
        if early > 0:
            time.sleep((early + self._span * _STRETCH // self._busy) / 1e9)
        self._looked = time.monotonic_ns()
        return used
