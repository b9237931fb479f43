"""How long decoding takes depends on the picture, so it moves nobody's slot: what takes too long is a row of defaults, and that alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from privid.engine.effort import Effort
from privid.engine.frame_space import FrameSpace
from privid.engine.jobs import Job
from privid.engine.seams import Reader
from privid.engine.timetable import NANO
from privid.model import Footage, Region, Regions, Table
from privid.sandbox.executable import Kind
from privid.video import Overspent, open_footage
from tests.engine.test_runner import TIMEOUT, Workshop

#: chunks of the footage that are slow to decode
SLOW = {5, 6, 11}


@pytest.fixture
def make_workshop(tmp_path: Path) -> Iterator[Callable[..., Workshop]]:
    made: list[Workshop] = []

    def make(lanes: int = 1, **options: Any) -> Workshop:
        (tmp_path / str(len(made))).mkdir()
        made.append(Workshop(tmp_path / str(len(made)), lanes, **options))
        return made[-1]

    yield make
    for workshop in made:
        workshop.runner.stop()
        workshop.readings.close()
        workshop.cache.close()


def slow_to_decode(workshop: Workshop, seconds: float = 1.5) -> None:
    """From now on what some frames show makes them slow, as a decoder is that needs as much processor time for them."""
    opened = workshop.runner._open_reader

    def open_reader(footage: Footage) -> Reader:
        reader = opened(footage)
        real = reader.read

        def read(first: int, count: int, into: Path, time_limit: int | None = None) -> None:
            real(first, count, into, time_limit)
            if int(np.load(into / "frames.npy", mmap_mode="r")[0, 0, 0, 0]) in SLOW:
                may = seconds if time_limit is None else time_limit / NANO
                time.sleep(min(seconds, may))
                if seconds > may:
                    raise Overspent

        reader.read = read  # type: ignore[method-assign]
        return reader

    workshop.runner._open_reader = open_reader


def kept(workshop: Workshop, job: Job, name: bytes = b"key") -> dict[int, tuple[float, bool]]:
    found = {}
    for slot in job.own:
        entry = workshop.cache.get(slot.cell.address)
        assert entry is not None
        found[slot.chunk] = float(np.frombuffer(entry.body[4:12], "<f8")[0]), entry.failed
    return found


def undisturbed(make: Callable[[], tuple[Workshop, Any]]) -> Any:
    """What comes of a run in which the machine kept to the timetable; on a busy one it may be late by itself."""
    for _ in range(4):
        workshop, found = make()
        if "lane not ready" not in workshop.log.getvalue():
            return found
    pytest.skip("the machine is too busy to say")


def test_chunks_that_are_slow_to_decode_move_no_slot_and_no_answer(make_workshop: Callable[..., Workshop]) -> None:
    def run() -> tuple[Workshop, Any]:
        workshop = make_workshop()
        slow_to_decode(workshop)
        job, other = workshop.submit(16), workshop.submit_runs(
            workshop.table(14), [(chunk, 0) for chunk in range(20, 34)], [b"other %d" % chunk for chunk in range(20, 34)])
        while not (job.own[0].over and other.own[0].over):  # what it takes to start a decoder is public
            time.sleep(0.01)
        planned = workshop.runner.read_by([job, other]), [slot.place.begin for slot in (*job.own, *other.own)]
        job.wait_all()
        other.wait_all()
        return workshop, (job, planned, (max(slot.place.end for slot in (*job.own, *other.own)),
                                         [slot.place.begin for slot in (*job.own, *other.own)]),
                          kept(workshop, job), kept(workshop, other, b"other"), workshop.log.getvalue())

    job, planned, found, rows, others, log = undisturbed(run)
    assert planned[1] == found[1]
    assert planned[0] >= found[0]
    assert rows == {chunk: (0.0, True) if chunk in SLOW else (float(chunk), False) for chunk in range(16)}, log
    assert others == {chunk: (float(chunk), False) for chunk in range(20, 34)}
    assert {outcome: count for outcome, count in job.outcomes.items() if count} == {"ok": 13, "undecoded": 3}


def test_frames_that_the_machine_makes_late_move_slots_and_are_lost_to_nobody(make_workshop: Callable[..., Workshop]) -> None:
    """Were their rows defaults, what other jobs decode meanwhile would be seen in them."""
    workshop = make_workshop()
    described = workshop.describe

    def slow(table: Table, chunk: int, region: int, folder: Path) -> None:
        if chunk == 3:
            time.sleep(3)
        described(table, chunk, region, folder)

    workshop.runner._describe = slow
    job = workshop.submit(25)
    job.wait_all()
    assert kept(workshop, job) == {chunk: (float(chunk), False) for chunk in range(25)}
    assert "frames not decoded" in workshop.log.getvalue()


def test_rows_of_a_chunk_do_not_depend_on_what_another_job_has_decoded(make_workshop: Callable[..., Workshop]) -> None:
    """How far that is follows from the chunks before it, so that each of these would decide what others find."""
    found = []
    for beside in (False, True):
        workshop = make_workshop()
        slow_to_decode(workshop, 0.2)
        long = workshop.submit(14, Fraction(1), name=b"long") if beside else None  # whose slots leave more time for it
        job = workshop.submit(14)
        job.wait_all()
        found.append(kept(workshop, job))
        if long is not None:
            workshop.runner.cancel(long)
    assert found[0] == found[1] == {chunk: (0.0, True) if chunk in SLOW else (float(chunk), False) for chunk in range(14)}


def test_a_first_chunk_that_is_slow_to_decode_moves_no_slot(make_workshop: Callable[..., Workshop]) -> None:
    """Not even where slots are so long that it would fit into one."""
    def run() -> tuple[Workshop, Any]:
        workshop = make_workshop()
        slow_to_decode(workshop, 1.05)
        table = workshop.table(8, Fraction(1))
        job = workshop.submit_runs(table, [(chunk, 0) for chunk in (5, 7)], [b"key 5", b"key 7"])
        planned = [slot.place for slot in job.own]
        job.wait_all()
        return workshop, (kept(workshop, job), planned, [slot.place for slot in job.own])

    rows, planned, places = undisturbed(run)
    assert planned == places
    assert rows == {5: (0.0, True), 7: (7.0, False)}


def test_room_for_frames_is_free_again_at_a_moment_that_tells_nothing_of_decoding(make_workshop: Callable[..., Workshop]) -> None:
    """Whoever cancels, and asks for more than is left, would otherwise see how long a chunk takes."""
    for slow in (False, True):
        workshop = make_workshop()
        if slow:
            slow_to_decode(workshop, 0.6)
        space = FrameSpace(100 << 10, workshop.scratch)
        table, chunks = workshop.table(20), range(5, 20)
        held = space.take("ana", 50, table.executable)
        job = workshop.runner.submit(table, Kind.PROGRAM, [(chunk, 0) for chunk in chunks], [b"key %d" % chunk for chunk in chunks],
                                     workshop.cache.allocate(15, 1000), held)
        while not workshop.read:
            time.sleep(0.01)
        begun = time.monotonic()
        workshop.runner.cancel(job)
        while space._held:
            time.sleep(0.005)
        assert 1 <= time.monotonic() - begun < 1.2


def test_regions_of_a_chunk_are_late_together(make_workshop: Callable[..., Workshop]) -> None:
    workshop = make_workshop()
    slow_to_decode(workshop)
    left, right = (((x, 0.0), (x + 32.0, 0.0), (x + 32.0, 48.0), (x, 48.0)) for x in (0.0, 32.0))
    table = replace(workshop.table(8), regions=Regions("halves", "hard", 1, (Region("left", left), Region("right", right))))
    runs = [(chunk, region) for chunk in range(3, 8) for region in range(2)]
    job = workshop.submit_runs(table, runs, [b"cut %d %d" % run for run in runs])
    job.wait_all()
    failed = {(slot.chunk, slot.region): (entry := workshop.cache.get(slot.cell.address)) is not None and entry.failed for slot in job.own}
    assert failed == {run: run[0] in SLOW for run in runs}
    assert workshop.read == [3, 4, 5, 6, 7]  # a chunk that took too long is not tried again for its other regions


def test_a_long_start_of_the_decoder_leaves_its_first_chunks_their_time(make_workshop: Callable[..., Workshop]) -> None:
    workshop = make_workshop()
    opened = workshop.runner._open_reader

    def open_reader(footage: Footage) -> Reader:
        reader = opened(footage)
        start = reader.start

        def slow() -> int:
            time.sleep(2)
            return start()

        reader.start = slow  # type: ignore[method-assign]
        return reader

    workshop.runner._open_reader = open_reader
    job = workshop.submit(4)
    job.wait_all()
    assert kept(workshop, job) == {chunk: (float(chunk), False) for chunk in range(4)}
    assert "frames not decoded" in workshop.log.getvalue()


def write_uneven(path: Path, chunks: int, size: int, noisy: set[int]) -> None:
    """Lossless, each chunk a group of pictures; some of noise. The first pixel tells the chunk."""
    chance = np.random.default_rng(1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264rgb", rate=10)
        stream.width, stream.height, stream.pix_fmt = 640, 480, "rgb24"
        stream.options = {"qp": "0", "preset": "ultrafast", "x264-params": f"keyint={size}:min-keyint={size}:scenecut=0"}
        for number in range(chunks * size):
            chunk = number // size
            picture = chance.integers(0, 256, (480, 640, 3), np.uint8) if chunk in noisy else np.full((480, 640, 3), chunk, np.uint8)
            picture[0, 0] = chunk
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


def test_the_real_decoder_gives_up_chunks_that_take_too_long_and_goes_on_with_those_after(
        make_workshop: Callable[..., Workshop], monkeypatch: pytest.MonkeyPatch) -> None:
    workshop, size = make_workshop(), 12
    write_uneven(workshop.directory / "b.mp4", 24, size, SLOW)
    footage = open_footage(workshop.directory, "b.mp4", None, workshop.directory / "known")
    monkeypatch.setattr(Effort, "limit", lambda effort, skipped, first=False: NANO if first else NANO // 14)
    plain = workshop.table(24, TIMEOUT)
    table = replace(plain, camera=replace(plain.camera, footage=footage), grid=replace(plain.grid, size=size, step=size))
    job = workshop.runner.submit(table, Kind.PROGRAM, [(chunk, 0) for chunk in range(24)], [b"key %d" % chunk for chunk in range(24)],
                                 workshop.cache.allocate(24, 1000), workshop.runner.take_space(table, 24, "ana"))
    job.wait_all()
    found = kept(workshop, job)
    assert found == {chunk: (0.0, True) if chunk in SLOW else (float(chunk), False) for chunk in range(24)}
