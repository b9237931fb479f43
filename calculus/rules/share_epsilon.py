"""Several aggregates in one SELECT: the release's epsilon is shared among those that need noise.

Proof: share_epsilon.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

__all__ = ["RULE", "split"]

RULE = "share epsilon"


def split(sensitivities: Sequence[Fraction], epsilon: Fraction) -> list[Fraction]:
    """Equal shares for those that can change, nothing for those that cannot.

    >>> split([Fraction(3), Fraction(0), Fraction(5)], Fraction(1))
    [Fraction(1, 2), Fraction(0, 1), Fraction(1, 2)]
    """
    noisy = sum(1 for delta in sensitivities if delta > 0)
    return [epsilon / noisy if delta > 0 else Fraction(0) for delta in sensitivities]
