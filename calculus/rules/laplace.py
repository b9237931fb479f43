"""The mechanism of linear releases: discrete Laplace noise on the grid of the values.

Proof: laplace.md.
"""

from __future__ import annotations

from fractions import Fraction

from privid.errors import InvalidValue
from privid.model import Output
from privid.udf.interval import error95
from privid.udf.noise import MAX_SCALE, MAX_VALUE

from .. import show
from ..certificate import Bound
from ..tree import Aggregate, position

__all__ = ["RULE", "output"]

RULE = "discrete Laplace"


def output(agg: Aggregate, bound: Bound, share: Fraction, k: int) -> Output:
    """The noise that hides one segment, k times over, within the share of epsilon."""
    label = show.aggregate(agg)
    if bound.sensitivity and bound.largest / bound.step > MAX_VALUE:
        raise InvalidValue(f"{label} can exceed what the noise is exact for", position=position(agg.loc),
                           detail=f"It can reach {float(bound.largest):g} in steps of {float(bound.step):g}.",
                           hint="Use a narrower range, a shorter window or a smaller max_rows.")
    scale = k * bound.sensitivity / share if bound.sensitivity else Fraction(0)
    if scale / bound.step > MAX_SCALE or scale * share / bound.step > MAX_VALUE:
        raise InvalidValue(f"noise for {label} would be too large to be exact", position=position(agg.loc),
                           detail=f"Its scale would be {float(scale):g} in steps of {float(bound.step):g}.",
                           hint="Raise privid.epsilon, or use a narrower range.")
    return Output(label=label, type=agg.type, step=bound.step, sensitivity=bound.sensitivity, scale=scale, epsilon=share,
                  error95=error95(scale, bound.step))
