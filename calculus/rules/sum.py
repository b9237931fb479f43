"""SUM(range(value, low, high)).

Proof: sum.md.
"""

from __future__ import annotations

from privid.errors import NoRule

from .. import show
from ..certificate import Bound, Row, step
from ..linear import dense_bound, row_bound
from ..tree import Aggregate, position
from .clamp import clamp_of

__all__ = ["IDENTITIES", "RULE", "bound"]

RULE = "sum"
IDENTITIES = ("pg_catalog.sum(numeric)", "pg_catalog.sum(float8)")


def bound(agg: Aggregate, row: Row, keys: int) -> Bound:
    value = agg.args[0] if agg.args else None
    if agg.distinct:
        raise NoRule("sum(DISTINCT …) has no rule", position=position(agg.loc), detail="The rule for DISTINCT is missing.",
                     hint="Sum all rows: sum(range(value, low, high)).")
    clamp = clamp_of(value, row.derivation) if value is not None and agg.name == IDENTITIES[0] else None
    if clamp is None:
        inside = show.expression(value) if value is not None else "value"
        raise NoRule(f"{show.aggregate(agg)} has no rule without a range", position=position(agg.loc),
                     detail="One row could change the sum by any amount, so no noise would hide it.",
                     hint=f"Write sum(range({inside}, low, high)) with the bounds that matter to you, "
                          f"for example sum(range({inside}, 0, 10)).")
    candidates = [row_bound(row.tau, clamp.single, clamp.pair, keys)]
    if row.sigma is not None:
        candidates.append(dense_bound(row.sigma, clamp.single, clamp.pair, keys))
    delta = min(candidates)
    table = row.use.table
    says = f"{show.aggregate(agg)} changes by at most {show.number(delta)}" + (f" over {keys} keys together" if keys > 1 else "")
    return Bound(delta, clamp.step, clamp.single * table.max_rows * row.use.count,
                 step(RULE, says, f"δ={show.number(delta)}", [clamp.derivation]))
