"""What a hostile module prepares when it is imported, so that one chunk can tell a later one something by what siblings have in common."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privid.sandbox.executable import install
from privid.sandbox.lane import Lane, Late, Outcome, Program, RunResult

from .conftest import Trial
from .weaker import weaker

TRIED = """
import ctypes, mmap, os, resource, signal, time
def tried(action):
    try: return action()
    except Exception as error: return f'refused: {type(error).__name__}'
"""

#: X1: a file without pages in whatever place can be written, mapped privately and only for reading. A page that one sibling
#: reads is there for all, and the kernel then maps its neighbours with it: fewer faults.
HOLES = TRIED + """
SIZE, PAGE = 256 * 4096, 4096
def hole():
    for place in ('/tmp', '/var/tmp', '/dev/shm', '/dev', '/chunk', '/app', '/app/files', '/', os.getcwd(), os.path.expanduser('~')):
        try: fd = os.open(place + '/hole', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError: continue
        os.unlink(place + '/hole')
        os.ftruncate(fd, SIZE)
        pages = mmap.mmap(fd, SIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        os.close(fd)
        return pages
pages = hole()
def send(bit):
    return [pages[n] for n in range(0, SIZE * bit, PAGE)]
def sense():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for n in range(0, SIZE, PAGE): pages[n]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 128
"""

#: X2: fewer pending signals for all siblings together, of which a chunk takes what there is, and gives it back only when it is buried.
SIGNALS = TRIED + """
NUMBER, MOST = 40, 24
tried(lambda: resource.setrlimit(resource.RLIMIT_SIGPENDING, (MOST, resource.getrlimit(resource.RLIMIT_SIGPENDING)[1])))
signal.pthread_sigmask(signal.SIG_BLOCK, {NUMBER})
def send(bit):
    for _ in range(MOST * bit): os.kill(os.getpid(), NUMBER)
def sense():
    for _ in range(MOST): os.kill(os.getpid(), NUMBER)
    found = 0
    while signal.sigtimedwait({NUMBER}, 0): found += 1
    return found < MOST
"""

#: The same with the signal by which a child tells its end, which is any number that its parent wants.
ENDS = SIGNALS.replace("os.kill(os.getpid(), NUMBER)", "end()") + """
def end():
    child = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(56), ctypes.c_long(NUMBER), None, None, None, None)
    if child == 0: ctypes.CDLL(None)._exit(0)
    if child < 0: raise OSError(ctypes.get_errno(), 'refused')
    os.waitid(os.P_PID, child, os.WEXITED | 0x40000000)
"""

#: A chunk that takes long to go away, with the zygote's huge page after all else that it has. The last of the siblings writes to it: if
#: nobody else has it, the kernel gives it as a whole.
COPIES = TRIED + """
HUGE, LOW, MUCH = 2 << 20, 0x10000000, 1 << 30
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def pages(place, size):
    return libc.mmap(ctypes.c_void_p(place), ctypes.c_size_t(size), 3, 0x22, -1, ctypes.c_long(0))
start = (pages(None, 2 * HUGE) + HUGE - 1) // HUGE * HUGE
libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(HUGE), 14)
ctypes.memset(start, 1, HUGE)
def send(bit):
    if bit: ctypes.memset(pages(LOW, MUCH), 1, MUCH)
def sense():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for n in range(0, HUGE, 4096): ctypes.memset(start + n, 2, 1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before > 100
"""

PROCESS = """
def process(chunk):
    bit = int(chunk.frames[0, 0, 0, 0])
    if bit > 1:
        yield {'felt': tried(sense)}
    else:
        tried(lambda: send(bit))
        while True: time.sleep(1)
"""

#: By their names in the list of channels: the module, and which protections stand against it, each of which is enough.
CHANNELS = {
    "holes of a file that an import made": (HOLES, ("no place to write", "devices of mappings")),
    "pending signals": (SIGNALS, ("no real-time signals", "fixed limits")),
    "pages that siblings have copied": (COPIES, ("a witness",)),
    "signals of children's ends": (ENDS, ("no real-time signals", "fixed limits")),
}


@pytest.fixture(scope="module")
def lane(make_trial: Callable[..., Trial]) -> Trial:
    return make_trial(9)


def chunk_of(trial: Trial, pixel: int) -> Path:
    chunk = trial.scratch / f"pixel-{pixel}"
    if not chunk.exists():
        chunk.mkdir()
        np.save(chunk / "frames.npy", np.full_like(trial.frames, pixel))
        (chunk / "chunk.json").write_bytes((trial.chunk / "chunk.json").read_bytes())
    return chunk


def in_turn(trial: Trial, program: Program, bit: int, slot: float) -> list[RunResult]:
    """A chunk with a bit, and one that begins when the guard after it is over."""
    begin = time.monotonic() + 0.2
    later = begin + slot + 0.01
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(Lane.run, trial.lane, program, chunk_of(trial, bit), begin, begin + slot)
        time.sleep(0.05)
        second = Lane.run(trial.lane, program, chunk_of(trial, 2), later, later + slot)
        return [first.result(), second]


def felt(trial: Trial, content: str, bit: int) -> Any:
    """What the second says; anew on a machine that was too busy."""
    path = trial.scratch / f"hostile-{time.monotonic_ns()}"
    program = Program(path, install(content.encode(), "hostile", path))
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
    content = CHANNELS[name][0] + PROCESS
    assert felt(lane, content, 0) == felt(lane, content, 1)


@pytest.mark.parametrize("name", CHANNELS)
def test_each_protection_is_enough_and_without_all_of_them_the_bit_comes_through(lane: Trial, name: str) -> None:
    content, protections = CHANNELS[name][0] + PROCESS, CHANNELS[name][1]
    for kept in protections:
        with weaker(*(other for other in protections if other != kept)):
            assert felt(lane, content, 0) == felt(lane, content, 1), kept
    with weaker(*protections):
        for _ in range(6):
            if felt(lane, content, 0) != felt(lane, content, 1):
                return
    raise AssertionError("the bit did not come through, though nothing stood against it")
