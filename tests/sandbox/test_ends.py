"""The end of a run: whatever it has piled up weighs little while it is cleared away, and does not pile up further."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from privid.sandbox import lane as lanes
from privid.sandbox.cgroups import Group, Hierarchy, find_hierarchy
from privid.sandbox.executable import install
from privid.sandbox.lane import SETUP, Limits, Outcome, Program

from .conftest import Trial, trials

#: Page tables: each map of a file has its own, and each child its own of each, which a fork must copy when a page was written to.
HOG = """
import mmap, os, time
def process(chunk):
    fd = os.open("/tmp/f", os.O_RDWR | os.O_CREAT)
    os.write(fd, bytes(64 << 20))
    maps = []
    for _ in range(12):
        maps.append(m := mmap.mmap(fd, 64 << 20, flags=mmap.MAP_PRIVATE, prot=3))
        m[0] = 1
        m[::4096]
    for _ in range(50):
        if os.fork() == 0:
            try: os.setsid()  # a share of the processors for each
            except OSError: pass
            time.sleep(1000)
    os.write(2, b"ready")
    time.sleep(1000)
    yield {}
if __name__ == "__main__": list(process(None))
"""


@contextmanager
def two_cores() -> Iterator[tuple[int, int]]:
    """The lane's, and the one where everything else is."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("needs two cores")
    other, own = sorted(before)[-2:]
    os.sched_setaffinity(0, {other, own})
    try:
        yield own, other
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def busy(core: int) -> Iterator[Callable[[], float]]:
    """An ordinary process in a session of its own that would have all of a core; gives how many seconds it has had."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    os.sched_setaffinity(process.pid, {core})
    try:
        yield lambda: int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
    finally:
        process.kill()
        process.wait()


def used(group: Group) -> float | None:
    """Seconds of processor time that a group has had; None when it is gone."""
    try:
        return int((group.stroke / "cpu.stat").read_text().split()[1]) / 1e6 if group.stroke is not None else None
    except OSError:
        return None


def share_of_the_dying(trial: Trial, program: Program, had: Callable[[], float], monkeypatch: pytest.MonkeyPatch) -> float:
    """What part of a core the remains of a run take where somebody else wants all of it."""
    groups: list[Group] = []
    real = Group.open_stroke

    def booked(group: Group, *rest: object) -> object:
        groups.append(group)
        return real(group, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Group, "open_stroke", booked)
    for slot in (1.5, 4.0, 12.0):
        while not trial.lane.ready(program):
            time.sleep(0.01)
        result = trial.lane.run_soon(program, trial.chunk, slot)
        dying, other = used(groups[-1]), had()
        if b"ready" in result.stderr:
            break
    assert (result.outcome, result.stderr) == (Outcome.TIMED_OUT, b"ready")
    if dying is None:
        pytest.skip("the kernel does not tell what a group has used")
    last, until = dying, time.monotonic() + 1
    while time.monotonic() < until and (now := used(groups[-1])) is not None:
        last = now
        time.sleep(0.005)
    return (last - dying) / (last - dying + had() - other)


def without_weights() -> Hierarchy | None:
    """As on a machine whose groups have none: what a session weighs must do."""
    found = find_hierarchy()
    return found and replace(found, parents=tuple(parent for parent in found.parents if parent != found.weight), weight=None)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot make control groups")
@pytest.mark.parametrize("find", [find_hierarchy, without_weights], ids=["groups", "sessions"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_what_is_left_of_a_run_weighs_little(warm: bool, find: Callable[[], Hierarchy | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "find_hierarchy", find)
    with two_cores() as (own, other), trials() as make, busy(other) as had:
        trial = make(8, Limits(memory=1 << 30), frozenset({own}))
        path = trial.scratch / "hog"
        program = Program(path, install((HOG if warm else f"#!/usr/bin/python3\n{HOG}").encode(), "hog", path), warm=warm)
        if warm:
            trial.lane.announce(program, 3)
        assert share_of_the_dying(trial, program, had, monkeypatch) < 0.35  # by its weight, a quarter


#: Fills /tmp about as fast as that can be done.
PILES = """
import os
def process(chunk):
    fd = os.open("/tmp/large", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, 120 << 20)
    for n in range(1000): os.mkdir(f"/tmp/{n}")
    yield {}
if __name__ == "__main__": list(process(None))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot make control groups")
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_what_runs_leave_has_a_bound_also_where_every_core_is_wanted(warm: bool) -> None:
    limits, most = Limits(memory=128 << 20, tmpfs=124 << 20), 0
    with ExitStack() as everything, trials() as make:
        trial = make(9, limits)
        path = trial.scratch / "piles"
        program = Program(path, install((PILES if warm else f"#!/usr/bin/python3\n{PILES}").encode(), "piles", path), warm=warm)
        if warm:
            trial.lane.announce(program, 16)
            while not trial.lane.ready(program):
                time.sleep(0.01)
        for core in 2 * sorted(os.sched_getaffinity(0)):
            everything.enter_context(busy(core))
        for _ in range(16):
            begin = time.monotonic() + SETUP
            assert trial.lane.run(program, trial.chunk, begin, begin + 0.15).outcome in (Outcome.OK, Outcome.TIMED_OUT)
            most = max(most, trial.lane._remains.used())
    assert 0 < most <= 2 * limits.memory
