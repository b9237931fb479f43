"""The mechanism of linear releases: discrete Laplace noise on the grid of the values.

Proof: laplace.md.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from privid.errors import InvalidValue
from privid.model import Mechanism, Output
from privid.udf.interval import error95
from privid.udf.noise import MAX_SCALE, MAX_VALUE

from .. import show
from ..tree import Aggregate, position

if TYPE_CHECKING:
    from ..draft import Draft

__all__ = ["RULE", "check", "output"]

RULE = "discrete Laplace"


def output(draft: Draft, share: Fraction, weight: Fraction, collects: tuple[int, ...]) -> Output:
    """The noise that hides one segment, k times over, within the share of epsilon."""
    agg, label = draft.agg, show.aggregate(draft.agg)
    if draft.public is not None:
        return Output(label=label, type=agg.type, step=draft.step, sensitivity=Fraction(0), scale=Fraction(0), epsilon=Fraction(0),
                      error95=Fraction(0), mechanism=Mechanism.EXACT, public=draft.public)
    if not draft.noisy:
        # of what has parts, and is protected, they are collected, and put together as if they had noise
        apart = draft.constant or (draft.protected and len(draft.parts) > 1)
        return Output(label=label, type=agg.type, step=draft.step, sensitivity=Fraction(0), scale=Fraction(0), epsilon=Fraction(0),
                      error95=Fraction(0), mechanism=draft.mechanism if apart else Mechanism.EXACT, collects=collects,
                      counts=draft.counts, protected=draft.protected,
                      scales=(Fraction(0),) * len(draft.parts) if apart else (), low=draft.low, high=draft.high, spread=draft.spread)
    scales = tuple(part.unit * weight / share for part in draft.parts)
    for part, scale in zip(draft.parts, scales, strict=True):
        check(agg, part.largest, part.step, scale, share)
    if len(draft.parts) == 1:
        return Output(label=label, type=agg.type, step=draft.step, sensitivity=draft.sensitivity or Fraction(0), scale=scales[0],
                      epsilon=share, error95=error95(scales[0], draft.step), mechanism=draft.mechanism, collects=collects)
    assert draft.low is not None and draft.high is not None
    width = draft.high - draft.low
    # the answer is kept within its range, so it is never further off than that
    worst = width if draft.spread is None or draft.spread.root else width * width / 2
    changed = sum(draft.weights.values(), Fraction(0)) * draft.parts[1].unit
    return Output(label=label, type=agg.type, step=draft.step, sensitivity=changed, scale=scales[1], epsilon=share,
                  error95=worst, mechanism=draft.mechanism, collects=collects, scales=scales, low=draft.low, high=draft.high,
                  spread=draft.spread)


def check(agg: Aggregate, largest: Fraction, step: Fraction, scale: Fraction, share: Fraction) -> None:
    """Refuses what 64-bit integers cannot hold, before anything is charged."""
    label = show.aggregate(agg)
    if scale and largest / step > MAX_VALUE:
        raise InvalidValue(f"{label} can exceed what the noise is exact for", position=position(agg.loc),
                           detail=f"It can reach {show.number(largest)} in steps of {show.number(step)}.",
                           hint="Use a narrower range, a shorter window or a smaller max_rows.")
    if scale / step > MAX_SCALE or scale * share / step > MAX_VALUE:
        raise InvalidValue(f"noise for {label} would be too large to be exact", position=position(agg.loc),
                           detail=f"Its scale would be {show.number(scale)} in steps of {show.number(step)}.",
                           hint="Raise privid.epsilon, or use a narrower range.")
