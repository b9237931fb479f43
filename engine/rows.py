"""Rows in the compact binary form of a 'B' message (docs/protocol.md): columns of a chunk, end to end.

The column part of a block is made once, kept in the chunk cache, and sent again as it is; only the header before it is written
per scan.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

from privid.model import Column

__all__ = ["Padding", "Row", "Value", "decode_columns", "encode_columns", "encoded_size", "header", "pick", "row_width"]

Value = str | float | bool
Row = Sequence[Value]

_U32 = struct.Struct("<I")
_HEAD = struct.Struct("<Iq?H")


def encode_columns(columns: Sequence[Column], rows: Sequence[Row], pause: Callable[[], None] = lambda: None) -> bytes:
    """What a program printed of one chunk; `columns` are those that it fills and each row has a value for each. `pause` is called after
    each."""
    parts: list[bytes] = []
    for place, column in enumerate(columns):
        body = _encode(column, [row[place] for row in rows])
        parts.append(_U32.pack(sum(map(len, body))))
        parts += body
        pause()
    return b"".join(parts)


def encoded_size(columns: Sequence[Column], values: int) -> int:
    """Bytes of encoded columns whose values take so many."""
    return _U32.size * len(columns) + values


def _encode(column: Column, values: list[Value]) -> list[bytes]:
    if column.type == "float8":
        return [_packed("d", values)]
    if column.type == "boolean":
        return [bytes(values)]  # type: ignore[arg-type]  # parse_rows yields bool
    text = "".join(values)  # type: ignore[arg-type]  # parse_rows yields str for text and enum
    if text.isascii():
        return [_packed("I", map(len, values)), text.encode("ascii")]  # type: ignore[arg-type]
    pieces = [value.encode("utf-8") for value in values]  # type: ignore[union-attr]
    return [_packed("I", map(len, pieces)), b"".join(pieces)]


def _packed(code: str, values: Iterable[Any]) -> bytes:
    """Numbers end to end, the low byte first."""
    made = array(code, values)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def _unpacked(code: str, content: bytes) -> list[Any]:
    found = array(code, content)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tolist()


def header(rows: int, chunk: int, region: bytes, failed: bool = False) -> bytes:
    """What stands before the columns: row count, the chunk's microseconds, whether its run failed, its region."""
    return _HEAD.pack(rows, chunk, failed, len(region)) + region


def pick(body: bytes, places: Sequence[int]) -> bytes:
    """Some of the columns of a chunk, by number, in this order."""
    parts: list[bytes] = []
    place, last = 0, max(places, default=-1)
    for _ in range(last + 1):
        end = place + 4 + _U32.unpack_from(body, place)[0]
        parts.append(body[place:end])
        place = end
    return b"".join(parts[number] for number in places)


class Padding:
    """Default rows for what lacks some, made once for a table: filling up a chunk then takes copying, however many it lacks."""

    def __init__(self, columns: Sequence[Column], wanted: int) -> None:
        self._wanted = wanted
        #: for each column: bytes of a value or of its length, those of all rows, the text of a row
        self._columns = [self._default(column) for column in columns]

    def _default(self, column: Column) -> tuple[int, bytes, bytes]:
        fixed, *texts = _encode(column, [column.default])  # type: ignore[list-item]  # printed: has a default
        return len(fixed), fixed * self._wanted, b"".join(texts)

    def fill(self, body: bytes, rows: int) -> bytes:
        """The columns of a chunk with default rows appended."""
        missing, place, parts = self._wanted - rows, 0, list[bytes]()
        for width, fixed, text in self._columns:
            (length,) = _U32.unpack_from(body, place)
            content, split = place + 4, place + 4 + width * rows  # lengths stand before the text itself
            place = content + length
            parts += (_U32.pack(length + missing * (width + len(text))), body[content:split], fixed[width * rows:], body[split:place],
                      text * missing)
        return b"".join(parts)


def decode_columns(columns: Sequence[Column], body: bytes, rows: int) -> list[tuple[Value, ...]]:
    """The rows again (for the Python side of the wrapper, tools and tests)."""
    found: list[Sequence[Value]] = []
    place = 0
    for column in columns:
        (length,) = _U32.unpack_from(body, place)
        content = body[place + 4:place + 4 + length]
        place += 4 + length
        if column.type == "float8":
            found.append(_unpacked("d", content))
        elif column.type == "boolean":
            found.append([bool(value) for value in content])
        else:
            ends = list(accumulate(_unpacked("I", content[:4 * rows])))
            text = content[4 * rows:]
            found.append([text[start:end].decode("utf-8") for start, end in zip([0, *ends[:-1]], ends, strict=True)]
                         if rows else [])
    return list(zip(*found, strict=True)) if found else [()] * rows


def row_width(column: Column, text_bytes: int) -> int:
    """Most bytes that one value takes, whatever the video shows."""
    if column.type == "float8":
        return 8
    if column.type == "boolean":
        return 1
    among = column.labels or column.keys
    longest = max(len(text.encode("utf-8")) for text in among) if among else text_bytes
    default = len(column.default.encode("utf-8")) if isinstance(column.default, str) else 0
    return 4 + max(longest, default)
