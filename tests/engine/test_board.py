"""Slots of a program that is still being imported do not hold up those of others, and nobody's slot comes earlier than it was to."""

from __future__ import annotations

import io
import threading
import time
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privid.cli.processes import wait_until
from privid.engine.board import Board
from privid.engine.effort import Effort
from privid.engine.jobs import Job, Margins, Slot, State
from privid.engine.kept import Cell, Cells
from privid.engine.log import Log
from privid.engine.timetable import NANO, Place
from privid.model import Grid
from privid.sandbox.executable import Kind
from privid.sandbox.program import Program
from tests.calculus import builders


class Scene:
    """A lane with a job that is being imported in front, and jobs that are ready behind it."""

    def __init__(self, *, defers: bool = True, lanes: int = 1) -> None:
        self.importing: set[str] = {"slow"}
        self.board = Board(lanes, lambda lane, slot: slot.job.ident not in self.importing,
                           lambda lane, slot: Margins(NANO // 100, NANO // 1000), Log(io.StringIO()),
                           lambda lane, slot: defers and slot.job.ident in self.importing)

    def job(self, name: str, slots: int, pitch: float, role: str = "") -> list[Slot]:
        job = Job(name, builders.table(), Program(Path(name), Kind.MODULE), Path(name), Cells(0, (), 1, 0), role, started=0)
        todo = [Slot(f"{name} {n}".encode(), n, 0, Place(0, 0, 1), Cell(0, 0), job, {job}, State.READY) for n in range(slots)]
        with self.board.lock:
            self.board.reserve(job, todo, int(pitch * NANO), time.monotonic_ns() + NANO // 20)
        return todo

    def take(self, seconds: float = 5) -> str | None:
        """The key of the next slot that the lane is given, which is then over."""
        found: list[Slot | None] = []
        thread = threading.Thread(target=lambda: found.append(self.board.next(0)), daemon=True)
        thread.start()
        thread.join(seconds)
        if not found or found[0] is None:
            return None
        with self.board.lock:
            self.board.running[0].remove(found[0])
            self.board.close(found[0], State.DONE)
        return found[0].key.decode()

    def give_up(self, slots: list[Slot], *, move_up: bool = False) -> None:
        with self.board.lock:
            self.board.give_up(slots)
            for slot in slots:
                self.board.close(slot, State.CANCELLED)
            if move_up:
                self.board.move_up()

    def end(self) -> None:
        with self.board.lock:
            self.board.stopped = True
            self.board.changed.notify_all()


def test_slots_of_others_come_while_a_program_is_imported_and_its_own_after_that() -> None:
    scene = Scene()
    scene.job("slow", 2, 0.1)
    quick = scene.job("quick", 4, 0.05)
    planned = {slot.key.decode(): slot.place.begin for slot in quick}
    assert [scene.take() for _ in range(3)] == ["quick 0", "quick 1", "quick 2"]
    assert all(slot.place.begin >= planned[slot.key.decode()] for slot in quick)
    scene.importing.clear()
    assert [scene.take() for _ in range(3)] == ["quick 3", "slow 0", "slow 1"]
    scene.end()


def test_without_that_they_would_wait_for_the_import() -> None:
    scene = Scene(defers=False)
    scene.job("slow", 2, 0.1)
    scene.job("quick", 4, 0.05)
    assert scene.take(1) is None
    scene.end()


def test_many_programs_that_are_imported_cost_others_no_more_than_one() -> None:
    scene = Scene()
    for n in range(20):
        scene.importing.add(f"slow {n}")
        scene.job(f"slow {n}", 3, 0.1)
    scene.job("quick", 3, 0.05)
    begun = time.monotonic()
    assert [scene.take() for _ in range(3)] == ["quick 0", "quick 1", "quick 2"]
    assert time.monotonic() - begun < 20 * 0.1 + 3  # its place behind one slot of each, by turns
    scene.end()


def test_a_program_that_is_imported_alone_slips_as_ever() -> None:
    scene = Scene()
    slow = scene.job("slow", 1, 0.1)
    planned = slow[0].place.begin
    assert scene.take(0.5) is None
    scene.importing.clear()
    with scene.board.lock:
        scene.board.changed.notify_all()
    deadline = time.monotonic() + 5
    while slow[0].state is not State.RUNNING and time.monotonic() < deadline:
        time.sleep(0.01)
    assert slow[0].state is State.RUNNING and slow[0].place.begin > planned
    assert (slow[0].place.begin - planned) % slow[0].place.pitch == 0
    scene.end()


@pytest.mark.parametrize("pitch", [0.02, 0.3])
def test_places_in_a_lane_never_overlap(pitch: float) -> None:
    scene = Scene()
    slots = [*scene.job("slow", 3, pitch), *scene.job("quick", 5, 0.05), *scene.job("other", 5, 0.04)]
    for _ in range(4):
        scene.take()
        waiting = sorted((slot.place.begin, slot.place.end) for slot in slots if not slot.over)
        assert all(one[1] <= other[0] for one, other in pairwise(waiting))
        with scene.board.lock:
            assert scene.board.timetable.free_at[0] >= waiting[-1][1]
    scene.end()


def test_many_slips_of_late_are_worth_a_warning() -> None:
    scene = Scene(defers=False)
    scene.job("slow", 1, 0.002)
    assert not scene.board.slips_often()
    assert scene.take(1) is None  # it is never ready, and slips every fifty milliseconds or so
    assert wait_until(scene.board.slips_often, 10)
    scene.end()


def test_slots_that_were_given_up_are_in_nobodys_way() -> None:
    scene = Scene()
    scene.importing.clear()
    given_up, others = scene.job("gone", 3, 0.1), scene.job("other", 1, 0.1)
    for slot in (*given_up, *others):
        slot.job.reading = 60 * NANO
    scene.give_up(given_up)
    assert scene.board.unread.read_by(others) <= others[0].place.end + 60 * NANO
    assert scene.board.unread.read_by(given_up) == 0


def test_moving_many_slots_again_and_again_leaves_time_for_everything_else() -> None:
    scene = Scene(defers=False)
    scene.job("slow", 60_000, 0.0001)
    lane = threading.Thread(target=lambda: scene.board.next(0), daemon=True)
    busy = time.process_time()
    lane.start()
    begun, taken = time.monotonic(), 0
    while time.monotonic() - begun < 2:
        with scene.board.lock:
            taken += 1
        time.sleep(0.001)
    scene.end()
    lane.join(5)
    assert time.process_time() - busy < 0.8 and taken > 200  # of two seconds; a lane that may moves them all the time


def test_only_what_has_ended_meanwhile_is_looked_up_again() -> None:
    scene = Scene()
    slots = scene.job("some", 3, 0.1)
    board = scene.board
    before, keys = board.finished, {slot.key for slot in slots[:2]}
    assert board.ended_since(before, keys) == []
    scene.give_up([slots[2]])
    with board.lock:
        assert board.ended_since(before, keys) == []
    scene.give_up([slots[0]])
    with board.lock:
        assert board.ended_since(before, keys) == [slots[0].key]
        assert board.ended_since(before - 10_000, keys) in ([slots[0].key, slots[1].key], [slots[1].key, slots[0].key])


def test_a_job_of_one_chunk_waits_for_the_slot_under_way_and_one_of_each_other_job() -> None:
    scene = Scene()
    scene.importing.clear()
    pitches = [0.1, 0.25, 0.1, 0.4]
    for number, pitch in enumerate(pitches):
        scene.job(f"long {number}", 50, pitch)
    (short,) = scene.job("short", 1, 0.1)
    assert short.place.begin - short.job.earliest <= (max(pitches) + sum(pitches)) * NANO
    scene.end()


def test_another_role_waits_for_the_slot_under_way_however_many_jobs_there_are() -> None:
    scene = Scene(lanes=2)
    for number in range(12):
        scene.job(f"long {number}", 10, 8, "ana")
    slots = scene.job("short", 10, 0.2, "ben")
    assert max(slot.place.end for slot in slots) - slots[0].job.earliest <= (8 + 5 * 0.2) * NANO
    assert {slot.place.lane for slot in slots} == {0, 1}
    scene.end()


def test_a_role_that_comes_again_and_again_comes_before_nobody() -> None:
    """Ana's releases are of one long slot each; a new one is there before the last has begun."""
    scene = Scene()
    scene.importing.clear()
    scene.job("ana 0", 1, 0.4, "ana")
    bens, taken = scene.job("ben", 8, 0.2, "ben"), list[str]()
    for number in range(1, 20):
        scene.job(f"ana {number}", 1, 0.4, "ana")
        taken.append(str(scene.take()).split()[0])
        if all(slot.over for slot in bens):
            break
    assert all(slot.over for slot in bens), taken
    assert taken.count("ana") <= 6, taken  # of eight slots of ben's, which are half as long, and one to begin with
    scene.end()


def test_jobs_that_come_again_and_again_hold_up_no_long_one_of_their_role() -> None:
    scene = Scene()
    scene.importing.clear()
    (long,) = scene.job("long", 1, 0.5)
    scene.job("first", 3, 0.1)
    taken = []
    for number in range(12):
        scene.job(f"short {number}", 1, 0.1)
        taken.append(scene.take())
    assert long.over, taken
    scene.end()


def test_nobody_waits_for_frames_of_another() -> None:
    """Chunks that lie far from each other take long to decode: their slots are short, and could hold a lane for long."""
    scene = Scene()
    far = Job("far", builders.table(), Program(Path("far"), Kind.MODULE), Path("far"), Cells(0, (), 1, 0), "ana",
              effort=Effort(Grid(0, 100_000, 1, 1), NANO // 10, 0, NANO // 100))
    slots = [Slot(f"far {n}".encode(), n * 300, 0, Place(0, 0, 1), Cell(0, 0), far, {far}) for n in range(20)]
    with scene.board.lock:
        scene.board.reserve(far, slots, NANO // 10, time.monotonic_ns())
    near = scene.job("near", 20, 0.1, "ben")
    assert slots[-1].place.begin - slots[0].place.begin > 50 * NANO  # alone, as now
    assert near[-1].place.end - near[0].job.earliest < 5 * NANO
    scene.end()


def test_after_a_cancel_slots_of_others_come_earlier_in_their_order_and_none_before_its_frames_can_be_there() -> None:
    scene = Scene()
    scene.importing.clear()
    gone, slots = scene.job("gone", 50, 1.0), [*scene.job("one", 5, 0.1), *scene.job("other", 5, 0.3)]
    for slot in slots:
        slot.job.head = NANO // 2
    before = {slot: slot.place.begin for slot in slots}
    order = sorted(slots, key=lambda slot: slot.place.begin)
    scene.give_up(gone[1:], move_up=True)
    assert sorted(slots, key=lambda slot: slot.place.begin) == order
    assert all(slot.place.begin <= before[slot] for slot in slots) and order[-1].place.begin < before[order[-1]] - NANO // 2
    assert order[0].place.begin >= time.monotonic_ns() + NANO // 2 - NANO // 10
    assert scene.board.timetable.free_at[0] == max(slot.place.end for slot in [gone[0], *slots])
    waiting = sorted((slot.place.begin, slot.place.end) for slot in [gone[0], *slots])
    assert all(one[1] <= other[0] for one, other in pairwise(waiting))
    scene.end()


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(1, 3)), min_size=1, max_size=12), st.integers(1, 3), st.integers(0, 40),
       st.integers(0, 30), st.data())
def test_no_slot_begins_before_its_frames_are_there_however_long_decoding_takes(
        steps: list[tuple[int, int]], lanes: int, cutting: int, spare: int, data: st.DataObject) -> None:
    """Each as long as it may, its decoder at some other when slots are moved up: else a slot waits for a picture, and tells of it."""
    effort = Effort(Grid(0, 10_000, 10, 10), 100, cutting, 7)
    board = Board(lanes, lambda lane, slot: False, lambda lane, slot: Margins(0, 0), Log(io.StringIO()))
    chunks = [chunk for step, views in zip(accumulate(step for step, _ in steps), (views for _, views in steps), strict=True)
              for chunk in [step] * views]

    planned: dict[Slot, int] = {}  # until then they waited in any case

    def reserve(name: str, head: int) -> list[Slot]:
        job = Job(name, builders.table(), Program(Path(name), Kind.MODULE), Path(name), Cells(0, (), 1, 0), effort=effort, head=head)
        slots = [Slot(f"{name} {n}".encode(), chunk, 0, Place(0, 0, 1), Cell(0, 0), job, {job}) for n, chunk in enumerate(chunks)]
        board.reserve(job, slots, lanes * (100 + cutting) + spare, time.monotonic_ns() + head)
        return slots

    def all_wait_long_enough(slots: list[Slot], since: int) -> None:
        there = since + slots[0].job.head
        for before, slot in zip([None, *slots], slots, strict=False):
            there += 0 if before is None else effort.after(before.chunk, slot.chunk)
            assert slot.place.begin >= min(there, planned.setdefault(slot, there))

    with board.lock:
        since = time.monotonic_ns()
        gone, slots = reserve("gone", 0), reserve("stays", 5_000)
        all_wait_long_enough(slots, since)
        left = sorted(data.draw(st.sets(st.sampled_from(range(len(slots))), min_size=1)))
        since = time.monotonic_ns()
        board.give_up([*gone, *(slot for n, slot in enumerate(slots) if n not in left)])
        board.move_up()
        all_wait_long_enough([slots[n] for n in left], since + effort.most)


def test_what_runs_keeps_its_time_after_a_cancel() -> None:
    scene = Scene()
    scene.importing.clear()
    gone = scene.job("gone", 3, 1.0)
    others = scene.job("other", 3, 0.1)
    taken = scene.board.next(0)
    assert taken is gone[0]
    scene.give_up(gone, move_up=True)
    assert min(slot.place.begin for slot in others) >= gone[0].place.end
    scene.end()
