"""Output of programs: read in a process of its own, and there at a moment that does not depend on it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from privid.engine.jobs import Job, Slot
from privid.engine.reading import Readings, Unread, reading_time, schedule
from privid.engine.rows import decode_columns
from privid.engine.timetable import NANO, Place
from privid.errors import SandboxFailed
from privid.model import Column, Table
from privid.sandbox.executable import Kind
from privid.sandbox.program import Program
from privid.sandbox.rows import line_limit, output_limit
from tests.calculus import builders

NUMBER = Column("n", 1, "float8", "float8", False, 0.0)
WORD = Column("word", 2, "text", "text", False, "none")


@pytest.fixture(scope="module")
def readings() -> Iterator[Readings]:
    made = Readings()
    yield made
    made.close()


def table(max_rows: int, *columns: Column) -> Table:
    found: Table = builders.table(max_rows=max_rows)
    return type(found)(**{**vars(found), "columns": columns})


def rows_of(readings: Readings, of: Table, stdout: bytes | None) -> list[tuple[object, ...]]:
    number, body = readings.read(of, stdout)
    return list(decode_columns(of.untrusted, body, number))


def test_rows_are_read_and_what_went_wrong_is_a_row_of_defaults(readings: Readings) -> None:
    of = table(3, NUMBER, WORD)
    assert rows_of(readings, of, b'{"n": 1, "word": "a"}\n{"n": 2}\n') == [(1.0, "a"), (2.0, "none")]
    assert rows_of(readings, of, b"") == []
    assert rows_of(readings, of, None) == [(0.0, "none")]


def test_every_value_that_a_column_can_have_fits_into_a_line(readings: Readings) -> None:
    of = table(2, NUMBER, WORD)
    longest = json.dumps({"n": -1.7976931348623157e308, "word": "\u00e9" * 1024})
    assert len(longest) > 6 * 1024
    assert rows_of(readings, of, f"{longest}\n{longest}\n".encode()) == [(-1.7976931348623157e308, "\u00e9" * 1024)] * 2
    assert rows_of(readings, of, (longest[:-1] + " " * 2000 + "}\n").encode()) == [(0.0, "none")]


#: what takes longest to read, of all that fits
SLOW: dict[str, Callable[[int], bytes]] = {
    "lists of numbers": lambda size: b'{"j":[' + b"1," * ((size - 10) // 2) + b"1]}",
    "long numbers": lambda size: b'{"n":' + b"1" * (size - 7) + b"}",
    "escapes": lambda size: b'{"word":"' + b"\\u00e9" * ((size - 12) // 6) + b'"}',
    "many names": lambda size: b"{" + b",".join(b'"%d":1' % i for i in range((size - 2) // 9)) + b"}",
    "nested": lambda size: b'{"n":' + b"[" * ((size - 7) // 2) + b"]" * ((size - 7) // 2) + b"}",
}


@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("max_rows", [1, 2000])
def test_reading_takes_less_than_the_time_that_is_set_aside_for_it(readings: Readings, kind: str, max_rows: int) -> None:
    of = table(max_rows, NUMBER, WORD)
    line = SLOW[kind](line_limit(of.columns))
    assert len(line) <= line_limit(of.columns)
    stdout = (line + b"\n") * max_rows + b"x" * (1 << 20)
    taken = []
    for _ in range(3):
        begun = time.monotonic_ns()
        readings.read(of, stdout)
        taken.append(time.monotonic_ns() - begun)
    assert min(taken) < reading_time(of) / 2, (min(taken) / 1e6, reading_time(of) / 1e6)


@pytest.mark.parametrize(("max_rows", "columns"), [(1, 100), (200, 100), (5000, 20)])
def test_reading_columns_with_options_takes_less_than_the_time_that_is_set_aside_for_it(readings: Readings, max_rows: int,
                                                                                        columns: int) -> None:
    numbers = [Column(f"n{i}", i + 1, "float8", "float8", False, 0.0, bounds=(Fraction(0), Fraction(120))) for i in range(columns - 1)]
    keys = tuple(f"{i:0>65}" for i in range(1000))
    of = table(max_rows, *numbers, Column("word", 200, "text", "text", False, keys[0], keys=keys))
    line = json.dumps({**{c.name: 119.9999949999 for c in numbers}, "word": keys[-1] + "x"}).encode()
    taken = []
    for _ in range(10):
        begun = time.monotonic_ns()
        rows, _ = readings.read(of, (line + b"\n") * max_rows)
        taken.append(time.monotonic_ns() - begun)
    assert rows == max_rows
    assert min(taken) < reading_time(of) / 2, (min(taken) / 1e6, reading_time(of) / 1e6)


def test_what_is_printed_beyond_the_longest_output_is_not_looked_at(readings: Readings) -> None:
    of = table(1, NUMBER)
    assert output_limit(of.untrusted, 1) < 3000
    begun = time.monotonic()
    assert len(rows_of(readings, of, b"\n" * (16 << 20))) == 0
    assert time.monotonic() - begun < 0.2


def test_a_reader_that_dies_is_replaced(readings: Readings) -> None:
    of = table(1, NUMBER)
    os.kill(readings._process.pid, signal.SIGKILL)
    with pytest.raises(SandboxFailed):
        readings.read(of, b'{"n": 1}')
    assert rows_of(readings, of, b'{"n": 1}') == [(1.0,)]


def test_outputs_wait_for_those_before_them() -> None:
    assert list(schedule([(10, 3), (10, 3), (100, 1)], free=20)) == [23, 26, 101]


def test_a_schedule_is_the_same_whether_or_not_what_is_past_was_forgotten(tmp_path: Path) -> None:
    """Otherwise an output that waits for one that is forgotten would be asked for too early."""
    now = time.monotonic_ns()
    job = Job("j", table(1, NUMBER), Program(tmp_path / "p", Kind.PROGRAM), 0, 0, tmp_path, reading=NANO)
    ends = [now - 10 * NANO, *[now - 2 * NANO] * 2, *[now - NANO // 2] * 4]
    slots = [Slot(b"%d" % i, i, 0, Place(0, end, 0), job, {job}) for i, end in enumerate(ends)]
    unread = Unread()
    unread.add(slots)
    last = unread.read_by(slots[-1:])
    assert last == now + 4 * NANO  # two were read by now, and the others wait for them
    for _ in range(3):
        assert unread.read_by(slots[-1:]) == last
    assert unread.read_by([], [(now, NANO)]) == last + NANO
    assert unread.read_by([]) == 0
