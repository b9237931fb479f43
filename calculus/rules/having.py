"""A condition on the groups of a subquery (HAVING, or WHERE above it): which groups remain may change with their values.

Proof: having.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import show
from ..certificate import Certificate, Change, Motion, step
from ..expressions import Scope
from ..tree import Expr

__all__ = ["RULE", "certify"]

RULE = "having"
_WORDS = {Motion.STAYS: "decided by the group's key alone", Motion.RISES: "once true it stays true as rows are added",
          Motion.ANY: "may change either way"}


def certify(conditions: Sequence[Expr], below: Certificate, scope: Scope) -> Certificate:
    kept = _together([scope.facts(c).motion for c in conditions])

    def change(one: Change) -> Change:
        if kept is Motion.STAYS:
            return replace(one, sigma=None, n=min(one.appear + one.vanish, 2 * one.tau))
        vanish = one.vanish if kept is Motion.RISES else one.tau
        return replace(one, appear=one.tau, vanish=vanish, n=min(one.tau + vanish, 2 * one.tau), sigma=None, ups={})

    found = replace(below, changes=below.each(change), full=False)
    says = f"{' AND '.join(map(show.expression, conditions))}: {_WORDS[kept]}"
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))


def _together(motions: Sequence[Motion]) -> Motion:
    """Of a conjunction."""
    if all(motion is Motion.STAYS for motion in motions):
        return Motion.STAYS
    return Motion.ANY if Motion.ANY in motions else Motion.RISES
