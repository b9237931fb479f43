"""Whether what was seen tells two sides apart: times of many runs, and values polled during them.

A run, not a look, is the unit: looks of one run depend on each other. What never varies, on neither
side, is equal without a test; of all else the chance is computed with which sides that are alike
would differ that much, and judged by Bonferroni's threshold.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scipy import stats

__all__ = ["Difference", "Run", "State", "compare_runs", "compare_times", "describe", "likeness"]

#: sides that are alike are told apart that seldom
CHANCE = 0.01
#: medians may lie that far apart
MEDIANS = 0.002


@dataclass(frozen=True)
class State:
    """What a column of a view, or a function, showed at one look."""

    value: Hashable  # equal for equal contents
    rows: int = 1
    total: float | None = None  # of the numbers in it, if it has nothing else


#: what a run showed: for each column the states, in the order of the looks
Run = Mapping[str, Sequence[State]]


@dataclass(frozen=True)
class Difference:
    """A feature that tells the sides apart."""

    feature: str
    p: float
    a: str
    b: str


def describe(values: Sequence[float]) -> str:
    middle = statistics.median(values)
    return f"median {middle:g} in {min(values):g} .. {max(values):g} of {len(values)}"


def compare_times(
    a: Sequence[float], b: Sequence[float], chance: float = CHANCE
) -> list[Difference]:
    """Do times of the sides differ, in their medians or in their ranks? On a busy machine few runs
    do not fix a median to 2 ms; then it may be off by three of its standard errors."""
    found = []
    apart = abs(statistics.median(a) - statistics.median(b))
    if apart >= max(MEDIANS, 3 * math.hypot(_error(a), _error(b))):
        found.append(Difference("median", 0.0, describe(a), describe(b)))
    if (p := likeness(a, b)) <= chance:
        found.append(Difference("ranks", p, describe(a), describe(b)))
    return found


def _error(values: Sequence[float]) -> float:
    """The standard error of a median, from the quartiles, which outliers do not move."""
    low, _, high = statistics.quantiles(values, n=4)
    return 1.2533 * (high - low) / 1.349 / math.sqrt(len(values))


def compare_runs(
    a: Sequence[Run], b: Sequence[Run], chance: float = CHANCE
) -> tuple[list[Difference], int]:
    """The features that differ, and how many were compared."""
    tested: list[Difference] = []
    for column in sorted({column for run in [*a, *b] for column in run}):
        sides = [[features(run[column]) for run in runs if run.get(column)] for runs in (a, b)]
        if not all(sides):
            tested.append(Difference(column, 0.0, f"{len(sides[0])} runs", f"{len(sides[1])} runs"))
            continue
        for name in sides[0][0]:
            left, right = (
                [one[name] for one in side if one.get(name) is not None] for side in sides
            )
            if (difference := _compare(f"{column}: {name}", left, right)) is not None:
                tested.append(difference)
    return [one for one in tested if one.p <= chance / len(tested)], len(tested)


def features(states: Sequence[State]) -> dict[str, Hashable | None]:
    """What is compared of a run: how often a value changed, how long it was other than before, how
    far numbers went, what stood there."""
    first, last = states[0], states[-1]
    middle = states[len(states) // 2]
    known = all(state.total is not None for state in states)
    totals = [state.total for state in states if state.total is not None]
    return {
        "changes": sum(one.value != other.value for one, other in pairwise(states)),
        "looks that differ from the first": sum(
            state.value != first.value for state in states[1:-1]
        ),
        "most rows": max(state.rows for state in states),
        "growth": totals[-1] - totals[0] if known else None,
        "peak": max(totals) - totals[0] if known else None,
        "level": totals[len(totals) // 2] if known else None,
        "value": None if known else middle.value,
        "value at the end": None if known else last.value,
    }


def _compare(feature: str, a: Sequence[Hashable], b: Sequence[Hashable]) -> Difference | None:
    """None if there is nothing to compare: no values, or one and the same."""
    if not a or not b or len({*a, *b}) == 1:
        return None
    if all(isinstance(value, (int, float)) for value in (*a, *b)):
        numbers = [[float(value) for value in side] for side in (a, b)]  # type: ignore[arg-type]
        return Difference(feature, likeness(*numbers), describe(numbers[0]), describe(numbers[1]))
    counts = [Counter(side) for side in (a, b)]
    # values that occur once say nothing about sides: texts with a time in them, random numbers
    often = [value for value, times in (counts[0] + counts[1]).items() if times > 2]
    table = [
        [count[value] for value in often]
        + [sum(n for value, n in count.items() if value not in often)]
        for count in counts
    ]
    columns = [column for column in zip(*table, strict=True) if sum(column)]
    if len(columns) < 2:
        return None
    p = float(stats.chi2_contingency([list(row) for row in zip(*columns, strict=True)]).pvalue)
    return Difference(feature, p, str(counts[0].most_common(3)), str(counts[1].most_common(3)))


def likeness(a: Sequence[float], b: Sequence[float]) -> float:
    """Mann and Whitney: how often chance alone gives ranks as far apart."""
    if len({*a, *b}) == 1:
        return 1.0
    return float(stats.mannwhitneyu(a, b, alternative="two-sided").pvalue)
