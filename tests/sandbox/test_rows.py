"""Rows out of whatever a program printed."""

from __future__ import annotations

import math
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privid.model import Column
from privid.sandbox.rows import MAX_LINE_BYTES, MAX_TEXT, default_row, parse_rows

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
