"""Rows out of whatever a program printed."""

from __future__ import annotations

import json
import math
import sys
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privid.model import Column
from privid.sandbox.rows import MAX_LINE_BYTES, MAX_TEXT, default_row, parse_rows, read_rows
from privid.udf.grid import grid_step, settler, snap

COLUMNS = (
    Column("chunk", 1, "timestamptz", "timestamptz", True, None),
    Column("n", 2, "float8", "float8", False, -1.0),
    Column("word", 3, "text", "text", False, "none"),
    Column("seen", 4, "boolean", "boolean", False, False),
    Column("kind", 5, "enum", "public.kind", False, "car", ("car", "dog")),
)
DEFAULTS = (-1.0, "none", False, "car")


def one(line: bytes) -> tuple[str | float | bool, ...]:
    rows = parse_rows(line, COLUMNS, 10)
    assert len(rows) == 1
    return rows[0]


def test_the_default_row_has_the_defaults_of_the_untrusted_columns() -> None:
    assert default_row(COLUMNS) == DEFAULTS


def test_a_good_row_is_read_as_it_is_and_what_is_not_declared_is_dropped() -> None:
    assert one(b'{"kind": "dog", "n": 3, "word": "a\\u00e4", "seen": true, "chunk": 5, "x": [1]}\n') == (3.0, "aä", True, "dog")


@pytest.mark.parametrize(("text", "number"), [
    (b"1e3", 1000.0), (b"-7", -7.0), (b"NaN", -1.0), (b"Infinity", sys.float_info.max), (b"-Infinity", -sys.float_info.max),
    (b"1e999", sys.float_info.max), (b"9" * 350, sys.float_info.max), (b"-" + b"9" * 5_000, -sys.float_info.max), (b"5e-324", 5e-324),
    (b"true", -1.0), (b'"3"', -1.0), (b"null", -1.0), (b"[1]", -1.0), (b"{}", -1.0), (b"18446744073709551616", 2.0**64),
])
def test_numbers_are_finite_or_the_default(text: bytes, number: float) -> None:
    value = one(b'{"n": ' + text + b"}")[0]
    assert value == number
    assert isinstance(value, float)


def test_minus_zero_is_zero() -> None:
    for text in (b"-0.0", b"-0", b"-1e-999"):
        value = one(b'{"n": ' + text + b"}")[0]
        assert isinstance(value, float)
        assert math.copysign(1, value) == 1


@pytest.mark.parametrize(("written", "read"), [
    (b'"a\\u0000b"', "ab"), (b'"\\ud800x\\udfff"', "x"), (b'"\\ud83d\\ude00"', "\U0001f600"), (b'"\xff\xfe"', "\ufffd\ufffd"),
    (b'"' + b"y" * 5000 + b'"', "y" * MAX_TEXT), (b"7", "none"), (b"true", "none"), (b'""', ""),
])
def test_text_is_storable_and_short(written: bytes, read: str) -> None:
    assert one(b'{"word": ' + written + b"}")[1] == read


def test_a_label_that_the_enum_lacks_is_the_default() -> None:
    assert one(b'{"kind": "cat", "seen": 1}') == DEFAULTS
    assert one(b'{"kind": ["dog"]}') == DEFAULTS


@pytest.mark.parametrize("line", [b"{", b"[]", b"3", b"null", b"hello", b'"x"', b"\xff\xfe\xfd", b"{" * 5000, b"[" * 200_000,
                                  b'{"n":' * 100_000, b'{"n": 1} {"n": 2}', b'{"n": ' + b" " * MAX_LINE_BYTES + b"1}"])
def test_a_line_that_is_no_object_is_a_row_of_defaults(line: bytes) -> None:
    assert one(line) == DEFAULTS


def test_a_bad_line_does_not_spoil_the_others() -> None:
    assert [row[0] for row in parse_rows(b'{"n":1}\nnot json\n\n{"n":3}', COLUMNS, 9)] == [1.0, -1.0, 3.0]


def test_rows_beyond_the_limit_are_cut() -> None:
    assert len(parse_rows(b'{"n":1}\n' * 1000, COLUMNS, 3)) == 3
    assert parse_rows(b'{"n":1}\n', COLUMNS, 0) == []
    assert parse_rows(b"", COLUMNS, 3) == []


def test_output_of_nothing_but_newlines_costs_nothing() -> None:
    before = time.monotonic()
    assert parse_rows(b"\n" * (16 << 20), COLUMNS, 5) == []
    assert time.monotonic() - before < 0.5


@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda t: b'{"n": ' + t.encode("utf-8", "replace") + b"}"))
def test_whatever_is_printed_gives_rows_of_the_declared_types(stdout: bytes) -> None:
    for n, word, seen, kind in parse_rows(stdout, COLUMNS, 4):
        assert isinstance(n, float)
        assert math.isfinite(n)
        assert isinstance(word, str)
        assert len(word.encode()) <= 4 * MAX_TEXT
        assert "\x00" not in word
        assert isinstance(seen, bool)
        assert kind in ("car", "dog")


BOUNDED = (Column("n", 1, "float8", "float8", False, 5.0, bounds=(Fraction(-1), Fraction(120))),
           Column("word", 2, "text", "text", False, "none", keys=("none", "car", "", "ä")))


@pytest.mark.parametrize(("printed", "row"), [
    (b'{"n": 3, "word": "car"}', (3.0, "car")), (b'{"n": 120.0004, "word": ""}', (120.0, "")),
    (b'{"n": 121, "word": "Car"}', (120.0, "none")),
    (b'{"n": -1e308, "word": "car "}', (-1.0, "none")), (b'{"n": 1e999, "word": "\\u0000car"}', (120.0, "car")),
    (b'{"n": -Infinity, "word": "\xc3\xa4"}', (-1.0, "ä")), (b'{"n": NaN, "word": "a\\u0308"}', (5.0, "none")),
    (b'{"n": null, "word": null}', (5.0, "none")), (b'{"n": "7", "word": 7}', (5.0, "none")),
    (b'{"n": true, "word": ["car"]}', (5.0, "none")),
    (b"{}", (5.0, "none")), (b"not json", (5.0, "none")), (b'{"n": 5e-324}', (0.0, "none")), (b'{"n": -5e-324}', (0.0, "none")),
    (b'{"n": -0.0}', (0.0, "none")), (b'{"n": 0.0005}', (0.001, "none")), (b'{"n": 0.00049999}', (0.0, "none")),
    (b'{"n": ' + b"9" * 400 + b"}", (120.0, "none")), (b'{"word": "car' + b"r" * 5000 + b'"}', (5.0, "none"))])
def test_values_are_within_the_options_of_their_columns(printed: bytes, row: tuple[float, str]) -> None:
    found, = parse_rows(printed, BOUNDED, 3)
    assert found == row
    assert math.copysign(1, float(found[0])) == (1 if row[0] >= 0 else -1)


@given(st.one_of(st.floats(), st.text(), st.none(), st.booleans(), st.lists(st.floats()), st.integers()),
       st.floats(-1e18, 1e18), st.floats(-1e18, 1e18))
def test_whatever_is_printed_lies_on_the_grid_between_the_bounds(value: object, a: float, b: float) -> None:
    step = grid_step(*sorted((a, b)))
    low, high = (snap(bound, step) for bound in sorted((a, b)))
    step = grid_step(float(low), float(high))
    column = Column("n", 1, "float8", "float8", False, settler(float(low), float(high))(float(low)), bounds=(low, high))
    (found,), = parse_rows(json.dumps({"n": value}).encode(), (column,), 1)
    assert isinstance(found, float)
    assert float(low) <= found <= float(high)
    assert (snap(found, step) / step).denominator == 1
    assert float(snap(found, step)) == found
    assert math.copysign(1, found) == 1 or found < 0


@pytest.mark.parametrize(("printed", "failed"), [
    (b"", False), (b"\n\n", False), (b"{}", False), (b'oh\n{"n": 1}\nno', False), (b'{"unknown": 1}', False),
    (b"oh dear", True), (b"1\n[2]\n\nnull", True), (b"x" * MAX_LINE_BYTES + b"x", True), (b"\xff\xfe\x00", True)])
def test_output_of_which_no_line_is_a_row_is_that_of_a_run_that_failed(printed: bytes, failed: bool) -> None:
    rows, found = read_rows(printed, COLUMNS, 5)
    assert found is failed
    assert not failed or rows == [default_row(COLUMNS)]


def test_only_lines_that_count_decide_whether_a_run_failed() -> None:
    assert read_rows(b'no\nno\n{"n": 1}', COLUMNS, 2) == ([default_row(COLUMNS)], True)
    assert read_rows(b'{"n": 1}\nno\nno', COLUMNS, 1)[1] is False


def test_very_many_lines_that_are_no_rows_are_let_go_a_few_at_a_time() -> None:
    pauses: list[None] = []
    assert read_rows(b"1\n" * 50_000, COLUMNS, 50_000, lambda: pauses.append(None)) == ([default_row(COLUMNS)], True)
    assert len(pauses) >= 50_000 + 50
