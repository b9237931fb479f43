"""Join with VALUES or an ordinary table whose join columns are unique there: each private row finds at most one public row.

Proof: lookup.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from privid.errors import NoRule

from ..certificate import Certificate, Change, Facts, step
from ..expressions import Scope
from ..facts import NUMBERS, combined
from ..tree import Const, Expr, FromPublic, position
from .clamp import bare

__all__ = ["RULE", "certify", "check_unique", "public_facts"]

RULE = "look up"


def certify(below: Certificate, public: FromPublic, kind: str, equated: Sequence[tuple[int, Expr]], conditions: Sequence[Expr],
            scope: Scope, loc: int, form: Any) -> Certificate:
    """The private columns, then the public ones. `equated`: places of public columns and what each is equal to."""
    check_unique(public, [place for place, _ in equated], loc)
    offset = len(below.columns)
    fixed = all(scope.facts(expr).moves == "0" for _, expr in equated)
    columns = dict(below.columns)
    for number, facts in public_facts(public, outer=kind == "left").items():
        columns[offset + number] = replace(facts, moves="0" if fixed else None)
    found = replace(below, columns=columns, form=form)
    if kind == "inner":
        within = Scope(columns)
        moves = combined("0" if fixed else None, *(within.facts(c).moves for c in conditions))

        def change(one: Change) -> Change:
            if not below.keyed:
                return replace(one, n=one.tau, sigma=None, ups={})
            if moves == "0":
                return replace(one, sigma=None, n=min(one.appear + one.vanish, 2 * one.tau))
            return replace(one, appear=one.tau, vanish=one.tau, n=2 * one.tau, sigma=None, ups={})

        found = replace(found, changes=found.each(change), full=False)
    says = f'{kind} join with the public rows of "{public.alias}": each row finds at most one'
    return replace(found, derivation=step(RULE, says, found.bound, [below.derivation]))


def check_unique(public: FromPublic, places: Sequence[int], loc: int) -> None:
    numbers = {public.columns[place - 1].number for place in places}
    if not (_distinct(public, places) if public.rows is not None else any(set(key) <= numbers for key in public.unique if key)):
        names = ", ".join(public.columns[place - 1].name for place in places)
        what = f'on "{public.alias}" ({names})' if names else f'with "{public.alias}" that equates no column'
        raise NoRule(f"join {what} has no rule", position=position(loc),
                     detail="Without a unique key there one private row could match, and change, any number of rows.",
                     hint=f'Join on columns of "{public.alias}" that a primary key or a unique constraint covers.' if public.rows is None
                     else f'Compare a column of "{public.alias}" with =, and list each of its values once.')


def _distinct(public: FromPublic, places: Sequence[int]) -> bool:
    seen = set()
    if not places:
        return False
    for row in public.rows or ():
        key = tuple(_value(row[place - 1]) for place in places)
        if None in key:
            continue  # NULL equals nothing
        if key in seen:
            return False
        seen.add(key)
    return True


def _value(expr: Expr) -> object:
    constant = bare(expr)
    if not isinstance(constant, Const):
        raise NoRule("VALUES has no rule for what is not a constant", position=position(expr.loc),
                     detail="Its rows must be public.", hint="Write constants.")
    if constant.value is None:
        return None
    if constant.type in NUMBERS:
        try:
            return Decimal(constant.value)
        except InvalidOperation:
            return constant.value
    return constant.value


def public_facts(public: FromPublic, outer: bool) -> dict[int, Facts]:
    found = {}
    for place, column in enumerate(public.columns, 1):
        facts = Facts(column.type, nullable=outer or not column.not_null)
        if public.rows is not None:
            texts = [c.value for row in public.rows if isinstance(c := bare(row[place - 1]), Const)]
            labels = tuple(dict.fromkeys(text for text in texts if text is not None))
            facts = replace(facts, labels=labels, values=(public, place), nullable=outer or None in texts)
        found[place] = facts
    return found
