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
from ..certificate import Certificate, Change, Facts, Joined, Keyed, Listed, Motion, Place, Rows, step
from ..expressions import Scope, columns_of
from ..tree import Aggregate, Choice, Col, Expr, JoinKind, position
from . import apart, inner_aggregates

__all__ = ["RULE", "certify", "grouped"]

RULE = "join"
#: groups that change, appear, vanish, and by how many more or fewer there are
_Groups: TypeAlias = tuple[int, int, int, int]


def certify(left: Certificate, right: Certificate, kind: JoinKind, equalities: Sequence[tuple[int, int]], filtered: bool, anti: bool,
            loc: int, form: Any) -> Certificate:
    """Columns of the left side, then those of the right; `equalities` are pairs of columns in that numbering."""
    if not isinstance(right.kind, Rows | Keyed) or isinstance(left.kind, Listed) or (left.join is not None and kind is not JoinKind.INNER):
        raise NoRule("join of joins has no rule here", position=position(loc),
                     detail="Several relations are joined with inner joins, or two with an outer join.",
                     hint="Group one join by its key in a subquery and join that.")
    offset = len(left.columns)
    before = left.join
    sides = (*(before.sides if before else ((left, 0),)), (right, offset))
    classes = _classes(before.classes if before else tuple(frozenset({a}) for a, _ in equalities), equalities)
    columns = {number: _side(facts, nullable=kind is JoinKind.FULL) for number, facts in left.columns.items()}
    columns |= {offset + number: _side(facts, nullable=kind is not JoinKind.INNER) for number, facts in right.columns.items()}
    changes: dict[str, Change] = dict(left.changes)
    for name, one in right.changes.items():
        changes[name] = Change(changes[name].tau + one.tau, 0) if name in changes else one
    joined = Joined(sides, kind if not before else JoinKind.INNER, classes, filtered or bool(before and before.filtered), anti, loc)
    return Certificate(columns=columns, kind=joined, changes=changes, cameras={**left.cameras, **right.cameras},
                       leaves=(*left.leaves, *right.leaves), rows=(left.rows + 1) * (right.rows + 1), full=False,
                       linear=left.linear and right.linear, form=form,
                       derivation=step(RULE, "", "", [left.derivation, right.derivation]))


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


def grouped(keys: Sequence[Expr], aggs: Sequence[Aggregate], below: Certificate, joined: Joined, scope: Scope, form: Any) -> Certificate:
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
        if (joined.filtered and not (joined.kind is JoinKind.INNER and rows)) or (not whole and (joined.anti or not rows)):
            a, d, n = t, t, 2 * t
        return Change(tau=t, n=n, appear=a, vanish=d)

    columns: dict[int, Facts] = {}
    for number, (key, equal) in enumerate(zip(keys, classes, strict=True), 1):
        facts = scope.facts(key)
        cells = {leaf: cell for col in sorted(equal or ()) for leaf, cell in below.columns[col].cells.items()}
        local = joined.kind is JoinKind.INNER and all(_original(col, joined).place is Place.CELL for col in equal or ())
        columns[number] = replace(facts, motion=Motion.STAYS, place=Place.CELL if local else Place.OUTPUT, cells=cells if local else {},
                                  nullable=facts.nullable and joined.kind is not JoinKind.INNER)
    for j, agg in enumerate(aggs, 1):
        columns[len(keys) + j] = inner_aggregates.describe(agg, below, scope, monotone=joined.kind is JoinKind.INNER and rows)
    found = replace(below, columns=columns, kind=Keyed(frozenset(range(1, len(keys) + 1))), form=form,
                    rows=sum(side.rows for side, _ in joined.sides), changes={name: change(name) for name in below.changes})
    if not (joined.kind is JoinKind.INNER and rows):
        found = replace(found, columns={n: f if n <= len(keys) else f.unmoved() for n, f in columns.items()})
    shown = ", ".join(map(show.expression, keys))
    says = f"{'anti' if joined.anti else joined.kind} join grouped by {shown}: a group changes only if rows with its key do, on some side"
    says += apart.says([side.leaves for side, _ in joined.sides], list(below.changes))
    return replace(found, derivation=step(RULE, says, found.bound, below.derivation["inputs"]))


def _original(col: int, joined: Joined) -> Facts:
    """A column as its own side has it."""
    side, offset = next((s, o) for s, o in reversed(joined.sides) if col > o)
    return side.columns[col - offset]


def _class_of(key: Expr, joined: Joined) -> frozenset[int] | None:
    """The join columns that a group expression is: one of them, or coalesce of both sides of a full join."""
    parts = key.args if isinstance(key, Choice) and key.kind == "coalesce" else (key,)
    if not all(isinstance(p, Col) for p in parts):
        return None
    for equal in joined.classes:
        complete = all(any(offset < col <= offset + len(side.columns) for col in equal) for side, offset in joined.sides)
        if complete and columns_of(key) <= equal:
            if joined.kind is JoinKind.FULL and len(columns_of(key)) < 2:
                return None
            if joined.kind is JoinKind.LEFT and not any(col <= len(joined.sides[0][0].columns) for col in columns_of(key)):
                return None
            return equal
    return None


def _lets(keys: tuple[int, int, int], place: int, joined: Joined) -> _Groups:
    """What a change of the keys of one side alone does to the groups."""
    t, a, d = keys
    if joined.kind is JoinKind.LEFT and place:
        a, d = (d, a) if joined.anti else (0, 0)  # a row without a partner has lost it, or found one; or is there anyway
    return t, a, d, min(a + d, 2 * t)


def _each(of: Callable[[list[int]], int], changes: Sequence[_Groups]) -> _Groups:
    t, a, d, n = (of([change[i] for change in changes]) for i in range(4))
    return t, a, d, n


def _parts(side: Certificate, offset: int, classes: Sequence[frozenset[int] | None]) -> dict[str, tuple[int, int, int]]:
    """(t, a, d) of one side: keys that change, appear, vanish."""
    if side.key is None:
        return {name: (one.tau, one.tau, 0) for name, one in side.changes.items()}
    own = {col - offset for equal in classes for col in equal or () if offset < col <= offset + len(side.columns)}
    if own <= side.key:
        return {name: (one.tau, one.appear, one.vanish) for name, one in side.changes.items()}
    return {name: (2 * one.tau, one.tau, one.tau) for name, one in side.changes.items()}
