"""VALUES or an ordinary table LEFT JOIN private rows, grouped by public columns: every public key has its group, matched or not.

Proof: listing.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from privid.errors import NoRule

from .. import show
from ..alike import unalike
from ..certificate import Certificate, Change, Facts, Keyed, Listed, Motion, Place, step
from ..clamps import RANGES, clamped
from ..expressions import Scope, columns_of, conjuncts
from ..facts import unwidened
from ..functions import names
from ..tree import Aggregate, Call, Col, Expr, FromPublic, NullTest, position
from . import inner_aggregates, lookup

__all__ = ["RULE", "certify", "determined", "grouped", "matched_only"]

RULE = "listed keys"


def certify(public: FromPublic, below: Certificate, equated: Sequence[tuple[int, Expr]], filtered: bool, scope: Scope, loc: int,
            form: Any) -> Certificate:
    """The public columns, then the private ones, NULL where a public row has no match."""
    offset = len(public.columns)
    within = below.key is not None and all(columns_of(expr) <= below.key for _, expr in equated)
    columns = {number: replace(facts, motion=Motion.STAYS if within else Motion.ANY)
               for number, facts in lookup.public_facts(public, outer=False).items()}
    columns |= {offset + number: replace(facts.or_null(), place=Place.OUTPUT if facts.place is not Place.CELL else Place.CELL)
                for number, facts in below.columns.items()}

    def change(one: Change) -> Change:
        """Of the rows that have a match."""
        if not below.keyed:
            return replace(one, n=one.tau, sigma=None, ups={})
        if within and not filtered:
            return replace(one, sigma=None, ups={})
        return replace(one, appear=one.tau, vanish=one.tau, n=2 * one.tau, sigma=None, ups={})

    # every public row is there at least once
    return replace(below, columns=columns, changes=below.each(change), full=False, form=form, rows=below.rows + len(public.rows),
                   kind=Listed(public, None if below.key is None else frozenset(offset + col for col in below.key), within, filtered, loc))


def determined(row: Certificate) -> frozenset[int]:
    """The columns that are functions of the key: its own, and those of the public row that it finds."""
    own = row.key or frozenset()
    return own | frozenset(range(1, len(row.kind.public.columns) + 1)) if isinstance(row.kind, Listed) and row.kind.within else own


def grouped(keys: Sequence[Expr], aggs: Sequence[Aggregate], below: Certificate, listed: Listed, scope: Scope, form: Any) -> Certificate:
    """As an intermediate step: KEY with a public number of groups."""
    width = len(listed.public.columns)
    if not keys or listed.filtered or not all(isinstance(k, Col) and k.col <= width for k in map(unalike, keys)):
        raise NoRule(f'"{listed.public.alias}" LEFT JOIN private rows has no rule without a GROUP BY of its own columns',
                     position=position(listed.loc), detail="The rows of the left side are public; what is joined to them is not.",
                     hint=f'Group by columns of "{listed.public.alias}", and write conditions on the other side into ON.')
    added = not below.keyed
    bounded = added or listed.within  # a group has the rows that are added, or the keys that change, of no other

    def change(name: str, one: Change) -> Change:
        ups = {}
        for j, agg in enumerate(aggs, 1):
            up = inner_aggregates.ups(agg, below, scope, name, added) if bounded and _sees_matches(agg, width) else None
            if up is not None:
                ups[len(keys) + j] = up
        tau = one.tau if bounded else 2 * one.tau
        return Change(tau=tau, n=0, sigma=2 * tau, ups=ups)

    columns: dict[int, Facts] = {number: replace(scope.facts(key), motion=Motion.STAYS) for number, key in enumerate(keys, 1)}
    for j, agg in enumerate(aggs, 1):
        facts = inner_aggregates.describe(agg, below, scope, monotone=added)
        columns[len(keys) + j] = facts if added and _sees_matches(agg, width) else facts.unmoved()
    found = replace(below, columns=columns, kind=Keyed(frozenset(range(1, len(keys) + 1))), form=form,
                    rows=len(listed.public.rows), changes={name: change(name, one) for name, one in below.changes.items()})
    says = f"{', '.join(map(show.expression, keys))}: every row of \"{listed.public.alias}\" has its group, whatever the video shows"
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))


def _sees_matches(agg: Aggregate, width: int) -> bool:
    """Whether the aggregate passes over the row of NULLs that a key without a match has: it goes when the first match comes."""
    value = agg.args[0] if agg.args else None
    if isinstance(value, Call) and value.fn in RANGES and names(agg.name)[1] == "sum" and clamped(value)[0] == 0:
        value = unwidened(value.args[0])  # of NULL it is 0, which adds nothing
    return (isinstance(value, Col) and value.col > width) or matched_only(conjuncts(agg.filter), width)


def matched_only(conditions: Sequence[Expr], public_columns: int) -> bool:
    """Do the conditions drop rows without a match, whose private columns are all NULL?"""
    for condition in conditions:
        for part in conjuncts(condition):
            own = [a for a in part.args if isinstance(a, Col) and a.col > public_columns]
            if own and isinstance(part, NullTest) and part.negated:
                return True
            if own and isinstance(part, Call) and names(part.fn)[1] in ("=", "<>", "<", "<=", ">", ">="):
                return True
            if isinstance(part, Col) and part.col > public_columns:
                return True
    return False
