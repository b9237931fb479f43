"""Quantiles: the exact candidate without noise, a candidate always, and no more told than epsilon allows, which half the scale would."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from privid.engine.allowances import margin_of
from privid.model import Collect, Collected, Key, Mechanism, Output, Plan, Quantile
from privid.udf.noise import answer, perturb
from privid.udf.quantiles import scores, unpacked

DIGITS = 6
FEW = ("0", "5", "10")


def output(fraction: Fraction, candidates: tuple[str, ...], scale: Fraction | int = 0) -> Output:
    return Output("median", "float8", Fraction(1, fraction.denominator), Fraction(2), Fraction(scale), Fraction(1 if scale else 0),
                  Fraction(0), mechanism=Mechanism.QUANTILE, counts=False, collects=(0,), quantile=Quantile(fraction, candidates, DIGITS))


def plan(one: Output, keys: tuple[Key, ...] = ((),)) -> Plan:
    return Plan((), (one,), keys, Fraction(1), one.mechanism, "", {}, columns=(Collected(0, Collect.BINS, digits=DIGITS),))


def packed(counts: list[int]) -> str:
    return str(sum(count * 10**(DIGITS * i) for i, count in enumerate(counts)))


def shown(one: Output, text: str | None) -> str | None:
    return perturb(plan(one), [[text]])[0][0]


def test_without_noise_it_is_the_value_of_percentile_disc() -> None:
    chance = random.Random(3)
    for _ in range(500):
        values = sorted(chance.randint(0, 9) for _ in range(chance.randint(1, 12)))
        fraction = Fraction(chance.randint(0, 20), 20)
        first = values[max(1, math.ceil(fraction * len(values))) - 1]  # as PostgreSQL defines it
        counts = Counter(values)
        found = shown(output(fraction, tuple(map(str, range(10)))), packed([counts[i] for i in range(10)]))
        assert found == str(first), (values, fraction)


def test_of_no_rows_the_answer_is_a_candidate_and_without_noise_the_middle_one() -> None:
    one = output(Fraction(1, 2), FEW)
    assert shown(one, None) == shown(one, "0") == "5"
    assert perturb(plan(one, (("a",), ("b",))), [["b", packed([9, 0, 0])]]) == [["a", "5"], ["b", "0"]]
    assert {shown(output(Fraction(1, 2), FEW, 4), None) for _ in range(60)} == {*FEW}


def test_the_numbers_of_many_rows_do_not_run_into_each_other() -> None:
    counts = [10**DIGITS - 1, 0, 10**DIGITS - 1, 7]
    assert unpacked(packed(counts), Quantile(Fraction(1, 2), ("a", "b", "c", "d"), DIGITS)) == counts
    with pytest.raises(ValueError, match="so many digits"):
        unpacked(packed(counts), Quantile(Fraction(1, 2), ("a", "b", "c"), DIGITS))


def test_rows_of_one_group_that_come_apart_are_added_up_exactly() -> None:
    many = tuple(map(str, range(101)))
    parts = [packed([1 if i == j else 0 for i in range(101)]) for j in (0, 60, 100)]
    rows = [[key, text] for key, text in zip(("0", "-0", "0"), parts, strict=True)]
    assert perturb(plan(output(Fraction(1, 2), many), (("0",),)), rows) == [["0", "60"]]


def test_a_row_moves_scores_apart_by_two_at_most_and_some_row_does() -> None:
    """All counts of up to three values on four candidates; a value that goes, comes or changes."""
    worst = Fraction(0)
    for fraction in (Fraction(0), Fraction(1, 2), Fraction(9, 10), Fraction(1, 3), Fraction(1)):
        for counts in product(range(4), repeat=4):
            before = scores(list(counts), fraction)
            for leaves, comes in product(range(5), repeat=2):  # 4: none
                after = [c - (i == leaves) + (i == comes) for i, c in enumerate(counts)]
                if min(after) >= 0:
                    moved = [Fraction(b - a, fraction.denominator) for a, b in zip(before, scores(after, fraction), strict=True)]
                    worst = max(worst, max(moved) - min(moved))
    assert worst == 2


def loss(scale: Fraction, draws: int = 8_000) -> float:
    """The largest log ratio of an answer's frequency between two groups, one value of which is on the other side of the middle."""
    sides = []
    for counts in ([0, 1, 1], [1, 1, 0]):
        found = Counter(shown(output(Fraction(1, 2), FEW, scale), packed(counts)) for _ in range(draws))
        sides.append([found[c] / draws for c in FEW])
    return max(abs(math.log(a / b)) for a, b in zip(*sides, strict=True))


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 2)])
def test_neighbours_are_told_apart_no_better_than_epsilon_allows(epsilon: Fraction) -> None:
    """One row, Delta = 2. The exact loss is 0.68 at epsilon 1; frequencies know its logarithm to 0.04."""
    assert loss(2 / epsilon) <= epsilon


def test_half_the_scale_would_tell_neighbours_apart() -> None:
    """The exact loss would be 1.28 at epsilon 1: what the test above asks, it can deny."""
    assert loss(Fraction(1)) > 1


def test_the_notice_tells_the_error_in_ranks() -> None:
    _, told = answer(plan(output(Fraction(1, 2), FEW, 4)), [[packed([1, 2, 3])]])
    assert "rows of the quantile with probability 95 %" in told


def test_the_margin_for_noise_is_several_times_what_quantiles_take() -> None:
    """Of the processor; the machine may be busy with something else."""
    keys = tuple((str(key),) for key in range(300))
    asked = plan(output(Fraction(1, 2), tuple(map(str, range(102))), 10), keys)
    rows, taken = [[key, packed([3] * 102)] for (key,) in keys], list[float]()
    for _ in range(5):
        begun = time.process_time()
        answer(asked, rows)
        taken.append(time.process_time() - begun)
    assert min(taken) < margin_of(asked) / 3
