"""The 95 % error is the least that holds, computed here with many digits."""

from __future__ import annotations

from decimal import Decimal, getcontext
from fractions import Fraction

import pytest

from privid.udf.interval import error95


def tail(k: int, b: Fraction) -> Decimal:
    """P[|z| > k]."""
    getcontext().prec = 60
    scale = Decimal(b.numerator) / Decimal(b.denominator)
    return 2 * (-(k + 1) / scale).exp() / (1 + (-1 / scale).exp())


@pytest.mark.parametrize("b", [Fraction(1, 100), Fraction(1, 5), Fraction(1, 3), Fraction(1), Fraction(11, 7), Fraction(18), Fraction(1000),
                               Fraction(10**6), Fraction(10**9 + 7, 3)])
def test_the_error_is_the_least_that_covers_95_percent(b: Fraction) -> None:
    k = error95(b)
    assert k.denominator == 1
    assert tail(int(k), b) <= Decimal("0.05")
    assert k == 0 or tail(int(k) - 1, b) > Decimal("0.05")


def test_the_error_is_on_the_grid() -> None:
    assert error95(Fraction(18, 1000), Fraction(1, 1000)) == error95(Fraction(18)) / 1000


def test_a_huge_scale_errs_to_the_wider_side() -> None:
    b = Fraction(2**55)
    assert tail(int(error95(b)), b) <= Decimal("0.05")
    assert error95(b) < b * Fraction(29958, 10000)


def test_no_noise_no_error() -> None:
    assert error95(Fraction(0)) == 0
