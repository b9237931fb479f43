"""VALUES or an ordinary table LEFT JOIN private rows, grouped by public columns: every public key has its group, matched or not.

Proof: listing.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from privid.errors import NoRule

from .. import show
from ..alike import unalike
from ..certificate import AnyRelation, Certificate, Change, Facts, Joined, Keyed, Listed, Motion, Place, Rows, step
from ..clamps import RANGES, clamped
from ..expressions import Scope, columns_of, conjuncts
from ..facts import unwidened
from ..functions import names
from ..tree import Aggregate, Call, Col, Const, Expr, FromPublic, NullTest, Relabel, bare, position
from . import inner_aggregates, lookup

__all__ = ["RULE", "certify", "counts_rows", "determined", "grouped", "matched_only", "passes_over_nulls"]

RULE = "listed keys"


def certify(public: FromPublic, below: Certificate, equated: Sequence[tuple[int, Expr]], filtered: bool, scope: Scope, loc: int,
            form: Any) -> Listed:
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
            return replace(one, n=min(one.appear + one.vanish, 2 * one.tau), sigma=None, ups={})
        return replace(one, appear=one.tau, vanish=one.tau, n=2 * one.tau, sigma=None, ups={})

    # every public row is there at least once
    return Listed(columns=columns, changes=below.each(change), cameras=below.cameras, leaves=below.leaves, full=False, form=form,
                  rows=below.rows + len(public.rows), linear=below.linear, derivation=below.derivation, public=public,
                  kind=Rows() if below.key is None else Keyed(frozenset(offset + col for col in below.key)),
                  within=within, filtered=filtered, loc=loc)


def determined(row: AnyRelation) -> frozenset[int] | None:
    """The columns that are functions of the key: its own, and those of the public row that it finds. None where there is no key."""
    match row:
        case Certificate():
            return row.key
        case Listed():
            own = row.matched.key
            return own | frozenset(range(1, len(row.public.columns) + 1)) if own is not None and row.within else own
        case Joined():
            return None
        case _:
            assert_never(row)


def grouped(keys: Sequence[Expr], aggs: Sequence[Aggregate], listed: Listed, scope: Scope, form: Any) -> Certificate:
    """As an intermediate step: KEY with a public number of groups."""
    width = len(listed.public.columns)
    if not keys or listed.filtered or not all(isinstance(k, Col) and k.col <= width for k in map(unalike, keys)):
        raise NoRule(f'"{listed.public.alias}" LEFT JOIN private rows has no rule without a GROUP BY of its own columns',
                     position=position(listed.loc), detail="The rows of the left side are public; what is joined to them is not.",
                     hint=f'Group by columns of "{listed.public.alias}", and write conditions on the other side into ON.')
    below = listed.matched
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
        facts = inner_aggregates.describe(agg, listed, scope, monotone=added)
        columns[len(keys) + j] = facts if added and _sees_matches(agg, width) else facts.unmoved()
    found = replace(below, columns=columns, kind=Keyed(frozenset(range(1, len(keys) + 1))), form=form,
                    rows=len(listed.public.rows), changes={name: change(name, one) for name, one in below.changes.items()})
    says = f"{', '.join(map(show.expression, keys))}: every row of \"{listed.public.alias}\" has its group, whatever the video shows"
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))


def passes_over_nulls(agg: Aggregate, listed: Listed, conditions: Sequence[Expr]) -> bool:
    """In a release: the row of NULLs adds nothing to the aggregate, or a condition in WHERE drops it."""
    width = len(listed.public.columns)
    return _sees_matches(agg, width) or matched_only(conditions, width)


def counts_rows(agg: Aggregate, listed: Listed) -> bool:
    """count(*), or of a constant, of all rows of some listed keys: the first match takes the place of the row of NULLs, each other is one
    row more."""
    width = len(listed.public.columns)
    every = all(isinstance(value, Const) and value.value is not None for value in map(bare, agg.args))
    public = all(columns_of(condition) <= set(range(1, width + 1)) for condition in conjuncts(agg.filter))
    return names(agg.name)[1] == "count" and every and public and not agg.distinct and not listed.filtered


def _sees_matches(agg: Aggregate, width: int) -> bool:
    """Whether the aggregate passes over the row of NULLs that a key without a match has: it goes when the first match comes."""
    value = agg.args[0] if agg.args else None
    if isinstance(value, Call) and value.fn in RANGES and names(agg.name)[1] == "sum" and clamped(value)[0] == 0:
        value = unwidened(value.args[0])  # of NULL it is 0, which adds nothing
    return (value is not None and _missing(value, width)) or matched_only(conjuncts(agg.filter), width)


def _missing(expr: Expr, width: int) -> bool:
    """Is it NULL on the row of NULLs? A private column, and what is called on one: but for range all calls are strict."""
    if isinstance(expr, Col):
        return expr.col > width
    return (isinstance(expr, Relabel) or (isinstance(expr, Call) and expr.fn not in RANGES)) and any(_missing(a, width) for a in expr.args)


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
