"""Decoder processes that are there before anybody wants one: how soon one can begin is not what others decode meanwhile makes of it."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress

from privid.errors import PrividError

from .process import Worker

__all__ = ["Spares"]


class Spares:
    """So many are kept ready; one that is taken is replaced in the background."""

    def __init__(self, count: int) -> None:
        self._ready = queue.SimpleQueue[Worker]()
        self._wanted = threading.Semaphore(count)
        self._closing = False
        self._maker = threading.Thread(target=self._make, name="spare decoders", daemon=True)
        self._maker.start()

    def take(self) -> Worker:
        """One that waits, or a new one."""
        with suppress(queue.Empty):
            while True:
                worker = self._ready.get_nowait()
                self._wanted.release()
                if worker.alive:
                    return worker
                worker.close()
        return Worker()

    def close(self) -> None:
        self._closing = True
        self._wanted.release()
        self._maker.join()
        with suppress(queue.Empty):
            while True:
                self._ready.get_nowait().close()

    def _make(self) -> None:
        while True:
            self._wanted.acquire()
            if self._closing:
                return
            with suppress(PrividError, OSError):  # whoever takes one makes one then, and is told why not
                self._ready.put(Worker())
