"""Numbers that no event changes have no noise, and must not show what became of the room: they are computed from what is public."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spine.world import plan_of
from tests.verify.room_processes import Room

from .faults import LATE, faulty_engine
from .pair import COLUMNS, OPTIONS, PROGRAM, Pair

#: of tables that are padded: four chunks of twenty rows
EXACT: dict[str, list[tuple[Any, ...]]] = {
    "SELECT count(*) FROM {}": [(80,)],
    "SELECT sum(range(v, 5, 5)) FROM {}": [(400,)],
    "SELECT avg(range(v, 5, 5)), count(*) FROM {} WHERE chunk >= '2026-03-01 06:00:01+00'": [(5, 60)],
    "SELECT extract(second FROM chunk)::int, count(*) FROM {} GROUP BY 1 ORDER BY 1": [(second, 20) for second in range(4)],
}


@pytest.fixture(scope="module")
def filled(pair: Pair) -> Pair:
    """A padded table whose chunks have run, and one whose chunks never have, and would take 20 s."""
    pair.stack.executable("unrun", f"{PROGRAM}# unrun\n")
    pair.table("filled", pad="on")
    pair.table("unrun", "unrun", timeout="5s", pad="on")
    for side in ("a", "b"):
        pair.see(side, "SELECT sum(range(v, 0, 10)) FROM filled")
    pair.stack.camera("event_open", "event_a.mp4", rho="0s")
    options = ", ".join(f"\"{name}\" '{value}'" for name, value in {**OPTIONS, "executable": "event"}.items())
    with pair.connect("a") as connection:
        connection.execute(f"CREATE FOREIGN TABLE event_a.open ({COLUMNS}) SERVER event_open OPTIONS ({options})".encode())
    return pair


@pytest.fixture(scope="module")
def engine(filled: Pair) -> Iterator[int]:
    """One whose room takes longer than any allowance here."""
    with faulty_engine(filled.stack.layout, "late") as pid:
        yield pid


@pytest.fixture(scope="module")
def late(filled: Pair, engine: int) -> Pair:
    return filled


def rows(pair: Pair, statement: str) -> list[tuple[Any, ...]]:
    with pair.connect("a") as connection:
        connection.execute("SET privid.reuse = off; SET privid.epsilon = 1000")
        return connection.execute(statement.encode()).fetchall()


def test_what_rows_of_an_open_camera_decide_beside_protected_ones_is_refused(filled: Pair) -> None:
    together = "SELECT {} FROM (SELECT v FROM filled UNION ALL SELECT v FROM open) q"
    seen = filled.see("a", together.format("count(*)"))
    assert seen.sqlstate == "PV002" and seen.charged == 0
    assert "statements of their own" in str(seen.error)
    assert filled.see("a", together.format("count(*) FILTER (WHERE v > 1)")).error is None
    assert rows(filled, "SELECT count(*), count(*) FILTER (WHERE plate = 'X') FROM open") == [(80, 5)]  # from its rows, as ever


@pytest.mark.parametrize("statement", EXACT)
def test_what_no_event_changes_is_answered_without_running_anything_and_for_nothing(filled: Pair, statement: str) -> None:
    spent, begun = filled.spent("a"), time.monotonic()
    assert rows(filled, statement.format("unrun")) == EXACT[statement]
    assert time.monotonic() - begun < 10 and filled.spent("a") == spent
    with filled.connect("a") as connection:
        told: list[str] = []
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        connection.execute(statement.format("unrun").encode())
        plan = plan_of(connection.execute(f"EXPLAIN (FORMAT JSON) {statement.format('unrun')}".encode()).fetchall()[0][0])
    assert told == ["exact answer: nothing that is protected can change it; no epsilon was charged"]
    assert plan["Slots"] == 0


@pytest.mark.parametrize("statement", EXACT)
def test_a_late_room_does_not_change_what_no_event_changes(late: Pair, statement: str) -> None:
    assert rows(late, statement.format("filled")) == EXACT[statement]


def test_beside_noise_too_what_has_none_does_not_show_that_the_room_was_late(late: Pair) -> None:
    ((count, flagged, constant),) = rows(late, "SELECT count(*), count(*) FILTER (WHERE v > 1), sum(range(v, 3, 3)) FROM filled")
    assert (count, constant) == (80, 240)
    assert -10 < flagged < 10  # of an empty input: the room was late indeed


def test_the_count_of_an_average_does_not_show_it_either(late: Pair) -> None:
    """Of no rows at all the average is the middle of its range, without noise."""
    ((average,),) = rows(late, "SELECT avg(range(v, 0, 10)) FROM filled")
    assert float(average) != 5


def test_a_room_that_dies_meanwhile_does_not_either(late: Pair, engine: int) -> None:
    def kill() -> None:
        time.sleep(LATE / 2)
        room = Room.of(engine)
        assert room.postmaster is not None
        os.kill(room.postmaster, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert rows(late, "SELECT count(*) FROM filled") == [(80,)]
    finally:
        killer.join()
