"""The grid of range: public, fine enough, the same for bounds and values."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privid.udf.grid import LARGEST_BOUND, decimals, grid_step, settler, snap


@pytest.mark.parametrize(("low", "high", "step"), [
    (0, 1, Fraction(1, 10**6)), (0, 3, Fraction(1, 10**5)), (-60, 30, Fraction(1, 10**4)), (0, 10**6, Fraction(1)),
    (0, 10**6 + 1, Fraction(1)),
    (0, 1e12, Fraction(1)), (0, 1.1e12, Fraction(10)), (0, 1e18, Fraction(10**6)), (0, 1e-12, Fraction(1, 10**18)),
    (0, 1e-300, Fraction(1, 10**18)),
    (0, 0, Fraction(1)), (-1e-3, 0, Fraction(1, 10**9)), (0, 0.1, Fraction(1, 10**7))])
def test_the_step_follows_from_the_larger_bound_alone(low: float, high: float, step: Fraction) -> None:
    assert grid_step(low, high) == step
    assert grid_step(-high, -low) == step


finite = st.floats(-LARGEST_BOUND, LARGEST_BOUND)


@given(finite, finite, finite)
def test_a_clamped_value_stays_between_the_bounds_on_the_grid(a: float, b: float, value: float) -> None:
    low, high = sorted((a, b))
    step = grid_step(low, high)
    snapped = snap(max(low, min(high, value)), step)
    assert snap(low, step) <= snapped <= snap(high, step)
    assert (snapped / step).denominator == 1


@given(finite, finite)
def test_the_grid_has_at_least_six_digits_and_at_most_twelve(low: float, high: float) -> None:
    bound = max(abs(low), abs(high))
    steps = Fraction(bound) / grid_step(low, high)
    assert steps <= 10**12 * (1 + Fraction(1, 10**12))
    assert bound < 1e-12 or steps > 10**5 * (1 - Fraction(1, 10**12))


@pytest.mark.parametrize(("value", "step", "snapped"), [
    (0.5, Fraction(1), 1), (-0.5, Fraction(1), -1), (2.5, Fraction(1), 3), (1e18, Fraction(10**6), 10**18), (5.0, Fraction(10), 10),
    (1.0000005, Fraction(1, 10**6), Fraction(1000001, 10**6)), (0.30000000000000004, Fraction(1, 10**6), Fraction(3, 10))])
def test_halves_go_away_from_zero(value: float, step: Fraction, snapped: Fraction) -> None:
    assert snap(value, step) == snapped


def test_decimals_are_those_of_the_step() -> None:
    assert [decimals(Fraction(10) ** e) for e in (-18, -6, -1, 0, 3)] == [18, 6, 1, 0, 0]


@given(finite, finite, st.floats(allow_nan=False))
def test_a_settled_value_is_one_that_range_leaves_where_it_is(a: float, b: float, value: float) -> None:
    low, high = sorted((a, b))
    step, settled = grid_step(low, high), settler(low, high)(value)
    wanted = snap(max(low, min(high, value)), step)
    assert settled == float(wanted)
    # bounds of columns lie on their grid, so that clamping anew changes nothing; rounding anew never does
    assert snap(settled, step) == wanted
    assert settler(float(snap(low, step)), float(snap(high, step)))(settled) == settled
