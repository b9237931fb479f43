"""Candidates of a quantile are written exactly, however many digits they have."""

from __future__ import annotations

from fractions import Fraction

import pytest

from privid.calculus.rules.quantile import _decimal


@pytest.mark.parametrize("value", [Fraction(21 * 10**98 + 19, 2), Fraction(10**300 + 1), Fraction(1, 10**120), Fraction(-7, 8)])
def test_a_candidate_is_written_with_all_its_digits(value: Fraction) -> None:
    assert Fraction(_decimal(value)) == value
