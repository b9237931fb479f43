"""VARIANCE and STDDEV: noisy count, sum and sum of squares around the middle of the range, released together.

Proof: variance.md.
"""

from __future__ import annotations

from fractions import Fraction

from privid.model import Collect, Mechanism, Spread

from .. import show
from ..certificate import Cells, Certificate, step
from ..draft import Draft, Part
from ..expressions import Scope
from ..functions import names
from ..tree import Aggregate
from .sum import summand

__all__ = ["IDENTITIES", "RULE", "draft"]

RULE = "variance"
_SPREADS = {"variance": Spread.VAR_SAMP, "stddev": Spread.STDDEV_SAMP, **{spread.value: spread for spread in Spread}}
IDENTITIES = tuple(f"pg_catalog.{name}({t})" for name in _SPREADS for t in ("numeric", "float8"))
_UNITS = (Fraction(3), Fraction(9, 4), Fraction(9, 4))


def draft(agg: Aggregate, row: Certificate, scope: Scope, cells: Cells) -> Draft:
    clamp = summand(agg, row, scope)
    half = (clamp.high - clamp.low) / 2
    dense = cells.untrusted == 1 and row.changes and all(one.sigma is not None for one in row.changes.values())
    factor = (2 if cells.untrusted > 1 else 1) * (2 if row.keyed else 1)
    weights = {name: Fraction(0) if not half else Fraction((one.sigma or 0) if dense else one.tau * factor)
               for name, one in row.changes.items()}
    grid = clamp.step
    parts = (Part(Collect.COUNT, Fraction(0) if dense else _UNITS[0], Fraction(1), Fraction(row.rows)),
             Part(Collect.SUM, _UNITS[1] * half, grid / 2, row.rows * half),
             Part(Collect.SQUARES, _UNITS[2] * half * half, grid * grid / 8, row.rows * half * half))
    weight = show.number(sum(weights.values(), Fraction(0)))
    says = f"{show.aggregate(agg)}: {'' if dense else 'count, '}sum and squares around the middle of the range, released together"
    derivation = step(RULE, says, f"Delta={weight} rows, half width {show.number(half)}", [clamp.derivation])
    return Draft(agg, Mechanism.VARIANCE, weights, parts, clamp.low, clamp.high, clamp.step, clamp.collect, derivation,
                 spread=_SPREADS[names(agg.name)[1]])
