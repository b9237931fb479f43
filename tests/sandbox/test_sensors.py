"""A sweep over all that a run can look at: nothing depends on what another did; and a weaker build is found out.

tests/verify/sandbox_sensors.py does the same with ten times as many pairs, for each way of sending by itself and in two lanes.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from .conftest import Trial
from .sweep import Sweep, judged
from .weaker import weaker

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="warm starts need root")

PAIRS, FEW = 40, 24
#: as in sensors.py, which runs inside the sandbox only
SENDERS = ("queue", "read", "fork", "print", "map", "allocate", "write")


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
def test_no_sensor_of_the_next_chunk_depends_on_the_one_before(make_trial: Callable[..., Trial], warm: bool) -> None:
    sweep = Sweep(make_trial(12))
    found = sweep.pairs(PAIRS, SENDERS, warm=warm)
    assert len(found[0][1]) > 100
    if first := judged(found):  # chance does not find the same twice
        assert set(first) & set(judged(sweep.pairs(PAIRS, SENDERS, warm=warm, seed=2))) == set()


def test_the_sweep_finds_what_was_once_open(make_trial: Callable[..., Trial]) -> None:
    """Pages of a file that the zygote could write, and signals that are counted for a user whose limit it had lowered."""
    with weaker("no place to write", "devices of mappings", "fixed limits", "no real-time signals"):
        found = judged(Sweep(make_trial(12)).pairs(FEW, ("queue", "read"), warm=True, fresh=True))
    assert set(found) >= {"faults on a hole", "signals that wait", "ends that wait"}
