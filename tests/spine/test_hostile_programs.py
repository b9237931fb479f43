"""Programs that mean ill become rows or defaults, in their slot, and leave nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from privid.sandbox.lane import GUARD

from .conftest import World

PYTHON = "#!/usr/bin/python3\n"
SLOT = 0.8
CHUNKS = 2

#: program, rows that a chunk then has, and the sum of range(v, -10, 100) over a chunk; the default of v is 5
PROGRAMS = {
    "opens a socket": (PYTHON + "import socket; s = socket.socket(); print('{\"v\": 1}')", 1, 5),
    "opens a socket and goes on": (PYTHON + """
try:
    import socket; socket.socket(socket.AF_UNIX)
    print('{"v": 99}')
except OSError:
    print('{"v": 1}')""", 1, 1),
    "writes outside": (PYTHON + """
wrote = 0
for path in ("/etc/x", "/usr/x", "/app/x", "/chunk/x", "/dev/x", "/x", "/proc/x", "/sys/x"):
    try:
        open(path, "w"); wrote += 1
    except OSError:
        pass
print('{"v": %d}' % wrote)""", 1, 0),
    "changes its frames": (PYTHON + """
import sys
try:
    open(sys.argv[1] + "/frames.npy", "r+b"); print('{"v": 99}')
except OSError:
    print('{"v": 1}')""", 1, 1),
    "forks ten thousand times": (PYTHON + """
import os
for _ in range(10000):
    try:
        if os.fork() == 0:
            while True: pass
    except OSError:
        pass
while True: pass""", 1, 5),
    "allocates ten gigabytes": (PYTHON + """
blocks = []
for _ in range(100):
    blocks.append(bytearray(b"x") * 10**8)
print('{"v": 99}')""", 1, 5),
    "loops for ever and ignores signals": (PYTHON + """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True: pass""", 1, 5),
    "prints a gigabyte": (PYTHON + """
import os
while True: os.write(1, b'{"v": 1}\\n' * 100000)""", 1, 5),
    "prints numbers that are none": (PYTHON + """
for text in ("NaN", "Infinity", "-Infinity", "1e999"): print('{"v": %s}' % text)""", 4, None),
    "prints what is not text": (PYTHON + """
import os
os.write(1, b'\\xff\\xfe{"v": 1}\\n\\x00\\x00\\n{"v": "\\xc3"}\\n{"v": 7}\\n[]\\nnull\\n')""", None, None),
    "exits with 1": ("#!/bin/sh\necho '{\"v\": 1}'\nexit 1\n", 1, 5),
    "has a segmentation fault": (PYTHON + "import ctypes; ctypes.string_at(0)", 1, 5),
    "kills everything it can": (PYTHON + "import os, signal\nos.kill(-1, signal.SIGKILL)\nprint('{\"v\": 1}')", None, None),
    "says too much": (PYTHON + "for i in range(50): print('{\"v\": 2, \"w\": 3}')", 4, 8),
    "leaves a child behind": (PYTHON + """
import os, sys
if os.fork() == 0:
    os.setsid()
    while True: pass
print('{"v": 3}')""", None, None),
}


@pytest.mark.parametrize("doing", PROGRAMS)
def test_a_program_that_misbehaves_becomes_rows_or_defaults_on_time(world: World, unique: Callable[[str], str], doing: str) -> None:
    source, count, total = PROGRAMS[doing]
    name = unique("hostile")
    world.stack.executable(name, source.encode())
    world.stack.table(name, "open_calm", name, columns="chunk timestamptz, v float8 DEFAULT 5", max_rows="4",
                      timeout=f"{int(SLOT * 1000)}ms", end="2026-03-01 06:00:02+00")
    began = time.monotonic()
    rows = world.rows(f"SELECT count(*), sum(range(v, -10, 100)) FROM {name}")
    took = time.monotonic() - began
    # a machine that is busy with other things may move the timetable, by whole slots
    assert took < (CHUNKS + 8) * (SLOT + GUARD) + 1.5
    if count is not None:
        assert rows[0][0] == count * CHUNKS
    if total is not None:
        assert rows[0][1] == total * CHUNKS
    assert 0 <= rows[0][0] <= 4 * CHUNKS
    assert wait_until_nothing_runs(world.stack.engine_pid())
    assert world.rows(f"SELECT count(*), sum(range(v, -10, 100)) FROM {name}") == rows


def wait_until_nothing_runs(engine: int) -> bool:
    """A moment after its slot, nothing that this engine started is left: neither children nor members of its control groups."""
    end = time.monotonic() + 3
    while time.monotonic() < end:
        if not [p for p in Path("/proc").glob("[0-9]*") if belongs_to(p, engine)]:
            return True
        time.sleep(0.05)
    return False


def belongs_to(process: Path, engine: int) -> bool:
    try:
        if f"/{engine}-" in (process / "cgroup").read_text():
            return True
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == engine and "bwrap" in (process / "comm").read_text()
    except OSError:
        return False
