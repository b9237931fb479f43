"""COUNT(DISTINCT value): COUNT after DISTINCT.

Proof: count_distinct.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privid.model import Evaluate

from .. import show
from ..certificate import Bound, Cells, Certificate, step
from ..expressions import Scope
from ..tree import Aggregate, Expr, NullTest
from . import count, distinct, filter_rows, having

__all__ = ["RULE", "bound"]

RULE = "count distinct"


def bound(agg: Aggregate, row: Certificate, scope: Scope, cells: Cells, group: Sequence[Expr], evaluate: Evaluate) -> Bound:
    value = agg.args[0]
    if scope.facts(value).nullable and row.join is None:
        present = [NullTest(type="boolean", args=(value,), negated=True)]
        row = having.certify(present, row, scope) if row.keyed else filter_rows.certify(present, row)
    once = distinct.certify((*group, value), row, scope, evaluate, ["distinct"])
    if once.keyed or not row.keyed:
        # the groups of the release are columns of the distinct rows
        cells = replace(cells, within_key=once.keyed)
    whole = replace(agg, args=(), star=True, distinct=False)
    found = count.bound(whole, once, Scope.of(once), cells)
    says = f"{show.aggregate(agg)} counts distinct rows"
    return replace(found, linear=once.linear, derivation=step(RULE, says, found.derivation["bound"], [once.derivation]))
