"""How long a computation is given: a function of public sizes, whatever the rows."""

from __future__ import annotations

from fractions import Fraction

from privid.model import Plan

from .timetable import NANO

__all__ = ["QUICK", "SLOW_FACTOR", "allowance_of", "is_slow", "margin_of"]

#: seconds; what could take longer is slow, has a lane of its own, and is given so many times its bound, because quick ones go first
QUICK, SLOW_FACTOR = Fraction(1), 4
#: seconds between the moment at which rows are handed over and the deadline: for the way, and for noise on each value of each group,
#: several times what it takes. An engine that is busier than that answers late, whatever the rows.
_MARGIN, _VALUE = Fraction(20, 1000), Fraction(15, 100_000)


def margin_of(plan: Plan) -> Fraction:
    """Seconds that noise may take."""
    return _MARGIN + _VALUE * len(plan.keys) * max(1, len(plan.columns))


def allowance_of(worst: Fraction, quantum: Fraction) -> Fraction:
    """Seconds from the beginning of a computation to its answer.

    >>> allowance_of(Fraction(1, 2), Fraction(1, 10)), allowance_of(Fraction(3), Fraction(1, 10))
    (Fraction(1, 2), Fraction(12, 1))
    """
    return max(quantum, worst if worst <= QUICK else SLOW_FACTOR * worst)


def is_slow(allowance: int) -> bool:
    """Of nanoseconds."""
    return allowance > QUICK * NANO
