"""WHERE on trusted columns: fewer chunks run, fewer frames are charged, fewer chunks can be touched.

Proof: choose_chunks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privid.model import Evaluate

from .. import show
from ..certificate import Certificate, step
from ..chunks import spans_of, values
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
    kept = spans_of(j for j, (holds,) in values([condition], table, leaf.use.chunks, evaluate) if holds == "t")
    found = on_chunks(table, kept, leaf.number, form)
    change = found.changes[table.camera.name]
    says = (f"{show.expression(condition)} keeps {found.leaves[0].use.count} of {leaf.use.count} chunks; one segment meets at most "
            f"{change.tau // table.max_rows} of them")
    found.derivation.update(step(RULE, says, found.bound, [below.derivation]))
    return found
