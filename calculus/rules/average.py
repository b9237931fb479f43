"""AVG: a noisy sum around the middle of the range and a noisy count, released together, then divided.

Proof: average.md.
"""

from __future__ import annotations

from fractions import Fraction

from privid.model import Collect, Mechanism

from .. import show
from ..certificate import Cells, Certificate, step
from ..draft import Draft, Part
from ..expressions import Scope
from ..tree import Aggregate
from .sum import summand

__all__ = ["IDENTITIES", "RULE", "draft"]

RULE = "average"
IDENTITIES = tuple(f"pg_catalog.avg({t})" for t in ("numeric", "float8", "int8", "int4"))


def draft(agg: Aggregate, row: Certificate, scope: Scope, cells: Cells) -> Draft:
    clamp = summand(agg, row, scope)
    width, several = clamp.high - clamp.low, 2 if cells.untrusted > 1 else 1
    if cells.untrusted == 1 and row.changes and all(one.sigma is not None for one in row.changes.values()):
        # the number of rows is public: nothing but the sum needs noise
        weights = {name: Fraction(one.sigma or 0) for name, one in row.changes.items()}
        unit_sum, unit_count, says = width, Fraction(0), "the number of rows is public, so only the sum is noisy"
    else:
        factor = several * (2 if row.keyed else 1)
        weights = {name: Fraction(one.tau * factor) for name, one in row.changes.items()}
        unit_sum, unit_count = width, Fraction(2)
        says = "sum around the middle of the range and count, released together: a swap costs the sum, a row more costs half of each"
    if not width:
        weights = {name: Fraction(0) for name in weights}  # one value: the average is that value
    weight = show.number(sum(weights.values(), Fraction(0)))
    derivation = step(RULE, f"{show.aggregate(agg)}: {says}", f"Delta={weight} rows, width {show.number(width)}", [clamp.derivation])
    half = clamp.step / 2
    parts = (Part(Collect.COUNT, unit_count, Fraction(1), Fraction(row.rows)), Part(Collect.SUM, unit_sum, half, row.rows * width / 2))
    return Draft(agg, Mechanism.AVERAGE, weights, parts, clamp.low, clamp.high, clamp.step, clamp.collect, derivation)
