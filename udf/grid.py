"""The grid on which values of range(value, low, high) live; the library's C function says the same."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

__all__ = ["LARGEST_BOUND", "decimals", "grid_step", "settler", "snap"]

#: bounds of a range are at most this in size
LARGEST_BOUND = 1e18
#: a largest bound below 10**SMALLEST has the grid of 10**SMALLEST
SMALLEST = -12


def exponent(low: float, high: float) -> int:
    """The step is 10 to this power: six significant digits of the larger bound, or whole numbers, or twelve digits.

    >>> exponent(0, 3), exponent(-1000000, 5), exponent(0, 2e6), exponent(0, 1e15), exponent(0, 0)
    (-5, 0, 0, 3, 0)
    """
    bound = max(abs(low), abs(high))
    if bound == 0:
        return 0
    digits = SMALLEST
    while bound > float(f"1e{digits}"):
        digits += 1
    return max(digits - 12, min(0, digits - 6))


def grid_step(low: float, high: float) -> Fraction:
    return Fraction(10) ** exponent(low, high)


def decimals(step: Fraction) -> int:
    """Digits after the point of a value on the grid.

    >>> decimals(Fraction(1, 1000)), decimals(Fraction(100))
    (3, 0)
    """
    return max(0, len(str(step.denominator)) - 1)


def snap(value: float, step: Fraction) -> Fraction:
    """The grid's value for a float8: fifteen significant digits, then half away from zero.

    >>> snap(0.1234565, Fraction(1, 10**6))
    Fraction(123457, 1000000)
    """
    with localcontext() as context:
        context.prec = 60
        unit = Decimal(step.numerator) / Decimal(step.denominator)
        whole = (Decimal(f"{value:.15g}") / unit).quantize(Decimal(1), rounding=ROUND_HALF_UP)
    return int(whole) * step


def settler(low: float, high: float) -> Callable[[float], float]:
    """What range(value, low, high) does to a number, as the float8 nearest to the grid's value; range leaves that one where it is.

    >>> settle = settler(0, 120)
    >>> settle(80.1235), settle(1e300), settle(-5e-324)
    (80.124, 120.0, 0.0)
    """
    unit = Decimal(1).scaleb(exponent(low, high))

    def settle(value: float) -> float:
        text = f"{min(max(value, low), high):.15g}"
        return float(Decimal(text).quantize(unit, rounding=ROUND_HALF_UP)) + 0.0  # of -0: 0

    return settle
