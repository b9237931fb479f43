"""Warm children of one zygote: what a hostile module would have them share, and that it could without the look from outside."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privid.sandbox import brood, verify
from privid.sandbox.executable import install
from privid.sandbox.lane import Outcome, Program

from .conftest import Trial
from .weaker import weaker


def own_litter(before: str) -> str:
    """A module that puts its own in the place of the library which makes children: one that does this, and not all that the other does."""
    return f"""
import ctypes, gc, time
class Filter(ctypes.Structure): _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
def litter(children, flags, block, length, chunk, output, errors):
    call = ctypes.pythonapi.syscall
    for _ in range(children):
        if call(ctypes.c_long({_CLONE}), flags, *[ctypes.c_void_p()] * 4) == 0:
            {before}
            libc = ctypes.CDLL(None)
            libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
            libc.prctl(22, 2, ctypes.byref(Filter(length, block)), 0, 0)
            while not os.access(chunk, os.F_OK): time.sleep(0.002)
            os.open("/dev/null", os.O_RDONLY)
            for path in (output, errors):
                os.open(path, os.O_WRONLY | os.O_APPEND)
                os.unlink(path)
            return 0
    return 1
next(thing for thing in gc.get_objects() if type(thing) is ctypes.PyDLL and 'litter' in str(thing._name)).litter = litter
"""


_CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
#: What the module does when it is imported, and what of the look from outside is taken away for it to work.
#: Then what a chunk with a bit does, and what a chunk without one sees.
SHARING = {
    "offset of a descriptor": ("fd = os.open('/usr/bin/python3', os.O_RDONLY)\nos.closerange = lambda *_: [os.close(n) for n in range(3)]",
                               "descriptors", "os.lseek(fd, 5 + bit, os.SEEK_SET)", "os.lseek(fd, 0, os.SEEK_CUR)"),
    "process group": ("import signal\ngot = []\nsignal.signal(signal.SIGUSR1, lambda *_: got.append(1))\n" + own_litter("pass"),
                      "session", "bit and os.kill(0, signal.SIGUSR1)", "len(got)"),
    "working directory": ("os.chdir = lambda *_: None\n" + own_litter("os.setsid()"), "place",
                          "bit and open('mark', 'w').close()", "os.path.exists('mark')"),  # if there were one that can be written to
}


def module(setup: str, send: str, sense: str) -> str:
    return (f"import os\n{setup}\ndef process(chunk):\n    bit = int(chunk.frames[0, 0, 0, 0])\n"
            f"    if bit < 2:\n        {send}\n        yield {{'felt': 'sent'}}\n    else:\n        yield {{'felt': {sense}}}\n")


@pytest.fixture(scope="module")
def warm(make_trial: Callable[..., Trial]) -> Trial:
    return make_trial(8)


def felt(trial: Trial, program: Program, bit: int) -> Any:
    """What a chunk sees after one that has a bit."""
    rows = []
    for pixel in (bit, 2):
        chunk = trial.scratch / f"pixel-{pixel}"
        if not chunk.exists():
            chunk.mkdir()
            np.save(chunk / "frames.npy", np.full_like(trial.frames, pixel))
            (chunk / "chunk.json").write_bytes((trial.chunk / "chunk.json").read_bytes())
        for slot in (0.2, 1.0, 4.0):  # on a busy machine the first may be too short
            while not trial.lane.ready(program):
                time.sleep(0.005)
            result = trial.lane.run_soon(program, chunk, slot)
            if result.outcome is not Outcome.TIMED_OUT:
                break
        assert result.outcome is Outcome.OK, result.stderr.decode()
        rows.append(json.loads(result.stdout)["felt"])
    assert rows[0] == "sent"
    return rows[1]


def looking_away(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thing that is verified of a child is not looked at."""
    if what == "descriptors":
        monkeypatch.setattr(verify, "os", SimpleNamespace(**vars(os) | {"listdir": lambda path: []}))
    elif what == "place":
        monkeypatch.setattr(verify, "os", SimpleNamespace(**vars(os) | {"stat": lambda path: Path(path.replace("/cwd", "/root")).stat()}))
    else:
        status = verify._status
        monkeypatch.setattr(verify, "_status", lambda pid: (found := status(pid)) | {b"NSpgid": found[b"NSpid"], b"NSsid": found[b"NSpid"]})


@pytest.mark.parametrize("name", SHARING)
def test_siblings_share_nothing_and_would_if_nobody_looked(warm: Trial, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setup, what, send, sense = SHARING[name]
    assert warm.lane._nurse is not None
    monkeypatch.setattr(brood, "check_pages", lambda *_: None)  # a litter in Python writes to some between forks: see test_pages.py
    for away in (False, *[True] * 6):  # that the bit comes through needs two siblings in turn, which a busy machine may spoil
        path = warm.scratch / f"sharing-{time.monotonic_ns()}"
        program = Program(path, install(module(setup, send, sense).encode(), "sharing", path))
        monkeypatch.setattr(brood, "PATIENCE", 60.0 if away else 1.5)
        if away:
            looking_away(what, monkeypatch)
        with weaker(*(["no place to write"] if what == "place" else [])):
            warm.lane.announce(program, 12)
            while not warm.lane.ready(program):
                time.sleep(0.005)
        assert (warm.lane._nurse.why_cold(program) is None) == away
        came = away and felt(warm, program, 0) != felt(warm, program, 1)
        warm.lane.dismiss(program)
        if came:
            return
    raise AssertionError("the bit did not come through, though nobody looked")
