"""COUNT(DISTINCT value): COUNT after DISTINCT.

Proof: count_distinct.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from privid.model import Evaluate

from .. import show
from ..certificate import Bound, Cells, Certificate, Joined, step
from ..expressions import Scope
from ..finite import values_of
from ..tree import Aggregate, Expr, NullTest
from . import count, distinct, filter_rows, having

__all__ = ["RULE", "bound"]

RULE = "count distinct"


def bound(agg: Aggregate, row: Certificate | Joined, scope: Scope, cells: Cells, group: Sequence[Expr], evaluate: Evaluate) -> Bound:
    value = agg.args[0]
    if isinstance(row, Certificate) and scope.facts(value).nullable:
        present = [NullTest(type="boolean", args=(value,), negated=True)]
        row = having.certify(present, row, scope) if row.keyed else filter_rows.certify(present, row)
    once = distinct.certify((*group, value), row, scope, evaluate, ["distinct"])
    if once.keyed or not (isinstance(row, Certificate) and row.keyed):
        # the groups of the release are columns of the distinct rows
        cells = replace(cells, within_key=once.keyed)
    whole = replace(agg, args=(), star=True, distinct=False)
    found = count.bound(whole, once, Scope.of(once), cells)
    says, labels = f"{show.aggregate(agg)} counts distinct rows", _labels(value, scope)
    if labels is None or all(one <= labels * len(cells.keys) for one in found.by_camera.values()):
        return replace(found, linear=once.linear, derivation=step(RULE, says, found.derivation["bound"], [once.derivation]))
    most = labels * len(cells.keys)
    by_camera = {name: min(one, Fraction(most)) for name, one in found.by_camera.items()}
    says += f", and there are at most {labels} values in each of {len(cells.keys)} groups"
    derivation = step(RULE, says, f"delta={show.number(sum(by_camera.values(), Fraction(0)))}", [once.derivation])
    # not in proportion to the chunks a segment meets: one chunk may change all that there is to change
    return replace(found, by_camera=by_camera, linear=False, derivation=derivation)


def _labels(value: Expr, scope: Scope) -> int | None:
    """How many values there are, where they are declared by a column, a type or the form of the expression; NULL is not counted."""
    found = values_of(value, scope)
    return None if found is None else sum(one is not None for one in found)
