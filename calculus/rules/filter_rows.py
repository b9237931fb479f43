"""WHERE, or FILTER of one aggregate, on what the executable outputs: the rows kept are no longer public in number.

Proof: filter_rows.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import show
from ..certificate import Certificate, Change, step
from ..tree import Expr

__all__ = ["RULE", "certify"]

RULE = "filter rows"


def certify(conditions: Sequence[Expr], below: Certificate) -> Certificate:
    """For ROW relations; having.py is for KEY."""

    def change(one: Change) -> Change:
        return replace(one, n=one.tau, sigma=None, ups={})

    found = replace(below, changes=below.each(change), full=False)
    says = f"{' AND '.join(map(show.expression, conditions))}: decided row by row, without errors"
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))
