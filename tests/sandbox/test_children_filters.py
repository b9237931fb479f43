"""The filters of warm children: the module's own code puts the second one on, so which it is, is looked at from outside."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from privid.sandbox import brood
from privid.sandbox.executable import install
from privid.sandbox.lane import Outcome, Program

from .conftest import Trial

#: Its first instruction is to allow everything.
NOTHING = """
import ctypes, sys
frame = sys._getframe()
while frame and 'block' not in frame.f_locals: frame = frame.f_back
if frame is not None:
    block = frame.f_locals['block']
    ctypes.memmove(id(block) + type(block).__basicsize__ - 1, bytes.fromhex('060000000000ff7f'), 8)
"""
ONE_MORE = """
import ctypes
class Filter(ctypes.Structure): _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
ctypes.CDLL(None).prctl(22, 2, ctypes.byref(Filter(1, bytes.fromhex('060000000000ff7f'))), 0, 0)
"""
SESSION = """
import os
def process(chunk):
    if os.fork() == 0:
        try: os.setsid()
        except OSError: os._exit(1)
        os._exit(0)
    yield {'session': os.waitstatus_to_exitcode(os.wait()[1]) == 0}
"""


@pytest.fixture(scope="module")
def warm(make_trial: Callable[..., Trial]) -> Trial:
    return make_trial(6)


def tried(trial: Trial, content: str) -> tuple[str | None, bool]:
    """Why it was started cold, and whether what it starts can begin a session."""
    path = trial.scratch / f"filters-{time.monotonic_ns()}"
    program = Program(path, install(content.encode(), "filters", path))
    trial.lane.announce(program, 2)
    while not trial.lane.ready(program):
        time.sleep(0.005)
    assert trial.lane._nurse is not None
    reason = trial.lane._nurse.why_cold(program)
    result = trial.lane.run_soon(program, trial.chunk, 1.5)
    trial.lane.dismiss(program)
    assert result.outcome is Outcome.OK and result.warm == (reason is None), result.stderr.decode()
    return reason, bool(json.loads(result.stdout)["session"])


def test_children_have_the_filters_that_they_must_have(warm: Trial) -> None:
    assert tried(warm, SESSION) == (None, False)


@pytest.mark.parametrize("setup", [NOTHING, ONE_MORE], ids=["one that allows everything", "one more"])
def test_children_with_other_filters_are_found(warm: Trial, setup: str) -> None:
    assert tried(warm, setup + SESSION) == ("its system call filters are others", False)


def test_a_child_could_do_what_only_its_zygote_may(warm: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody looked."""
    monkeypatch.setattr(brood, "check_filters", lambda *_: None)
    assert tried(warm, NOTHING + SESSION) == (None, True)
