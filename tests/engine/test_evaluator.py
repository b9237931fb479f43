"""The evaluator: what it computes it hands over when the time is over, not before, whatever happens."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from privid.engine.cancel import Cancel, Cancelled
from privid.engine.chunks import ChunkCache
from privid.engine.evaluation import Done, Evaluation, Evaluations, Task
from privid.engine.kept import segments_of
from privid.engine.log import Log
from privid.engine.timetable import NANO
from privid.room.room import Room
from tests.room.conftest import ServedDatabase, directory_for_data, soon
from tests.room.conftest import served as served
from tests.room.conftest import served_server as served_server

ALLOWANCE, MARGIN = 400_000_000, 100_000_000
SPIN = "SELECT room.spin({})"


@contextmanager
def evaluating(data: Path, served: ServedDatabase) -> Iterator[Evaluations]:
    cache = ChunkCache(data / "chunks.db")
    room = Room(data, served, lambda event, /, **fields: None)
    made = Evaluations(room, segments_of(data / "chunks.db"), Log(StringIO()))
    try:
        yield made
    finally:
        made.close()
        room.close()
        cache.close()


@pytest.fixture(scope="module")
def evaluations(served: ServedDatabase) -> Iterator[Evaluations]:
    with directory_for_data() as data, evaluating(data, served) as made:
        yield made


def task(query: str, ident: int, *, slow: bool = False, allowance: int = ALLOWANCE,
         files: int = 0, disk: int = 1 << 40) -> Task:
    return Task(ident, f"handle {ident}", [], [], query, {}, {}, allowance, MARGIN, slow, files, free=(disk, 0))


def submit(evaluations: Evaluations, query: str, **options: int) -> Evaluation:
    return evaluations.submit(partial(task, query, **options))  # type: ignore[arg-type]


def busy(milliseconds: int) -> str:
    """A query that takes so long."""
    return SPIN.format(time.monotonic_ns() + milliseconds * 1_000_000)


QUERIES = {
    "nothing to do": ("SELECT 7", True),
    "work": ("SELECT 7 FROM (SELECT room.spin({})) s", True),
    "an error": ("SELECT 1 / 0", False),
    "too much work": ("SELECT room.spin(9223372036854775807)", False),
    "a session that ends": ("SELECT pg_terminate_backend(pg_backend_pid())", False),
}


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_handed_over_when_the_time_is_over_whatever_the_query_does(
    evaluations: Evaluations, query: str
) -> None:
    text, right = QUERIES[query]
    late = []
    for _ in range(5):
        one = submit(evaluations, text.format(time.monotonic_ns() + 100_000_000))
        begin = one.wait_begun(Cancel()).begin
        done = one.done.result(10)  # not Evaluation.result, which would wait for it anyway
        late.append(time.monotonic_ns() - (begin + ALLOWANCE - MARGIN))
        assert (done.rows == [("7",)]) is right and (done.failure is None) is right, done
    assert min(late) >= 0, "it can be seen when the query ended"
    assert min(late) < 50_000_000


def test_what_no_row_decides_takes_none_of_the_time(evaluations: Evaluations) -> None:
    """Objects, public rows and the plan: their bound, however wrong, could otherwise leave just too little for rows of an event."""
    slow = [f"SELECT room.spin({time.monotonic_ns() + 2 * ALLOWANCE})"]
    one = evaluations.submit(lambda ident: replace(task(busy(0), ident), statements=slow))
    begun = one.wait_begun(Cancel())
    assert one.result(begun).rows == [("",)]


def test_what_is_public_is_handed_over_when_it_is_there_and_frees_its_lane(evaluations: Evaluations) -> None:
    begun = time.monotonic()
    for query, right in (("SELECT 7", True), ("SELECT 1 / 0", False)) * 4:
        one = evaluations.submit(lambda ident, query=query: replace(task(query, ident, allowance=10 * NANO), public=True))  # type: ignore[misc]
        done = one.result(one.wait_begun(Cancel()))
        assert (done.rows == [("7",)]) is right, done
    assert time.monotonic() - begun < 10  # eight of them, each of which may take as long


def test_what_could_lack_disk_is_not_tried_and_that_is_said_when_it_begins(
    evaluations: Evaluations,
) -> None:
    one = submit(evaluations, "SELECT 7", files=1 << 50)
    begun = one.wait_begun(Cancel())
    assert not begun.fits
    assert one.result(begun).rows is None
    assert submit(evaluations, "SELECT 7", files=1).wait_begun(Cancel()).fits


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_disk_that_is_full_shows_at_no_moment_and_is_survived(small_disk: Callable[[int], Path], served: ServedDatabase) -> None:
    """Sorting needs 5 MB of files here, which are in memory that nobody else can fill. Who says that it needs disk is told at the beginning
    that there is none."""
    sort = "SELECT 7 FROM (SELECT n FROM pg_catalog.generate_series(1, 200000) n ORDER BY n::text OFFSET 199999) s"
    disk = small_disk(200)
    with evaluating(disk, served) as evaluations:
        def ask(files: int) -> tuple[bool, bool, int]:
            one = submit(evaluations, sort, files=files, slow=True, allowance=2 * NANO, disk=left())
            begun = one.wait_begun(Cancel())
            rows = one.done.result(30).rows
            return begun.fits, rows == [("7",)], time.monotonic_ns() - (begun.begin + 2 * NANO - MARGIN)

        def left() -> int:
            found = os.statvfs(disk)
            return found.f_bavail * found.f_frsize

        fits, right, late = ask(10 << 20)
        assert fits and right and late >= 0
        with (disk / "filling").open("wb") as filling:
            filling.write(bytes(left() - (2 << 20)))
        fits, right, late = ask(10 << 20)
        assert not fits and not right and late >= 0
        fits, right, late = ask(0)
        assert fits and right and late >= 0


def test_a_computation_keeps_its_lane_until_its_time_is_over_and_others_wait(
    evaluations: Evaluations,
) -> None:
    several = [submit(evaluations, "SELECT 7", slow=True) for _ in range(4)]
    begins = [one.wait_begun(Cancel()).begin for one in several]
    assert all(after - before >= ALLOWANCE for before, after in itertools.pairwise(begins))


#: products of numerics of 60,000 digits, one after the other in one expression: PostgreSQL looks for nothing in between, not even at its
#: time-out, and this takes some seconds
DEAF = ("SELECT pg_catalog.num_nonnulls(" + ", ".join(["v OPERATOR(pg_catalog.*) v"] * 24)
        + ") FROM (SELECT pg_catalog.repeat('9', 60000)::numeric AS v OFFSET 0) s")


def test_a_lane_waits_for_a_query_that_does_not_hear_that_its_time_is_over(
    evaluations: Evaluations,
) -> None:
    """Its process has the core, and the next computation would be cut for want of it."""
    first, second = (submit(evaluations, query, slow=True) for query in (DEAF, "SELECT 7"))
    begun = first.wait_begun(Cancel())
    assert first.result(begun).rows is None
    after = second.wait_begun(Cancel())
    assert after.begin > begun.begin + 2 * ALLOWANCE
    assert second.result(after).rows == [("7",)]


def test_an_engine_whose_interpreter_is_held_cuts_nothing(evaluations: Evaluations) -> None:
    """As it is by statements of many megabytes that are being judged: the evaluator does not need it."""
    over = threading.Event()

    def hold() -> None:
        while not over.is_set():
            sum(range(3_000_000))  # in C, but holding the interpreter: 30 ms or more at a time

    holders = [threading.Thread(target=hold) for _ in range(3)]
    for holder in holders:
        holder.start()
    try:
        for _ in range(5):
            one = submit(evaluations, f"SELECT 7 FROM (SELECT room.spin({time.monotonic_ns() + 50_000_000})) s")
            assert one.result(one.wait_begun(Cancel())).rows == [("7",)]
    finally:
        over.set()
        for holder in holders:
            holder.join()


def test_slow_computations_do_not_hold_up_a_quick_one(evaluations: Evaluations) -> None:
    slow = [submit(evaluations, "SELECT 7", slow=True, allowance=NANO) for _ in range(3)]
    slow[0].wait_begun(Cancel())
    quick = submit(evaluations, "SELECT 7")
    quick.wait_begun(Cancel())
    assert not slow[1].begun.done()
    for one in slow:
        one.done.result(10)


def test_what_has_not_begun_can_be_withdrawn_and_what_has_goes_on_to_its_end(
    evaluations: Evaluations,
) -> None:
    first, second, third = (submit(evaluations, "SELECT 7", slow=True) for _ in range(3))
    begin = first.wait_begun(Cancel()).begin
    gone = Cancel()
    threading.Timer(0.1, gone.set).start()
    with pytest.raises(Cancelled):
        second.wait_begun(gone)
    assert time.monotonic_ns() < begin + ALLOWANCE  # it did not wait for its turn to be told
    assert third.wait_begun(Cancel()).begin < begin + 2 * ALLOWANCE
    late = Cancel()
    late.set()
    began = third.wait_begun(late)  # too late to withdraw
    assert third.result(began).rows == [("7",)]


def test_an_evaluator_that_dies_is_replaced_and_what_had_not_begun_is_still_computed(
    evaluations: Evaluations,
) -> None:
    first, second = (submit(evaluations, "SELECT 7", slow=True, allowance=2 * NANO) for _ in range(2))
    begun = first.wait_begun(Cancel())
    os.kill(evaluations._process.pid, signal.SIGKILL)
    lost = first.result(begun)
    assert isinstance(lost, Done) and lost.rows is None and lost.failure is not None
    assert time.monotonic_ns() >= begun.begin + 2 * NANO - MARGIN
    assert second.result(second.wait_begun(Cancel())).rows == [("7",)]
    assert soon(lambda: evaluations._process.poll() is None)
    evaluations.check()


def test_it_ends_with_the_engine(evaluations: Evaluations) -> None:
    """The engine's end of the socket closes, however the engine ends."""
    process = evaluations._process
    evaluations._sock.shutdown(2)
    assert process.wait(10) == 0
    assert soon(lambda: evaluations._process is not process and evaluations._process.poll() is None)
