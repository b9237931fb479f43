"""How much warm children may hold at a time, in all lanes of an engine, and when it is let go.

A brood takes descriptors and a user from before it is made until its file systems may be numbered anew (places.py). It is granted them by
public sizes, and has them until so many seconds after the moment at which the timetable has no more use for it, whether its slots came or
were cancelled. What its runs did, and how slowly they go away, moves neither. Where nothing is left the next brood waits.
"""

from __future__ import annotations

import heapq
import os
import resource
import threading
import time

from .users import NUMBERS

__all__ = ["HOLD", "LEAST", "Stock"]

#: Seconds for which the numbers of a brood are kept when its last slot is over: by then everything of it is gone.
HOLD = 10.0
#: A brood of fewer children would not be worth its import, unless fewer are wanted.
LEAST = 16
#: Descriptors that a brood takes, and each of its children (child.py).
_BROOD, _CHILD = 16, 3
#: Children that may be there for each lane: a frozen one takes up to a megabyte.
_PER_LANE = 4096
#: Descriptors that are kept of a cold run (places.py).
_COLD = 4
_WANTED = 1 << 20


class Stock:
    """Used by all lanes of an engine, from many threads: half of its descriptors are for warm children, a quarter is for what is kept of
    cold runs."""

    def __init__(self, lanes: int = 1, descriptors: int | None = None) -> None:
        every = descriptors or _all_descriptors()
        self._lock = threading.Condition()
        self._descriptors = min(every // 2, lanes * _PER_LANE * _CHILD)
        self._users = len(NUMBERS) // 2
        #: cold runs of each lane whose file systems can be kept
        self.cold_runs = every // 4 // lanes // _COLD
        self._kept: list[tuple[float, int, list[int]]] = []  # a heap: until when, of how many children, their descriptors
        self._closed = False
        self._thread = threading.Thread(target=self._let_go, name="stock", daemon=True)
        self._thread.start()

    def grant(self, wanted: int) -> int:
        """How many children may be made: as many as wanted, or half of what there is room for, so that others find some; 0 for none yet."""
        with self._lock:
            room = (self._descriptors - _cost(0)) // _CHILD
            count = min(wanted, max(LEAST, room // 2))
            if count > room or not self._users:
                return 0
            self._descriptors -= _cost(count)
            self._users -= 1
            return count

    def give_back(self, count: int) -> None:
        """What was granted for a brood."""
        with self._lock:
            self._descriptors += _cost(count)
            self._users += 1

    def keep(self, pins: list[int], count: int, seconds: float) -> None:
        """Until HOLD after so many seconds: descriptors of a brood of so many children, and what was granted for it."""
        with self._lock:
            heapq.heappush(self._kept, (time.monotonic() + seconds + HOLD, count, pins))
            self._lock.notify_all()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        self._thread.join()

    def _let_go(self) -> None:
        while True:
            with self._lock:
                while not self._closed and (not self._kept or self._kept[0][0] > time.monotonic()):
                    self._lock.wait(self._kept[0][0] - time.monotonic() if self._kept else None)
                if not self._kept:
                    return
                _, count, pins = heapq.heappop(self._kept)
            for fd in pins:
                os.close(fd)
            self.give_back(count)


def _cost(count: int) -> int:
    return _BROOD + _CHILD * (count + 1)  # one more child never runs (brood.py)


def _all_descriptors() -> int:
    """As many as this process may have; root's may have many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if os.geteuid() == 0:
        wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return _WANTED if soft == resource.RLIM_INFINITY else soft
