"""Aggregates of a GROUP BY in a subquery: which of them only rise as rows are added, and what they add up to over all groups.

Proof: inner_aggregates.md.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from privid.errors import NoRule

from .. import show
from ..alike import check_keys
from ..certificate import AnyRelation, Certificate, Change, Extreme, Facts, Interval, Listed, Motion
from ..expressions import Scope, columns_of, conjuncts
from ..functions import names
from ..tree import Aggregate, Col, Expr, bare, position

__all__ = ["RULE", "describe", "increments", "ups"]

RULE = "aggregate of groups"
_ZERO, _ONE = Fraction(0), Fraction(1)
_EXTREMES = {"min", "max"}
_LARGEST = 10 ** 300
#: of values of an exact type alone
_EXACT = {"sum", "avg", "variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp"}


def describe(agg: Aggregate, below: AnyRelation, scope: Scope, monotone: bool) -> Facts:
    """The aggregate as a column: bounds of a count, and of what lies among the bounded values of the group's rows; whether it rises.
    `monotone`: from the core to a version rows are only added to a group."""
    name = names(agg.name)[1]
    _check(agg, scope)
    motion = Motion.RISES if _rises(agg, below, scope, monotone) else Motion.ANY
    if name == "count":
        return Facts(agg.type, nullable=False, low=_ZERO, high=Fraction(max(1, below.rows)), grid=_ONE, motion=motion)
    value = scope.facts(agg.args[0])
    if name in _EXTREMES:
        return replace(_among(agg, value, below), motion=motion, extreme=_extreme(agg, below, scope) if monotone else None)
    if name not in _EXACT:
        raise NoRule(f"aggregate {show.signature(agg.name)} has no rule", position=position(agg.loc),
                     detail=f"The rule for {name} is missing.", hint="Use count, sum, avg, min, max, variance or stddev.")
    if value.grid is None or value.type == "float8":
        raise NoRule(f"{show.aggregate(agg)} has no rule in a subquery without a range", position=position(agg.loc),
                     detail="A sum of float8 depends on the order of its rows, and with it which rows a condition keeps.",
                     hint=f"Write {name}({show.in_range(show.expression(agg.args[0]), 'low', 'high')}), for example "
                          f"{name}({show.in_range(show.expression(agg.args[0]), *_bounds_of(value))}).")
    if name == "avg":
        return replace(_among(agg, value, below), grid=None)
    return Facts(agg.type, grid=value.grid if name == "sum" else None, motion=motion)


def _bounds_of(value: Facts) -> tuple[str, str]:
    return ("0", "10") if value.low is None or value.high is None else (show.number(value.low), show.number(value.high))


def _among(agg: Aggregate, value: Facts, below: AnyRelation) -> Facts:
    """Of an aggregate that lies among the values of a group, if it has any: bounded as they are. A FILTER may leave it none; a key
    without a match has none."""
    if value.low is None or agg.filter is not None or isinstance(below, Listed):
        return Facts(agg.type)
    return Facts(agg.type, nullable=False, low=value.low, high=value.high, grid=value.grid)


def ups(agg: Aggregate, below: Certificate, scope: Scope, camera: str, added: bool) -> Interval | None:
    """Bounds of the aggregate's sum over all groups of a version less that over the core; NULL adds nothing.

    `added`: the relation below is ROW, and its versions add at most τ rows to the core.
    """
    one, name = below.changes[camera], names(agg.name)[1]
    tau = one.tau
    value = scope.facts(agg.args[0]) if agg.args else None
    if name == "count":
        if added:
            return _ZERO, Fraction(tau)
        every = agg.filter is None and (value is None or not value.nullable) and (not agg.distinct or _of_key(agg.args[0], below))
        return (Fraction(-one.vanish), Fraction(one.appear)) if every else (Fraction(-tau), Fraction(tau))
    if value is None or value.low is None or value.high is None or agg.distinct:
        return None
    low, high, half = min(value.low, _ZERO), max(value.high, _ZERO), (value.high - value.low) / 2
    if name == "sum":
        if added:
            return tau * low, tau * high
        # what a FILTER leaves out adds nothing, so a key may go from nothing to any value and back
        found = increments(value.low, value.high, value.motion, one) if agg.filter is None else increments(low, high, Motion.ANY, one)
        return tau * found[0], tau * found[1]
    if name == "avg" and added and agg.filter is None:
        return tau * min(low, -half), tau * max(high, half)
    return None


def increments(low: Fraction, high: Fraction, motion: Motion, change: Change) -> Interval:
    """By how much a key can change a sum of a value in these bounds, from the core to a version (Theorem 3)."""
    ends = [_ZERO]
    if motion is Motion.ANY:
        ends.append(low - high)
    if motion is not Motion.STAYS:
        ends.append(high - low)
    if change.appear:
        ends += [low, high]
    if change.vanish:
        ends += [-low, -high]
    return min(ends), max(ends)


def _check(agg: Aggregate, scope: Scope) -> None:
    for expr in (*agg.args, *conjuncts(agg.filter)):
        scope.check(expr)
    if names(agg.name)[1] in _EXTREMES:
        check_keys(agg.args)  # of equal values one stands for all
    if agg.distinct and names(agg.name)[1] not in ("count", *_EXTREMES):
        name = names(agg.name)[1]
        raise NoRule(f"{name}(DISTINCT ...) has no rule", position=position(agg.loc), detail="The rule for DISTINCT is missing.",
                     hint=f"Make the rows distinct in a subquery: SELECT {name}(v) FROM (SELECT DISTINCT ...) q.")


def _extreme(agg: Aggregate, below: AnyRelation, scope: Scope) -> Extreme | None:
    """Of the column chunk itself, which is never NULL and has a difference of any two of its values."""
    value, last = bare(agg.args[0]), names(agg.name)[1] == "max"
    if agg.filter is not None or value.type != "timestamptz" or not isinstance(value, Col) or not scope.trusted(value):
        return None
    if scope.facts(value).nullable or not _is_chunk(value, scope) or not _has_differences(below):
        return None
    return Extreme.LAST if last else Extreme.FIRST


def _is_chunk(value: Expr, scope: Scope) -> bool:
    """Whether it is the column chunk of every scan that rows come from, and nothing computed from it: that may be any moment, or none."""
    cells = scope.cells(value)
    return set(cells) == set(scope.leaves) and all(isinstance(cell := bare(one), Col) and cell.name == "chunk" for one in cells.values())


def _has_differences(below: AnyRelation) -> bool:
    """Whether the first and the last moment of all tables that are read are so near that PostgreSQL has the time between them."""
    tables = [leaf.use.table for leaf in below.leaves]
    ends = [table.chunk_microseconds(chunk) for table in tables for chunk in (0, max(table.grid.count - 1, 0))]
    return bool(ends) and max(ends) - min(ends) < 1 << 62


def _of_key(expr: Expr, below: Certificate) -> bool:
    return below.key is not None and columns_of(expr) <= below.key


def _has_double(value: Facts, rows: int = 1) -> bool:
    """Whether the value, and every sum of so many, is far from the largest number of double precision."""
    return value.high is not None and value.high * max(1, rows) <= _LARGEST


def _rises(agg: Aggregate, below: AnyRelation, scope: Scope, monotone: bool) -> bool:
    """Whether the aggregate of a group that stays does not fall."""
    name = names(agg.name)[1]
    value = scope.facts(agg.args[0]) if agg.args else None
    # an unbounded value may be NaN, which is the largest of all and for range the least; one that double precision does not have is NULL
    # for whatever takes it so
    positive = value is not None and value.low is not None and value.low >= 0 and _has_double(value, below.rows)
    bounded = value is not None and value.low is not None and _has_double(value)
    if monotone:
        return name == "count" or (name == "max" and bounded) or (name == "sum" and positive and not agg.distinct)
    if not isinstance(below, Certificate) or not below.keyed or agg.filter is not None:
        return False
    if any(one.vanish for one in below.changes.values()):
        return False
    steady = value is None or (not value.nullable and value.motion is not Motion.ANY)
    if name == "count":
        return value is None or (not value.nullable and not agg.distinct) or (not value.nullable and _of_key(agg.args[0], below))
    return steady and ((name == "max" and bounded) or (name == "sum" and positive and not agg.distinct))
