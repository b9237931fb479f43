"""From what a program printed to rows of the declared types, whatever it printed."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from privid.model import Column
from privid.udf.grid import settler

__all__ = ["MAX_LINE_BYTES", "MAX_TEXT", "Row", "Value", "default_row", "line_limit", "output_limit", "parse_rows", "read_rows"]

Value = str | float | bool
Row = tuple[Value, ...]

#: Characters kept of a text value.
MAX_TEXT = 1024
#: Bytes of a line beside the values of its columns, and the most that a line may have; a longer one is a row of defaults.
SPARE_BYTES, MAX_LINE_BYTES = 1024, 128 * 1024
#: Bytes of all that is read of one output.
MAX_OUTPUT_BYTES = 16 << 20
#: Empty lines looked at before giving up, so that output of nothing but newlines costs nothing.
_MAX_BLANK_LINES = 1000
#: rows that are let go at once
_LET_GO = 1000
#: integers become floats at once: Python's own would take quadratic time, or refuse, for very long ones
_DECODER = json.JSONDecoder(parse_int=float)
_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")


def default_row(columns: Sequence[Column]) -> Row:
    """The row of a run that crashed or timed out: the default of every column that a program fills, in order."""
    return tuple(_default(c) for c in columns if c.printed)


def parse_rows(stdout: bytes, columns: Sequence[Column], max_rows: int, pause: Callable[[], None] = lambda: None) -> list[Row]:
    """At most max_rows rows with a value for each column that a program fills, in order; never raises, never None."""
    return read_rows(stdout, columns, max_rows, pause)[0]


def read_rows(stdout: bytes, columns: Sequence[Column], max_rows: int,
              pause: Callable[[], None] = lambda: None) -> tuple[list[Row], bool]:
    """The rows, and whether the output is wrong altogether: something was printed, and no line of it that counts is a row. It then has
    the one row of a run that failed.

    A line that is not a JSON object is a row of defaults, so that one bad line does not move the others. `pause` is called after each.
    """
    printed = [c for c in columns if c.printed]
    converters = [(c.name, _converter(c)) for c in printed]
    rows: list[Row] = []
    longest, wrong = line_limit(printed), 0
    for line in _lines(stdout, max_rows, longest):
        fields = _parse_line(line) if len(line) <= longest else None
        if fields is None:
            wrong, fields = wrong + 1, {}
        rows.append(tuple(convert(fields.get(name)) for name, convert in converters))
        pause()
    if not 0 < wrong == len(rows):
        return rows, False
    while len(rows) > 1:  # they are defaults, all of them
        del rows[max(1, len(rows) - _LET_GO):]
        pause()
    return rows, True


def line_limit(columns: Sequence[Column]) -> int:
    """The longest line that is read: every value as JSON, with escapes, its name, and some bytes to spare."""
    return min(MAX_LINE_BYTES, SPARE_BYTES + sum(_widest(c) + 6 * len(c.name) + 8 for c in columns if c.printed))


def _widest(column: Column) -> int:
    """Bytes of a value as JSON: six for each character that is escaped."""
    if column.type == "text":
        return 6 * MAX_TEXT
    return 6 * max(map(len, column.labels), default=0) if column.labels else 32


def output_limit(columns: Sequence[Column], max_rows: int) -> int:
    """Bytes of an output that are read."""
    return min(MAX_OUTPUT_BYTES, max_rows * (line_limit(columns) + 1) + _MAX_BLANK_LINES)


def _lines(stdout: bytes, limit: int, longest: int) -> Iterator[bytes]:
    """The first lines that hold something, without splitting the rest."""
    start, found, blank = 0, 0, 0
    while start < len(stdout) and found < limit and blank <= _MAX_BLANK_LINES:
        stop = stdout.find(b"\n", start)
        stop = len(stdout) if stop < 0 else stop
        # A line of white space longer than the limit is over-long, not blank: strip() never sees more than the limit.
        line = stdout[start:min(stop, start + longest + 1)]
        if line.strip():
            found += 1
            yield line
        else:
            blank += 1
        start = stop + 1


def _parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        value = _DECODER.decode(line.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


def _converter(column: Column) -> Callable[[Any], Value]:
    """From any JSON value to a value of the column, which its options bound: what low, high and keys promise, the calculus relies on."""
    default, among = _default(column), frozenset(column.labels or column.keys or ())
    settle = _finite if column.bounds is None else settler(*map(float, column.bounds))
    match column.type:
        case "float8":
            return lambda value: settle(value) if isinstance(value, float) and not math.isnan(value) else default
        case "boolean":
            return lambda value: value if isinstance(value, bool) else default
        case "text" if column.keys is None:
            return lambda value: _storable(value) if isinstance(value, str) else default
        case "text":
            return lambda value: text if isinstance(value, str) and (text := _storable(value)) in among else default
        case "enum":
            return lambda value: value if isinstance(value, str) and value in among else default
    return lambda value: default


def _finite(value: float) -> float:
    """Infinities become the largest number of their sign; -0 becomes 0."""
    return min(max(value, -sys.float_info.max), sys.float_info.max) + 0.0


def _storable(text: str) -> str:
    """What PostgreSQL can store: no NUL, no half of a surrogate pair, at most MAX_TEXT characters."""
    return _NOT_STORABLE.sub("", text[:4 * MAX_TEXT])[:MAX_TEXT]


def _default(column: Column) -> Value:
    assert column.default is not None, column.name
    return column.default
