"""A token that says: nobody waits for this any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["Cancel", "Cancelled"]


class Cancelled(Exception):
    """The peer has gone, or the engine stops; there is nobody to tell."""


class Cancel:
    """Set once; wakes those who wait and calls those who asked to be called."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._calls: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            calls, self._calls = self._calls, []
        for call in calls:
            call()

    def then(self, call: Callable[[], None]) -> None:
        """Call when set, or at once when it already is."""
        with self._lock:
            if not self._event.is_set():
                self._calls.append(call)
                return
        call()

    @contextmanager
    def calling(self, call: Callable[[], None]) -> Iterator[None]:
        """Call when set, as long as the block lasts."""
        self.then(call)
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):
                self._calls.remove(call)

    def check(self) -> None:
        if self._event.is_set():
            raise Cancelled

    def wait_until(self, moment: float) -> None:
        """Sleep until a time of the monotonic clock."""
        while (left := moment - time.monotonic()) > 0:
            if self._event.wait(left):
                raise Cancelled
        self.check()
