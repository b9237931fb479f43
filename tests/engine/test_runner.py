"""The runner with the real decoder and a lane that only keeps time: what is shared, given up, failed, and left behind."""

from __future__ import annotations

import errno
import io
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privid.engine import durations, runner
from privid.engine.cancel import Cancelled
from privid.engine.chunks import ChunkCache
from privid.engine.jobs import Job
from privid.engine.kept import Cell, segments_of
from privid.engine.log import Log
from privid.engine.programs import Programs, describe, weigh
from privid.engine.reading import Readings
from privid.engine.runner import Runner
from privid.engine.seams import Reader
from privid.engine.series import Stretch
from privid.engine.timetable import NANO
from privid.errors import SandboxFailed
from privid.model import Camera, Column, Executable, Footage, Grid, Mask, Region, Regions, Table
from privid.room.space import Gauge
from privid.sandbox.executable import Kind
from privid.sandbox.hands import Stop
from privid.sandbox.printed import Printed
from privid.sandbox.program import Program
from privid.sandbox.run import Limits, Outcome, RunResult
from privid.sandbox.runtime import Runtime
from privid.video import Decoder, open_footage
from tests.conftest import write_video
from tests.engine.client import wait_for

GUARD = 0.1
TIMEOUT = Fraction(1, 20)
PITCH = GUARD + float(TIMEOUT)


class TimeKeeper:
    """Reads the chunk itself, and notes when each run began. Here only the timetable is on trial; the sandbox has tests of its own."""

    def __init__(self) -> None:
        self.begins: list[float] = []
        self.late: list[float] = []
        self.links: list[int] = []
        self.fail_on: float | None = None

    warm, guard = False, GUARD

    def announce(self, program: Program, slots: int, pitch: float) -> None:
        pass

    def ready(self, program: Program) -> bool:
        return True

    def is_importing(self, program: Program) -> bool:
        return False

    def is_cold(self, program: Program) -> bool:
        return True

    def import_time(self, program: Program) -> float | None:
        return None

    def dismiss(self, program: Program) -> None:
        pass

    def run(self, program: Program, chunk_dir: Path, begin: float, end: float, stop: Stop | None) -> RunResult:
        assert stop is not None
        self.late.append(time.monotonic() - begin)
        self.begins.append(begin)
        self.links.append((chunk_dir / "frames.npy").stat().st_nlink)
        frames = chunk_dir / "frames.npy"
        level = float(np.load(frames, mmap_mode="r")[0, 0, 0, 0]) if frames.stat().st_size else -1.0
        if level == self.fail_on:
            time.sleep(max(0.0, end - time.monotonic()))
            raise SandboxFailed("could not do this and that", detail=f"level {level}")
        cancelled = select.select([stop], [], [], max(0.0, end - time.monotonic()))[0]
        return RunResult(Outcome.CANCELLED if cancelled else Outcome.OK, Printed.of(b'{"n": %d}' % level), b"")

    def close(self) -> None:
        pass


class Workshop:
    def __init__(self, directory: Path, lanes: int, made: Sequence[TimeKeeper] = (), frames: int = 60) -> None:
        write_video(directory / "a.mp4", [number % 60 for number in range(frames)])
        self.footage = open_footage(directory, "a.mp4", None, directory / "known")
        self.cache = ChunkCache(directory / "chunks.db")
        self.log = io.StringIO()
        self.scratch = directory / "scratch"
        self.scratch.mkdir()
        self.lanes = list(made) or [TimeKeeper() for _ in range(lanes)]
        self.decoded: list[int] = []
        self.directory, self.read = directory, list[int]()
        self.readings = Readings(segments_of(directory / "chunks.db"))
        programs = Programs(Runtime("none", "0", directory), Limits(), self.readings, lambda table: b"")
        self.runner = Runner(self.lanes, self.cache, self.scratch, Log(self.log),
                             starts_warm=programs.starts_warm, read_file=lambda sha256: b"", describe=self.describe,
                             open_reader=self.open_reader, read_output=programs.read_output)

    def describe(self, table: Table, chunk: int, region: int, folder: Path) -> None:
        self.decoded.append(chunk)
        describe(table, chunk, region, folder)

    def table(self, count: int, timeout: Fraction = TIMEOUT) -> Table:
        camera = Camera("c", "o", datetime(2026, 1, 1, tzinfo=UTC), Fraction(0), 1, Fraction(1), Fraction(1, 10), self.footage)
        return Table(0, "t", "a", camera, Grid(0, count, 1, 1), (Column("n", 1, "float8", "float8", False, 0.0),),
                     Executable("e", "00", b"#!/bin/true\n"), timeout, 1, False)

    def submit(self, count: int, timeout: Fraction = TIMEOUT, name: bytes = b"key") -> Job:
        return self.submit_runs(self.table(count, timeout), [(i, 0) for i in range(count)], [b"%s %d" % (name, i) for i in range(count)])

    def submit_runs(self, table: Table, runs: Sequence[tuple[int, int]], keys: Sequence[bytes]) -> Job:
        return self.runner.submit(table, Kind.PROGRAM, runs, keys, self.cache.allocate(len(keys), weigh(table, Limits())),
                                  self.runner.take_space(table, len(keys), "ana"))

    def open_reader(self, footage: Footage) -> Reader:
        """The real decoder; what it is asked for is noted."""
        decoder = Decoder(self.directory, footage)
        real = decoder.read

        def read(first: int, count: int, into: Path, time_limit: int | None = None) -> None:
            self.read.append(first)
            real(first, count, into, time_limit)

        decoder.read = read  # type: ignore[method-assign]
        return decoder

    def value(self, chunk: int, name: bytes = b"key") -> float:
        kept = self.cache.get(self.cache.addresses([b"%s %d" % (name, chunk)])[b"%s %d" % (name, chunk)])
        assert kept is not None
        return float(np.frombuffer(kept[1][4:], "<f8")[0])


def reading_takes(monkeypatch: pytest.MonkeyPatch, nanoseconds: int) -> None:
    for module in (runner, durations):
        monkeypatch.setattr(module, "reading_time", lambda table: nanoseconds)


@pytest.fixture
def make_workshop(tmp_path: Path) -> Iterator[Callable[[int], Workshop]]:
    made: list[Workshop] = []

    def make(lanes: int) -> Workshop:
        made.append(Workshop(tmp_path, lanes))
        return made[0]

    yield make
    for workshop in made:
        workshop.runner.stop()
        workshop.readings.close()
        workshop.cache.close()
        assert not list(workshop.scratch.iterdir())


def test_every_chunk_runs_once_in_order_at_exact_multiples_of_the_pitch(make_workshop: Callable[[int], Workshop]) -> None:
    workshop = make_workshop(2)
    job = workshop.submit(12)
    job.wait_all()
    assert [workshop.value(chunk) for chunk in range(12)] == list(range(12))
    assert workshop.decoded == list(range(12))
    for lane in workshop.lanes:
        assert len(lane.begins) == 6
        steps = [(begin - lane.begins[0]) / PITCH for begin in lane.begins]
        assert all(abs(step - round(step)) < 1e-6 for step in steps)
        assert max(lane.late) < 0  # each was handed over before its slot began


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # removed meanwhile
        return 0


def test_few_chunks_are_decoded_ahead(make_workshop: Callable[[int], Workshop], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "AHEAD_BYTES", 30_000)  # three chunks
    workshop = make_workshop(1)
    job = workshop.submit(16)
    most = 0
    while not all(slot.over for slot in job.own):
        most = max(most, sum(_size(path) > 0 for path in workshop.scratch.glob("job-*/chunk-*/frames.npy")))
        time.sleep(0.01)
    assert 1 < most <= 6  # four ahead, one being decoded, one being removed


def test_a_job_that_shares_slots_outlives_the_one_that_began_them(make_workshop: Callable[[int], Workshop]) -> None:
    workshop = make_workshop(1)
    long = workshop.submit(10)
    short = workshop.submit(4)
    assert len(short.own) == 0 and len(short.wanted) == 4
    workshop.runner.cancel(long)
    short.wait_all()
    assert [workshop.value(chunk) for chunk in range(4)] == list(range(4))
    with pytest.raises(Cancelled):
        long.wait(b"key 9")
    assert len(workshop.lanes[0].begins) == 4


def test_a_cancel_frees_the_lane_for_the_next_when_the_slot_that_runs_is_over(make_workshop: Callable[[int], Workshop]) -> None:
    workshop = make_workshop(1)
    job = workshop.submit(10, Fraction(3))
    while not workshop.lanes[0].begins:
        time.sleep(0.01)
    begun = time.monotonic()
    time.sleep(0.2)
    workshop.runner.cancel(job)
    workshop.submit(2).wait_all()
    assert 3 < time.monotonic() - begun < 12
    assert workshop.value(1) == 1


def test_rows_that_were_read_early_are_there_at_their_moment_and_not_before(
        make_workshop: Callable[[int], Workshop], monkeypatch: pytest.MonkeyPatch) -> None:
    reading_takes(monkeypatch, NANO)
    workshop = make_workshop(1)
    job = workshop.submit(1)
    (slot,) = job.own
    while not slot.kept:
        time.sleep(0.005)
    again = workshop.submit(1)  # the rows are kept, but nobody can tell
    assert not slot.over and list(again.wanted.values()) == [slot] and not again.own
    assert workshop.runner.read_by([again]) == slot.place.end + NANO
    job.wait_all()
    assert 0 <= time.monotonic_ns() - (slot.place.end + NANO) < NANO // 2
    assert not workshop.submit(1).wanted


def test_what_has_ended_is_kept_whoever_wants_it(make_workshop: Callable[[int], Workshop], monkeypatch: pytest.MonkeyPatch) -> None:
    reading_takes(monkeypatch, NANO // 2)
    workshop = make_workshop(1)
    job = workshop.submit(3)
    first, second, third = job.own
    while time.monotonic_ns() < second.place.end + NANO // 50:  # which moves if the machine is busy
        time.sleep(0.002)
    workshop.runner.cancel(job)
    assert third.over and not second.over, "read or not, decided by the timetable"
    assert first.finished.wait(5) and second.finished.wait(5)
    assert len(workshop.submit(3).own) == 1


@pytest.mark.parametrize("slow", [False, True])
def test_what_is_kept_after_a_cancel_does_not_depend_on_how_long_other_rows_take_to_read(
        make_workshop: Callable[[int], Workshop], monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    reading_takes(monkeypatch, NANO)
    workshop = make_workshop(1)
    read = workshop.runner._read_output

    def reads(cell: Cell, *rest: Any) -> None:
        if slow and cell == job.own[0].cell:
            time.sleep(1.4)  # until the second has ended, and its output waits
        read(cell, *rest)

    monkeypatch.setattr(workshop.runner, "_read_output", reads)
    job = workshop.submit(3)
    first, second, third = job.own
    while time.monotonic_ns() < second.place.begin + int(TIMEOUT * NANO) + NANO // 5:
        time.sleep(0.002)
    assert time.monotonic_ns() < second.place.end
    workshop.runner.cancel(job)
    assert third.over
    assert first.finished.wait(5) and second.finished.wait(5)
    assert len(workshop.submit(3).own) == 1


def test_rows_that_cannot_be_kept_are_no_error_of_a_job(make_workshop: Callable[[int], Workshop], monkeypatch: pytest.MonkeyPatch) -> None:
    """How large they are depends on what was printed, and so does whether a disk is full: whoever wants them finds none in time."""
    workshop = make_workshop(1)
    read = workshop.runner._read_output

    def reads(cell: Cell, *rest: Any) -> None:
        if cell == job.own[1].cell:
            raise SandboxFailed("database or disk is full")
        read(cell, *rest)

    monkeypatch.setattr(workshop.runner, "_read_output", reads)
    job = workshop.submit(3)
    job.wait_all()
    assert "disk is full" in workshop.log.getvalue()
    # on a busy machine they are read later than that
    assert wait_for(lambda: [workshop.cache.get(slot.cell.address) is None for slot in job.own] == [False, True, False])
    assert len(workshop.submit(3).own) == 1


def test_a_failure_ends_the_job_with_the_same_words_and_keeps_its_slots_reserved(make_workshop: Callable[[int], Workshop]) -> None:
    workshop = make_workshop(1)
    workshop.lanes[0].fail_on = 2.0
    job = workshop.submit(20)
    with pytest.raises(SandboxFailed, match="the sandbox failed") as failed:
        job.wait_all()
    assert failed.value.detail is None
    assert "could not do this and that" in workshop.log.getvalue()
    assert job.end is not None
    assert workshop.submit(1).end is None  # chunk 0 was done before and is kept
    later = workshop.submit(4)
    assert max(slot.place.end for slot in later.own) > job.own[5].place.end  # they take turns with the slots that go by
    workshop.runner.cancel(later)
    workshop.runner.cancel(job)


def test_slots_of_a_failed_job_go_by_at_their_times_or_until_nobody_waits(make_workshop: Callable[[int], Workshop]) -> None:
    """Whoever makes a job of his own fail holds the lane no longer than by one that runs, and gives it back when he cancels."""
    workshop = make_workshop(1)
    workshop.lanes[0].fail_on = 0.0
    job = workshop.submit(60)
    with pytest.raises(SandboxFailed):
        job.wait_all()
    workshop.lanes[0].fail_on = None
    later = workshop.submit(4, name=b"other")
    assert later.end is not None and later.end < job.own[30].place.end
    later.wait_all()
    workshop.runner.cancel(job, move_up=True)
    last = workshop.submit(4, name=b"third")
    assert last.end is not None and last.end < job.own[40].place.end
    last.wait_all()
    assert wait_for(lambda: not job.folder.exists())


def test_no_room_for_frames_is_a_failure_of_the_sandbox_and_no_internal_error(make_workshop: Callable[[int], Workshop],
                                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    workshop = make_workshop(1)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(workshop.runner, "_describe", full)
    job = workshop.submit(2)
    with pytest.raises(SandboxFailed, match="the sandbox failed"):
        job.wait_all()
    workshop.runner.cancel(job)


def test_after_a_cancel_others_are_answered_earlier_unless_rows_may_have_decided_it(make_workshop: Callable[[int], Workshop]) -> None:
    workshop = make_workshop(1)
    raw, long, short = workshop.submit(40, name=b"raw"), workshop.submit(40), workshop.submit(20, name=b"other")
    planned = workshop.runner.read_by([short])
    workshop.runner.cancel(raw)
    assert workshop.runner.read_by([short]) >= planned
    before = workshop.runner.moves
    workshop.runner.cancel(long, move_up=True)
    assert workshop.runner.read_by([short]) < planned - 20 * int(PITCH * 1e9) and workshop.runner.moves > before
    short.wait_all()
    assert [workshop.value(chunk, b"other") for chunk in range(20)] == list(range(20))


def test_a_short_job_takes_turns_with_a_long_one(make_workshop: Callable[[int], Workshop]) -> None:
    workshop = make_workshop(1)
    long = workshop.submit(40)
    short = workshop.submit(3, Fraction(1, 25), name=b"other")
    assert short.end is not None and long.end is not None and short.end < long.end - 20 * int(PITCH * 1e9)
    short.wait_all()
    begins = workshop.lanes[0].begins
    assert len(begins) < 20
    assert begins == sorted(begins)
    assert max(workshop.lanes[0].late) < 0
    workshop.runner.cancel(long)


def test_two_jobs_over_one_camera_decode_each_for_itself(make_workshop: Callable[[int], Workshop]) -> None:
    workshop = make_workshop(1)
    first, second = workshop.submit(12), workshop.submit(12, name=b"other")
    first.wait_all()
    second.wait_all()
    assert [workshop.value(chunk, b"other") for chunk in range(12)] == list(range(12))
    assert sorted(workshop.read) == sorted([*range(12)] * 2)  # test_late.py says why
    assert {path.name.partition("-")[0] for path in workshop.scratch.iterdir()} <= {"copy", "job", "lane", "lock"}  # or these would count
    assert set(workshop.lanes[0].links) == {1}  # a link in common would tell when the other's run was cleared away


def test_the_regions_of_a_chunk_are_cut_from_frames_that_are_decoded_once(make_workshop: Callable[[int], Workshop]) -> None:
    """Beside a job that wants the same frames whole."""
    workshop = make_workshop(1)
    left, right = (((x, 0.0), (x + 32.0, 0.0), (x + 32.0, 48.0), (x, 48.0)) for x in (0.0, 32.0))
    cut = replace(workshop.table(6), regions=Regions("halves", "hard", 1, (Region("left", left), Region("right", right))),
                  mask=Mask("m", Fraction(0), 1, (left,)))
    runs = [(chunk, region) for chunk in range(1, 6) for region in range(2)]
    seen: dict[str, tuple[tuple[int, ...], int]] = {}
    described = workshop.describe

    def look(table: Table, chunk: int, region: int, folder: Path) -> None:
        described(table, chunk, region, folder)
        frames = np.load(folder / "frames.npy")
        seen[folder.name] = frames.shape, int(frames.max())
        assert {path.name for path in folder.iterdir()} == {"frames.npy", "chunk.json"}

    workshop.runner._describe = look
    job = workshop.submit_runs(cut, runs, [b"cut %d %d" % run for run in runs])
    whole = workshop.submit(6, name=b"whole")
    job.wait_all()
    whole.wait_all()
    assert [workshop.value(chunk, b"whole") for chunk in range(6)] == list(range(6))
    assert {name: one for name, one in seen.items() if name.count("-") == 2} == {
        f"chunk-{chunk}-{region}": ((1, 48, 32, 3), chunk * region) for chunk, region in runs}
    assert len(workshop.read) == 6 + 5  # not once more for each region


def test_a_forecast_counts_what_is_neither_kept_nor_under_way_and_takes_no_longer_for_a_year(
        make_workshop: Callable[[int], Workshop]) -> None:
    shop = make_workshop(2)
    table, series = shop.table(40), bytes(32)
    stretches = [Stretch(0, 40, 0, series, 0, 1)]
    cells = shop.cache.allocate(3, 100)
    for number, key in enumerate(list(stretches[0].all_keys())[:3]):
        shop.cache.put(key, cells[number].address)
    job = shop.submit_runs(table, [(chunk, 0) for chunk in range(5, 9)], list(stretches[0].all_keys())[5:9])
    count, _ = shop.runner.forecast([(table, stretches)])
    assert count == 40 - 3 - 4
    shop.runner.cancel(job)
    began = time.monotonic()
    year = replace(table, grid=Grid(0, 2_102_400, 1, 1))
    count, end = shop.runner.forecast([(year, [Stretch(0, 2_102_400, 0, bytes(32), 0, 1)])])
    assert count == 2_102_400 - 3 and time.monotonic() - began < 1
    assert abs((end - time.monotonic_ns()) / (count / 2 * shop.runner.durations.pitch(year)) - 1) < 0.01


@pytest.mark.parametrize("busy", [0, 12, 60])
@pytest.mark.parametrize("lanes", [1, 2])
def test_what_is_forecast_of_several_tables_happens_also_beside_another_job(make_workshop: Callable[[int], Workshop], busy: int,
                                                                           lanes: int) -> None:
    shop = make_workshop(lanes)
    other = shop.submit(busy, name=b"other") if busy else None
    wanted = [(shop.table(count), [Stretch(0, count, 0, bytes([number]) * 32, 0, 1)]) for number, count in ((1, 30), (2, 12))]
    begun = time.monotonic_ns()
    slots, end = shop.runner.forecast(wanted)
    jobs = [shop.submit_runs(table, [(chunk, 0) for chunk in range(table.grid.count)], list(one.all_keys()))
            for table, (one,) in wanted]
    planned = shop.runner.read_by(jobs)
    for job in (*jobs, *([other] if other is not None else [])):
        shop.runner.cancel(job)
    assert slots == 42
    assert abs(end - planned) < 0.2 * (planned - begun), ((end - begun) / NANO, (planned - begun) / NANO)


def test_what_is_free_is_not_looked_at_while_programs_run_or_their_output_is_read(make_workshop: Callable[[int], Workshop]) -> None:
    """What they take, and how it is counted, follows from what they see."""
    shop = make_workshop(1)
    gauge, looks = Gauge(shop.directory), list[float]()
    gauge.memory = lambda: looks.append(time.monotonic()) or 0  # type: ignore[func-returns-value]
    gauge.busy_until = shop.runner.busy_until
    gauge.free()
    job = shop.submit(3)
    while job.left:
        gauge.free()
        time.sleep(0.01)
    over = time.monotonic()
    while len(looks) < 2:
        gauge.free()
        time.sleep(0.01)
    assert looks[1] > over + 0.9
