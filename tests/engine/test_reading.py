"""Output of programs: read in a process of its own, and there at a moment that does not depend on it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest

from privid.engine import reading
from privid.engine.jobs import Job, Slot
from privid.engine.kept import Cell, Cells, Entry, Kept, Segments, segment_of
from privid.engine.reading import Readings, Unread, keeping_time, parsing_time, reading_time, schedule
from privid.engine.rows import decode_columns, encode_columns
from privid.engine.timetable import NANO, Place
from privid.errors import SandboxFailed
from privid.model import Column, Table
from privid.sandbox.executable import Kind
from privid.sandbox.printed import Printed
from privid.sandbox.program import Program
from privid.sandbox.rows import line_limit, output_limit
from tests.calculus import builders

from .meter import Meter

NUMBER = Column("n", 1, "float8", "float8", False, 0.0)
WORD = Column("word", 2, "text", "text", False, "none")
NO_CELL, NO_CELLS = Cell(0, 0), Cells(0, (), 1, 0)


class Desk:
    """The reader, and what it has kept."""

    def __init__(self, directory: Path) -> None:
        self._meter = Meter()
        with self._meter.inside():
            self.readings = Readings(directory)
        self._segments, self._kept = Segments(directory), Kept(directory)

    def cell(self) -> Cell:
        return self._segments.allocate(1, 64 << 20)[0]

    def read(self, of: Table, stdout: bytes | None) -> Entry:
        cell = self.cell()
        self.readings.read(cell, of, None if stdout is None else Printed.of(stdout))
        found = self._kept.get(cell.address)
        assert found is not None
        self._segments.remove(segment_of(cell.address))
        return found

    def busy(self) -> int:
        """Nanoseconds of processor time that the reader has used, and all that worked for it."""
        return self._meter.used()

    def parsers(self) -> list[int]:
        """Processes that parse, or make those that do."""
        return [pid for pid in self._meter.processes() if pid != self.readings._process.pid]

    def close(self) -> None:
        self.readings.close()
        self._kept.close()
        while self._meter.processes():
            time.sleep(0.01)
        self._meter.close()


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("rows"))
    yield made
    made.close()


def table(max_rows: int, *columns: Column) -> Table:
    found: Table = builders.table(max_rows=max_rows)
    return type(found)(**{**vars(found), "columns": columns})


def rows_of(readings: Desk, of: Table, stdout: bytes | None) -> list[tuple[object, ...]]:
    number, body, _ = readings.read(of, stdout)
    return list(decode_columns(of.untrusted, body, number))


@pytest.mark.parametrize(("stdout", "failed"), [(None, True), (b"", False), (b'{"n": 1}', False), (b"oh dear", True)])
def test_whether_a_run_failed_is_kept_with_its_rows(readings: Desk, stdout: bytes | None, failed: bool) -> None:
    assert readings.read(table(3, NUMBER), stdout).failed is failed


def test_a_run_whose_output_takes_too_long_to_read_has_failed(readings: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "parsing_time", lambda table: 1)
    assert readings.read(table(10_000, NUMBER), b'{"n": 1}\n' * 10_000) == Entry(1, encode_columns([NUMBER], [(0.0,)]), True)


def test_rows_are_read_and_what_went_wrong_is_a_row_of_defaults(readings: Desk) -> None:
    of = table(3, NUMBER, WORD)
    assert rows_of(readings, of, b'{"n": 1, "word": "a"}\n{"n": 2}\n') == [(1.0, "a"), (2.0, "none")]
    assert rows_of(readings, of, b"") == []
    assert rows_of(readings, of, None) == [(0.0, "none")]


def test_every_value_that_a_column_can_have_fits_into_a_line(readings: Desk) -> None:
    of = table(2, NUMBER, WORD)
    longest = json.dumps({"n": -1.7976931348623157e308, "word": "\u00e9" * 1024})
    assert len(longest) > 6 * 1024
    assert rows_of(readings, of, f"{longest}\n{longest}\n".encode()) == [(-1.7976931348623157e308, "\u00e9" * 1024)] * 2
    assert rows_of(readings, of, (longest[:-1] + " " * 2000 + "}\n").encode()) == [(0.0, "none")]


#: what takes longest to read, of all that fits
SLOW: dict[str, Callable[[int], bytes]] = {
    "lists of numbers": lambda size: b'{"j":[' + b"1," * ((size - 10) // 2) + b"1]}",
    "long numbers": lambda size: b'{"n":' + b"1" * (size - 7) + b"}",
    "numbers next to nothing": lambda size: b'{"j":[' + b"9e-313," * ((size - 10) // 7) + b"1]}",
    "numbers half-way between others": lambda size: b'{"j":[' + b"2.2250738585072011e-308," * ((size - 10) // 24) + b"1]}",
    "long ones next to nothing": lambda size: b'{"j":[' + (b"2." + b"4703282292062327208" * 30 + b"e-324,") * ((size - 10) // 580) + b"1]}",
    "escapes": lambda size: b'{"word":"' + b"\\u00e9" * ((size - 12) // 6) + b'"}',
    "many names": lambda size: b"{" + b",".join(b'"%d":1' % i for i in range((size - 2) // 9)) + b"}",
    "nested": lambda size: b'{"n":' + b"[" * ((size - 7) // 2) + b"]" * ((size - 7) // 2) + b"}",
}


@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("max_rows", [1, 300])
def test_reading_takes_the_processor_time_that_is_set_aside_for_it(readings: Desk, kind: str, max_rows: int) -> None:
    of = table(max_rows, NUMBER, WORD)
    line = SLOW[kind](line_limit(of.columns))
    assert len(line) <= line_limit(of.columns)
    assert_spent(readings, of, (line + b"\n") * max_rows + b"x" * (1 << 20))


@pytest.mark.parametrize(("max_rows", "columns"), [(1, 100), (50, 100), (1000, 20)])
def test_reading_columns_with_options_takes_the_processor_time_that_is_set_aside(readings: Desk, max_rows: int, columns: int) -> None:
    numbers = [Column(f"n{i}", i + 1, "float8", "float8", False, 0.0, bounds=(Fraction(0), Fraction(120))) for i in range(columns - 1)]
    keys = tuple(f"{i:0>65}" for i in range(1000))
    of = table(max_rows, *numbers, Column("word", 200, "text", "text", False, keys[0], keys=keys))
    line = json.dumps({**{c.name: 119.9999949999 for c in numbers}, "word": keys[-1] + "x"}).encode()
    assert_spent(readings, of, (line + b"\n") * max_rows)


def test_reading_many_short_rows_takes_the_processor_time_that_is_set_aside_for_it(readings: Desk) -> None:
    """And not more than that if some of them are deeply nested."""
    flags = [Column(f"c{i:02}" + "x" * 60, i + 1, "boolean", "boolean", False, False) for i in range(83)]
    of = table(4_000, *flags)
    nested = b"[" + (b"[" * 900 + b"]" * 900 + b",") * 19 + b"0]\n"
    assert_spent(readings, of, b"{}\n" * 3_540 + nested * 460)


def assert_spent(readings: Desk, of: Table, stdout: bytes) -> None:
    """What is as bad as it can be takes what nothing takes, within the time that is set aside: others feel no difference. Of several runs
    the best, for the machine may be busy with something else."""
    cell, least = readings.cell(), 3 if reading_time(of) > 20_000_000 else 25
    outputs = {what: Printed.of(printed) for what, printed in (("much", stdout), ("nothing", b""))}  # making one empties caches
    busy, taken = ({what: list[int]() for what in outputs} for _ in range(2))
    aside = parsing_time(of) + keeping_time(of)
    apart = max(aside / 20, 600_000)

    def settled() -> bool:
        return max(map(min, taken.values())) < reading_time(of) and abs(min(busy["much"]) - min(busy["nothing"])) < apart

    while len(busy["much"]) < least or (not settled() and len(busy["much"]) < 50):
        for what, file in outputs.items():  # in turn: how busy the machine is changes
            begun, used = time.monotonic_ns(), readings.busy()
            readings.readings.read(cell, of, file)
            busy[what].append(readings.busy() - used)
            taken[what].append(time.monotonic_ns() - begun)
    for file in outputs.values():
        file.close()
    spent = {what: min(found) for what, found in busy.items()}
    assert max(map(min, taken.values())) < reading_time(of), (taken, reading_time(of))
    assert abs(spent["much"] - spent["nothing"]) < apart, (spent, aside)
    assert spent["nothing"] > 0.9 * aside


def test_what_is_printed_beyond_the_longest_output_is_not_looked_at(readings: Desk) -> None:
    of = table(1, NUMBER)
    assert output_limit(of.untrusted, 1) < 3000
    assert len(rows_of(readings, of, b"\n" * (16 << 20))) == 0
    assert_spent(readings, of, b"\n" * (16 << 20))


def test_output_that_its_parser_dies_of_is_a_row_of_defaults(readings: Desk) -> None:
    """As if the program had died itself: an error would tell what it printed."""
    of, (parser,) = table(100, WORD), readings.parsers()
    over = threading.Event()

    def strike() -> None:
        while not over.is_set():
            for pid in readings.parsers():
                if pid != parser:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        found = [rows_of(readings, of, b'{"word": "a"}\n' * 100) for _ in range(10)]
    finally:
        over.set()
        thread.join()
    assert [("none",)] in found and all(len(rows) in (1, 100) for rows in found)
    assert rows_of(readings, of, b'{"word": "a"}\n') == [("a",)]


def test_a_parser_that_dies_is_replaced(readings: Desk) -> None:
    of = table(1, NUMBER)
    for pid in readings.parsers():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxFailed):
        readings.read(of, b'{"n": 1}')
    assert rows_of(readings, of, b'{"n": 1}') == [(1.0,)]


def test_a_reader_that_dies_is_replaced(readings: Desk) -> None:
    of = table(1, NUMBER)
    os.kill(readings.readings._process.pid, signal.SIGKILL)
    with pytest.raises(SandboxFailed):
        readings.read(of, b'{"n": 1}')
    assert rows_of(readings, of, b'{"n": 1}') == [(1.0,)]


def test_outputs_wait_for_those_before_them() -> None:
    assert list(schedule([(10, 3), (10, 3), (100, 1)], free=20)) == [23, 26, 101]


def test_a_schedule_is_the_same_whether_or_not_what_is_past_was_forgotten(tmp_path: Path) -> None:
    """Otherwise an output that waits for one that is forgotten would be asked for too early."""
    now = time.monotonic_ns()
    job = Job("j", table(1, NUMBER), Program(tmp_path / "p", Kind.PROGRAM), tmp_path, NO_CELLS, reading=NANO)
    ends = [now - 10 * NANO, *[now - 2 * NANO] * 2, *[now - NANO // 2] * 4]
    slots = [Slot(b"%d" % i, i, 0, Place(0, end, 0), NO_CELL, job, {job}) for i, end in enumerate(ends)]
    unread = Unread()
    unread.add(slots)
    last = unread.read_by(slots[-1:])
    assert last == now + 4 * NANO  # two were read by now, and the others wait for them
    for _ in range(3):
        assert unread.read_by(slots[-1:]) == last
    assert unread.read_by([], [(now, NANO)]) == last + NANO
    assert unread.read_by([]) == 0


def test_when_rows_are_there_follows_from_the_slots_that_were_handed_over_and_nothing_is_kept_of_the_past(tmp_path: Path) -> None:
    now = time.monotonic_ns()
    job = Job("j", table(1, NUMBER), Program(tmp_path / "p", Kind.PROGRAM), tmp_path, NO_CELLS, reading=NANO)
    ends = [now - 10 * NANO, *[now - 2 * NANO] * 2, *[now - NANO // 2] * 4, now + 100 * NANO]
    slots = [Slot(b"%d" % i, i, 0, Place(i, end, 0), NO_CELL, job, {job}) for i, end in enumerate(ends)]
    unread = Unread()
    unread.add(slots)
    for slot in reversed(slots):
        unread.hand(slot)
    by = [unread.due(slot) - now for slot in slots[2:]]
    assert by == [0, NANO, 2 * NANO, 3 * NANO, 4 * NANO, 101 * NANO]
    assert [unread.read_by([slot]) - now for slot in slots[2:]] == by
    assert unread.due(slots[0]) == 0 and len(unread._handed) == 5


def test_the_engine_moves_no_byte_of_what_was_printed(readings: Desk) -> None:
    """Its interpreter does the same for an empty output as for one of a megabyte: as much is said, and no memory is taken."""
    of = table(1000, WORD)
    line = b'{"word": "%s"}\n' % (b"x" * 1024)
    said, cell = [], readings.cell()
    for stdout in (b"", line * 1000):
        printed = Printed.of(stdout)
        tracemalloc.start()
        readings.readings.read(cell, of, printed)
        said.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        printed.close()
    assert abs(said[1] - said[0]) < 1000 and max(said) < 50_000, said
