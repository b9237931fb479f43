"""Chunks per second through the sandbox: cold and warm starts, one-frame chunks, and a whole video beside a bare loop.

    python bench/sandbox.py [--minutes N]      N minutes of video for the last comparison (default 1; 10 is what the goal speaks of)
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from privid.engine.chunks import ChunkCache
from privid.engine.kept import segments_of
from privid.engine.log import Log
from privid.engine.programs import Programs, describe
from privid.engine.reading import Readings
from privid.engine.runner import Runner
from privid.errors import SandboxFailed
from privid.model import Camera, Column, Executable, Footage, Grid, Table
from privid.sandbox.chunk import write_chunk_json
from privid.sandbox.executable import Kind, install
from privid.sandbox.hands import HANDS
from privid.sandbox.lane import Lane, Late, Outcome, Program
from privid.sandbox.run import Limits
from privid.sandbox.runtime import find_runtime
from privid.video import Decoder, open_footage

FRAMES, WIDTH, HEIGHT = 150, 640, 360
START = datetime(2026, 3, 1, tzinfo=UTC)

TRIVIAL = "def process(chunk):\n    yield {'v': float(chunk.frames[0, 0, 0, 0])}\n"
CV2 = """
import cv2
def process(chunk):
    small = [cv2.resize(frame, (64, 36)) for frame in chunk.frames[::10]]
    yield {'v': float(sum(int(s.sum()) for s in small))}
"""
TORCH = """
import torch
layer = torch.nn.Conv2d(3, 4, 3)
def process(chunk):
    with torch.no_grad():
        x = torch.from_numpy(chunk.frames[:2, ::4, ::4].copy()).permute(0, 3, 1, 2).float()
        yield {'v': float(layer(x).mean())}
"""
BACKGROUND = """
import cv2
def process(chunk):
    subtract = cv2.createBackgroundSubtractorMOG2(detectShadows=False)
    moving = 0
    for frame in chunk.frames:
        moving += cv2.countNonZero(subtract.apply(cv2.GaussianBlur(frame, (5, 5), 0)))
    yield {'v': float(moving)}
"""


@contextmanager
def scratch() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="privid-bench-", dir="/dev/shm"))
    base.chmod(0o755)
    try:
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


def make_lane(base: Path) -> Lane:
    """With a core of its own where there are two; the rest is this process's."""
    cores = sorted(os.sched_getaffinity(0))
    own = frozenset({cores[-1]}) if len(cores) > 1 else None
    return Lane(0, scratch=base / "lanes", cores=own)


def make_chunk(lane_scratch: Path, frames: int) -> Path:
    chunk = lane_scratch / f"chunk-{frames}"
    chunk.mkdir()
    np.save(chunk / "frames.npy", np.random.default_rng(1).integers(0, 256, (frames, HEIGHT, WIDTH, 3), dtype=np.uint8))
    write_chunk_json(chunk, start=START, fps=Fraction(30), camera="bench", region="", width=WIDTH, height=HEIGHT, frames=frames)
    for path in (chunk, *chunk.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return chunk


def start_to_end(lane: Lane, program: Program, chunk: Path, runs: int, slot: float) -> float:
    """Median seconds from the beginning of a slot to the end of its program."""
    lane.announce(program, runs)
    while not lane.ready(program):
        time.sleep(0.01)
    taken = []
    for _ in range(runs):
        result = lane.run_soon(program, chunk, slot)
        if result.outcome is not Outcome.OK:
            raise SystemExit(f"{result.outcome.value}: {result.stderr.decode()}")
        taken.append(result.ended - result.started)
    lane.dismiss(program)
    return statistics.median(taken)


def compare_starts(base: Path, lane: Lane) -> None:
    chunk = make_chunk(base / "lanes", FRAMES)
    print(f"one run over {FRAMES} frames of {WIDTH}x{HEIGHT}, from the slot's beginning to the program's end:")
    for name, content, runtime, slot in (("cv2", CV2, "python", 3.0), ("torch", TORCH, "torch", 12.0)):
        try:
            find_runtime(runtime)
        except SandboxFailed:
            print(f"  {name:<6} runtime {runtime} is not built")
            continue
        path = base / "lanes" / name
        kind = install(content.encode(), name, path)
        cold = start_to_end(lane, Program(path, kind, runtime, warm=False), chunk, 5, slot)
        warm = start_to_end(lane, Program(path, kind, runtime), chunk, 15, slot / 3)
        print(f"  {name:<6} cold {1e3 * cold:7.1f} ms   warm {1e3 * warm:6.1f} ms   ratio {cold / warm:5.1f}")


class Series:
    """Slots one after another, as tight as the guard allows, handed over by two threads as the engine does it."""

    def __init__(self, lane: Lane, program: Program, chunk: Path, count: int, timeout: float) -> None:
        self.lane, self.program, self.chunk, self.timeout = lane, program, chunk, timeout
        self.pitch = timeout + lane.guard
        self.left, self.slips = count, 0
        self.outcomes: list[Outcome] = []
        self._lock = threading.Lock()
        self.first = self._next = time.monotonic() + 0.05

    def run(self) -> float:
        """Seconds from the beginning of the first slot to the end of the last."""
        threads = [threading.Thread(target=self._work) for _ in range(HANDS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - self.first

    def _work(self) -> None:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
        while (begin := self._book()) is not None:
            try:
                outcome = self.lane.run(self.program, self.chunk, begin, begin + self.timeout).outcome
            except Late:
                with self._lock:
                    self.left, self.slips = self.left + 1, self.slips + 1
            else:
                self.outcomes.append(outcome)

    def _book(self) -> float | None:
        with self._lock:
            if not self.left:
                return None
            while time.monotonic() > self._next - 0.002 or not self.lane.ready(self.program):
                self._next, self.slips = self._next + self.pitch, self.slips + 1
                time.sleep(max(0.0, self._next - 0.003 - time.monotonic()))
            begin = self._next
            self._next, self.left = begin + self.pitch, self.left - 1
            return begin


def one_frame(base: Path, lane: Lane, count: int, timeout: float) -> None:
    chunk, path = make_chunk(base / "lanes", 1), base / "lanes" / "trivial"
    program = Program(path, install(TRIVIAL.encode(), "trivial", path))
    lane.announce(program, count, timeout + lane.guard)
    while not lane.ready(program):
        time.sleep(0.002)
    series = Series(lane, program, chunk, count, timeout)
    seconds = series.run()
    good = series.outcomes.count(Outcome.OK)
    print(f"one-frame chunks, slots of {1e3 * timeout:g} + {1e3 * lane.guard:g} ms, children made meanwhile on the other core: "
          f"{count / seconds:.0f} per second ({good} of {count} in time, {series.slips} slots slipped; "
          f"the timetable alone allows {1 / series.pitch:.0f})")
    lane.dismiss(program)


def render(path: Path, seconds: int) -> None:
    """Squares that move over noise, 30 frames a second."""
    generator = np.random.default_rng(3)
    ground = generator.integers(60, 120, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {"preset": "ultrafast", "crf": "30", "g": "60"}
        for number in range(30 * seconds):
            picture = ground.copy()
            for square in range(5):
                x, y = (number * (square + 2) * 2) % (WIDTH - 40), 40 + 60 * square
                picture[y:y + 40, x:x + 40] = 40 * square + 50
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="bgr24")))
        container.mux(stream.encode(None))


def bare(chunks: multiprocessing.Queue[str | None], done: multiprocessing.Queue[float]) -> None:
    """The same program in a process without any protection."""
    namespace: dict[str, object] = {}
    exec(BACKGROUND, namespace)
    process: Callable[[object], Iterator[dict[str, float]]] = namespace["process"]  # type: ignore[assignment]
    cv2.setNumThreads(1)
    for path in iter(chunks.get, None):
        class Chunk:
            frames = np.load(path, mmap_mode="r")
        begun = time.monotonic()
        list(process(Chunk()))
        Path(path).unlink()
        done.put(time.monotonic() - begun)


def bare_loop(directory: Path, footage: Footage, size: int) -> tuple[float, list[float]]:
    """Decode in one process, compute in another; chunks per second, and what each took."""
    chunks: multiprocessing.Queue[str | None] = multiprocessing.Queue(4)
    done: multiprocessing.Queue[float] = multiprocessing.Queue()
    worker = multiprocessing.Process(target=bare, args=(chunks, done), daemon=True)
    worker.start()
    assert worker.pid is not None
    if (cores := sorted(os.sched_getaffinity(worker.pid)))[1:]:
        os.sched_setaffinity(worker.pid, {cores[-1]})  # as a lane has it
    count = footage.frames // size
    begun = time.monotonic()
    with Decoder(directory, footage) as decoder:
        for number in range(count):
            folder = directory / f"bare-{number}"
            folder.mkdir(exist_ok=True)
            decoder.read(number * size, size, folder)
            chunks.put(str(folder / "frames.npy"))
    chunks.put(None)
    taken = [done.get() for _ in range(count)]
    worker.join()
    return count / (time.monotonic() - begun), taken


def whole_video(base: Path, lane: Lane, minutes: int) -> None:
    videos, size = base / "videos", 300
    videos.mkdir()
    render(videos / "a.mp4", 60 * minutes)
    footage = open_footage(videos, "a.mp4", None, base / "known")
    passes = [bare_loop(videos, footage, size) for _ in range(2)]
    alone = statistics.mean(rate for rate, _ in passes)
    # as tight as the program allows: what the slowest chunk takes, and a little; of two passes the better, for neighbours of a shared
    # machine slow single chunks down by a quarter
    slowest = max(map(min, *(taken for _, taken in passes)))
    timeout = Fraction(round(1e3 * (1.08 * slowest + 0.005)), 1000)
    rate, late, slipped = through_runner(base, lane, videos, footage, size, timeout, BACKGROUND)
    print(f"{minutes} min of {WIDTH}x{HEIGHT}, chunks of {size} frames, background subtraction: bare loop {alone:.2f} chunks/s, "
          f"warm lane {rate:.2f} in slots of {1e3 * float(timeout):g} ms ({late} not in time, {slipped} slots slipped), "
          f"ratio {rate / alone:.2f}")


def through_runner(base: Path, lane: Lane, videos: Path, footage: Footage, size: int, timeout: Fraction,
                   content: str) -> tuple[float, int, int]:
    """Chunks per second from the first slot to the last, by the engine's own runner, how many programs did not end in time, and how many
    slots were not used because something was not ready."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[:-1] or cores))  # as the engine does, for all threads that it will start
    limits, runtime = Limits(), find_runtime()
    cache, log = ChunkCache(base / "chunks.db"), io.StringIO()
    readings = Readings(segments_of(base / "chunks.db"))
    programs = Programs(runtime, limits, readings, lambda table: content.encode())
    runner = Runner([lane], cache, base / "lanes", Log(log), starts_warm=programs.starts_warm,
                    read_file=lambda sha256: b"", open_reader=lambda found: Decoder(videos, found), describe=describe,
                    read_output=programs.read_output)
    count = footage.frames // size
    camera = Camera("bench", "o", START, Fraction(0), 1, Fraction(1), Fraction(1, 10), footage)
    table = Table(0, "t", "a", camera, Grid(0, count, size, size), (Column("v", 1, "float8", "float8", False, -1.0),),
                  Executable("e", "00", content.encode()), timeout, 1, False)
    try:
        job = runner.submit(table, Kind.MODULE, [(number, 0) for number in range(count)], [b"%d" % number for number in range(count)],
                            cache.allocate(count, programs.weight(table)), content=content.encode())
        job.wait_all()
        span = max(slot.place.end for slot in job.own) - min(slot.place.begin for slot in job.own)
        return count / (span / 1e9), count - job.outcomes.get("ok", 0), round(span / runner.durations.pitch(table)) - count
    finally:
        runner.stop()
        readings.close()
        cache.close()
        os.sched_setaffinity(0, set(cores))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=1)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("warm starts need root; nothing to compare")
        return 0
    sys.setswitchinterval(0.0005)
    with scratch() as base:
        lane = make_lane(base)
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            os.sched_setaffinity(0, set(cores[:-1]))
        compare_starts(base, lane)
        one_frame(base, lane, 1000, 0.004)
        os.sched_setaffinity(0, set(cores))
        whole_video(base, lane, options.minutes)
        lane.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
