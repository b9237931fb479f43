"""The pair of videos, once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RunningStack

from .evil import prepare
from .pair import Pair
from .plunder import PLUNDER


@pytest.fixture(scope="session")
def pair(stack: RunningStack, make_video: Callable[..., Path]) -> Pair:
    return Pair.make(stack, make_video)


@pytest.fixture(scope="session")
def few(pair: Pair) -> Pair:
    """Tables of eight rows, four of them about the event: heavy work on each is little in all."""
    pair.table("few", begin="2026-03-01 06:00:02+00", max_rows="4")
    pair.warm("few")
    return pair


@pytest.fixture(scope="session")
def evil(pair: Pair) -> Pair:
    """The pair with what a hostile analyst has made beside it."""
    prepare(pair)
    return pair


@pytest.fixture(scope="session")
def plunder(evil: Pair) -> Pair:
    """The pair with code that reads what it can, wherever it runs."""
    evil.stack.run("CREATE SCHEMA raid AUTHORIZATION analyst", user="privid")
    evil.stack.run(PLUNDER)
    return evil
