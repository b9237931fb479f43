"""WHERE on trusted columns: fewer chunks run, fewer frames are charged, fewer chunks can be touched.

Proof: choose_chunks.md.
"""

from __future__ import annotations

from privid.model import Evaluate

from .. import show
from ..algebra import Choose
from ..certificate import Row, step
from ..chunks import spans_of, values
from ..tree import Expr, Logic
from .base_table import on_chunks

__all__ = ["RULE", "certify"]

RULE = "choose chunks"


def certify(node: Choose, below: Row, evaluate: Evaluate) -> Row:
    table = below.use.table
    condition: Expr = node.conditions[0]
    if len(node.conditions) > 1:
        condition = Logic(type="boolean", kind="and", args=node.conditions, loc=condition.loc)
    kept = spans_of(j for j, (holds,) in values([condition], table, below.use.chunks, evaluate) if holds == "t")
    row = on_chunks(table, kept)
    says = (f"{show.expression(condition)} keeps {row.use.count} of {below.use.count} chunks; one segment meets at most "
            f"{row.tau // table.max_rows} of them")
    return Row(row.tau, row.n, row.sigma, row.use, step(RULE, says, row.bound, [below.derivation]))
