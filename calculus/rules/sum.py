"""SUM of a value with bounds: range(value, low, high), LEAST and GREATEST, or an aggregate of groups.

Proof: sum.md.
"""

from __future__ import annotations

from fractions import Fraction

from privid.errors import NoRule

from .. import show
from ..certificate import Bound, Cells, Certificate, Interval, step
from ..expressions import Scope
from ..linear import dense_bound, key_bound, row_bound
from ..tree import Aggregate, Choice, Const, bare, position
from .clamp import Clamp, clamp_of, ups_of
from .inner_aggregates import increments

__all__ = ["IDENTITIES", "RULE", "bound", "changed_by", "summand"]

RULE = "sum"
IDENTITIES = tuple(f"pg_catalog.sum({t})" for t in ("numeric", "float8", "int8", "int4"))


def summand(agg: Aggregate, row: Certificate, scope: Scope) -> Clamp:
    """What is added up, or a refusal."""
    name = show.name(agg)
    value = agg.args[0] if agg.args else None
    if agg.distinct:
        raise NoRule(f"{name}(DISTINCT ...) has no rule", position=position(agg.loc), detail="The rule for DISTINCT is missing.",
                     hint=f"Make the rows distinct in a subquery, or take all rows: {name}({show.in_range('value', 'low', 'high')}).")
    clamp = clamp_of(value, scope, row.derivation) if value is not None else None
    if clamp is None:
        raise _no_range(agg)
    return clamp


def bound(agg: Aggregate, row: Certificate, scope: Scope, cells: Cells) -> Bound:
    clamp = summand(agg, row, scope)
    by_camera = changed_by(agg, clamp, row, scope, cells)
    delta, keys = sum(by_camera.values(), Fraction(0)), cells.untrusted
    says = f"{show.aggregate(agg)} changes by at most {show.number(delta)}" + (f" over {keys} keys together" if keys > 1 else "")
    return Bound(by_camera, clamp.step, clamp.single * row.rows, step(RULE, says, f"delta={show.number(delta)}", [clamp.derivation]))


def changed_by(agg: Aggregate, clamp: Clamp, row: Certificate, scope: Scope, cells: Cells) -> dict[str, Fraction]:
    """By camera: the most by which the sum of the aggregate's argument changes, over all groups together."""
    return {name: _changed_by(clamp, row, name, cells.untrusted, cells.within_key, ups_of(agg.args[0], row, scope, name))
            for name in row.changes}


def _changed_by(clamp: Clamp, row: Certificate, camera: str, keys: int, within: bool, up: Interval | None) -> Fraction:
    """For one camera: the least bound that applies."""
    one = row.changes[camera]
    candidates: list[Fraction] = [] if one.tau else [Fraction(0)]
    candidates.append(row_bound(2 * one.tau if row.keyed else one.tau, clamp.single, clamp.pair, keys))
    if row.keyed and (within or keys == 1):
        least, most = increments(clamp.low, clamp.high, clamp.motion, one)
        candidates.append(key_bound(one.tau, least, most, keys))
    if one.sigma is not None:
        candidates.append(dense_bound(one.sigma, clamp.single, clamp.pair, keys))
    if up is not None and (keys == 1 or (row.keyed and within)):
        # what is put on the grid when it is collected moves by a step, in each group that changes; on the grid, outwards
        slack = 0 if clamp.collect is None else 2 * one.tau * clamp.step
        candidates.append(-(-(up[1] - up[0] + slack) // clamp.step) * clamp.step * min(keys, 2))
    return min(candidates)


def _no_range(agg: Aggregate) -> NoRule:
    name, inside, written = show.name(agg), show.expression(agg.args[0]) if agg.args else "value", _written(agg)
    return NoRule(f"{show.aggregate(agg)} has no rule without a range", position=position(agg.loc),
                  detail=f"One row could change the {name} by any amount, so no noise would hide it.",
                  hint=f"Write {name}({written})." if written else
                       f"Write {name}({show.in_range(inside, 'low', 'high')}) with the bounds that matter to you, "
                       f"for example {name}({show.in_range(inside, 0, 10)}).")


def _written(agg: Aggregate) -> str | None:
    """least(greatest(value, low), high), or the other way round, as a range."""
    match [bare(a) for a in agg.args]:
        case [Choice(kind="least" as outer, args=(Choice(kind="greatest", args=(value, Const() as inner)), Const() as last))] | [
              Choice(kind="greatest" as outer, args=(Choice(kind="least", args=(value, Const() as inner)), Const() as last))]:
            low, high = (inner, last) if outer == "least" else (last, inner)
            return show.in_range(*map(show.expression, (value, low, high)))
    return None
