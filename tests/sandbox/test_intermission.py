"""Imports and chunks never run at the same time."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privid.sandbox import intermission as intermissions
from privid.sandbox import nurse
from privid.sandbox.executable import install
from privid.sandbox.intermission import Intermission
from privid.sandbox.lane import SETUP, Lane, Late, Limits, Outcome, Program

from .conftest import Trial

#: Says when it was imported and when it ran: the clock is the machine's.
TELLS = """
import time
begun = time.monotonic()
until = begun + {seconds}
while time.monotonic() < until: pass
done = time.monotonic()
def process(chunk):
    now = time.monotonic()
    yield {{"begun": begun, "done": done, "ran": now}}
"""


def module(trial: Trial, seconds: float) -> Program:
    path = trial.scratch / f"tells-{time.monotonic_ns()}"
    return Program(path, install(TELLS.format(seconds=seconds).encode(), "tells", path))


def lane(trial: Trial, index: int, intermission: Intermission) -> Lane:
    return Lane(index, limits=Limits(memory=256 << 20), scratch=trial.scratch, intermission=intermission)


def runs(where: Lane, program: Program, chunk: Path, count: int, slot: float) -> list[tuple[float, float, float, float]]:
    """Begin and end of slots, and of the import that their children come from."""
    found: list[tuple[float, float, float, float]] = []
    while len(found) < count:
        begin = time.monotonic() + SETUP
        if not where.ready(program):
            time.sleep(0.005)
            continue
        try:
            result = where.run(program, chunk, begin, begin + slot)
        except Late:
            continue
        assert result.outcome is Outcome.OK and result.warm, result.stderr
        row = json.loads(bytes(result.stdout))
        found.append((result.started, result.ended, row["begun"], row["done"]))
    return found


def test_no_module_is_imported_while_a_chunk_runs_in_any_lane(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nurse, "LEAST", 2)
    monkeypatch.setattr(nurse, "STOCK", 0.0)
    monkeypatch.setattr(nurse, "FIRST_STOCK", 0.0)
    intermission = Intermission()
    found: list[tuple[float, float, float, float]] = []
    with lane(trial, 40, intermission) as one, lane(trial, 41, intermission) as other:
        programs = {one: module(trial, 0.05), other: module(trial, 0.1)}
        for where, program in programs.items():
            where.announce(program, 8, 0.3)
        threads = [threading.Thread(target=lambda w=where, p=program: found.extend(runs(w, p, trial.chunk, 8, 0.3)))
                   for where, program in programs.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for where, program in programs.items():
            where.dismiss(program)
    imports = {(begun, done) for *_, begun, done in found}
    assert len(found) == 16 and len(imports) >= 6
    beside = [(slot, times) for slot in found for times in imports if slot[0] < times[1] and times[0] < slot[1]]
    assert beside == []


def test_a_long_import_is_interrupted_so_that_slots_get_their_time(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nurse, "LEAST", 1)
    monkeypatch.setattr("privid.sandbox.brood.SLICE", 0.3)
    intermission = Intermission()
    with lane(trial, 42, intermission) as where:
        quick, slow = module(trial, 0), module(trial, 1.5)
        where.announce(quick, 400, 0.1)
        runs(where, quick, trial.chunk, 1, 0.1)
        where.announce(slow, 1, 0.1)
        between = 0
        while not where._nurse or not where._nurse.ready(slow):
            between += len(runs(where, quick, trial.chunk, 1, 0.1))
        ((_, _, begun, done),) = runs(where, slow, trial.chunk, 1, 0.1)
        where.dismiss(quick)
        where.dismiss(slow)
    assert between >= 3 and done - begun > 1.5


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 6)), min_size=2, max_size=14))
def test_slots_and_imports_exclude_each_other_whatever_comes_when(acts: list[tuple[bool, int, int]]) -> None:
    intermission, lock = Intermission(), threading.Lock()
    inside = {"slots": 0, "imports": 0}
    both: list[dict[str, int]] = []

    def be(kind: str, milliseconds: int) -> None:
        with lock:
            inside[kind] += 1
            if all(inside.values()):
                both.append(dict(inside))
        time.sleep(milliseconds / 1000)
        with lock:
            inside[kind] -= 1

    def act(imports: bool, wait: int, lasts: int) -> None:
        time.sleep(wait / 1000)
        if imports:
            with intermission.importing():
                be("imports", lasts)
            return
        while not intermission.enter():
            time.sleep(0.0005)
        be("slots", lasts)
        intermission.leave()

    threads = [threading.Thread(target=act, args=one) for one in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert both == []


def test_imports_that_follow_each_other_leave_slots_as_much_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intermissions, "SLICE", 0.02)
    intermission, stop = Intermission(), threading.Event()

    def insist() -> None:
        while not stop.is_set():
            with intermission.importing():
                time.sleep(0.02)

    threads = [threading.Thread(target=insist) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun, had = time.monotonic(), 0.0
    while time.monotonic() < begun + 1:
        if intermission.enter():
            entered = time.monotonic()
            time.sleep(0.002)
            intermission.leave()
            had += time.monotonic() - entered
        else:
            time.sleep(0.0005)
    stop.set()
    for thread in threads:
        thread.join()
    assert had > 0.25
