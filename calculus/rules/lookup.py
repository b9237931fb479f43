"""Join with VALUES or an ordinary table whose join columns are unique there: each private row finds at most one public row.

Proof: lookup.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from privid.errors import NoRule
from privid.model import PublicRows

from ..certificate import Certificate, Change, Facts, Joined, Motion, step
from ..expressions import Scope
from ..tree import Expr, FromPublic, JoinKind, position

__all__ = ["RULE", "certify", "check_unique", "public_facts", "types_of"]

RULE = "look up"
#: what may be looked up for: rows, groups, and joined rows, which are grouped later
Found = TypeVar("Found", Certificate, Joined)
#: types of which equal values need not print alike
_UNLIKE = {"float4", "float8", "numeric", "interval", "bpchar"}


def certify(below: Found, public: FromPublic, kind: JoinKind, equated: Sequence[tuple[int, Expr]], conditions: Sequence[Expr],
            scope: Scope, loc: int, form: Any) -> Found:
    """The private columns, then the public ones. `equated`: places of public columns and what each is equal to."""
    offset = len(below.columns)
    if kind is JoinKind.LEFT and conditions:
        raise NoRule(f'LEFT JOIN "{public.alias}" has no rule for a condition beside the equalities of its key',
                     position=position(conditions[0].loc), detail="Whether a row finds its public row would depend on its other values.",
                     hint="Write the condition into WHERE, or into a CASE over the columns of the public rows.")
    keyed = isinstance(below, Certificate) and below.keyed
    fixed = keyed and all(scope.facts(expr).motion is Motion.STAYS for _, expr in equated)
    columns = dict(below.columns)
    key = {place for place, _ in equated}
    for number, facts in public_facts(public, outer=kind is JoinKind.LEFT).items():
        known = facts if number in key else _without_values(facts)
        columns[offset + number] = replace(known, motion=Motion.STAYS if fixed else Motion.ANY)
    found = replace(below, columns=columns, form=form)
    if kind is JoinKind.INNER:
        within = Scope(columns)
        stays = fixed and all(within.facts(c).motion is Motion.STAYS for c in conditions)

        def change(one: Change) -> Change:
            if not keyed:
                return replace(one, n=one.tau, sigma=None, ups={})
            if stays:
                return replace(one, sigma=None, n=min(one.appear + one.vanish, 2 * one.tau))
            return replace(one, appear=one.tau, vanish=one.tau, n=2 * one.tau, sigma=None, ups={})

        found = replace(found, changes=found.each(change), full=False)
    says = f'{kind} join with the public rows of "{public.alias}": each row finds at most one'
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))


def check_unique(public: FromPublic, places: Sequence[int], loc: int, rows: PublicRows) -> None:
    """PostgreSQL decides, by its own equality, on the very rows that are joined."""
    if places and rows.is_unique(types_of(public), public.rows, [place - 1 for place in places]):
        return
    names = ", ".join(public.columns[place - 1].name for place in places)
    what = f'on "{public.alias}" ({names})' if names else f'with "{public.alias}" that equates no column'
    raise NoRule(f"join {what} has no rule", position=position(loc),
                 detail="Two rows there are equal in these columns, so that one private row could match, and change, any number of rows."
                 if names else "One private row could match, and change, any number of rows.",
                 hint=f'Compare a column of "{public.alias}" with =, one in which no value occurs twice.')


def types_of(public: FromPublic) -> list[tuple[str, Sequence[str] | None]]:
    return [(column.type, column.labels) for column in public.columns]


def public_facts(public: FromPublic, outer: bool) -> dict[int, Facts]:
    """What is known of the public columns, by place from 1. `outer`: they may be NULL for want of a match."""
    found = {}
    for place, column in enumerate(public.columns, 1):
        texts = dict.fromkeys(row[place - 1] for row in public.rows)
        labels = tuple(text for text in texts if text is not None)
        found[place] = Facts(column.type, nullable=outer or None in texts, labels=labels, values=(public, place))
    return found


def _without_values(facts: Facts) -> Facts:
    """Of types whose equal values print differently, which of them stands for a group is no public matter."""
    return replace(facts, labels=None, values=None) if facts.type in _UNLIKE else facts
