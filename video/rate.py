"""The exact frame rate of a list of presentation times, or why there is none.

Containers round times to ticks (a Matroska tick is 1 ms, so 30 frames per second read 0, 33, 67, 100). A rate fits when every
time lies within one tick of a multiple of the frame's duration; frame i is then the one nearest to i/rate seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["Times", "exact_rate", "first_gap", "frame_number", "frame_numbers"]

#: presentation times in ticks, ascending
Times = NDArray[np.int64]

#: ticks longer than this (in seconds) leave the quotient of two of them inexact; the container's declared rate goes first
_COARSE = Fraction(1, 2000)
#: tried when nothing declared fits
_USUAL = (Fraction(24000, 1001), Fraction(30000, 1001), Fraction(60000, 1001))


def frame_number(ticks: int, tick: Fraction, rate: Fraction) -> int:
    """The frame nearest to a time, counted in ticks from the first frame."""
    return round(ticks * tick * rate)


def frame_numbers(times: Times, tick: Fraction, rate: Fraction) -> NDArray[np.int64] | None:
    """The frame of each time, or None when some time is more than a tick off the beat of this rate."""
    step = tick * rate  # frames per tick
    a, b = step.numerator, step.denominator
    ticks = times - times[0]
    # exact in 64 bits for every ordinary file; beyond that, exact and slow
    wide = ticks if int(ticks[-1]) * a < 2**61 and b < 2**61 else ticks.astype(object)
    frames = (2 * wide * a + b) // (2 * b)
    off = abs(wide * a - frames * b)
    if bool((off > min(a, b // 4)).any()):
        return None
    return np.asarray(frames, dtype=np.int64)


def exact_rate(times: Times, tick: Fraction, declared: Iterable[Fraction | None], given: Fraction | None) -> Fraction | None:
    """The rate at which the times are frames 0, 1, 2, … without gap: the owner's if given, else the simplest sure one.

    >>> exact_rate(np.array([0, 33, 67, 100]), Fraction(1, 1000), [Fraction(30)], None)
    Fraction(30, 1)
    >>> exact_rate(np.array([0, 3003, 6006]), Fraction(1, 90000), [], None)
    Fraction(30000, 1001)
    >>> exact_rate(np.array([0, 33, 90, 100]), Fraction(1, 1000), [Fraction(30)], None) is None
    True
    """
    for rate in _candidates(times, tick, list(declared), given):
        frames = frame_numbers(times, tick, rate)
        if frames is not None and bool((frames == np.arange(len(times))).all()):
            return rate
    return None


def first_gap(times: Times, tick: Fraction, declared: Iterable[Fraction | None]) -> int | None:
    """The first missing frame, when the times keep the beat of a constant rate but for a few gaps (a damaged file)."""
    steps, counts = np.unique(np.diff(times), return_counts=True)
    if not len(steps) or int(steps[counts.argmax()]) <= 0:
        return None
    for rate in (1 / (int(steps[counts.argmax()]) * tick), *declared):
        frames = frame_numbers(times, tick, rate) if rate else None
        if frames is None:
            continue
        holes = np.flatnonzero(np.diff(frames) != 1)
        if 0 < len(holes) <= len(times) // 10:
            return int(frames[holes[0]]) + 1
    return None


def _candidates(times: Times, tick: Fraction, declared: list[Fraction | None], given: Fraction | None) -> list[Fraction]:
    if given is not None:
        return [given]
    span = int(times[-1] - times[0])
    told = [rate for rate in declared if rate is not None and rate > 0]
    if len(times) < 2 or span <= 0:
        return told
    mean = (len(times) - 1) / (span * tick)
    measured = [mean] if bool((np.diff(times) == times[1] - times[0]).all()) else []
    rounded = [mean.limit_denominator(d) for d in (1, 2, 100)]
    return [*told, *measured, *rounded, *_USUAL] if tick > _COARSE else [*measured, *told, *rounded, *_USUAL]
