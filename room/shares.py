"""Turns at what there is little of: a role has more than one only while as many are left for others as it has, and who waits is served
role by role."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

__all__ = ["Shares"]

#: seconds after which who waits looks whether anybody still wants it
_LOOK = 0.25


class Shares:
    """So many in all; used by many threads."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._held: Counter[str] = Counter()
        self._waiting: dict[int, str] = {}  # in the order in which they came
        self._served: dict[str, int] = {}  # the number of the last turn of each of those who hold or wait
        self._numbers = count(1)
        self._changed = threading.Condition()

    @contextmanager
    def one(self, name: str, patience: float, check: Callable[[], None] = lambda: None) -> Iterator[bool]:
        """Holds one for the block; False if it was not this name's turn so long. `check` raises when nobody wants it any more."""
        free = self._take(name, time.monotonic() + patience, check)
        try:
            yield free
        finally:
            if free:
                with self._changed:
                    self._held[name] -= 1
                    self._free += 1
                    self._leave(name)

    def _take(self, name: str, until: float, check: Callable[[], None]) -> bool:
        with self._changed:
            place = next(self._numbers)
            self._waiting[place] = name
            try:
                while self._next() != place:
                    check()
                    left = until - time.monotonic()
                    if left <= 0:
                        return False
                    self._changed.wait(min(left, _LOOK))
                self._held[name] += 1
                self._free -= 1
                self._served[name] = next(self._numbers)
                return True
            finally:
                del self._waiting[place]
                self._leave(name)

    def _next(self) -> int | None:
        """Who is served now: of those who may have one, who has fewest, then whose last turn is longest ago, then who came first."""
        may = [(self._held[name], self._served.get(name, 0), place) for place, name in self._waiting.items() if self._may(name)]
        return min(may)[2] if may else None

    def _may(self, name: str) -> bool:
        held = self._held[name] + 1
        return self._free > 0 and (held == 1 or held <= self._free - 1)

    def _leave(self, name: str) -> None:
        if not self._held[name]:
            del self._held[name]
            if not self._held and not self._waiting:
                self._served.clear()
        self._changed.notify_all()
