"""COUNT(*) and COUNT(value).

Proof: count.md.
"""

from __future__ import annotations

from fractions import Fraction

from .. import show
from ..certificate import Bound, Cells, Certificate, Change, step
from ..expressions import Scope
from ..linear import dense_bound, key_bound, row_bound
from ..tree import Aggregate

__all__ = ["IDENTITIES", "RULE", "bound", "changed_by"]

RULE = "count"
IDENTITIES = ("pg_catalog.count()", "pg_catalog.count(any)")
_ONE, _ZERO = Fraction(1), Fraction(0)


def bound(agg: Aggregate, row: Certificate, scope: Scope, cells: Cells) -> Bound:
    # every row counts 1, unless the value can be NULL: then one row may count 1 where another counts 0
    every = not any(scope.facts(arg).nullable for arg in agg.args)
    keys = cells.untrusted
    by_camera = {name: changed_by(one, row.keyed, every, keys, cells.within_key) for name, one in row.changes.items()}
    delta = sum(by_camera.values(), _ZERO)
    says = f"{show.aggregate(agg)} changes by at most {show.number(delta)}" + (f" over {keys} keys together" if keys > 1 else "")
    return Bound(by_camera, _ONE, Fraction(row.rows), step(RULE, says, f"delta={show.number(delta)}", [row.derivation]))


def changed_by(one: Change, keyed: bool, every: bool, keys: int, within: bool) -> Fraction:
    """For one camera."""
    pair = _ZERO if every else _ONE
    if not keyed:
        candidates = [row_bound(one.tau, _ONE, pair, keys)]
    elif within or keys == 1:
        swing = 0 if every else one.tau
        candidates = [key_bound(one.tau, Fraction(-1 if one.vanish or swing else 0), Fraction(1 if one.appear or swing else 0), keys)]
        if every:
            candidates.append(Fraction((one.appear + one.vanish) * min(keys, 2)))
    else:
        candidates = [row_bound(2 * one.tau, _ONE, pair, keys)]
    if one.sigma is not None:
        candidates.append(dense_bound(one.sigma, _ONE, pair, keys))
    if every and keys == 1:
        candidates.append(Fraction(one.n))
    return min(candidates)
