"""COUNT(*) and COUNT(value).

Proof: count.md.
"""

from __future__ import annotations

from fractions import Fraction

from privid.errors import NoRule

from .. import show
from ..certificate import Bound, Row, step
from ..expressions import nullable
from ..linear import dense_bound, row_bound
from ..tree import Aggregate, position

__all__ = ["IDENTITIES", "RULE", "bound"]

RULE = "count"
IDENTITIES = ("pg_catalog.count()", "pg_catalog.count(any)")
_ONE, _ZERO = Fraction(1), Fraction(0)


def bound(agg: Aggregate, row: Row, keys: int) -> Bound:
    if agg.distinct:
        raise NoRule("count(DISTINCT …) has no rule", position=position(agg.loc), detail="The rule for DISTINCT is missing.",
                     hint="Count rows instead, or let the executable output each object once: count(*).")
    # every row counts 1, unless the value can be NULL: then one row may count 1 where another counts 0
    every = not any(map(nullable, agg.args))
    pair = _ZERO if every else _ONE
    candidates = [row_bound(row.tau, _ONE, pair, keys)]
    if row.sigma is not None:
        candidates.append(dense_bound(row.sigma, _ONE, pair, keys))
    if every and keys == 1:
        candidates.append(Fraction(row.n))
    delta = min(candidates)
    table = row.use.table
    says = f"{show.aggregate(agg)} changes by at most {delta}" + (f" over {keys} keys together" if keys > 1 else "")
    return Bound(delta, _ONE, Fraction(table.max_rows * row.use.count), step(RULE, says, f"δ={delta}", [row.derivation]))
