"""SELECT DISTINCT, and what UNION does after UNION ALL: equal rows become one.

Proof: distinct.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from privid.model import Evaluate

from .. import show
from ..certificate import AnyRelation, Certificate, Change, Joined, Listed, step
from ..expressions import Scope
from ..tree import Expr
from . import group_bins, group_rows, project

__all__ = ["RULE", "certify"]

RULE = "distinct"


def certify(columns: Sequence[Expr], below: AnyRelation, scope: Scope, evaluate: Evaluate, form: Any) -> Certificate:
    """Of the rows with these columns."""
    match below:
        case Joined() | Listed():
            return group_rows.certify(columns, (), below, scope, form)
        case Certificate():
            if below.keyed:
                return group_rows.certify(columns, (), below, scope, form)
            return _of_rows(columns, below, scope, evaluate, form)
        case _:
            assert_never(below)


def _of_rows(columns: Sequence[Expr], below: Certificate, scope: Scope, evaluate: Evaluate, form: Any) -> Certificate:
    if group_bins.applies(columns, scope):
        return group_bins.certify(columns, (), below, scope, evaluate, form)
    visible = project.certify(columns, below, scope, form)

    def change(one: Change) -> Change:
        return Change(tau=one.tau, n=one.tau)

    found = replace(visible, changes=visible.each(change), full=False)
    says = f"{', '.join(map(show.expression, columns))}: equal rows become one, so a row more is at most a value more"
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))
