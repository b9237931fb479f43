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
from .sum import changed_by, summand

__all__ = ["IDENTITIES", "RULE", "draft", "is_size_public"]

RULE = "average"
IDENTITIES = tuple(f"pg_catalog.avg({t})" for t in ("numeric", "float8", "int8", "int4"))


def is_size_public(row: Certificate, cells: Cells) -> bool:
    """Whether every group has the same number of rows in all versions, of every camera: dense, and no key that a row may change."""
    return cells.untrusted == 1 and bool(row.changes) and all(one.sigma is not None for one in row.changes.values())


def draft(agg: Aggregate, row: Certificate, scope: Scope, cells: Cells) -> Draft:
    clamp = summand(agg, row, scope)
    width, several = clamp.high - clamp.low, 2 if cells.untrusted > 1 else 1
    if is_size_public(row, cells):
        # around the middle the sum is less by what is the same in both versions, so it changes as the sum does
        weights, unit_sum, unit_count = changed_by(agg, clamp, row, scope, cells), Fraction(1), Fraction(0)
        says = "the number of rows is public, so only the sum is noisy"
        bound = f"delta={show.number(sum(weights.values(), Fraction(0)))} of the sum"
    else:
        factor = several * (2 if row.keyed else 1)
        weights = {name: Fraction(one.tau * factor) for name, one in row.changes.items()}
        unit_sum, unit_count = width, Fraction(2)
        says = "sum around the middle of the range and count, released together: a swap costs the sum, a row more costs half of each"
        bound = f"Delta={show.number(sum(weights.values(), Fraction(0)))} rows, width {show.number(width)}"
    if not width:
        weights = {name: Fraction(0) for name in weights}  # one value: the average is that value
    derivation = step(RULE, f"{show.aggregate(agg)}: {says}", bound, [clamp.derivation])
    half = clamp.step / 2
    parts = (Part(Collect.COUNT, unit_count, Fraction(1), Fraction(row.rows)), Part(Collect.SUM, unit_sum, half, row.rows * width / 2))
    return Draft(agg, Mechanism.AVERAGE, weights, parts, clamp.low, clamp.high, clamp.step, clamp.collect, derivation)
