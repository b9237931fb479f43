"""The room as another process sees it: told which server runs, it makes sessions with that one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psycopg

from .cluster import open_session
from .facts import Connection
from .server import unavailable

__all__ = ["RemoteRoom"]

_REPLACED = "It is being replaced, or cannot be started."

C = TypeVar("C", bound=Connection)


class RemoteRoom:
    """Implements pool.RoomLike; `suspect` passes on that a session has failed."""

    def __init__(self, directory: Path, connections: int, suspect: Callable[[int], None]) -> None:
        # through a descriptor, because a socket's path must be short
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.connections, self.suspect = connections, suspect
        self._changed = threading.Condition()
        self._number, self._name = 0, ""

    @property
    def number(self) -> int:
        return self._number

    def change(self, number: int, name: str) -> None:
        """Another server runs now, or none: 0."""
        with self._changed:
            self._number, self._name = number, name
            self._changed.notify_all()

    def connect(self, kind: type[C], patience: float = 10.0) -> C:
        """A new session; while the server is being replaced, waits for it, but not for ever."""
        deadline = time.monotonic() + patience
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._number, deadline - time.monotonic()):
                    raise unavailable(_REPLACED)
                number, name = self._number, self._name
            try:
                return open_session(kind, f"/proc/self/fd/{self._directory}/{name}")
            except psycopg.OperationalError as error:
                self.suspect(number)
                if time.monotonic() > deadline:
                    raise unavailable(_REPLACED) from error
                time.sleep(0.02)
