"""Base table: how many rows one segment can change.

Proof: base_table.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from privid.model import Span, Table, TableUse

from ..algebra import Scan
from ..certificate import Row, step

__all__ = ["RULE", "certify", "chunks_touched", "on_chunks", "touched_anywhere"]

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


def on_chunks(table: Table, spans: tuple[Span, ...]) -> Row:
    """The certificate of a table of which only these chunks run; the caller says why."""
    m = chunks_touched(table.camera.r, table.grid.size, table.grid.step)
    d = table.max_rows * touched_anywhere(spans, m)
    return Row(tau=d, n=0 if table.pad else d, sigma=d if table.pad else None, use=TableUse(table, spans))


def certify(node: Scan) -> Row:
    table = node.table
    spans: tuple[Span, ...] = ((0, table.grid.count),) if table.grid.count else ()
    row = on_chunks(table, spans)
    m = chunks_touched(table.camera.r, table.grid.size, table.grid.step)
    says = (f"a segment of {table.camera.r} frames meets at most {m} chunks ({table.grid.size} frames every {table.grid.step}), "
            f"{touched_anywhere(spans, m)} of the {table.grid.count} in the window, with {'exactly' if table.pad else 'at most'} "
            f"{table.max_rows} rows each")
    return Row(row.tau, row.n, row.sigma, row.use, step(RULE, f'"{table.name}": {says}', row.bound))
