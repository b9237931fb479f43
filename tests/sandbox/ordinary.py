"""What an ordinary user's lane is checked for; run in a process of its own that has stepped down to that user."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np

from privid.sandbox.chunk import write_chunk_json
from privid.sandbox.executable import install
from privid.sandbox.lane import Lane, Limits, Program, RunResult
from privid.sandbox.runtime import find_runtime

from .conftest import wait_until_gone

_FORKS = """#!/usr/bin/python3
import os, time
born = 0
for _ in range(1000):
    try:
        if os.fork() == 0: time.sleep(60)
        born += 1
    except OSError: pass
print(born)
"""
_FLOCK = """#!/usr/bin/python3
import fcntl
try: fcntl.flock(open('/app/program'), fcntl.LOCK_EX)
except OSError as e: print(e.errno)
"""


def check() -> dict[str, object]:
    """Try a handful of programs; the answer is compared by the test."""
    scratch = Path(tempfile.mkdtemp(prefix="privid-test-", dir="/dev/shm"))
    os.environ.pop("XDG_DATA_HOME", None)
    os.environ["HOME"] = str(scratch)
    limits = Limits(memory=1 << 30, processes=32)
    found: dict[str, object] = {}
    try:
        with Lane(0, runtime=find_runtime(), limits=limits, scratch=scratch) as lane:
            chunk = scratch / "chunk"
            chunk.mkdir()
            np.save(chunk / "frames.npy", np.full((2, 4, 4, 3), 9, np.uint8))
            write_chunk_json(chunk, start=datetime(2026, 3, 1, tzinfo=UTC), fps=Fraction(30), camera="a", region="", width=4,
                             height=4, frames=2)

            def run(name: str, content: str, slot: float) -> tuple[RunResult, float]:
                kind = install(content.encode(), name, scratch / name)
                result = lane.run_soon(Program(scratch / name, kind), chunk, slot)
                return result, time.monotonic() - result.started - slot

            result, _ = run("module", "import cv2\ndef process(chunk):\n    yield {'n': chunk.frames.sum()}\n", 1.2)
            found["module"], found["sum"] = result.outcome.value, result.stdout == b'{"n": 864}\n'
            result, late = run("loop", "#!/bin/sh\nwhile :; do :; done\n", 0.4)
            found["loop"], found["on time"] = result.outcome.value, -0.01 <= late < 0.25
            result, _ = run("memory", "#!/usr/bin/python3\nbytearray(2 << 30)\n", 0.6)
            found["memory"] = result.outcome.value
            result, _ = run("forks", _FORKS, 0.8)
            found["forks"] = 10 < int(result.stdout) < limits.processes
            result, _ = run("flock", _FLOCK, 0.5)
            found["flock"] = int(result.stdout)
        found["left"] = wait_until_gone(lane) + [p.name for p in scratch.glob("lane-*")]
    finally:
        shutil.rmtree(scratch)
    return found
