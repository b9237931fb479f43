"""When a slot begins does not tell what the slot before it did."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from privid.sandbox.lane import SHORT_GUARD
from privid.sandbox.run import Limits

from .conftest import Trial
from .timing import announce, measure, p_value, shuffled

PAIRS, SLOT, PAUSE = 80, 0.02, SHORT_GUARD


def test_the_start_of_a_slot_does_not_depend_on_the_slot_before_it(make_trial: Callable[..., Trial]) -> None:
    trial = make_trial(3, Limits(memory=256 << 20, processes=24), frozenset({max(os.sched_getaffinity(0))}))
    order = shuffled(PAIRS, seed=5)
    programs = announce(trial, order, SLOT + PAUSE)
    found = measure(trial, programs, order, SLOT, PAUSE)
    marks = [start.after == "hostile" for start in found]
    given_up = [name for name, program in programs.items() if trial.lane._nurse and trial.lane._nurse.why_cold(program)]
    assert sum(marks) == PAIRS // 2 or given_up
    if 0 < sum(marks) < len(marks):
        assert p_value([start.late for start in found], marks) > 0.001


def test_the_test_would_notice_a_slot_that_waits_for_the_one_before() -> None:
    chance = random.Random(2)
    marks = [chance.random() < 0.5 for _ in range(100)]
    noise = [chance.expovariate(1 / 0.0002) for _ in marks]
    assert p_value(noise, marks) > 0.001
    assert p_value([late + 0.0003 * mark for late, mark in zip(noise, marks, strict=True)], marks) <= 0.001
