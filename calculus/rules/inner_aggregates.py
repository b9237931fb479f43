"""Aggregates of a GROUP BY in a subquery: their bounds, which way they move as rows are added, and what they add up to over all groups.

Proof: inner_aggregates.md.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from privid.errors import NoRule

from .. import show
from ..certificate import Certificate, Facts, Interval
from ..expressions import Scope, columns_of, conjuncts
from ..functions import names
from ..tree import Aggregate, Expr, position

__all__ = ["RULE", "describe", "increments", "ups"]

RULE = "aggregate of groups"
_ZERO, _ONE = Fraction(0), Fraction(1)
_EXTREMES = {"min", "max"}
_SPREADS = {"variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp"}


def describe(agg: Aggregate, below: Certificate, scope: Scope, monotone: bool) -> Facts:
    """The aggregate as a column. `monotone`: from the core to a version rows are only added to a group."""
    name = names(agg.name)[1]
    _check(agg, scope)
    if name == "count":
        return Facts(agg.type, nullable=False, low=_ZERO, high=Fraction(below.rows), grid=_ONE, moves=_counted(agg, below, scope, monotone))
    value = scope.facts(agg.args[0])
    nullable = value.nullable or agg.filter is not None or below.listing is not None
    if name in _EXTREMES:
        return Facts(agg.type, nullable=nullable, low=value.low, high=value.high, grid=value.grid,
                     moves=_extreme(name == "max", value, nullable, below, monotone))
    if value.grid is None or value.type == "float8":
        raise NoRule(f"{show.aggregate(agg)} has no rule in a subquery without a range", position=position(agg.loc),
                     detail="A sum of float8 depends on the order of its rows, and with it which rows a condition keeps.",
                     hint=f"Write {name}(range({show.expression(agg.args[0])}, low, high)), for example "
                          f"{name}(range({show.expression(agg.args[0])}, 0, 10)).")
    if name == "sum":
        return _sum(agg, value, nullable, below, scope, monotone)
    if value.low is None or value.high is None:
        return Facts(agg.type, nullable=True)
    if name == "avg":
        return Facts(agg.type, nullable=nullable, low=value.low, high=value.high)
    if name in _SPREADS:
        width = value.high - value.low
        high = width * width / 2 if name.startswith("var") else width
        return Facts(agg.type, nullable=nullable or not name.endswith("pop"), low=_ZERO, high=high)
    raise NoRule(f"aggregate {show.signature(agg.name)} has no rule", position=position(agg.loc),
                 detail=f"The rule for {name} is missing.", hint="Use count, sum, avg, min, max, variance or stddev.")


def ups(agg: Aggregate, below: Certificate, scope: Scope, camera: str, added: bool) -> Interval | None:
    """Bounds of the aggregate's sum over all groups of a version less that over the core.

    `added`: the relation below is ROW, and its versions add at most τ rows to the core.
    """
    one, name = below.changes[camera], names(agg.name)[1]
    tau = one.tau
    value = scope.facts(agg.args[0]) if agg.args else None
    if name == "count":
        if added:
            return _ZERO, Fraction(tau)
        whole = agg.filter is None and (value is None or not value.nullable) and (not agg.distinct or _of_key(agg.args[0], below))
        return (Fraction(-one.vanish), Fraction(one.appear)) if whole else (Fraction(-tau), Fraction(tau))
    if value is None or value.low is None or value.high is None or agg.distinct:
        return None
    low, high, half = min(value.low, _ZERO), max(value.high, _ZERO), (value.high - value.low) / 2
    if name == "sum":
        if added:
            return tau * low, tau * high
        if agg.filter is not None or value.nullable:
            value = replace(value, low=low, high=high, moves=None)
        least, most = increments(value, one.appear > 0, one.vanish > 0)
        return tau * least, tau * most
    if name == "avg" and added and not value.nullable and agg.filter is None:
        return tau * min(low, -half), tau * max(high, half)
    return None


def increments(value: Facts, appears: bool, vanishes: bool) -> Interval:
    """By how much a key can change a sum of the value, from the core to a version (Theorem 3)."""
    assert value.low is not None and value.high is not None
    width = value.high - value.low
    ends = [_ZERO]
    if value.moves not in ("0", "+"):
        ends.append(-width)
    if value.moves not in ("0", "-"):
        ends.append(width)
    if appears:
        ends += [value.low, value.high]
    if vanishes:
        ends += [-value.low, -value.high]
    return min(ends), max(ends)


def _check(agg: Aggregate, scope: Scope) -> None:
    for expr in (*agg.args, *conjuncts(agg.filter)):
        scope.check(expr)
    if agg.distinct and names(agg.name)[1] not in ("count", *_EXTREMES):
        name = names(agg.name)[1]
        raise NoRule(f"{name}(DISTINCT ...) has no rule", position=position(agg.loc), detail="The rule for DISTINCT is missing.",
                     hint=f"Make the rows distinct in a subquery: SELECT {name}(v) FROM (SELECT DISTINCT ...) q.")


def _of_key(expr: Expr, below: Certificate) -> bool:
    return below.key is not None and columns_of(expr) <= below.key


def _counted(agg: Aggregate, below: Certificate, scope: Scope, monotone: bool) -> str | None:
    if monotone:
        return "+"
    if below.key is None or any(one.vanish for one in below.changes.values()):
        return None
    if agg.filter is not None and scope.facts(agg.filter).moves not in ("0", "+"):
        return None
    if not agg.args:
        return "+"
    value = scope.facts(agg.args[0])
    if agg.distinct:
        return "+" if _of_key(agg.args[0], below) and not value.nullable else None
    return "+" if not value.nullable or value.moves in ("0", "+") else None


def _extreme(greatest: bool, value: Facts, nullable: bool, below: Certificate, monotone: bool) -> str | None:
    if not greatest and nullable:
        return None
    if monotone:
        return "+" if greatest else "-"
    if below.key is None or nullable or any(one.vanish for one in below.changes.values()):
        return None
    if greatest:
        return "+" if value.moves in ("0", "+") else None
    return "-" if value.moves in ("0", "-") else None


def _sum(agg: Aggregate, value: Facts, nullable: bool, below: Certificate, scope: Scope, monotone: bool) -> Facts:
    low = high = None
    moves = None
    if value.low is not None and value.high is not None:
        low, high = below.rows * min(value.low, _ZERO), below.rows * max(value.high, _ZERO)
        if monotone:
            moves = "+" if value.low >= 0 else "-" if value.high <= 0 and not nullable else None
        elif below.key is not None and not nullable:
            least = min(increments(value, one.appear > 0, one.vanish > 0)[0] for one in below.changes.values())
            most = max(increments(value, one.appear > 0, one.vanish > 0)[1] for one in below.changes.values())
            moves = "+" if least >= 0 else "-" if most <= 0 else None
    return Facts(agg.type, nullable=nullable, low=low, high=high, grid=value.grid, moves=moves)
