"""One aggregate of a release before epsilon is shared out: what it collects, what a segment costs it, and its noise for a share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from privid.model import Camera, Collect, Collected, Mechanism, Output, Quantile, Spread

from .certificate import Bound, Derivation
from .rules import laplace
from .tree import Aggregate

__all__ = ["Draft", "Part", "linear"]


@dataclass(frozen=True)
class Part:
    """One number that is collected for each group and gets noise of its own."""

    what: Collect
    #: noise scale for each unit of the draft's weight, at epsilon 1
    unit: Fraction
    #: the grid on which value and noise live
    step: Fraction
    #: no value is larger, in absolute value
    largest: Fraction
    #: of bins: where each but the first begins
    edges: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draft:
    agg: Aggregate
    mechanism: Mechanism
    #: by camera: the loss to one of its segments, at scale 1
    weights: Mapping[str, Fraction]
    parts: tuple[Part, ...]
    low: Fraction | None
    high: Fraction | None
    step: Fraction
    #: bounds that the inner query puts the argument through
    collect: tuple[str, str] | None
    derivation: Derivation = field(compare=False)
    spread: Spread | None = None
    quantile: Quantile | None = None
    #: of no rows it is 0, and not NULL
    counts: bool = False
    #: by how much the answer itself may change, where that is a number
    sensitivity: Fraction | None = None
    #: in proportion to the chunks a segment meets
    linear: bool = True
    #: some segment can change rows: then nothing leaves but what has been put on the grid, with noise or, where it cannot change, without
    protected: bool = True
    #: the value of each group, where it is public: nothing is collected for it
    public: tuple[str | None, ...] | None = None

    @property
    def noisy(self) -> bool:
        return any(self.weights.values())

    def weight(self, cameras: Mapping[str, Camera]) -> Fraction:
        """K times the loss, over the cameras (calculus 7.5: the paper's sum)."""
        return sum((cameras[name].k * weight for name, weight in self.weights.items()), Fraction(0))

    def columns(self, number: int) -> list[Collected]:
        """What the inner query collects for it."""
        if self.public is not None:
            return []
        low, high = self.collect or (None, None)
        if self.quantile is not None:
            # with noise or without: never PostgreSQL's own value, which is not one of the candidates
            return [Collected(number, part.what, low, high, part.edges, self.quantile.digits) for part in self.parts]
        if not self.protected and not self.constant:
            return [Collected(number)]
        return [Collected(number, part.what, *((low, high) if part.what is not Collect.COUNT else (None, None))) for part in self.parts]

    @property
    def constant(self) -> bool:
        """A range of one value: the answer is that value, whether or not there are rows."""
        return self.low is not None and self.low == self.high

    def output(self, share: Fraction, weight: Fraction, collects: tuple[int, ...]) -> Output:
        return laplace.output(self, share, weight, collects)


def linear(agg: Aggregate, bound: Bound, collect: tuple[str, str] | None) -> Draft:
    """Count and sum: noise on the number itself."""
    part = Part(Collect.VALUE if collect is None else Collect.SUM, Fraction(1), bound.step, bound.largest)
    return Draft(agg, Mechanism.LAPLACE, bound.by_camera, (part,), None, None, bound.step, collect, bound.derivation,
                 sensitivity=bound.sensitivity, linear=bound.linear, counts=True)
