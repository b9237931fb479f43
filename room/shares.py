"""Turns at what there is little of: nobody has so much of it at a time that nothing is left for others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Shares"]


class Shares:
    """So many at a time for each name; used by many threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def one(self, name: str, patience: float) -> Iterator[bool]:
        """Holds one for the block; False if none was free so long."""
        with self._changed:
            free = self._changed.wait_for(lambda: self._held[name] < self._most, patience)
            self._held[name] += free
        try:
            yield free
        finally:
            with self._changed:
                self._held[name] -= free
                if not self._held[name]:
                    del self._held[name]
                self._changed.notify_all()
