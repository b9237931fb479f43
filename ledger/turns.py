"""Turns: who waits for an account waits here, before it takes one of the few connections, so that no account can use them all up."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from privid.clients import client
from privid.errors import EngineUnavailable

__all__ = ["PATIENCE", "Turns"]

#: seconds, as long as PostgreSQL is waited for
PATIENCE = 20.0


class Turns:
    """Locks by name, within one process; PostgreSQL's own hold between processes, and are what the ledger depends on."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._changed = threading.Condition()
        self._taken: set[Hashable] = set()

    @contextmanager
    def take(self, *names: Hashable) -> Iterator[None]:
        """Has all of them or none: nobody waits while it keeps others waiting."""
        wanted = set(names)
        with self._changed:
            if not client().wait_for(self._changed, lambda: not wanted & self._taken, self._patience):
                raise EngineUnavailable("engine is busy with other releases of the same footage",
                                        detail=f"They were waited for {self._patience:g} seconds.", hint="Try again.")
            self._taken |= wanted
        try:
            yield
        finally:
            with self._changed:
                self._taken -= wanted
                self._changed.notify_all()
