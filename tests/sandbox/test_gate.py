"""The gate of a lane: slots begin and end when they should, whatever becomes of the runs around them."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from privid.errors import SandboxFailed
from privid.sandbox.executable import install
from privid.sandbox.lane import SETUP, Lane, Late, Limits, Outcome, Program, RunResult, Stop

from .conftest import Trial, processes_of

TELLS = b"#!/bin/sh\necho '{\"n\": 1}'\n"
WAITS = b"#!/bin/sh\necho '{\"n\": 1}'\nsleep 60\n"


@pytest.fixture(scope="module")
def gated(make_trial: Callable[..., Trial]) -> Trial:
    return make_trial(6, Limits(memory=256 << 20, processes=16), frozenset({max(os.sched_getaffinity(0))}))


def prepared(trial: Trial, content: bytes) -> Program:
    path = trial.scratch / f"gate-{time.monotonic_ns()}"
    return Program(path, install(content, "gate", path))


def test_a_slot_is_prepared_while_the_one_before_it_runs(gated: Trial) -> None:
    program, found = prepared(gated, WAITS), list[RunResult]()
    begin, slot = time.monotonic() + 5 * SETUP, 0.6
    later = begin + slot + gated.lane.guard

    def run(at: float) -> None:
        with suppress(Late):  # on a busy machine: then both are run again
            found.append(Lane.run(gated.lane, program, gated.chunk, at, at + slot))

    for _ in range(20):
        threads = [threading.Thread(target=run, args=(at,)) for at in (begin, later)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(found) == 2:
            break
        begin, later = (at + time.monotonic() - begin + 5 * SETUP for at in (begin, later))
        found.clear()
    first, second = sorted(found, key=lambda result: result.started)
    assert [first.outcome, second.outcome] == [Outcome.TIMED_OUT] * 2
    assert 0 <= first.started - begin < 0.0021 and 0 <= second.started - later < 0.0021


def test_a_slot_that_is_handed_over_too_late_is_not_begun_and_the_next_one_is(gated: Trial) -> None:
    program = prepared(gated, TELLS)
    with pytest.raises(Late):
        Lane.run(gated.lane, program, gated.chunk, time.monotonic() - 0.1, time.monotonic() + 0.5)
    assert gated.lane.run_soon(program, gated.chunk, 0.5).stdout == b'{"n": 1}\n'


def test_a_stop_that_comes_before_the_slot_keeps_it_from_beginning(gated: Trial) -> None:
    stop = Stop()
    stop.set()
    begun = time.monotonic()
    result = gated.lane.run(prepared(gated, WAITS), gated.chunk, begun + 20, begun + 30, stop)
    stop.close()
    assert result.outcome is Outcome.CANCELLED and result.started == 0 and time.monotonic() - begun < 10
    assert gated.lane.run_soon(prepared(gated, TELLS), gated.chunk, 0.5).outcome is Outcome.OK


def test_a_gate_that_ends_fails_the_run_and_is_started_again(gated: Trial) -> None:
    hands = gated.lane._hands
    assert hands is not None and hands._process is not None
    killer = threading.Timer(SETUP + 0.3, hands._process.kill)
    killer.start()
    with pytest.raises(SandboxFailed, match="does not answer"):
        gated.lane.run_soon(prepared(gated, WAITS), gated.chunk, 5)
    killer.join()
    for _ in range(3):
        assert gated.lane.run_soon(prepared(gated, TELLS), gated.chunk, 0.5).outcome is Outcome.OK


def test_nothing_outlives_an_engine_that_is_killed_while_it_sets_sandboxes_up(gated: Trial) -> None:
    program = prepared(gated, TELLS)
    for number in range(6):
        reader, writer = os.pipe()
        engine = os.fork()
        if engine == 0:
            try:
                lane = Lane(7, scratch=gated.scratch)  # threads do not survive a fork
                os.write(writer, str(lane.uid).encode())
                while True:
                    lane.run_soon(program, gated.chunk, 0.002)
            finally:
                os._exit(1)  # or it would go on as a second run of the tests
        uid = int(os.read(reader, 100))
        os.close(reader)
        os.close(writer)
        time.sleep(0.4 + 0.0137 * number)
        os.kill(engine, signal.SIGKILL)
        os.waitpid(engine, 0)
        deadline = time.monotonic() + 10
        while left := processes_of(uid):
            assert time.monotonic() < deadline, left
            time.sleep(0.02)
        shutil.rmtree(gated.scratch / "lane-7")


def test_a_lane_of_a_process_with_thousands_of_descriptors_has_a_gate(make_trial: Callable[..., Trial]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(4096, soft), hard))
    many = [os.open("/dev/null", os.O_RDONLY) for _ in range(1500)]
    try:
        trial = make_trial(9)
        program = prepared(trial, TELLS)
        begin = time.monotonic() + 1
        assert Lane.run(trial.lane, program, trial.chunk, begin, begin + 2).outcome is Outcome.OK
    finally:
        for fd in many:
            os.close(fd)
