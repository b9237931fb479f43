"""Quantiles from exact numbers of values near each public candidate: the candidate whose rank is nearest, by permute-and-flip.

Scores are whole numbers: distances in ranks times the denominator of the fraction (calculus/rules/quantile.md).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from privid.model import Output, Quantile

__all__ = ["quantiles", "scores", "unpacked"]

#: the place of the largest score after noise of a scale, for a share of epsilon
Choose = Callable[[list[int], Fraction, Fraction], int]


def quantiles(output: Output, collected: list[str | None], choose: Choose) -> list[str | None]:
    """One candidate for each group."""
    wanted = output.quantile
    if wanted is None:
        raise ValueError(f"{output.label} has no candidates")
    answer: list[str | None] = []
    for text in collected:
        counts = unpacked(text, wanted)
        ranked = scores(counts, wanted.fraction)
        place = choose(ranked, output.scale / output.step, output.epsilon) if output.scale else _exact(counts, ranked)
        answer.append(wanted.candidates[place])
    return answer


def _exact(counts: list[int], ranked: list[int]) -> int:
    """Of no noise: the first candidate of the very rank that has values, as percentile_disc finds it; of no values the middle one."""
    return max((i for i, count in enumerate(counts) if count), key=lambda i: (ranked[i], -i), default=(len(counts) - 1) // 2)


def scores(counts: list[int], fraction: Fraction) -> list[int]:
    """Minus the distance from the wanted rank, fraction times all, to the ranks that each candidate takes up.

    >>> scores([1, 0, 2, 1], Fraction(1, 2))
    [-2, -2, 0, -2]
    """
    wanted, unit, below = fraction.numerator * sum(counts), fraction.denominator, 0
    found = []
    for count in counts:
        found.append(-max(0, wanted - unit * (below + count), unit * below - wanted))
        below += count
    return found


def unpacked(text: str | None, wanted: Quantile) -> list[int]:
    """The number of values of each candidate, from a sum of powers of ten; of no rows there is no sum."""
    digits, length = wanted.digits, wanted.digits * len(wanted.candidates)
    found = (text or "").zfill(length)
    if len(found) > length or not found.isdecimal():
        raise ValueError("what was collected for a quantile is not a number of so many digits")
    return [int(found[end - digits:end]) for end in range(length, 0, -digits)]
