"""Two owners and three analysts do whatever they like, and nobody sees or changes what the rules forbid."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.conftest import RunningStack

from .random_city import FAULTS, Disagreement, RandomCity, planted

_MARKS = count()


@pytest.fixture
def make_city(stack: RunningStack) -> Iterator[Callable[[int], RandomCity]]:
    made: list[RandomCity] = []

    def make(seed: int) -> RandomCity:
        made.append(RandomCity(stack, seed, f"rc{next(_MARKS)}"))
        made[-1].build()
        return made[-1]

    yield make
    for city in made:
        city.tear_down()


def test_everybody_sees_and_may_do_what_the_model_says(make_city: Callable[[int], RandomCity]) -> None:
    """For some seconds; tests/verify/authority_city.py goes on for as long as one likes."""
    city, ends = make_city(2), time.monotonic() + 10
    while time.monotonic() < ends and city.number < 200:
        city.step()
    assert city.number > 10


def test_a_planted_fault_is_found(make_city: Callable[[int], RandomCity], stack: RunningStack) -> None:
    """Everybody acts for everybody; verify plants the others."""
    city = make_city(3)
    with planted(stack, FAULTS["everybody acts for everybody"]), pytest.raises(Disagreement):
        for _ in range(30):
            city.step()
