"""Cores of lanes: two engines on one machine take different ones while there are any."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from privid.sandbox.cores import claim_cores

CORES = [0, 1, 2, 3]


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "cores"


def test_the_first_engine_takes_the_last_cores(locks: Path) -> None:
    with ExitStack() as held:
        assert claim_cores(2, CORES, held, locks) == [2, 3]


def test_another_engine_takes_cores_that_nobody_has(locks: Path) -> None:
    with ExitStack() as held:
        claim_cores(1, CORES, held, locks)
        assert claim_cores(2, CORES, held, locks) == [1, 2]


def test_cores_are_shared_when_all_are_taken(locks: Path) -> None:
    with ExitStack() as held:
        claim_cores(3, CORES, held, locks)
        assert claim_cores(2, CORES, held, locks) == [0, 3]
        assert claim_cores(2, CORES, held, locks) == [2, 3]


def test_cores_of_an_engine_that_has_ended_are_free(locks: Path) -> None:
    with ExitStack() as held:
        claim_cores(2, CORES, held, locks)
    with ExitStack() as held:
        assert claim_cores(2, CORES, held, locks) == [2, 3]


def test_who_may_write_no_locks_takes_the_last_cores(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with ExitStack() as held:
        assert claim_cores(1, CORES, held, tmp_path / "file" / "cores") == [3]
