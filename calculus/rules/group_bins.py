"""GROUP BY trusted columns in a subquery: which cells can change is a matter of time, not of rows.

Proof: group_bins.md.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from typing import Any, TypeAlias

from privid.errors import NoRule
from privid.model import Evaluate, Key, Table
from privid.pieces import Pieces, most_met

from .. import show
from ..alike import alike_value
from ..certificate import Certificate, Change, Facts, Leaf, Rows, step
from ..chunks import runs
from ..expressions import Scope
from ..tree import Aggregate, Col, Const, Expr, position
from . import apart, inner_aggregates, mask, regions
from .base_table import chunks_touched, reaching
from .group_rows import key_columns

__all__ = ["RULE", "applies", "certify"]

RULE = "group by bins"
#: runs of neighbouring chunks in one cell that are kept to be counted
MAX_RUNS = 1_000_000

#: from the first to before the last chunk, and the number of the cell
_Run: TypeAlias = tuple[int, int, int]


def applies(keys: Sequence[Expr], scope: Scope) -> bool:
    return bool(keys) and all(scope.trusted(k) and scope.local(k) for k in keys)


def certify(keys: Sequence[Expr], aggs: Sequence[Aggregate], below: Certificate, scope: Scope, evaluate: Evaluate,
            form: Any) -> Certificate:
    bins: dict[str, int] = {}
    for name in below.changes:
        own = [leaf for leaf in below.leaves if leaf.use.table.camera.name == name]
        bins[name] = apart.worst([(apart.where((leaf,), name), _touched(leaf, keys, scope, evaluate)) for leaf in own], sum, max)
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
    reach, g = reaching(table, leaf.use.chunks), regions.factor(leaf.use)
    columns = {cell.name for cell in cells if isinstance(cell, Col)}
    if table.regions is None and "chunk" in columns and all(isinstance(cell, Col | Const) for cell in cells):
        return mask.met(table, reach)  # every chunk is a cell of its own
    by_region: list[list[_Run]] = [[] for _ in table.region_names]
    numbers: dict[bytes, int] = {}
    for n, (lo, hi, own, key) in enumerate(runs(list(map(alike_value, cells)), leaf.use, evaluate)):
        if n >= MAX_RUNS:
            raise NoRule(f"GROUP BY in a subquery has no rule for cells that change more than {MAX_RUNS} times",
                         position=position(keys[0].loc), detail="Each change of a cell is looked at, along all chunks.",
                         hint="Group by longer bins, for example date_trunc('hour', chunk), or choose fewer chunks.")
        by_region[own].append((lo, hi, numbers.setdefault(_name(key), len(numbers))))
    if regions.stays(table) and table.regions is not None:
        everywhere = mask.met(table, lambda r: max(_within(one, _neighbours(table, r)) for one in by_region))
    else:
        every = sorted(chain.from_iterable(by_region)) if len(by_region) > 1 else by_region[0]
        everywhere = mask.met(table, lambda r: min(_within(every, _neighbours(table, r)), g * reach(r)), g)
    in_one = table.visible_in_region
    return everywhere if in_one is None else min(everywhere, _touched_in_regions(table, in_one, by_region))


def _touched_in_regions(table: Table, own: Pieces, by_region: Sequence[Sequence[_Run]]) -> int:
    """The same by what is visible in each single region."""
    def cells(one: Sequence[_Run]) -> int:
        return most_met(own, table.grid.size, table.grid.step, lambda r: _within(one, _neighbours(table, r)))

    found = list(map(cells, by_region))
    return max(found) if regions.stays(table) else sum(found)


def _name(key: Key) -> bytes:
    """Which cell it is: what its key says plays no part, and can be long."""
    return blake2b(json.dumps(key).encode(), digest_size=32).digest()


def _neighbours(table: Table, r: int) -> int:
    return chunks_touched(r, table.grid.size, table.grid.step)


def _within(found: Sequence[_Run], m: int) -> int:
    """The most cells that m neighbouring chunks belong to; runs ascend by their first chunks. Of the neighbourhoods that have the most,
    one ends with the first chunk of a run."""
    best, inside = 0, Counter[int]()
    ends: list[tuple[int, int]] = []  # of the runs inside, and which they are
    for n, (first, last, cell) in enumerate(found):
        inside[cell] += 1
        heapq.heappush(ends, (last, n))
        while ends[0][0] <= first - m + 1:
            gone = found[heapq.heappop(ends)[1]][2]
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
        best = max(best, len(inside))
    return best
