"""A real lane, and a chunk whose every pixel is known."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from privid.sandbox.chunk import write_chunk_json
from privid.sandbox.executable import install
from privid.sandbox.lane import SETUP, Lane, Late, Limits, Outcome, Program, RunResult, Stop
from privid.sandbox.runtime import build_runtime

#: Seconds to import numpy and cv2; and that on a busy machine.
ENOUGH = (0.45, 1.0, 4.0)
#: How late a slot may end on a busy machine. The bound is generous, but far from what the hostile programs are after.
TOLERANCE = 0.6
#: A user that no lane on this machine, and no other run of these tests, has.
ORDINARY = 66000 + os.getpid() % 1000
START = datetime(2026, 3, 1, 6, 0, tzinfo=UTC)


class PatientLane(Lane):
    """Does what the timetable does with a run that was not ready in time: gives it a later slot."""

    def run(self, program: Program, chunk_dir: Path, begin: float, end: float, stop: Stop | None = None) -> RunResult:
        while True:
            try:
                return super().run(program, chunk_dir, begin, end, stop)
            except Late:
                begin, end = time.monotonic() + 2 * SETUP, time.monotonic() + 2 * SETUP + end - begin


@dataclass
class Trial:
    """A lane and how to try programs in it."""

    lane: Lane
    scratch: Path
    chunk: Path
    frames: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

    def __call__(self, content: str | bytes, slot: float | None = None, name: str = "tried") -> RunResult:
        """Run a file for one slot and check that the slot was kept. Without a slot, one that is long enough for the file to end."""
        path = self.scratch / name
        path.unlink(missing_ok=True)
        kind = install(content.encode() if isinstance(content, str) else content, name, path)
        for seconds in ENOUGH if slot is None else (slot,):
            begin = time.monotonic() + SETUP
            result = self.lane.run(Program(path, kind), self.chunk, begin, begin + seconds)
            assert begin <= result.started
            assert -0.01 <= time.monotonic() - (result.started + seconds) < TOLERANCE
            if result.outcome is not Outcome.TIMED_OUT:
                break
        return result


@contextmanager
def trials() -> Iterator[Callable[..., Trial]]:
    """Makes lanes below one scratch directory in RAM; each is closed, and must be empty, at the end."""
    runtime = build_runtime()
    base = Path(tempfile.mkdtemp(prefix="privid-test-", dir="/dev/shm"))
    base.chmod(0o755)
    lanes: list[Lane] = []

    def make(index: int, limits: Limits | None = None, cores: frozenset[int] | None = None) -> Trial:
        scratch = base / f"scratch-{index}"
        lane = PatientLane(index, runtime=runtime, limits=limits, scratch=scratch, cores=cores)
        lanes.append(lane)
        chunk = scratch / "chunk"
        chunk.mkdir(exist_ok=True)
        frames = np.random.default_rng(7).integers(0, 256, size=(10, 36, 64, 3), dtype=np.uint8)
        np.save(chunk / "frames.npy", frames)
        write_chunk_json(chunk, start=START, fps=Fraction(30000, 1001), camera="campus", region="door", width=64, height=36, frames=10,
                         metadata={"note": "Grüße"})
        for path in (chunk, chunk / "frames.npy"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return Trial(lane, scratch, chunk, frames)

    yield make
    for lane in lanes:
        lane.close()
    left = [p.name for p in base.glob("*/lane-*")]
    shutil.rmtree(base)
    assert left == []


@pytest.fixture(scope="session")
def make_trial() -> Iterator[Callable[..., Trial]]:
    with trials() as make:
        yield make


@pytest.fixture(scope="session")
def trial(make_trial: Callable[..., Trial]) -> Trial:
    return make_trial(0, Limits(memory=1 << 30, processes=48))


def processes_of(uid: int) -> list[str]:
    """Command names of the processes that belong to a user, seen from outside."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if process.stat().st_uid == uid:
                    name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
                    if rest.split()[:2] != ["Z", "1"]:  # it has ended, and the machine's own process 1 will bury it
                        found.append(name)
            except OSError:
                continue  # it has just ended
    return found


def wait_until_gone(lane: Lane, patience: float = 5.0) -> list[str]:
    """What is left of a lane's programs after a while: names of processes of its user (root) or below this process; and broods' groups."""
    deadline = time.monotonic() + patience
    while True:
        left = processes_of(lane.uid) if os.geteuid() == 0 else [n for n in processes_of(lane.uid) if n in ("bwrap", "program", "tried")]
        left += [group.name for group in Path("/sys/fs/cgroup").glob(f"*/privid/{os.getpid()}-{lane.index}-b*")]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """Compiles C to the bytes of a program."""

    def build(source: str, *options: str) -> bytes:
        folder = tmp_path_factory.mktemp("c")
        (folder / "a.c").write_text("#define _GNU_SOURCE\n" + source)
        subprocess.run(["gcc", "-O1", "-w", "-pthread", *options, "-o", folder / "a", folder / "a.c"], check=True)
        return (folder / "a").read_bytes()

    return build


def chunk_of(trial: Trial, pixel: int) -> Path:
    """A chunk like the trial's, of frames that are all of one brightness; made once."""
    chunk = trial.scratch / f"pixel-{pixel}"
    if not chunk.exists():
        chunk.mkdir()
        np.save(chunk / "frames.npy", np.full_like(trial.frames, pixel))
        (chunk / "chunk.json").write_bytes((trial.chunk / "chunk.json").read_bytes())
        for path in (chunk, *chunk.iterdir()):
            path.chmod(0o755)
    return chunk
