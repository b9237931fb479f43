"""ARGMAX: the group with the largest count or sum, by permute-and-flip.

Proof: argmax.md.
"""

from __future__ import annotations

from fractions import Fraction

from privid.model import Camera, Collect, Mechanism, Output

from .. import show
from ..certificate import Bound, step
from ..draft import Draft, Part
from ..tree import Aggregate
from . import laplace

__all__ = ["RULE", "draft", "output"]

RULE = "argmax"


def draft(agg: Aggregate, bound: Bound, collect: tuple[str, str] | None) -> Draft:
    """The scores' range: by how much one may rise against another. `bound` is in the L1 sense over all groups."""
    weights = dict(bound.by_camera)
    delta = max(weights.values(), default=Fraction(0))
    says = f"{show.aggregate(agg)} of one candidate may rise by at most {show.number(delta)} against another"
    part = Part(Collect.VALUE if collect is None else Collect.SUM, Fraction(1), bound.step, bound.largest)
    derivation = step(RULE, says, f"Delta={show.number(delta)}", [bound.derivation])
    return Draft(agg, Mechanism.PERMUTE, weights, (part,), None, None, bound.step, collect, derivation, sensitivity=delta,
                 linear=bound.linear, counts=True)


def output(found: Draft, epsilon: Fraction, cameras: dict[str, Camera], collects: tuple[int, ...], candidates: int) -> Output:
    """One camera at a time (calculus 6.4): the scale serves the camera that needs most."""
    weight = max((cameras[name].k * delta for name, delta in found.weights.items()), default=Fraction(0))
    scale = weight / epsilon if weight else Fraction(0)
    part = found.parts[0]
    laplace.check(found.agg, part.largest, part.step, scale, epsilon)
    # with probability 95 % the winner is this close to the best
    error = scale * Fraction(show.log(20 * max(candidates, 1))) if scale else Fraction(0)
    return Output(label=f"argmax of {show.aggregate(found.agg)}", type=found.agg.type, step=part.step,
                  sensitivity=found.sensitivity or Fraction(0), scale=scale, epsilon=epsilon if scale else Fraction(0), error95=error,
                  mechanism=Mechanism.PERMUTE, collects=collects)
