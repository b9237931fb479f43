"""Quotas of roles in the engine: how many releases run or wait at a time, and how much is kept of what programs printed.

Both depend on public facts alone. A release begins when it is asked for and ends at its public deadline. What is kept is counted by the
most that it could take, and what is beyond the quota is never refused: it is forgotten, and run again when it is asked for again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from privid.errors import PrividError, QuotaExceeded
from privid.ledger import Ledger

from .log import Log

__all__ = ["Quotas", "Turn"]


class Turn:
    """One of the releases, or raw reads, of a role; it ends once."""

    def __init__(self, role: str, end: Callable[[], None]) -> None:
        self.role = role
        self._end: Callable[[], None] | None = end
        self._lock = threading.Lock()

    def end(self) -> None:
        with self._lock:
            end, self._end = self._end, None
        if end is not None:
            end()


class Quotas:
    def __init__(self, ledger: Ledger, log: Log) -> None:
        self._ledger = ledger
        self._log = log
        self._running: Counter[str] = Counter()
        self._lock, self._posting = threading.Lock(), threading.Lock()

    def begin(self, role: str) -> Turn:
        """Before anything is charged; refused if as many are under way as the role may have."""
        most = self._ledger.quota(role).jobs
        with self._lock:
            running = self._running[role]
            if running < most:
                self._running[role] += 1
                return Turn(role, lambda: self._ended(role))
        raise QuotaExceeded(f'role "{role}" has {running} releases under way, and its quota is {most}',
                            hint="Wait until one of them is answered, or ask who runs this database for more (privid.set_quota).")

    def _ended(self, role: str) -> None:
        with self._lock:
            self._running[role] -= 1
            if not self._running[role]:
                del self._running[role]

    def kept(self, role: str) -> int:
        """Bytes of rows that are kept for tables of a role."""
        return self._ledger.quota(role).kept_bytes

    def post(self, role: str, kept: int | None = None) -> None:
        """For the view privid.quotas. What cannot be posted costs nobody's answer."""
        with self._posting:
            with self._lock:
                running = self._running[role]
            try:
                self._ledger.post_use(role, running, kept)
            except PrividError as error:
                self._log.failure("quotas not posted", error)
