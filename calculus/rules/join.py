"""Equi-joins of private relations, followed by a GROUP BY of what they are joined on.

Proof: join.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from privid.errors import NoRule

from .. import show
from ..alike import unalike
from ..certificate import AnyRelation, Certificate, Change, Facts, Joined, Keyed, Listed, Motion, Place, step
from ..expressions import Scope, columns_of
from ..tree import Aggregate, Choice, Col, Expr, JoinKind, position
from . import apart, inner_aggregates

__all__ = ["RULE", "certify", "grouped"]

RULE = "join"
#: groups that change, appear, vanish, and by how many more or fewer there are
_Groups: TypeAlias = tuple[int, int, int, int]


def certify(left: AnyRelation, right: AnyRelation, kind: JoinKind, equalities: Sequence[tuple[int, int]], filtered: bool, anti: bool,
            loc: int, form: Any) -> Joined:
    """Columns of the left side, then those of the right; `equalities` are pairs of columns in that numbering."""
    offset = len(left.columns)
    before: Joined | None = None
    match left, right:
        case Certificate(), Certificate():
            sides: tuple[tuple[Certificate, int], ...] = ((left, 0), (right, offset))
        case Joined(how=JoinKind.INNER), Certificate() if kind is JoinKind.INNER:
            before, sides = left, (*left.sides, (right, offset))
        case _:
            raise _of_joins(left, right, loc)
    classes = _classes(before.classes if before else tuple(frozenset({a}) for a, _ in equalities), equalities)
    columns = {number: _side(facts, nullable=kind is JoinKind.FULL) for number, facts in left.columns.items()}
    columns |= {offset + number: _side(facts, nullable=kind is not JoinKind.INNER) for number, facts in right.columns.items()}
    changes: dict[str, Change] = dict(left.changes)
    for name, one in right.changes.items():
        changes[name] = Change(changes[name].tau + one.tau, 0) if name in changes else one
    return Joined(columns=columns, changes=changes, cameras={**left.cameras, **right.cameras}, leaves=(*left.leaves, *right.leaves),
                  rows=(left.rows + 1) * (right.rows + 1), full=False, linear=left.linear and right.linear, form=form,
                  derivation=step(RULE, "", "", [left.derivation, right.derivation]),
                  sides=sides, how=kind, classes=classes, filtered=filtered or bool(before and before.filtered), anti=anti, loc=loc)


def _of_joins(left: AnyRelation, right: AnyRelation, loc: int) -> NoRule:
    listed = next((side for side in (left, right) if isinstance(side, Listed)), None)
    if listed is not None:
        return NoRule(f'join has no rule above the listed keys of "{listed.public.alias}"', position=position(loc),
                      detail="Every listed key has its group, which this join could drop.",
                      hint=f'Group by columns of "{listed.public.alias}" in a subquery and join that.')
    return NoRule("join of joins has no rule here", position=position(loc),
                  detail="Several relations are joined with inner joins alone, or two with an outer join.",
                  hint="Group the outer join by its key in a subquery and join that: SELECT ... FROM (SELECT a.plate, count(*) AS n FROM a "
                       "LEFT JOIN b ON a.plate = b.plate GROUP BY a.plate) q JOIN c ON q.plate = c.plate GROUP BY q.plate.")


def _classes(classes: Sequence[frozenset[int]], equalities: Sequence[tuple[int, int]]) -> tuple[frozenset[int], ...]:
    """Columns that are equal to each other, merged."""
    merged = [set(c) for c in classes]
    for a, b in equalities:
        touching = [c for c in merged if a in c or b in c]
        merged = [c for c in merged if c not in touching] + [set().union(*touching, {a, b})]
    return tuple(frozenset(c) for c in merged)


def _side(facts: Facts, nullable: bool) -> Facts:
    place = Place.OUTPUT if nullable else Place.LISTED if facts.place is Place.CELL else facts.place
    known = facts.or_null() if nullable else facts.unmoved()
    return replace(known, place=place, cells=facts.cells if place is Place.LISTED else {})


def grouped(keys: Sequence[Expr], aggs: Sequence[Aggregate], joined: Joined, scope: Scope, form: Any) -> Certificate:
    classes = [_class_of(unalike(key), joined) for key in keys]
    if not keys or any(c is None for c in classes):
        wrong = next((k for k, c in zip(keys, classes, strict=True) if c is None), None)
        raise NoRule("join has no rule without a GROUP BY of the columns it joins on",
                     position=position(wrong.loc if wrong else joined.loc),
                     detail="One row can match any number of rows of the other side, so joined rows have no bound; groups have.",
                     hint="Group by the join key in a subquery, for example SELECT ... FROM (SELECT a.plate, count(*) AS n FROM a JOIN b "
                          "ON a.plate = b.plate GROUP BY a.plate) q.")
    whole = len({c for c in classes if c}) == len(joined.classes)
    rows = all(side.key is None for side, _ in joined.sides)
    parts = [_parts(side, offset, classes) for side, offset in joined.sides]

    def change(name: str) -> Change:
        own = [(apart.where(side.leaves, name), _lets(found[name], place, joined))
               for place, (found, (side, _)) in enumerate(zip(parts, joined.sides, strict=True)) if name in found]
        t, a, d, n = apart.worst(own, lambda some: _each(sum, some), lambda some: _each(max, some))
        if (joined.filtered and not (joined.how is JoinKind.INNER and rows)) or (not whole and (joined.anti or not rows)):
            a, d, n = t, t, 2 * t
        return Change(tau=t, n=n, appear=a, vanish=d)

    columns: dict[int, Facts] = {}
    for number, (key, equal) in enumerate(zip(keys, classes, strict=True), 1):
        facts = scope.facts(key)
        cells = {leaf: cell for col in sorted(equal or ()) for leaf, cell in joined.columns[col].cells.items()}
        local = joined.how is JoinKind.INNER and all(_original(col, joined) is Place.CELL for col in equal or ())
        columns[number] = replace(facts, motion=Motion.STAYS, place=Place.CELL if local else Place.OUTPUT, cells=cells if local else {},
                                  nullable=facts.nullable and joined.how is not JoinKind.INNER)
    for j, agg in enumerate(aggs, 1):
        columns[len(keys) + j] = inner_aggregates.describe(agg, joined, scope, monotone=joined.how is JoinKind.INNER and rows)
    found = Certificate(columns=columns, kind=Keyed(frozenset(range(1, len(keys) + 1))), form=form, full=False, linear=joined.linear,
                        changes={name: change(name) for name in joined.changes}, cameras=joined.cameras, leaves=joined.leaves,
                        rows=sum(side.rows for side, _ in joined.sides))
    if not (joined.how is JoinKind.INNER and rows):
        found = replace(found, columns={n: f if n <= len(keys) else f.unmoved() for n, f in columns.items()})
    shown = ", ".join(map(show.expression, keys))
    says = f"{'anti' if joined.anti else joined.how} join grouped by {shown}: a group changes only if rows with its key do, on some side"
    says += apart.says([side.leaves for side, _ in joined.sides], list(joined.changes))
    return replace(found, derivation=step(RULE, says, found.bound, joined.derivation["inputs"]))


def _original(col: int, joined: Joined) -> Place:
    """Where a column's values come from in its own side; those of public rows, which are of no side, come from what they were found by."""
    return next((side.columns[col - offset].place for side, offset in joined.sides if _has(side, offset, col)), Place.OUTPUT)


def _has(side: Certificate, offset: int, col: int) -> bool:
    return offset < col <= offset + len(side.columns)


def _class_of(key: Expr, joined: Joined) -> frozenset[int] | None:
    """The join columns that a group expression is: one of them, or coalesce of several. A row that has no partner has only the columns of
    its own side, so that each side that such rows come from must have one of them."""
    parts = key.args if isinstance(key, Choice) and key.kind == "coalesce" else (key,)
    if not all(isinstance(p, Col) for p in parts):
        return None
    match joined.how:
        case JoinKind.INNER:
            alone: Sequence[tuple[Certificate, int]] = ()
        case JoinKind.LEFT:
            alone = joined.sides[:1]
        case JoinKind.FULL:
            alone = joined.sides
        case _:
            raise ValueError("the sides of a right join are changed before")
    for equal in joined.classes:
        complete = all(any(_has(side, offset, col) for col in equal) for side, offset in joined.sides)
        if complete and columns_of(key) <= equal:
            return equal if all(any(_has(side, offset, col) for col in columns_of(key)) for side, offset in alone) else None
    return None


def _lets(keys: tuple[int, int, int], place: int, joined: Joined) -> _Groups:
    """What a change of the keys of one side alone does to the groups."""
    t, a, d = keys
    if joined.how is JoinKind.LEFT and place:
        a, d = (d, a) if joined.anti else (0, 0)  # a row without a partner has lost it, or found one; or is there anyway
    return t, a, d, min(a + d, 2 * t)


def _each(of: Callable[[list[int]], int], changes: Sequence[_Groups]) -> _Groups:
    t, a, d, n = (of([change[i] for change in changes]) for i in range(4))
    return t, a, d, n


def _parts(side: Certificate, offset: int, classes: Sequence[frozenset[int] | None]) -> dict[str, tuple[int, int, int]]:
    """(t, a, d) of one side: keys that change, appear, vanish."""
    if side.key is None:
        return {name: (one.tau, one.tau, 0) for name, one in side.changes.items()}
    own = {col - offset for equal in classes for col in equal or () if _has(side, offset, col)}
    if own <= side.key:
        return {name: (one.tau, one.appear, one.vanish) for name, one in side.changes.items()}
    return {name: (2 * one.tau, one.tau, one.tau) for name, one in side.changes.items()}
