"""How long a computation is given: a function of public sizes, whatever the rows."""

from __future__ import annotations

from fractions import Fraction

from privid.model import Plan

from .timetable import NANO

__all__ = ["QUICK", "SLOW_FACTOR", "allowance_of", "is_slow", "margin_of", "picking", "widened"]

#: seconds; what could take longer is slow, has a lane of its own, and is given so many times its bound, because quick ones go first
QUICK, SLOW_FACTOR = Fraction(1), 4
#: seconds between the moment at which rows are handed over and the deadline: for the way, for each value of each group on it and the noise
#: it gets, and for each candidate of a quantile; several times what they take. An engine that is busier than that answers late, whatever
#: the rows.
_MARGIN, _VALUE, _CANDIDATE = Fraction(20, 1000), Fraction(15, 100_000), Fraction(15, 1_000_000)


def margin_of(plan: Plan) -> Fraction:
    """Seconds that noise may take."""
    candidates = sum(len(output.quantile.candidates) for output in plan.outputs if output.quantile is not None)
    width = max(1, len(plan.columns)) + (len(plan.keys[0]) if plan.keys else 0)
    return _MARGIN + len(plan.keys) * (_VALUE * width + _CANDIDATE * candidates)


def allowance_of(worst: Fraction, quantum: Fraction) -> Fraction:
    """Seconds from the beginning of a computation to its answer.

    >>> allowance_of(Fraction(1, 2), Fraction(1, 10)), allowance_of(Fraction(3), Fraction(1, 10))
    (Fraction(1, 2), Fraction(12, 1))
    """
    return max(quantum, worst if worst <= QUICK else SLOW_FACTOR * worst)


#: nanoseconds to take some columns out of a kept run: for the run, for each column of it, for ten bytes of the most it can have
_RUN, _COLUMN, _TEN_BYTES = 5_000, 1_000, 60


def picking(runs: int, columns: int, weight: int) -> Fraction:
    """Seconds to take a table's columns out of runs that were kept with more of them; several times what it takes."""
    return Fraction(runs * (_RUN + _COLUMN * columns + _TEN_BYTES * weight // 10), NANO)


def widened(allowance: Fraction, more: Fraction) -> Fraction:
    """An allowance for as much more work.

    >>> widened(Fraction(1, 2), Fraction(1, 4)), widened(Fraction(1, 2), Fraction(1)), widened(Fraction(12), Fraction(1))
    (Fraction(3, 4), Fraction(6, 1), Fraction(16, 1))
    """
    if not more:
        return allowance
    return allowance_of((allowance if allowance <= QUICK else allowance / SLOW_FACTOR) + more, Fraction(0))


def is_slow(allowance: int) -> bool:
    """Of nanoseconds."""
    return allowance > QUICK * NANO
