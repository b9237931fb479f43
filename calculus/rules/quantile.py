"""percentile_cont and percentile_disc of a constant fraction: one of the points of a public grid, by permute-and-flip on ranks.

Proof: quantile.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

from privid.errors import InvalidValue, NoRule
from privid.model import Collect, Mechanism, Output, Quantile

from .. import show
from ..certificate import Cells, Certificate, Change, step
from ..draft import Draft, Part
from ..expressions import Scope
from ..facts import WHOLE, unwidened
from ..tree import Aggregate, Const, position
from . import laplace
from .clamp import Clamp, clamp_of

__all__ = ["BINS", "IDENTITIES", "RULE", "draft", "output"]

RULE = "quantile"
IDENTITIES = ("pg_catalog.percentile_cont(float8,float8)", "pg_catalog.percentile_disc(float8,anyelement)")
#: the range is divided into at most so many even parts
BINS = 100
#: a fraction is a whole number of these
_FINEST = 10_000
#: digits of each number beyond those of the most rows that there can be
_SPARE = 2


def draft(agg: Aggregate, row: Certificate, scope: Scope, cells: Cells) -> Draft:
    fraction, clamp = _fraction(agg), _value(agg, row, scope)
    points = _candidates(clamp)
    _check_double(agg, clamp)
    factor = 4 if cells.untrusted > 1 else 2
    weights = {name: Fraction(factor * _rows(one, row.keyed)) if len(points) > 1 else Fraction(0) for name, one in row.changes.items()}
    delta = sum(weights.values(), Fraction(0))
    says = (f"{show.aggregate(agg)}: one of {len(points)} points of [{show.number(clamp.low)}, {show.number(clamp.high)}], "
            "by its distance in ranks")
    found = Quantile(fraction, _texts(points, agg.type), len(str(row.rows)) + _SPARE)
    edges = tuple(_decimal((a + b) / 2) for a, b in pairwise(points))
    part = Part(Collect.BINS, Fraction(1), Fraction(1, fraction.denominator), Fraction(row.rows), edges)
    return Draft(agg, Mechanism.QUANTILE, weights, (part,), clamp.low, clamp.high, part.step, clamp.collect,
                 step(RULE, says, f"Delta={show.number(delta)} ranks", [clamp.derivation]), sensitivity=delta, quantile=found)


def output(found: Draft, share: Fraction, weight: Fraction, collects: tuple[int, ...]) -> Output:
    """The scale for which scores that move apart by the weight cost the share."""
    assert found.quantile is not None
    (part,), noisy = found.parts, found.noisy
    scale = weight / share if noisy else Fraction(0)
    laplace.check(found.agg, part.largest, part.step, scale, share)
    # some candidate has the very rank: with probability 95 % the winner is this close to it
    error = scale * Fraction(show.log(20 * len(found.quantile.candidates))) if noisy else Fraction(0)
    return Output(label=show.aggregate(found.agg), type=found.agg.type, step=part.step, sensitivity=found.sensitivity or Fraction(0),
                  scale=scale, epsilon=share if noisy else Fraction(0), error95=error, mechanism=Mechanism.QUANTILE, counts=False,
                  collects=collects, low=found.low, high=found.high, quantile=found.quantile)


def _rows(one: Change, keyed: bool) -> int:
    """So many rows leave at most, and so many come: of a KEY relation a changed row is both; of a dense one no more than slots differ."""
    rows = 2 * one.tau if keyed else one.tau
    return rows if one.sigma is None else min(rows, one.sigma)


def _value(agg: Aggregate, row: Certificate, scope: Scope) -> Clamp:
    """What is put in order, or a refusal."""
    name, value = show.name(agg), unwidened(agg.args[-1])
    if agg.distinct:
        raise NoRule(f"{name}(DISTINCT ...) has no rule", position=position(agg.loc), detail="The rule for DISTINCT is missing.",
                     hint="Make the rows distinct in a subquery.")
    clamp = clamp_of(value, scope, row.derivation)
    if clamp is None:
        inside, fraction = show.expression(value), show.expression(unwidened(agg.args[0]))
        written = [show.quantile(name, fraction, show.in_range(inside, *bounds)) for bounds in (("low", "high"), (0, 10))]
        raise NoRule(f"{show.aggregate(agg)} has no rule without a range", position=position(agg.loc),
                     detail="The answer is one of the points of a grid between two bounds that the statement or the table declares.",
                     hint=f"Write {written[0]} with the bounds that matter to you, for example {written[1]}.")
    return clamp


def _fraction(agg: Aggregate) -> Fraction:
    """A constant of few digits: ranks are compared in whole numbers."""
    given = unwidened(agg.args[0]) if len(agg.args) == 2 else None
    value = None
    if isinstance(given, Const) and given.value is not None and given.type in ("float8", "numeric", "int4", "int8"):
        number = Decimal(given.value)
        value = Fraction(number) if number.is_finite() else None
    if value is None or not 0 <= value <= 1 or _FINEST % value.denominator:
        example = show.quantile(show.name(agg), "0.5", show.expression(unwidened(agg.args[-1])))
        raise NoRule(f"fraction of {show.name(agg)} must be a constant between 0 and 1 with at most four decimals",
                     position=position(agg.loc), detail="It decides the scores, and must not depend on what the video shows.",
                     hint=f"For example {example}.")
    return value


def _candidates(clamp: Clamp) -> list[Fraction]:
    """Points of the value's own grid, an even number of steps apart, from the lower to the upper bound; all of them if they are few."""
    steps = int((clamp.high - clamp.low) // clamp.step)
    apart = max(1, -(-steps // BINS))
    points = [clamp.low + i * clamp.step for i in range(0, steps + 1, apart)]
    return points if points[-1] == clamp.high else [*points, clamp.high]


def _check_double(agg: Aggregate, clamp: Clamp) -> None:
    """percentile_cont is of double precision, whatever is put in order."""
    if agg.type == "float8" and max(abs(clamp.low), abs(clamp.high)) > Fraction(sys.float_info.max):
        raise InvalidValue(f"{show.aggregate(agg)} has bounds that double precision does not have", position=position(agg.loc),
                           hint="Use a narrower range, or percentile_disc.")


def _texts(points: Sequence[Fraction], type_: str) -> tuple[str, ...]:
    """As the column's type prints them."""
    if type_ == "float8":
        return tuple(repr(float(point)).removesuffix(".0") for point in points)
    if type_ in WHOLE:
        return tuple(str(int(point)) for point in points)
    texts = [_decimal(point) for point in points]
    places = max(len(text.partition(".")[2]) for text in texts)
    return tuple(f"{Decimal(text):.{places}f}" for text in texts)


def _decimal(value: Fraction) -> str:
    """Without an exponent; exact, since grids are powers of ten."""
    with localcontext() as context:
        context.prec = value.numerator.bit_length() + value.denominator.bit_length() + 1  # more than there are digits
        text = f"{Decimal(value.numerator) / Decimal(value.denominator):f}"
    if Fraction(text) != value:
        raise ValueError(f"{value} has no decimal form")
    return text.rstrip("0").rstrip(".") if "." in text else text
