"""WHERE, or FILTER of one aggregate, on what the executable outputs: the rows kept are no longer public in number.

Proof: filter_rows.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import show
from ..certificate import Row, step
from ..tree import Expr

__all__ = ["RULE", "certify"]

RULE = "filter rows"


def certify(conditions: Sequence[Expr], below: Row) -> Row:
    row = Row(tau=below.tau, n=below.tau, sigma=None, use=below.use)
    says = f"{' AND '.join(map(show.expression, conditions))}: decided row by row, without errors"
    return Row(row.tau, row.n, row.sigma, row.use, step(RULE, says, row.bound, [below.derivation]))
