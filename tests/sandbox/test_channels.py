"""Channels between two programs that run at the same time: closed, and open as soon as their protection is taken away.

The two stand for two chunks of a table, two tables, and two analysts alike: whose a program is makes no difference to a lane.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from privid.sandbox import brood
from privid.sandbox import filter as system_calls
from privid.sandbox.executable import install
from privid.sandbox.lane import SETUP, Program

from .conftest import Trial
from .test_filter import ALLOW_ALL

SLOT, LATER = 1.1, 0.4

#: Each pair: what a program does to be noticed, and how another notices. Both see the same chunk file, as two tables do.
HEAD = """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
frames = '/chunk/frames.npy'
"""
CHANNELS = {
    "lock": ("import fcntl\nf = open(frames)\nfcntl.flock(f, fcntl.LOCK_EX)\n",
             "import fcntl\nf = open(frames)\ntry:\n    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n    felt = 'nothing'\n"
             "except BlockingIOError: felt = 'held'\n"),
    # a file that nobody may write can still be watched: opening it is an event
    "watch": ("for _ in range(20):\n    open(frames).close()\n    time.sleep(0.05)\n",
              "fd = libc.inotify_init1(0o4000)\nlibc.inotify_add_watch(fd, frames.encode(), 0x20)\ntime.sleep(0.3)\n"
              "try: felt = 'opened' if os.read(fd, 4096) else 'nothing'\nexcept OSError: felt = 'nothing'\n"),
    # memory that is free on the whole machine
    "load": ("kept = bytearray(300 << 20)\nkept[::4096] = b'x' * len(kept[::4096])\n",
             "class Info(ctypes.Structure): _fields_ = [('up', ctypes.c_long), ('loads', ctypes.c_ulong * 3), ('ram', ctypes.c_ulong),"
             " ('free', ctypes.c_ulong), ('rest', ctypes.c_char * 400)]\n"
             "i = Info()\nfelt = 'told' if libc.sysinfo(ctypes.byref(i)) == 0 else 'nothing'\n"),
    # ports of a socket family that has no namespaces
    "vsock": ("import socket\ns = socket.socket(40, socket.SOCK_STREAM)\ns.bind((0xffffffff, 54321))\n",
              "import socket\ntry:\n    socket.socket(40, socket.SOCK_STREAM).bind((0xffffffff, 54321))\n    felt = 'nothing'\n"
              "except PermissionError: felt = 'nothing'\nexcept OSError as e: felt = 'taken' if e.errno == 98 else 'nothing'\n"),
}


def module(setup: str, body: str) -> str:
    return HEAD + "def process(chunk):\n" + "".join(f"    {line}\n" for line in (setup + body).splitlines())


def felt(one: Trial, other: Trial, sender: str | None, receiver: str, *, warm: bool) -> str:
    """What the receiver in one lane says while the sender, or an idle program, runs in the other."""
    send = module(sender or "", "time.sleep(60)\nyield {}\n")
    receive = module("", f"time.sleep({LATER})\nfelt = 'nothing'\n{receiver}yield {{'felt': felt}}\n")
    made: list[tuple[Trial, Program]] = []
    for trial, content in ((one, send), (other, receive)):
        path = trial.scratch / f"channel-{time.monotonic_ns()}"
        made.append((trial, Program(path, install(content.encode(), "channel", path), warm=warm)))
        trial.lane.announce(made[-1][1], 1)
    while not all(trial.lane.ready(program) for trial, program in made):
        time.sleep(0.01)
    begin = time.monotonic() + 4 * SETUP
    thread = threading.Thread(target=one.lane.run, args=(made[0][1], one.chunk, begin, begin + SLOT))
    thread.start()
    result = other.lane.run(made[1][1], one.chunk, begin, begin + SLOT)
    thread.join()
    for trial, program in made:
        trial.lane.dismiss(program)
    lines = result.stdout.splitlines()
    return str(json.loads(lines[0])["felt"]) if lines else "nothing"


@contextmanager
def unfiltered(trials: list[Trial], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both lanes as they are, but for the system call filter."""
    files = [file for trial in trials for file in (trial.lane._filter, trial.lane._root_of("python") / "usr/lib/privid/filter")]
    kept = {file: Path(file).read_bytes() for file in files}
    for file in files:
        file.write_bytes(ALLOW_ALL)
    with monkeypatch.context() as patch:
        patch.setattr(brood.system_calls, "export", lambda **_: ALLOW_ALL)  # type: ignore[attr-defined]
        yield
    for file, content in kept.items():
        file.write_bytes(content)
    assert system_calls.export() == kept[files[0]]


@pytest.fixture(scope="module")
def pair(make_trial: Callable[..., Trial]) -> tuple[Trial, Trial]:
    return make_trial(4), make_trial(5)


@pytest.mark.parametrize("name", ["lock", "watch", "load", "vsock"])
def test_a_channel_is_closed_in_warm_lanes_and_open_without_the_filter(pair: tuple[Trial, Trial], name: str,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair
    sender, receiver = CHANNELS[name]
    assert felt(one, other, sender, receiver, warm=True) == "nothing"
    if name == "vsock" and not Path("/dev/vsock").exists():
        return  # this kernel has no such sockets: nothing to open
    with unfiltered([one, other], monkeypatch):
        assert felt(one, other, sender, receiver, warm=True) != "nothing"
        if name == "lock":
            assert felt(one, other, None, receiver, warm=True) == "nothing"
