"""LIMIT in a subquery: the first rows in an order that the rows themselves decide.

Proof: limit.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from privid.errors import NoRule

from .. import show
from ..certificate import Certificate, Change, Place, Rows, step
from ..tree import Const, Expr, position

__all__ = ["RULE", "certify"]

RULE = "limit"


def certify(limit: Expr, below: Certificate, form: Any) -> Certificate:
    if not isinstance(limit, Const) or limit.value is None or not limit.value.isdigit():
        raise NoRule("LIMIT has no rule for a count that is not a constant", position=position(limit.loc),
                     detail="The bound follows from the number of rows that are kept.",
                     hint="Write LIMIT with a number, for example LIMIT 100.")
    count = int(limit.value)

    def change(one: Change) -> Change:
        tau = min(2 * one.tau if below.keyed else one.tau, count)
        return Change(tau=tau, n=min(one.n, tau))

    # which rows of a cell are kept depends on the other cells
    columns = {number: replace(facts.unmoved(), place=Place.LISTED if facts.place is Place.CELL else facts.place)
               for number, facts in below.columns.items()}
    found = replace(below, columns=columns, kind=Rows(), changes=below.each(change), rows=min(below.rows, count), full=False, linear=False,
                    form=form)
    says = f"the first {show.number(count)} rows, in an order of the rows' contents"
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))
