"""Quotas of roles in the engine: how many releases run or wait at a time, with how many slots of what length and how long computations, and
how much is kept of what programs printed.

All depend on public facts alone. A release begins when it is asked for and ends at its public deadline. What is kept is counted by the
most that it could take, and what is beyond the quota is never refused: it is forgotten, and run again when it is asked for again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction

from privid.errors import PrividError, QuotaExceeded
from privid.ledger import Ledger
from privid.ledger.turns import Turns

from .allowances import is_slow
from .log import Log
from .timetable import nanoseconds

__all__ = ["Quotas", "Turn"]

_FEWER = ("Ask about a shorter time or with longer chunks, wait until other releases are answered, or ask who runs this database for more "
          "(privid.set_quota).")
_SHORTER = 'Lower the option "timeout" of the table, or ask who runs this database for more (privid.set_quota).'


_SIMPLER = ("Choose fewer chunks or simpler expressions, wait until other releases are answered, or ask who runs this database for more "
            "(privid.set_quota).")


@dataclass
class _Use:
    """What a role has under way, or one release of it."""

    releases: int = 0
    slots: int = 0
    seconds: Fraction = Fraction(0)  # of slow computations


class Turn:
    """One of the releases, or raw reads, of a role; it ends once."""

    def __init__(self, role: str, quotas: Quotas) -> None:
        self.role = role
        self._quotas: Quotas | None = quotas
        self._own = _Use(1)
        self._lock = threading.Lock()

    def take(self, slots: int, seconds: Fraction) -> None:
        """Before anything is charged: so many slots more, each so long; refused if they are more, or longer, than the role may have."""
        assert self._quotas is not None
        self._quotas.take(self.role, slots, seconds)
        self._own.slots += slots

    def compute(self, allowance: Fraction) -> None:
        """Before anything is charged: a computation that has the slow lane for so long, if it is slow."""
        assert self._quotas is not None
        if is_slow(nanoseconds(allowance)):
            self._quotas.compute(self.role, allowance)
            self._own.seconds += allowance

    def end(self) -> None:
        with self._lock:
            quotas, self._quotas = self._quotas, None
        if quotas is not None:
            quotas.ended(self.role, self._own)


class Quotas:
    def __init__(self, ledger: Ledger, log: Log) -> None:
        self._ledger = ledger
        self._log = log
        self._uses: defaultdict[str, _Use] = defaultdict(_Use)
        self._lock, self._posting = threading.Lock(), Turns()

    def begin(self, role: str) -> Turn:
        """Before anything is charged; refused if as many are under way as the role may have."""
        most = self._ledger.quota(role).jobs
        with self._lock:
            use = self._uses[role]
            running = use.releases
            if running < most:
                use.releases += 1
                return Turn(role, self)
        raise QuotaExceeded(f'role "{role}" has {running} releases under way, and its quota is {most}',
                            hint="Wait until one of them is answered, or ask who runs this database for more (privid.set_quota).")

    def take(self, role: str, slots: int, seconds: Fraction) -> None:
        quota = self._ledger.quota(role)
        if slots and seconds > quota.slot_seconds:
            raise QuotaExceeded(f'role "{role}" would have slots of {float(seconds):g} s, and its quota is {quota.slot_seconds} s',
                                hint=_SHORTER)
        with self._lock:
            use = self._uses[role]
            wanted = use.slots + slots
            if wanted <= quota.slots:
                use.slots = wanted
                return
        raise QuotaExceeded(f'role "{role}" would have {wanted} slots under way, and its quota is {quota.slots}', hint=_FEWER)

    def compute(self, role: str, allowance: Fraction) -> None:
        most = self._ledger.quota(role).compute_seconds
        with self._lock:
            use = self._uses[role]
            wanted = use.seconds + allowance
            if wanted <= most:
                use.seconds = wanted
                return
        raise QuotaExceeded(f'role "{role}" would have slow computations of {float(wanted):g} s under way, '
                            f"and its quota is {most} s", hint=_SIMPLER)

    def advice(self, role: str, slots: int, seconds: Fraction, allowance: Fraction) -> list[str]:
        """For EXPLAIN: that so many slots, such long ones, or such a computation, are more than the role may have."""
        quota, found = self._ledger.quota(role), []
        if slots > quota.slots:
            found.append(f'A release would be refused: it takes {slots} slots, and the quota of role "{role}" is {quota.slots}. {_FEWER}')
        if slots and seconds > quota.slot_seconds:
            found.append(f'A release would be refused: its slots last {float(seconds):g} s, and the quota of role "{role}" is '
                         f"{quota.slot_seconds} s. {_SHORTER}")
        if is_slow(nanoseconds(allowance)) and allowance > quota.compute_seconds:
            found.append(f'A release would be refused: computing it could take {float(allowance):g} s, and the quota of role "{role}" is '
                         f"{quota.compute_seconds} s. {_SIMPLER}")
        return found

    def ended(self, role: str, own: _Use) -> None:
        with self._lock:
            use = self._uses[role]
            use.releases -= own.releases
            use.slots -= own.slots
            use.seconds -= own.seconds
            if use == _Use():
                del self._uses[role]

    def kept(self, role: str) -> int:
        """Bytes of rows that are kept for tables of a role."""
        return self._ledger.quota(role).kept_bytes

    def post(self, role: str, kept: int | None = None) -> None:
        """For the view privid.quotas. What cannot be posted costs nobody's answer."""
        try:
            with self._posting.take(role):
                with self._lock:
                    use = replace(self._uses.get(role, _Use()))
                self._ledger.post_use(role, use.releases, use.slots, use.seconds, kept)
        except PrividError as error:
            self._log.failure("quotas not posted", error)
