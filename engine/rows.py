"""Rows in the compact binary form of a 'B' message (docs/protocol.md): columns of a chunk, end to end.

The column part of a block is made once, kept in the chunk cache, and sent again as it is; only the header before it is written
per scan.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

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
        return [np.array(values, dtype="<f8").tobytes()]
    if column.type == "boolean":
        return [np.array(values, dtype=bool).astype("u1").tobytes()]
    text = "".join(values)  # type: ignore[arg-type]  # parse_rows yields str for text and enum
    if text.isascii():
        return [np.fromiter(map(len, values), dtype="<u4", count=len(values)).tobytes(),  # type: ignore[arg-type]
                text.encode("ascii")]
    pieces = [value.encode("utf-8") for value in values]  # type: ignore[union-attr]
    return [np.fromiter(map(len, pieces), dtype="<u4", count=len(pieces)).tobytes(), b"".join(pieces)]


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
            found.append(np.frombuffer(content, dtype="<f8").tolist())
        elif column.type == "boolean":
            found.append([bool(value) for value in content])
        else:
            ends = np.cumsum(np.frombuffer(content[:4 * rows], dtype="<u4"), dtype=np.int64).tolist()
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
