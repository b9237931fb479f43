"""The first half of a thousand pairs of random statements (fuzzing.py)."""

from __future__ import annotations

from tests.conftest import RunningStack

from .fuzzing import find_no_difference


def test_nothing_but_noise_differs_between_videos_that_differ_in_one_event(stack: RunningStack) -> None:
    find_no_difference(stack, seed=20)
