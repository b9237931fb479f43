"""FILTER on trusted columns of an aggregate that is released: as with WHERE, what counts is which chunks it selects (normal.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from privid.model import Evaluate, Span

from .algebra import Release
from .canonical import frames_of
from .certificate import Place
from .chunks import runs, spans_of
from .expressions import columns_of, conjuncts
from .tree import Aggregate, Expr, Logic

__all__ = ["without_chunks"]


def without_chunks(agg: Aggregate, release: Release, evaluate: Evaluate) -> tuple[Aggregate, Any]:
    """The aggregate without the conditions on chunks of its filter, and the runs that they select; None where they select all."""
    parts = conjuncts(agg.filter)
    moving = [part for part in parts if _of_chunks(part, release)]
    if not moving:
        return agg, None
    (leaf,) = release.relation.leaves
    condition = _together([release.scope.cells(part)[leaf.number] for part in moving])
    kept: list[list[Span]] = [[] for _ in leaf.use.table.region_names]
    for lo, hi, region, (holds,) in runs([condition], leaf.use, evaluate):
        if holds == "t":
            kept[region].append((lo, hi))
    chosen = tuple(map(spans_of, kept))
    rest = [part for part in parts if part not in moving]
    reduced = replace(agg, filter=_together(rest) if rest else None)
    return reduced, None if chosen == tuple(map(spans_of, leaf.use.by_region)) else frames_of(leaf.use.table.grid, chosen)


def _of_chunks(part: Expr, release: Release) -> bool:
    """Its value for a row is that for a chunk of the only scan: none of its columns comes from a program or elsewhere, or is NULL."""
    columns, relation = columns_of(part), release.relation
    if not columns or len(relation.leaves) != 1:
        return False
    known = [relation.columns[number] for number in columns]
    return all(facts.place is not Place.OUTPUT and not facts.nullable and relation.leaves[0].number in facts.cells for facts in known)


def _together(parts: Sequence[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else Logic(type="boolean", kind="and", args=tuple(parts), loc=parts[0].loc)
