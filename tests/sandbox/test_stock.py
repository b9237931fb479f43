"""What warm children hold is bounded and let go at public moments, whether their slots came or were cancelled."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from privid.cli.processes import wait_until
from privid.sandbox import stock as stocks
from privid.sandbox.executable import install
from privid.sandbox.lane import Lane, Program
from privid.sandbox.stock import Stock

from .conftest import Trial, wait_until_gone

HOLD = 0.5


@pytest.fixture(autouse=True, scope="module")
def _soon() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stocks, "HOLD", HOLD)
        yield


def held(trial: Trial) -> dict[str, int]:
    """What this process, and its lane, have of what a brood needs."""
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "groups": sum(1 for form in ("privid-", "privid/")
                      for _ in Path("/sys/fs/cgroup").glob(f"*/{form}{os.getpid()}-{trial.lane.index}-b*")),
        "users": sum(os.path.realpath(path).startswith("/run/privid/users/") for path in Path("/proc/self/fd").iterdir()),
        "files": len(list((trial.scratch / f"lane-{trial.lane.index}").iterdir())),
    }


@pytest.fixture(scope="module")
def lane(make_trial: Callable[..., Trial]) -> Trial:
    """One that has had a run: some things are made with the first."""
    trial = make_trial(12)
    program = module(trial, "first of all")
    trial.lane.announce(program, 1, 0.1)
    assert wait_until(lambda: trial.lane.ready(program), 30)
    assert trial.lane.run_soon(program, trial.chunk, 0.1).warm
    trial.lane.dismiss(program)
    assert wait_until_gone(trial.lane, 20) == []
    time.sleep(3 * HOLD)
    return trial


def module(trial: Trial, name: str) -> Program:
    path = trial.scratch / name
    return Program(path, install(f"def process(chunk): yield {{'v': 1}}\n# {name}\n".encode(), name, path))


def test_jobs_that_are_cancelled_leave_nothing_in_the_engine(lane: Trial) -> None:
    assert lane.lane.warm
    before = held(lane)
    for number in range(4):
        program = module(lane, f"cancelled-{number}")
        lane.lane.announce(program, 40, 0.05)
        assert wait_until(partial(lane.lane.ready, program), 30)
        lane.lane.dismiss(program)
    assert wait_until_gone(lane.lane, 20) == []
    assert wait_until(lambda: all(now <= before[name] for name, now in held(lane).items()), 10), (before, held(lane))


def test_what_a_job_used_up_goes_too_without_other_runs(lane: Trial) -> None:
    before = held(lane)
    program = module(lane, "used")
    lane.lane.announce(program, 2, 0.1)
    assert wait_until(lambda: lane.lane.ready(program), 30)
    for _ in range(2):
        assert lane.lane.run_soon(program, lane.chunk, 0.1).warm
    lane.lane.dismiss(program)
    assert wait_until_gone(lane.lane, 20) == []
    assert wait_until(lambda: held(lane)["users"] == before["users"] and held(lane)["groups"] == before["groups"], 10)
    assert wait_until(lambda: held(lane)["descriptors"] <= before["descriptors"], 10)


def test_a_brood_for_which_there_is_no_room_waits_for_others_to_go(lane: Trial) -> None:
    nurse = lane.lane._nurse
    assert nurse is not None
    first, second = module(lane, "first"), module(lane, "second")
    everything = Stock(descriptors=2 * 80)
    with swapped(lane.lane, everything):
        lane.lane.announce(first, 16, 0.1)
        assert wait_until(lambda: lane.lane.ready(first), 30)
        lane.lane.announce(second, 16, 0.1)
        time.sleep(1)
        assert not lane.lane.ready(second) and nurse.why_cold(second) is None
        lane.lane.dismiss(first)
        dismissed = time.monotonic()
        assert wait_until(lambda: lane.lane.ready(second), 30)
        assert nurse.why_cold(second) is None and time.monotonic() - dismissed > HOLD
        lane.lane.dismiss(second)
        assert wait_until_gone(lane.lane, 20) == []


@contextmanager
def swapped(lane: Lane, stock: Stock) -> Iterator[None]:
    assert lane._nurse is not None
    own, lane._nurse._stock = lane._nurse._stock, stock
    yield
    assert wait_until(lambda: stock.grant(1) > 0, 10)
    lane._nurse._stock = own
    stock.close()


def test_a_stock_gives_half_of_what_is_left_and_little_where_there_is_little(tmp_path: Path) -> None:
    stock = Stock(descriptors=2 * 1000)
    granted = []
    while count := stock.grant(512):
        granted.append(count)
    assert granted == sorted(granted, reverse=True) and granted[-1] >= 16 and len(granted) >= 4
    fd = os.open(tmp_path, os.O_RDONLY)
    stock.keep([fd], granted[0], 0.5)
    time.sleep(HOLD)
    assert stock.grant(512) == 0 and os.fstat(fd)
    assert wait_until(lambda: stock.grant(512) > 16, 10)
    with pytest.raises(OSError):
        os.fstat(fd)
    stock.close()


def test_there_are_never_more_broods_than_users_for_them() -> None:
    stock = Stock(lanes=1000, descriptors=10_000_000)
    count = 0
    while stock.grant(1):
        count += 1
    assert 100 < count <= 500
    stock.give_back(1)
    assert stock.grant(1) == 1
    stock.close()
