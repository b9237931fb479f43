"""Base table: how many rows one segment can change.

Proof: base_table.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from privid.model import Span, Table, TableUse

from ..certificate import Certificate, Change, Facts, Leaf, Place, Rows, step
from ..tree import Col
from . import column_options, mask, regions

__all__ = ["RULE", "certify", "chunks_touched", "on_chunks", "reaching", "touched_anywhere"]

RULE = "base table"


def chunks_touched(r: int, size: int, grid_step: int) -> int:
    """m: the most chunks that a segment of r frames meets.

    >>> chunks_touched(1, 10, 1), chunks_touched(900, 1, 30)
    (10, 30)
    """
    return 0 if r == 0 else -(-(r + size - 1) // grid_step)


def touched_anywhere(spans: Sequence[Span], m: int) -> int:
    """m̂: the most selected chunks among m neighbours, over all positions.

    A best run of m neighbours begins where some run of selected chunks begins.

    >>> touched_anywhere([(0, 2), (3, 5), (100, 103)], 4)
    3
    """
    starts = [lo for lo, _ in spans]
    before = [0, *accumulate(hi - lo for lo, hi in spans)]  # selected chunks in the spans before the i-th
    best = 0
    for i, start in enumerate(starts):
        end = start + m
        last = bisect_left(starts, end) - 1  # last span that begins before the end
        if last >= i:
            best = max(best, before[last] - before[i] + min(spans[last][1], end) - spans[last][0])
    return best


def reaching(table: Table, spans: Sequence[Span]) -> Callable[[int], int]:
    """How many of these chunks a run of r frames meets at most."""
    return lambda r: touched_anywhere(spans, chunks_touched(r, table.grid.size, table.grid.step))


def on_chunks(use: TableUse, leaf: int, form: Any) -> Certificate:
    """The certificate of a table of which only these runs happen; the caller says why."""
    table = use.table
    d = table.max_rows * regions.met(use, reaching(table, use.chunks))
    change = Change(tau=d, n=0 if table.pad else d, sigma=d if table.pad else None)
    return Certificate(columns=_columns(table, leaf), kind=Rows(), changes={table.camera.name: change},
                       cameras={table.camera.name: table.camera}, leaves=(Leaf(leaf, use),), rows=table.max_rows * use.count,
                       full=table.pad, linear=True, form=form)


def _columns(table: Table, leaf: int) -> dict[int, Facts]:
    """Trusted ones come from the chunk; the others from the executable, as its output is read. None is ever NULL."""
    found = {}
    for c in table.columns:
        if not c.trusted:
            found[c.attno] = column_options.facts(c)
            continue
        cell = Col(type=c.type, rel=0, col=c.attno, name=c.name)
        found[c.attno] = Facts(c.type, Place.CELL, nullable=False, cells={leaf: cell})
    return found


def certify(table: Table, leaf: int, form: Any) -> Certificate:
    spans: tuple[Span, ...] = ((0, table.grid.count),) if table.grid.count else ()
    use, reach = TableUse(table, spans), reaching(table, spans)
    found = on_chunks(use, leaf, form)
    m = chunks_touched(table.camera.r, table.grid.size, table.grid.step)
    says = (f"a segment of {table.camera.r} frames meets at most {m} chunks ({table.grid.size} frames every {table.grid.step}), "
            f"{reach(table.camera.r)} of the {table.grid.count} in the window, with {'exactly' if table.pad else 'at most'} "
            f"{table.max_rows} rows each{' and for each region' if table.regions else ''}")
    inputs = [*mask.explained(table, reach), *regions.explained(use, reach), *column_options.explained(table)]
    found.derivation.update(step(RULE, f'"{table.name}": {says}', found.bound, inputs))
    return found
