"""What a hostile module prepares when it is imported, so that one chunk can tell a later one something by what siblings have in common."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from privid.sandbox.executable import install
from privid.sandbox.lane import Lane, Late, Outcome, Program, RunResult

from .channels import before
from .channels.stage import LOAD
from .conftest import Trial, chunk_of
from .weaker import weaker

MODULE = LOAD + """(channel,) = [channel for channel in module.CHANNELS if channel.name == NAME]
def tried(action, *arguments):
    try: return action(*arguments)
    except Exception as error: return f"refused: {type(error).__name__}"
def process(chunk):
    bit = int(chunk.frames[0, 0, 0, 0])
    if bit > 1:
        yield {"felt": tried(channel.sense, None)}
    else:  # and holds it until the end of its slot
        tried(channel.send, bit)
        while True: time.sleep(1)
"""
SOURCES = {name: (Path(__file__).parent / f"channels/{name}.py").read_text() for name in ("channel", "before")}
CHANNELS = {channel.name: channel for channel in before.CHANNELS}


@pytest.fixture(scope="module")
def lane(make_trial: Callable[..., Trial]) -> Trial:
    return make_trial(9)


def in_turn(trial: Trial, program: Program, bit: int, slot: float) -> list[RunResult]:
    """A chunk with a bit, and one that begins when the guard after it is over."""
    begin = time.monotonic() + 0.2
    later = begin + slot + 0.01
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(Lane.run, trial.lane, program, chunk_of(trial, bit), begin, begin + slot)
        time.sleep(0.05)
        second = Lane.run(trial.lane, program, chunk_of(trial, 2), later, later + slot)
        return [first.result(), second]


def felt(trial: Trial, name: str, bit: int) -> Any:
    """What the second says; anew on a machine that was too busy."""
    path = trial.scratch / f"hostile-{time.monotonic_ns()}"
    program = Program(path, install(f"SOURCES, NAME = {SOURCES!r}, {name!r}\n{MODULE}".encode(), "hostile", path))
    assert trial.lane._nurse is not None
    for slot in (0.2, 0.4, 0.8, 1.6, 3.2):
        trial.lane.announce(program, 2)
        while not trial.lane.ready(program):
            time.sleep(0.005)
        if (reason := trial.lane._nurse.why_cold(program)) is not None:
            return f"not warm: {reason}"
        try:
            results = in_turn(trial, program, bit, slot)
        except Late:
            continue
        finally:
            trial.lane.dismiss(program)
        if results[1].outcome is Outcome.OK:
            return json.loads(results[1].stdout)["felt"]
        assert Outcome.CRASHED not in [result.outcome for result in results], [result.stderr for result in results]
    raise AssertionError("the chunks were late each time")


@pytest.mark.parametrize("name", CHANNELS)
def test_nothing_that_an_import_prepares_carries_a_bit(lane: Trial, name: str) -> None:
    assert felt(lane, name, 0) == felt(lane, name, 1)


@pytest.mark.parametrize("name", CHANNELS)
def test_each_protection_is_enough_and_without_all_of_them_the_bit_comes_through(lane: Trial, name: str) -> None:
    protections = CHANNELS[name].opened_by
    for kept in protections if len(protections) > 1 else ():
        with weaker(*(other for other in protections if other != kept)):
            assert felt(lane, name, 0) == felt(lane, name, 1), kept
    with weaker(*protections):
        for _ in range(6):  # a busy machine may spoil it
            if felt(lane, name, 0) != felt(lane, name, 1):
                return
    raise AssertionError("the bit did not come through, though nothing stood against it")
