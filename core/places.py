"""Places at what there is little of. Roles take turns, none has all of it, and nobody waits for ever, nor when whoever asked has left."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from .clients import client
from .errors import EngineUnavailable

__all__ = ["Places"]


@dataclass(eq=False)
class _Ticket:
    role: str
    size: int
    granted: bool = False
    woken: threading.Event = field(default_factory=threading.Event)


class Places:
    """So many, or so much, at a time, of which a role has a share; used by many threads."""

    def __init__(self, most: int, share: int, busy: str, patience: float) -> None:
        """`busy`: what is told, as a message, to those who have waited so long, in seconds."""
        self._most, self._share, self._busy, self._patience = most, share, busy, patience
        self._lock = threading.Lock()
        self._waiting: list[_Ticket] = []
        self._held: Counter[str] = Counter()
        self._turns, self._last = 0, dict[str, int]()  # when each role that is here had its last turn

    @contextmanager
    def take(self, size: int = 1) -> Iterator[Callable[[], None]]:
        """Held until the block ends, or what it is given is called. What is larger than a share counts as one."""
        whom = client()
        most = self._share if whom.role else self._most
        ticket = _Ticket(whom.role, min(size, most))
        with self._lock:
            self._waiting.append(ticket)
            self._grant()
        try:
            if not ticket.granted:
                with whom.calling(ticket.woken.set):
                    ticket.woken.wait(self._patience)
            if not ticket.granted:
                whom.check()
                raise EngineUnavailable(self._busy, detail=f"Others were waited for {self._patience:g} seconds.", hint="Try again.")
            yield partial(self._leave, ticket)
        finally:
            self._leave(ticket)

    def _leave(self, ticket: _Ticket) -> None:
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            if ticket.granted:
                ticket.granted = False
                self._held[ticket.role] -= ticket.size
            self._grant()

    def _grant(self) -> None:
        """To each role in turn, first who waits longest. Nobody overtakes who waits for others; who waits for its own is passed over."""
        self._held = +self._held
        here = {*self._held, *(ticket.role for ticket in self._waiting)}
        self._last = {role: turn for role, turn in self._last.items() if role in here}
        while ready := [ticket for ticket in self._waiting if self._has_share(ticket)]:
            first = min(ready, key=lambda ticket: self._last.get(ticket.role, 0))
            if self._held.total() + first.size > self._most:
                return
            self._waiting.remove(first)
            self._held[first.role] += first.size
            self._turns += 1
            self._last[first.role] = self._turns
            first.granted = True
            first.woken.set()

    def _has_share(self, ticket: _Ticket) -> bool:
        return not ticket.role or self._held[ticket.role] + ticket.size <= self._share
