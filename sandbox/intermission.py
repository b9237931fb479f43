"""Programs of chunks and imports of modules never run at the same time, in whatever lanes.

An import lives on in the children that are forked from it. Beside a chunk it could feel what that does, by caches or by how fast it gets on
itself, and tell it to chunks that come later. So imports have the machine to themselves: once one is due no further slot is handed out,
and it begins when those that were are over. When that is follows from the timetable. An import that takes long is interrupted, frozen as
it is, so that slots get at least as much time as imports.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["SLICE", "Intermission"]

#: Seconds after which an import is interrupted if it is not done.
SLICE = 2.0


class Intermission:
    """Used by all lanes of an engine, from many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wanted = 0  # imports that wait or run
        self._slots = 0
        self._importing = 0
        self._begun = self._not_before = 0.0

    @property
    def due(self) -> bool:
        """Whether slots must wait."""
        return self._wanted > 0 and time.monotonic() >= self._not_before

    def enter(self) -> bool:
        """A slot is handed out, unless an import is due."""
        with self._changed:
            if self.due:
                return False
            self._slots += 1
            return True

    def leave(self) -> None:
        """A slot that was handed out is over."""
        with self._changed:
            self._slots -= 1
            self._changed.notify_all()

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Alone, but for other imports."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    def _begin(self) -> None:
        with self._changed:
            self._wanted += 1
            while not (self._joins() or (self.due and not self._slots and not self._importing)):
                self._changed.wait(max(0.001, self._not_before - time.monotonic()))
            if not self._importing:
                self._begun = time.monotonic()
            self._importing += 1

    def _joins(self) -> bool:
        """Whether one more can begin beside those that run, without making the intermission longer and longer."""
        return self._importing > 0 and time.monotonic() < self._begun + SLICE

    def _end(self) -> None:
        with self._changed:
            self._wanted -= 1
            self._importing -= 1
            if not self._importing:
                now = time.monotonic()
                self._not_before = now + (now - self._begun)
            self._changed.notify_all()
