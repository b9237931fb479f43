"""How far noise may carry an answer."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["deviation", "error95"]

#: the share of answers that lie further away
ALPHA = 0.05


def error95(scale: Fraction, step: Fraction = Fraction(1)) -> Fraction:
    """The least multiple of the step that discrete Laplace noise exceeds, in absolute value, with probability at most 5 %.

    P[|z| > k] = 2·exp(−(k+1)/b) / (1 + exp(−1/b)) for noise z on the integers of scale b.

    >>> error95(Fraction(0)), error95(Fraction(1)), error95(Fraction(36))
    (Fraction(0, 1), Fraction(3, 1), Fraction(108, 1))
    """
    if not scale:
        return Fraction(0)
    b = float(scale / step)
    # rounding errs to the wider side
    k = math.ceil(b * (math.log(2 / ALPHA) - math.log1p(math.exp(-1 / b))) * (1 + 1e-12)) - 1
    return max(k, 0) * step


def deviation(scale: Fraction, step: Fraction = Fraction(1)) -> float:
    """The standard deviation of discrete Laplace noise on multiples of the step: √(2q)/(1 − q) of them with q = exp(−1/b).

    >>> deviation(Fraction(0)), round(deviation(Fraction(1)), 4), round(deviation(Fraction(100)), 2)
    (0.0, 1.357, 141.42)
    """
    if not scale:
        return 0.0
    q = math.exp(-float(step / scale))
    return math.sqrt(2 * q) / (1 - q) * float(step)
