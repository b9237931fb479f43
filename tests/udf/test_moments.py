"""Averages, variances and choices: right without noise, within their range with it, and as often off as the theory says."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from statistics import mean, pvariance, stdev

import pytest

from privid.model import Collect, Collected, Key, Mechanism, Output, Plan, Spread
from privid.udf.moments import pivot
from privid.udf.noise import answer, choose, perturb

STEP = Fraction(1, 100)


def average(scales: tuple[int | Fraction, int | Fraction] = (0, 0), low: int = 0, high: int = 10, type: str = "numeric") -> Output:
    return Output("avg(range(v, 0, 10))", type, STEP, Fraction(0), Fraction(scales[1]), Fraction(1), Fraction(0),
                  mechanism=Mechanism.AVERAGE,
                  collects=(0, 1), scales=tuple(map(Fraction, scales)), low=Fraction(low), high=Fraction(high))


def variance(spread: str, scales: tuple[int, int, int] = (0, 0, 0)) -> Output:
    return Output(f"{spread}(range(v, 0, 10))", "numeric", STEP, Fraction(0), Fraction(scales[1]), Fraction(1), Fraction(0),
                  mechanism=Mechanism.VARIANCE, collects=(0, 1, 2), scales=tuple(map(Fraction, scales)), low=Fraction(0), high=Fraction(10),
                  spread=Spread(spread))


def plan(output: Output, keys: tuple[Key, ...] = ((),), **more: object) -> Plan:
    columns = tuple(Collected(0, what) for what in (Collect.COUNT, Collect.SUM, Collect.SQUARES)[:len(output.collects)])
    return Plan((), (output,), keys, Fraction(1), output.mechanism, "", {}, columns=columns, **more)  # type: ignore[arg-type]


def collected(values: list[Fraction]) -> list[str | None]:
    return [str(len(values)), _decimal(sum(values, Fraction(0))), _decimal(sum((v * v for v in values), Fraction(0)))]


def _decimal(value: Fraction) -> str:
    return f"{float(value):.4f}"


VALUES = [Fraction(n, 100) for n in (125, 990, 0, 333, 1000, 12)]


def test_without_noise_an_average_is_the_average() -> None:
    assert perturb(plan(average()), [collected(VALUES)[:2]]) == [[f"{float(mean(VALUES)):.6f}"]]
    assert perturb(plan(average(type="float8")), [["4", "10"]]) == [["2.5"]]


@pytest.mark.parametrize("spread", ["var_pop", "var_samp", "stddev_pop", "stddev_samp"])
def test_without_noise_a_variance_is_the_variance(spread: str) -> None:
    numbers = [float(v) for v in VALUES]
    expected = {"var_pop": pvariance(numbers), "stddev_pop": math.sqrt(pvariance(numbers)), "stddev_samp": stdev(numbers),
                "var_samp": stdev(numbers) ** 2}[spread]
    assert float(perturb(plan(variance(spread)), [collected(VALUES)])[0][0] or "") == pytest.approx(expected, abs=1e-5)


def test_no_rows_give_the_middle_and_nothing_leaves_the_range() -> None:
    assert perturb(plan(average()), []) == [["5.000000"]]
    for _ in range(200):
        assert 0 <= float(perturb(plan(average((3, 40))), [["2", "20"]])[0][0] or "") <= 10
        assert 0 <= float(perturb(plan(variance("stddev_samp", (3, 40, 200))), [["2", "20", "200"]])[0][0] or "") <= math.sqrt(50) + 1e-6


def test_an_average_over_a_range_of_one_value_tells_nothing_of_the_rows() -> None:
    flat = average(low=3, high=3)
    assert perturb(plan(flat), []) == perturb(plan(flat), [["7", "21"]]) == [["3.000000"]]


def test_averages_are_as_exact_as_the_interval_says() -> None:
    """Worst case: all values at one end, where the noise of the count counts in full."""
    keys = tuple((f"k{i}",) for i in range(4000))
    rows = [[key[0], "500", "5000"] for key in keys]
    noisy = average((Fraction(8), Fraction(40)))
    off = [abs(float(row[1] or "") - 10) for row in perturb(plan(noisy, keys), rows)]
    # kept within the range, so half of the errors are cut to nothing; the others are within the pivot
    reach = pivot(0.05) * 40 / 500
    outside = sum(o > reach for o in off) / len(off)
    assert outside < 0.05
    assert sum(o > reach / 8 for o in off) / len(off) > 0.2, "there is noise"


def test_the_interval_covers_the_truth_nineteen_times_in_twenty() -> None:
    covered = 0
    for _ in range(400):
        _, told = answer(plan(average((Fraction(8), Fraction(40)))), [["300", "1800"]])
        low, high = (float(part) for part in told.split("[")[1].rstrip("]").split(", "))
        covered += low <= 6 <= high
    assert covered >= 366  # 95 % of 400, less four deviations


def test_the_interval_of_a_variance_covers_the_truth() -> None:
    chance = random.Random(5)
    values = [Fraction(chance.randrange(0, 1001), 100) for _ in range(3000)]
    truth = pvariance([float(v) for v in values])
    row = collected(values)
    covered = 0
    for _ in range(100):
        _, told = answer(plan(variance("var_pop", (6, 22, 112))), [row])
        low, high = (float(part) for part in told.split("[")[1].split("]")[0].split(", "))
        covered += low - 1e-3 <= truth <= high + 1e-3
        assert high - low < 4
    assert covered >= 87  # 95 %, less four deviations


def test_a_choice_has_the_law_of_permute_and_flip() -> None:
    seen = Counter(choose([0, 6], Fraction(4), Fraction(1)) for _ in range(20_000))
    expected = math.exp(-6 / 4) / 2
    assert abs(seen[0] / 20_000 - expected) < 5 * math.sqrt(expected / 20_000)
    assert choose([3, 9, 9], Fraction(0), Fraction(0)) == 1


def test_argmax_gives_the_winner_of_each_cell_and_no_score() -> None:
    keys = tuple((hour, kind) for hour in ("6", "7") for kind in ("car", "bus"))
    output = Output("argmax of count(*)", "int8", Fraction(1), Fraction(4), Fraction(4), Fraction(1), Fraction(9),
                    mechanism=Mechanism.PERMUTE, collects=(0,))
    rows = [["6", "car", "1000"], ["6", "bus", "2"], ["7", "bus", "1000"]]
    found, told = answer(plan(output, keys, argmax=(1,)), rows)
    assert found == [["6", "car", None], ["7", "bus", None]]
    assert "within 9 of the largest" in told


def test_every_key_of_the_plan_is_in_the_answer_in_its_order_and_no_other_is() -> None:
    output = Output("count(x)", "int8", Fraction(1), Fraction(0), Fraction(0), Fraction(0), Fraction(0), mechanism=Mechanism.EXACT,
                   collects=(0,))
    keys = (("A", "6"), ("A", "7"), ("B", "6"), ("B", "7"))
    rows: list[list[str | None]] = [["B", "6", "2"], ["A", "7", "1"], ["C", "6", "9"], ["A", "6", "3"], ["B", None, "5"]]
    assert perturb(plan(output, keys), rows) == [["A", "6", "3"], ["A", "7", "1"], ["B", "6", "2"], ["B", "7", "0"]]


def test_what_is_public_is_answered_as_the_plan_has_it() -> None:
    last = Output("max(chunk)", "timestamptz", Fraction(1), Fraction(0), Fraction(0), Fraction(0), Fraction(0), mechanism=Mechanism.EXACT,
                  public=("2026-03-01 06:00:09+00", None), counts=False)
    count = Output("count(*)", "int8", Fraction(1), Fraction(0), Fraction(0), Fraction(0), Fraction(0), mechanism=Mechanism.EXACT,
                   collects=(0,))
    both = Plan((), (last, count), (("a",), ("b",)), Fraction(0), "exact", "", {}, columns=(Collected(1),))
    assert perturb(both, [["b", "4"]]) == [["a", "2026-03-01 06:00:09+00", "0"], ["b", None, "4"]]


def test_where_rows_can_change_nothing_is_shown_that_is_on_no_grid() -> None:
    text = Output("sum(range(v, 0, 0))", "numeric", STEP, Fraction(0), Fraction(0), Fraction(0), Fraction(0), mechanism=Mechanism.EXACT,
                  collects=(0,))
    assert perturb(plan(text, (("a",), ("b",), ("c",))), [["a", "0.000"], ["b", "-0"]]) == [[key, "0.00"] for key in "abc"]
    with pytest.raises(ValueError, match="not on its grid"):
        perturb(plan(text, (("a",),)), [["a", "4.1000000000000001"]])


def test_exact_answers_are_as_postgresql_printed_them() -> None:
    text = Output("avg(range(v, 0, 10))", "numeric", STEP, Fraction(0), Fraction(0), Fraction(0), Fraction(0), mechanism=Mechanism.EXACT,
                  collects=(0,), counts=False, protected=False)
    assert perturb(plan(text, (("a",), ("b",))), [["a", "4.1000000000000000"]]) == [["a", "4.1000000000000000"], ["b", None]]
