"""How long a release takes, and what a second session sees of it, does not tell what the rows are.

The statement works hard on rows about an event and not at all on others: in 0.3.0 that took ten
times as long. tests/verify/statements_time.py asks it more often, and looks at everything at 50 Hz.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import RunningStack

from .clock import Clock
from .comparing import Run, State, compare_runs, compare_times
from .watching import LEFT_OUT, Watcher, sights


@pytest.fixture(scope="module")
def clock(stack: RunningStack, make_video: Callable[..., Path]) -> Iterator[Clock]:
    with Clock.make(stack, make_video) as made:
        yield made


def test_heavy_work_on_rows_of_an_event_shows_in_no_time(clock: Clock) -> None:
    taken = clock.times(pairs=200, seconds=12, least=20)
    found = compare_times(taken["a"], taken["b"])
    if found:  # one time in a hundred by chance alone, but not twice
        taken = clock.times(pairs=200, seconds=12, least=20)
        found = compare_times(taken["a"], taken["b"])
    assert not found, found


def test_the_heavy_work_is_done_and_not_cut(clock: Clock) -> None:
    """Else times would be equal for a wrong reason: with nothing protected the answer is exact."""
    for side, rows in (("a", 8), ("b", 0)):
        clock.take(side)
        assert [clock.exact() for _ in range(5)] == [rows] * 5


def test_a_second_session_that_looks_at_everything_sees_no_difference(
    clock: Clock, stack: RunningStack
) -> None:
    with stack.connect() as connection:
        everything = sights(connection)
        assert len(everything) > 140 and sum(sight.live for sight in everything) > 10
        watcher = Watcher(connection)
        often = [sight for sight in everything if sight.live]
        seen = clock.watched(watcher, everything, often, pairs=10)
        found, compared = compare_runs(seen["a"], seen["b"])
        if found:  # again, with what was found alone: chance does not find the same twice
            suspects = {difference.feature for difference in found}
            seen = clock.watched(watcher, everything, often, pairs=10)
            found = [
                difference
                for difference in compare_runs(seen["a"], seen["b"], chance=0.1)[0]
                if difference.feature in suspects
            ]
    assert compared > 50
    assert not found, found


def test_what_is_not_looked_at_is_there_and_has_a_reason(stack: RunningStack) -> None:
    known = {
        row[0]
        for row in stack.run("SELECT proname FROM pg_proc UNION SELECT relname FROM pg_class")
    }
    assert set(LEFT_OUT) <= known and all(LEFT_OUT.values())


# ------------------------------------------------------------------ the comparison itself can tell

CHANCE = random.Random(7)


def times(shift: float = 0.0) -> list[float]:
    """Of answers at a deadline: late by what the machine does, seldom by much."""
    return [
        0.1 + shift + CHANCE.expovariate(1000) + (0.02 if CHANCE.random() < 0.02 else 0)
        for _ in range(60)
    ]


def runs(count: int, growth: int = 3, label: str = "waits", busy: int = 2) -> list[Run]:
    """A counter that also grows by itself, a label, a state that holds for some looks, a text that
    is always another."""
    made: list[Run] = []
    for _ in range(count):
        start = CHANCE.randrange(10**6)
        counter = [
            State(n, 1, float(n))
            for n in (start, start + growth, start + growth + CHANCE.randrange(3))
        ]
        states = ["idle"] + ["active"] * (busy + CHANCE.randrange(2)) + ["idle"] * 3
        made.append(
            {
                "counter": counter,
                "label": [State(label)] * 3,
                "state": [State(state) for state in states],
                "text": [State(CHANCE.random()) for _ in range(3)],
                "constant": [State("on")] * 3,
            }
        )
    return made


def test_the_comparison_of_times_finds_five_milliseconds_and_finds_nothing_in_nothing() -> None:
    assert {difference.feature for difference in compare_times(times(), times(0.005))} == {
        "median",
        "ranks",
    }
    # a shift that is small against the jitter shows in the ranks
    assert [difference.feature for difference in compare_times(times(), times(0.0015))] == ["ranks"]
    assert sum(bool(compare_times(times(), times())) for _ in range(50)) <= 4


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, set()),
        ({"growth": 5}, {"counter: growth", "counter: peak"}),
        ({"label": "reads"}, {"label: value", "label: value at the end"}),
        ({"busy": 4}, {"state: looks that differ from the first"}),
    ],
)
def test_the_comparison_of_looks_finds_a_counter_a_label_and_a_state_that_differ(
    changed: dict[str, int], found: set[str]
) -> None:
    differences, compared = compare_runs(runs(16), runs(16, **changed))  # type: ignore[arg-type]
    assert compared >= 3
    assert {difference.feature for difference in differences} >= found
    assert bool(differences) == bool(found), differences
