"""Whether two sources of one statement are the same relation: the same rows, whatever the video shows.

Decided on what is evaluated, part by part, and not on any text: the same foreign table (its rows are read once for all scans of it; another
table with the same definition has runs of its own, and programs need not be deterministic), the same conditions, groups and columns. What
is not known to be the same is taken for different.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .sources import Base, Grouped, Scanned, Source, United
from .tree import Aggregate, Expr, Target

__all__ = ["same_part"]

Part = tuple[Source, tuple[Expr, ...]]


def same_part(one: Part, other: Part) -> bool:
    """Of two parts of a union: a source, and the columns that are taken of it."""
    return one[1] == other[1] and _same_source(one[0], other[0])


def _same_source(one: Source, other: Source) -> bool:
    return one.conditions == other.conditions and _same_targets(one.projected, other.projected) and _same_base(one.base, other.base)


def _same_base(one: Base, other: Base) -> bool:
    match one, other:
        case Scanned(), Scanned():
            return one.table.index == other.table.index
        case Grouped(), Grouped():
            return one.keys == other.keys and _bare(one.aggs) == _bare(other.aggs) and _same_source(one.source, other.source)
        case United(), United():
            return len(one.parts) == len(other.parts) and all(map(same_part, one.parts, other.parts))
        case _:
            return False


def _same_targets(one: Sequence[Target], other: Sequence[Target]) -> bool:
    return [target.expr for target in one] == [target.expr for target in other]


def _bare(aggs: Sequence[Aggregate]) -> list[Aggregate]:
    """Without their places in the statement."""
    return [replace(agg, loc=-1) for agg in aggs]
