"""GROUP BY trusted columns in a subquery: which cells can change is a matter of time, not of rows.

Proof: group_bins.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from privid.model import Evaluate, Key, Table

from .. import show
from ..alike import alike_value
from ..certificate import Certificate, Change, Facts, Keyed, Leaf, Rows, step
from ..chunks import values
from ..expressions import Scope
from ..tree import Aggregate, Const, Expr
from . import inner_aggregates, mask, regions
from .base_table import chunks_touched, reaching
from .group_rows import key_columns

__all__ = ["RULE", "applies", "certify"]

RULE = "group by bins"


def applies(keys: Sequence[Expr], below: Certificate, scope: Scope) -> bool:
    return bool(keys) and isinstance(below.kind, Rows | Keyed) and all(scope.trusted(k) and scope.local(k) for k in keys)


def certify(keys: Sequence[Expr], aggs: Sequence[Aggregate], below: Certificate, scope: Scope, evaluate: Evaluate,
            form: Any) -> Certificate:
    bins = dict.fromkeys(below.changes, 0)
    for leaf in below.leaves:
        bins[leaf.use.table.camera.name] += _touched(leaf, keys, scope, evaluate)
    added = not below.keyed

    def change(name: str, one: Change) -> Change:
        ups = {len(keys) + j: up for j, agg in enumerate(aggs, 1)
               if (up := inner_aggregates.ups(agg, below, scope, name, added)) is not None}
        beta = bins[name] if one.tau else 0
        full = below.full and one.sigma is not None
        return Change(tau=beta, n=0 if full else beta, sigma=beta if full else None, ups=ups)

    columns: dict[int, Facts] = {number: facts.unmoved() for number, facts in key_columns(keys, scope).items()}
    for j, agg in enumerate(aggs, 1):
        columns[len(keys) + j] = inner_aggregates.describe(agg, below, scope, monotone=added).unmoved()
    found = replace(below, columns=columns, kind=Rows(), form=form, linear=False,
                    changes={name: change(name, one) for name, one in below.changes.items()})
    says = f"{', '.join(map(show.expression, keys))}: one segment touches at most {sum(bins.values())} cells, the same in both versions"
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))


def _touched(leaf: Leaf, keys: Sequence[Expr], scope: Scope, evaluate: Evaluate) -> int:
    """The most cells that the runs which one segment can change belong to."""
    table = leaf.use.table
    if not table.r or not leaf.use.count:
        return 0
    cells = [scope.cells(k).get(leaf.number, k) for k in keys]
    if all(isinstance(cell, Const) for cell in cells):
        return 1
    found = list(values(list(map(alike_value, cells)), leaf.use, evaluate))
    if regions.stays(table) and table.regions is not None:
        by_region = [[(chunk, cell) for chunk, own, cell in found if own == region] for region in range(len(table.region_names))]
        return mask.met(table, lambda r: max(_within(one, _neighbours(table, r)) for one in by_region))
    reach, g = reaching(table, leaf.use.chunks), regions.factor(leaf.use)
    every = [(chunk, cell) for chunk, _, cell in found]
    return mask.met(table, lambda r: min(_within(every, _neighbours(table, r)), g * reach(r)))


def _neighbours(table: Table, r: int) -> int:
    return chunks_touched(r, table.grid.size, table.grid.step)


def _within(runs: Sequence[tuple[int, Key]], m: int) -> int:
    """The most cells that m neighbouring chunks belong to."""
    best, inside, first = 0, Counter[Key](), 0
    for chunk, cell in runs:
        inside[cell] += 1
        while runs[first][0] <= chunk - m:
            gone = runs[first][1]
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            first += 1
        best = max(best, len(inside))
    return best
