"""Tables over one program that differ in their columns: one with fewer reads what was kept for one with more, and runs nothing again.

A run is read into the columns of the table that it ran for, and the rest of what was printed is gone. So the columns into which a program
was read are remembered, and a table whose columns are among them is run and read as that wider one: its runs have the same keys
in the chunk cache, and of their rows only its own columns are handed on. Which table is read as which is decided when a release has been
charged and from definitions alone, the first that fits, so that it tells nothing of what a program printed, nor when that was read. Only
tables of one owner take part: nobody's definition changes how long another's release takes.

Every column is enforced as it is declared (type, default, labels, low, high, keys) and the number of rows is the same, so that what the
calculus knows of the narrower table holds. A line may be longer than its own columns would need, because it had room for the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privid.model import Column, Table

from .chunks import ChunkCache, program_of

__all__ = ["MOST", "Shapes", "Wider"]

#: shapes that are remembered for one program
MOST = 100


@dataclass(frozen=True)
class Wider:
    """What a table is run and read as, and which of its columns are the table's own, in the table's order; None: all, it is the table."""

    table: Table
    picks: tuple[int, ...] | None


class Shapes:
    def __init__(self, cache: ChunkCache) -> None:
        self._cache = cache

    def of(self, table: Table, kind: str, runtime: str) -> Wider:
        """The table itself if its columns are remembered, else the first whose columns have its own among them, else the table."""
        own, known = _signs(table.untrusted), self._cache.shapes(_program(table, kind, runtime))
        if json.dumps(own) in known:
            return Wider(table, None)
        for text in known:
            wide: list[str] = json.loads(text)
            if set(own) <= set(wide):
                return Wider(replace(table, columns=tuple(map(_column, wide))), tuple(wide.index(sign) for sign in own))
        return Wider(table, None)

    def is_new(self, table: Table, kind: str, runtime: str) -> bool:
        """Whether no release over its program has been charged yet."""
        return not self._cache.shapes(_program(table, kind, runtime))

    def remember(self, wider: Wider, kind: str, runtime: str) -> None:
        """The release has been charged: its runs are read into these columns."""
        if wider.picks is None:
            self._cache.add_shape(_program(wider.table, kind, runtime), json.dumps(_signs(wider.table.untrusted)), MOST)


def _program(table: Table, kind: str, runtime: str) -> bytes:
    """All that runs have in common beside their columns and footage, and whose the table is."""
    return hashlib.sha256(json.dumps([table.owner, *program_of(table, kind, runtime)]).encode()).digest()


def _signs(columns: Sequence[Column]) -> list[str]:
    """For each column all that decides how it is read."""
    return [json.dumps([c.name, c.type, c.default, c.labels, None if c.bounds is None else list(map(str, c.bounds)), c.keys])
            for c in columns]


def _column(sign: str) -> Column:
    name, type_, default, labels, bounds, keys = json.loads(sign)
    return Column(name, 0, type_, type_, False, default, _tuple(labels),
                  None if bounds is None else (Fraction(bounds[0]), Fraction(bounds[1])), _tuple(keys))


def _tuple(values: Any) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
