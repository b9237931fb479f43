"""Pages that warm children have in common: those that the child has, too, which never runs, or a write to one tells who still has it."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import time
from collections.abc import Callable

import numpy as np
import pytest

from privid.sandbox import brood, pages
from privid.sandbox.executable import install
from privid.sandbox.lane import Late, Outcome, Program

from .conftest import Trial
from .test_before_the_fork import in_turn
from .test_siblings import own_litter

#: Sets of pages: one for all, one for each child with the one before it, and one more.
START = """
import ctypes, gc, os, time
SIZE = %d * 4096
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def memory(place, size, flags=0x22):
    return libc.mmap(ctypes.c_void_p(place), ctypes.c_size_t(size), 3, flags, -1, ctypes.c_long(0))
def advise(first, sets, what):
    assert libc.madvise(ctypes.c_void_p(pages + first * SIZE), ctypes.c_size_t(sets * SIZE), what) == 0
def drop(first, sets):
    libc.munmap(ctypes.c_void_p(pages + first * SIZE), ctypes.c_size_t(sets * SIZE))
def write(first, sets, what):
    ctypes.memset(pages + first * SIZE, what, sets * SIZE)
MOST = 24
pages = memory(None, MOST * SIZE)
write(0, MOST, 1)
me = 0
"""
#: What the mother does before she makes child `me`.
BETWEEN = """
library = next(thing for thing in gc.get_objects() if type(thing) is ctypes.PyDLL and 'litter' in str(thing._name))
real = library.litter
def litter(children, *rest):
    global me
    for me in range(children):
        %s
        if real(1, *rest) == 0: return 0
    return 1
library.litter = litter
"""
NEIGHBOURS = "advise(1, MOST - 1, 10); advise(me + 1, 2, 11)"
ARRANGED = {
    "left out of the others": BETWEEN % NEIGHBOURS,
    "written between forks": BETWEEN % "write(1, me, me); write(me + 2, MOST - me - 2, me)",
    "unmapped by the mother": BETWEEN % "drop(1, me)",
    # the last is the one that never runs
    "unmapped by the last child": own_litter("os.setsid(); _ < children - 1 or drop(1, MOST - 1)"),
    "mapped anew by the last child": own_litter("os.setsid(); _ < children - 1 or memory(pages, MOST * SIZE, 0x8032)"),
    "written by the last child": own_litter("os.setsid(); _ < children - 1 or write(1, MOST - 1, 2)"),
}
END = "\ndef process(chunk): yield {'n': 1}\n"
HARMLESS = {
    "an ordinary one": "",
    "numpy": "import numpy as np\ntable = np.arange(1000)",
    "its own litter": START % 64 + own_litter("os.setsid()"),
    "much memory": "import numpy as np\nlarge = np.ones(50 << 20, np.uint8)\nread = np.zeros(8 << 20, np.uint8).sum()",
}


@pytest.fixture(scope="module")
def warm(make_trial: Callable[..., Trial]) -> Trial:
    return make_trial(7)


def why_cold(trial: Trial, content: str, children: int = 4) -> str | None:
    path = trial.scratch / f"pages-{time.monotonic_ns()}"
    program = Program(path, install(content.encode(), "pages", path))
    trial.lane.announce(program, children)
    while not trial.lane.ready(program):
        time.sleep(0.005)
    assert trial.lane._nurse is not None
    reason = trial.lane._nurse.why_cold(program)
    trial.lane.dismiss(program)
    return reason


@pytest.mark.parametrize("how", ARRANGED)
def test_pages_of_some_children_alone_are_found(warm: Trial, how: str) -> None:
    assert why_cold(warm, START % 64 + ARRANGED[how] + END) == "it shares a page that its witness does not have"


@pytest.mark.parametrize("how", HARMLESS)
def test_what_all_have_and_what_one_has_alone_is_no_hindrance(warm: Trial, how: str) -> None:
    assert why_cold(warm, HARMLESS[how] + END) is None


def test_there_are_no_huge_pages(warm: Trial) -> None:
    """A page that is part of a larger one goes with it, whoever has it."""
    assert warm_run(warm, """
import mmap, resource
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    large = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE)
    large.madvise(mmap.MADV_HUGEPAGE)
    for place in range(0, 8 << 20, 4096): large[place] = 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
imported = faults()
def process(chunk): yield {'n': min(imported, faults())}
""") >= 2048


def warm_run(trial: Trial, content: str) -> int:
    path = trial.scratch / f"pages-{time.monotonic_ns()}"
    program = Program(path, install(content.encode(), "pages", path))
    trial.lane.announce(program, 1)
    while not trial.lane.ready(program):
        time.sleep(0.005)
    result = trial.lane.run_soon(program, trial.chunk, 1.0)
    trial.lane.dismiss(program)
    assert result.warm and result.outcome is Outcome.OK, result.stderr.decode()
    return int(json.loads(result.stdout)["n"])


#: The first of two neighbours keeps what they have in common, and takes long to go away, or does not keep it; the second writes to
#: it, and to pages that all have.
FEEL = """
def send(bit):
    if bit: memory(0x10000000, 384 << 20, 0x8022)
    else: drop(me + 2, 1)
def sense():
    took = [], []
    for place in range(0, SIZE, 4096):
        for kind, first in enumerate((0, me + 1)):
            begun = time.perf_counter_ns()
            ctypes.c_char.from_address(pages + first * SIZE + place).value = 2
            took[kind].append(time.perf_counter_ns() - begun)
    common, ours = (sorted(times)[len(times) // 2] for times in took)
    return ours / common
def process(chunk):
    bit = int(chunk.frames[0, 0, 0, 0])
    if bit < 2:
        send(bit)
        while True: time.sleep(1)
    yield {"felt": sense(), "me": me}
"""


def felt(trial: Trial, bit: int) -> float | None:
    """How long a write takes to what a neighbour had, or has, against one to what all have."""
    path = trial.scratch / f"feel-{time.monotonic_ns()}"
    program = Program(path, install((START % 1024 + ARRANGED["left out of the others"] + FEEL).encode(), "feel", path))
    for slot in (0.3, 0.6, 1.2):
        trial.lane.announce(program, 2)
        while not trial.lane.ready(program):
            time.sleep(0.005)
        assert trial.lane._nurse is not None and trial.lane._nurse.why_cold(program) is None
        try:
            results = in_turn(trial, program, bit, slot)
        except Late:
            continue
        finally:
            trial.lane.dismiss(program)
        if results[1].outcome is Outcome.OK:
            said = json.loads(results[1].stdout)
            return float(said["felt"]) if said["me"] == 1 else None
    return None


def test_a_child_could_tell_whether_an_earlier_one_still_has_a_page(warm: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody looked at pages: by how long a write takes."""
    monkeypatch.setattr(brood, "check_pages", lambda *_: None)
    kept, let_go = ([value for _ in range(6) if (value := felt(warm, bit)) is not None] for bit in (1, 0))
    assert len(kept) > 2 and len(let_go) > 2
    higher = sum(one > other for one in kept for other in let_go) / (len(kept) * len(let_go))
    assert higher > 0.8, (kept, let_go)


PRESENT, SWAPPED, FILE, ALONE, WRITTEN = (1 << bit for bit in (63, 62, 61, 56, 55))


@pytest.mark.parametrize("own, kept, reason", [
    (PRESENT | 7, PRESENT | 7, None), (PRESENT | WRITTEN | 7, PRESENT | 7, None), (PRESENT | ALONE | 7, PRESENT | 8, None),
    (PRESENT | ALONE | 7, 0, None), (PRESENT | FILE | 7, 0, None), (0, PRESENT | 7, None), (PRESENT | int(pages._zero_page()), 0, None),
    (PRESENT | 7, PRESENT | 8, "share"), (PRESENT | 7, 0, "share"), (PRESENT | 7, SWAPPED | 7, "share"), (SWAPPED | 7, 0, "swap"),
    (SWAPPED | 7, PRESENT | 7, "swap"),
])
def test_a_page_is_alone_or_kept(own: int, kept: int, reason: str | None) -> None:
    found = pages._compare(np.array([own], np.uint64), np.array([kept], np.uint64))
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_a_zero_page_is_one_that_everybody_has() -> None:
    with mmap.mmap(-1, 8 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) as memory:
        _ = memory[:]
        begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        entries = pages._entries(os.getpid(), [(begin, begin + 8 * mmap.PAGESIZE)])
    assert set(entries & pages._NUMBER) == {pages._zero_page()} and pages._zero_page()
