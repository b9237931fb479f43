"""A condition on the groups of a subquery (HAVING, or WHERE above it): which groups remain may change with their values.

Proof: having.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import show
from ..certificate import Certificate, Change, step
from ..expressions import Scope
from ..facts import combined
from ..tree import Expr

__all__ = ["RULE", "certify"]

RULE = "having"
_WORDS = {"0": "decided by the group's key alone", "+": "once true it stays true as rows are added",
          "-": "once false it stays false as rows are added", None: "may change either way"}


def certify(conditions: Sequence[Expr], below: Certificate, scope: Scope) -> Certificate:
    moves = combined(*(scope.facts(c).moves for c in conditions))

    def change(one: Change) -> Change:
        if moves == "0":
            return replace(one, sigma=None, n=min(one.appear + one.vanish, 2 * one.tau))
        appear = one.appear if moves == "-" else one.tau
        vanish = one.vanish if moves == "+" else one.tau
        return replace(one, appear=appear, vanish=vanish, n=min(appear + vanish, 2 * one.tau), sigma=None, ups={})

    found = replace(below, changes=below.each(change), full=False)
    says = f"{' AND '.join(map(show.expression, conditions))}: {_WORDS[moves]}"
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))
