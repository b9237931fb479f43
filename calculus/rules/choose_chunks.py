"""WHERE on trusted columns: fewer chunks run, fewer frames are charged, fewer chunks can be touched.

Proof: choose_chunks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privid.model import Evaluate, Span, TableUse

from .. import show
from ..certificate import Certificate, step
from ..chunks import runs, spans_of
from ..tree import Expr, Logic
from .base_table import on_chunks

__all__ = ["RULE", "certify"]

RULE = "choose chunks"


def certify(conditions: Sequence[Expr], below: Certificate, evaluate: Evaluate, form: Any) -> Certificate:
    leaf = below.leaves[0]
    table = leaf.use.table
    condition: Expr = conditions[0]
    if len(conditions) > 1:
        condition = Logic(type="boolean", kind="and", args=tuple(conditions), loc=condition.loc)
    kept: list[list[Span]] = [[] for _ in table.region_names]
    for lo, hi, region, (holds,) in runs([condition], leaf.use, evaluate):
        if holds == "t":
            kept[region].append((lo, hi))
    use = TableUse.of(table, [spans_of(chunks) for chunks in kept])
    found = on_chunks(use, leaf.number, form)
    what = "chunks" if table.regions is None else "runs"
    says = (f"{show.expression(condition)} keeps {use.count} of {leaf.use.count} {what}; one segment meets at most "
            f"{found.changes[table.camera.name].tau // table.max_rows} of them")
    found.derivation.update(step(RULE, says, found.bound, [below.derivation]))
    return found
