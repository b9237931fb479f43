"""Rows in the compact binary form of a 'B' message (docs/protocol.md): columns of a chunk, end to end.

The column part of a block is made once, kept in the chunk cache, and sent again as it is; only the header before it is written
per scan.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from privid.model import Column

__all__ = ["Row", "Value", "decode_columns", "encode_columns", "header", "pad_columns", "row_width"]

Value = str | float | bool
Row = Sequence[Value]

_U32 = struct.Struct("<I")
_HEAD = struct.Struct("<IqH")


def encode_columns(columns: Sequence[Column], rows: Sequence[Row]) -> bytes:
    """The untrusted columns of one chunk; `columns` are the untrusted ones and each row has a value for each."""
    parts: list[bytes] = []
    for place, column in enumerate(columns):
        body = _encode(column, [row[place] for row in rows])
        parts.append(_U32.pack(sum(map(len, body))))
        parts += body
    return b"".join(parts)


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


def header(rows: int, chunk: int, region: bytes) -> bytes:
    """What stands before the columns: row count, the chunk's microseconds, its region."""
    return _HEAD.pack(rows, chunk, len(region)) + region


def pad_columns(columns: Sequence[Column], body: bytes, rows: int, wanted: int) -> bytes:
    """The same columns with default rows appended until there are `wanted`."""
    missing = wanted - rows
    if missing <= 0:
        return body
    parts: list[bytes] = []
    place = 0
    for column in columns:
        (length,) = _U32.unpack_from(body, place)
        content = body[place + 4:place + 4 + length]
        place += 4 + length
        added = _encode(column, [column.default] * missing)  # type: ignore[list-item]  # untrusted: has a default
        split = 4 * rows if column.type in ("text", "enum") else length  # lengths stand before the text itself
        pieces = [content[:split], added[0], content[split:], *added[1:]]
        parts.append(_U32.pack(sum(map(len, pieces))))
        parts += pieces
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
    longest = max((len(label.encode("utf-8")) for label in column.labels), default=0) if column.labels else text_bytes
    default = len(column.default.encode("utf-8")) if isinstance(column.default, str) else 0
    return 4 + max(longest, default)
