"""Noise on the way to an answer: complete, exact, of the declared scale and no other."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
from scipy.stats import chi2

from privid.errors import InvalidValue
from privid.model import Collected, Key, Mechanism, Output, Plan
from privid.udf.noise import MAX_SCALE, _laplace, answer, float_scale, notice, perturb


def output(scale: Fraction | int = 0, *, step: Fraction | int = 1, epsilon: Fraction | int = 1, type: str = "int8",
           label: str = "count(*)") -> Output:
    scale, epsilon = Fraction(scale), Fraction(epsilon)
    return Output(label, type, Fraction(step), scale * epsilon, scale, epsilon, 3 * scale)


def plan(*outputs: Output, keys: tuple[Key, ...] = ((),)) -> Plan:
    noisy = any(o.scale for o in outputs)
    return Plan((), outputs, keys, Fraction(1) if noisy else Fraction(0), "discrete Laplace" if noisy else "exact", "", {})


SUM = output(step=Fraction(1, 1000), type="numeric", label="sum(range(v, 0, 999))")


def test_without_noise_the_answer_is_the_raw_answer_in_the_order_of_the_keys() -> None:
    keys = (("a",), ("b",), (None,))
    rows: list[list[str | None]] = [["b", "7", "1.5"], [None, "2", "-0.025"], ["a", "1", "10"]]
    assert perturb(plan(output(), SUM, keys=keys), rows) == [["a", "1", "10.000"], ["b", "7", "1.500"], [None, "2", "-0.025"]]


def test_missing_keys_are_completed_and_undeclared_ones_dropped() -> None:
    keys = (("a", "t"), ("b", "t"))
    assert perturb(plan(output(), SUM, keys=keys), [["b", "t", "7", None], ["c", "t", "9", "9"], ["b", "f", "9", "9"]]) == [
        ["a", "t", "0", "0.000"], ["b", "t", "7", "0.000"]]


def test_a_release_without_groups_has_one_row_even_when_nothing_was_counted() -> None:
    assert perturb(plan(output(), SUM), [["0", None]]) == [["0", "0.000"]]
    assert perturb(plan(output()), []) == [["0"]]


def test_a_release_without_keys_has_no_row() -> None:
    assert perturb(plan(output(3), keys=()), [["a", "7"]]) == []


def test_a_release_of_keys_alone_shows_them_all() -> None:
    assert perturb(plan(keys=(("a",), ("b",))), [["b"]]) == [["a"], ["b"]]


def test_the_sign_of_zero_does_not_hide_a_group() -> None:
    """One row of -0 could otherwise rename a whole group, and so remove it from the answer."""
    assert perturb(plan(output(), keys=(("0",), ("1",))), [["-0", "40"], ["1", "2"]]) == [["0", "40"], ["1", "2"]]
    assert perturb(plan(output(), keys=(("-0",), ("0",))), [["-0", "40"], ["0", "2"]]) == [["-0", "40"], ["0", "2"]]


@pytest.mark.parametrize(("step", "raw", "text"), [
    (Fraction(1, 1000), "12.3", "12.300"), (Fraction(1, 1000), "-0.001", "-0.001"), (Fraction(1), "-12", "-12"),
    (Fraction(1), "12.000", "12"),
    (Fraction(100), "12300", "12300"), (Fraction(1, 10**18), "0.000000000000000001", "0.000000000000000001"),
    (Fraction(1, 1000), "123456789012345678901234567890.125", "123456789012345678901234567890.125")])
def test_a_sum_is_shown_with_the_decimals_of_its_grid(step: Fraction, raw: str, text: str) -> None:
    assert perturb(plan(output(step=step, type="numeric")), [[raw]]) == [[text]]


def test_a_value_off_the_grid_is_a_fault_and_not_rounded_away() -> None:
    with pytest.raises(ValueError, match="grid"):
        perturb(plan(SUM), [["0.0001"]])


# The noise itself

KEYS = tuple((f"k{i}",) for i in range(40_000))


def p_value(noise: list[int], b: float) -> float:
    """Chi-square of discrete Laplace noise of scale b, in cells that expect at least 25 values."""
    p = math.exp(-1 / b)
    mass = {z: (1 - p) / (1 + p) * p ** abs(z) for z in range(-int(12 * b) - 2, int(12 * b) + 3)}
    seen = Counter(noise)
    cells: list[tuple[int, float]] = []
    observed, expected = 0, 0.0
    for z in sorted(mass):
        observed, expected = observed + seen.pop(z, 0), expected + mass[z] * len(noise)
        if expected >= 25:
            cells.append((observed, expected))
            observed, expected = 0, 0.0
    observed += sum(seen.values())
    cells[-1] = (cells[-1][0] + observed, cells[-1][1] + expected)
    statistic = sum((o - e) ** 2 / e for o, e in cells)
    return float(chi2.sf(statistic, len(cells) - 1))


@pytest.mark.parametrize(("scale", "step"), [(Fraction(18), Fraction(1)), (Fraction(11, 3), Fraction(1)),
                                              (Fraction(3, 50), Fraction(1, 100))],
                         ids=["whole", "a fraction", "on a grid"])
def test_forty_thousand_values_have_the_declared_scale_and_no_other(scale: Fraction, step: Fraction) -> None:
    rows = [[key[0], "5"] for key in KEYS]
    epsilon = step / scale  # sensitivity of one step
    answer = perturb(plan(output(scale, step=step, epsilon=epsilon, type="numeric"), keys=KEYS), rows)
    noise = [int((Fraction(row[1] or "") - 5) / step) for row in answer]
    b = float(scale / step)
    assert p_value(noise, b) > 1e-6
    assert p_value(noise, 0.9 * b) < 1e-3
    assert p_value(noise, 1.1 * b) < 1e-3


def test_each_output_has_noise_of_its_own() -> None:
    answer = perturb(plan(output(18), output(18), keys=KEYS[:2000]), [])
    assert sum(row[1] == row[2] for row in answer) < 200


# The scale

SHARES = [(Fraction(33), Fraction(1)), (Fraction(33), Fraction(1, 3)), (Fraction(99), Fraction(1, 7)), (Fraction(1), Fraction(1, 10)),
          (Fraction(7), Fraction(2, 3)), (Fraction(10**12), Fraction(1, 1000)), (Fraction(1), Fraction(50))]


@pytest.mark.parametrize(("change", "share"), SHARES)
def test_the_float_scale_is_not_below_the_exact_one_and_opendp_grants_the_share(change: Fraction, share: Fraction) -> None:
    o = output(change / share, epsilon=share)
    scale = float_scale(o)
    assert Fraction(scale) >= o.scale
    assert Fraction(_laplace(scale).map(int(change))) <= share
    assert Fraction(scale) <= o.scale * (1 + Fraction(1, 10**12)), "no more noise than rounding asks for"
    below = math.nextafter(scale, 0)
    assert Fraction(below) < o.scale or Fraction(_laplace(below).map(int(change))) > share, "the least such float"


def test_noise_beyond_exact_integers_is_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        perturb(plan(output(Fraction(MAX_SCALE) * 2, epsilon=Fraction(1, MAX_SCALE))), [["1"]])
    assert caught.value.hint is not None
    assert float_scale(output(Fraction(MAX_SCALE), epsilon=Fraction(1, MAX_SCALE))) >= MAX_SCALE


def test_a_sensitivity_off_the_grid_is_a_fault() -> None:
    with pytest.raises(ValueError, match="multiple"):
        float_scale(output(Fraction(1, 3), epsilon=Fraction(1)))


def test_the_notice_tells_epsilon_scale_and_error() -> None:
    assert notice(plan(output(18), SUM)) == (
        "epsilon 1 was charged; count(*): scale 18, 95 % error +/-54; sum(range(v, 0, 999)): exact")
    assert "exact" in notice(plan(output())) and "\n" not in notice(plan(output()))


def test_what_gets_no_noise_is_taken_from_what_was_computed_apart() -> None:
    exact = Output("count(*)", "int8", Fraction(1), Fraction(0), Fraction(0), Fraction(0), Fraction(0), mechanism=Mechanism.EXACT)
    noisy = output(1)
    mean = Output("avg(range(v, 0, 10))", "float8", Fraction(1, 100), Fraction(1), Fraction(1, 100), Fraction(1), Fraction(0),
                  mechanism=Mechanism.AVERAGE, collects=(2, 3), scales=(Fraction(0), Fraction(1, 100)), low=Fraction(0), high=Fraction(10))
    plan = Plan((), (exact, noisy, mean), (("a",), ("b",)), Fraction(1), "", "", {}, columns=(Collected(0),) * 4)
    settled = [("a", "80", "0", "80", "400"), ("b", "80", "0", "80", "400")]
    for rows in ([], [("a", "7", "0", "7", "70")]):  # of a late room, or of one that is wrong
        found = answer(plan, rows, settled)[0]
        assert [row[:2] for row in found] == [["a", "80"], ["b", "80"]]
        assert all(abs(int(row[2] or 0)) < 100 for row in found)
        assert all(row[3] != "5" for row in found)  # the middle, which is the answer of no rows
