"""GROUP BY in a subquery, by what an executable outputs: a relation with one row for each key.

Proof: group_rows.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from .. import show
from ..certificate import AnyRelation, Certificate, Change, Facts, Joined, Keyed, Listed, Motion, Place, step
from ..expressions import Scope, columns_of
from ..functions import names
from ..tree import Aggregate, Expr
from . import inner_aggregates, join, listing
from .union_all import rebased

__all__ = ["RULE", "certify", "key_columns"]

RULE = "group by"


def certify(keys: Sequence[Expr], aggs: Sequence[Aggregate], below: AnyRelation, scope: Scope, form: Any) -> Certificate:
    """Columns 1 … k are the keys, k+1 … the aggregates."""
    match below:
        case Joined():
            return join.grouped(keys, aggs, below, scope, form)
        case Listed():
            return listing.grouped(keys, aggs, below, scope, form)
        case Certificate():
            return _plain(keys, aggs, below, scope, form)
        case _:
            assert_never(below)


def _plain(keys: Sequence[Expr], aggs: Sequence[Aggregate], below: Certificate, scope: Scope, form: Any) -> Certificate:
    within = below.key is not None and all(columns_of(k) <= below.key for k in keys)
    if below.keyed and not within:
        below = rebased(below)
        scope = Scope.of(below, scope.probes)
    added = not below.keyed

    def change(name: str, one: Change) -> Change:
        ups = {len(keys) + j: up for j, agg in enumerate(aggs, 1)
               if (up := inner_aggregates.ups(agg, below, scope, name, added)) is not None}
        if not keys:  # one row, whatever is below
            return Change(tau=min(one.tau, 1), n=0, sigma=min(one.tau, 1), ups=ups)
        appear, vanish = (one.tau, 0) if added else (one.appear, one.vanish)
        return Change(tau=one.tau, n=appear + vanish, appear=appear, vanish=vanish, ups=ups)

    columns = key_columns(keys, scope)
    for j, agg in enumerate(aggs, 1):
        facts = inner_aggregates.describe(agg, below, scope, monotone=added)
        columns[len(keys) + j] = facts if keys or names(agg.name)[1] == "count" else facts.of_nothing()
    found = replace(below, columns=columns, kind=Keyed(frozenset(range(1, len(keys) + 1))), full=False, form=form,
                    changes={name: change(name, one) for name, one in below.changes.items()}, rows=below.rows if keys else 1,
                    linear=below.linear and bool(keys))
    says = _says(keys, added, within) + _aggregates(aggs)
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))


def key_columns(keys: Sequence[Expr], scope: Scope) -> dict[int, Facts]:
    """A key does not change where it stays. A cell of a local relation stays a cell: it is part of the key."""
    found: dict[int, Facts] = {}
    for number, key in enumerate(keys, 1):
        facts = scope.facts(key)
        place = Place.CELL if scope.trusted(key) and scope.local(key) else facts.place
        found[number] = replace(facts, place=place, motion=Motion.STAYS)
    return found


def _says(keys: Sequence[Expr], added: bool, within: bool) -> str:
    if not keys:
        return "one row for all"
    shown = ", ".join(map(show.expression, keys))
    if within:
        return f"{shown}: a part of the key below, so no more groups change than keys did"
    return f"{shown}: a row more changes one group at most" if added else f"{shown}: rows may change their group"


def _aggregates(aggs: Sequence[Aggregate]) -> str:
    return f"; with {', '.join(map(show.aggregate, aggs))}" if aggs else ""
