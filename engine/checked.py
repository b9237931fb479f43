"""Whether a block is one that parsing could have made of some output: the calculus counts on what columns promise, and on nothing that a
process which read hostile bytes says. Every value is looked at, all of a kind at once.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from privid.model import Column
from privid.sandbox.rows import MAX_TEXT
from privid.udf.grid import exponent

from .rows import row_width

__all__ = ["Checker"]

_U32 = struct.Struct("<I")
#: a byte of UTF-8 that begins no character
_CONTINUES, _KIND = 0x80, 0xC0


class Checker:
    """For the untrusted columns of a table."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._width = sum(row_width(column, 4 * MAX_TEXT) for column in columns)
        self._known = {column.name: frozenset(str(text).encode() for text in (*among, column.default))
                       for column in columns if (among := column.labels or column.keys)}
        numbers = [column for column in columns if column.type == "float8"]
        most = sys.float_info.max
        bounds = [(-most, most) if column.bounds is None else tuple(map(float, column.bounds)) for column in numbers]
        steps = [0 if column.bounds is None else exponent(*bound) for column, bound in zip(numbers, bounds, strict=True)]
        self._low, self._high = _upright(low for low, _ in bounds), _upright(high for _, high in bounds)
        self._up, self._down = _upright(10.0 ** max(-step, 0) for step in steps), _upright(10.0 ** max(step, 0) for step in steps)
        self._free = _upright(float(column.bounds is None) for column in numbers) > 0
        self._defaults = _upright(float(column.default) for column in numbers)  # type: ignore[arg-type]  # untrusted: has one

    def longest(self, rows: int) -> int:
        """Bytes of a block at most."""
        return 4 * len(self._columns) + rows * self._width

    def is_block(self, rows: int, body: bytes, pause: Callable[[], None] = lambda: None) -> bool:
        """Whether these are so many rows with a value of its kind for each of the columns, and nothing more."""
        place, numbers = 0, list[bytes]()
        for column in self._columns:
            if len(body) < place + 4:
                return False
            begin, place = place + 4, place + 4 + _U32.unpack_from(body, place)[0]
            content = body[begin:place]
            if len(body) < place:
                return False
            if column.type == "float8":
                numbers.append(content)
            if not self._is_column(column, rows, content, pause):
                return False
            pause()
        return place == len(body) and self._are_numbers(np.frombuffer(b"".join(numbers), "<f8").reshape(len(numbers), rows))

    def _is_column(self, column: Column, rows: int, content: bytes, pause: Callable[[], None]) -> bool:
        if column.type == "float8":
            return len(content) == 8 * rows
        if column.type == "boolean":
            return len(content) == rows and not content.strip(b"\0\1")
        if len(content) < 4 * rows:
            return False
        ends = np.cumsum(np.frombuffer(content, "<u4", rows), dtype=np.int64)
        text = content[4 * rows:]
        if (ends[-1] if rows else 0) != len(text):
            return False
        known = self._known.get(column.name)
        return _are_texts(max(MAX_TEXT, len(str(column.default))), ends, text, pause) if known is None else _are_among(known, ends, text)

    def _are_numbers(self, values: NDArray[np.float64]) -> bool:
        """Finite, no zero with a sign; and where the column has bounds, between them and on their grid, or the default."""
        with np.errstate(over="ignore", invalid="ignore"):
            on_grid = self._free | (np.rint(values * self._up / self._down) * self._down / self._up == values)
            right = (values >= self._low) & (values <= self._high) & on_grid | (values == self._defaults)
        return bool(right.all() and not (np.signbit(values) & (values == 0)).any())


def _upright(values: Iterable[float]) -> NDArray[np.float64]:
    """One for each column, beside its rows."""
    return np.array(list(values), "f8").reshape(-1, 1)


def _are_among(known: frozenset[bytes], ends: NDArray[np.int64], text: bytes) -> bool:
    begin = 0
    for end in ends.tolist():
        if text[begin:end] not in known:
            return False
        begin = end
    return True


def _are_texts(most: int, ends: NDArray[np.int64], text: bytes, pause: Callable[[], None]) -> bool:
    """UTF-8 without NUL, cut between characters, each of as many as are kept, or as the default has."""
    if b"\0" in text:
        return False
    if not text.isascii():
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return False
    pause()
    begins = (np.frombuffer(text, "u1") & _KIND) != _CONTINUES
    if not begins[ends[ends < len(text)]].all():
        return False
    if not len(ends) or np.diff(ends, prepend=0).max() <= most:
        return True
    before = np.concatenate((np.zeros(1, np.int32), np.cumsum(begins, dtype=np.int32)))
    return bool((np.diff(before[ends], prepend=0) <= most).all())
