"""Joins in FROM: private with private, private with public; conditions go to the side that they speak of."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import assert_never

from privid.errors import NoRule

from .canonical import form_of_conditions
from .certificate import AnyRelation, Certificate, Joined, Listed
from .deparse import deparse_numbered
from .expressions import Scope, columns_of, substitute
from .facts import WHOLE
from .functions import names
from .rules import join, listing, lookup
from .sources import Context, Source, apply, side
from .tree import Call, Col, Expr, FromPublic, JoinKind, Logic, NullTest, Target, bare, position

__all__ = ["JoinedRows", "ListedRows", "LookedUp", "Side"]


@dataclass(frozen=True)
class Side:
    """A private side: a source and its columns in the join's numbering."""

    source: Source
    columns: tuple[Expr, ...]

    def certify(self, conditions: Sequence[Expr], offset: int, context: Context) -> AnyRelation:
        below = {offset + number: expr for number, expr in enumerate(self.columns, 1)}
        return side(self.source.where(*context.below(conditions, below)), self.columns, context)


def _equality(condition: Expr) -> tuple[Expr, Expr] | None:
    if isinstance(condition, Call) and len(condition.args) == 2 and names(condition.fn)[:2] == ("pg_catalog", "="):
        return bare(condition.args[0]), bare(condition.args[1])
    return None


def _plain_equality(condition: Expr) -> bool:
    """Equality by which different keys cannot equal one value: that of one type, or of whole numbers. (A time without zone that a
    change of clocks skips equals the same moment as the one an hour later.)"""
    types = names(condition.fn)[2] if isinstance(condition, Call) else ()
    return len(set(types)) == 1 or set(types) <= WHOLE


def _split(conditions: Sequence[Expr], width: int) -> tuple[list[Expr], list[Expr], list[Expr]]:
    """Of the first columns only, of the others only, of both (or of none)."""
    first: list[Expr] = []
    second: list[Expr] = []
    both: list[Expr] = []
    for condition in conditions:
        used = columns_of(condition)
        (first if used and max(used) <= width else second if used and min(used) > width else both).append(condition)
    return first, second, both


@dataclass(frozen=True)
class JoinedRows:
    """Two private sides."""

    left: Side
    right: Side
    kind: JoinKind  # not RIGHT, which is LEFT with the sides changed
    on: tuple[Expr, ...]
    loc: int

    def finish(self, conditions: Sequence[Expr], projected: Sequence[Target], context: Context) -> AnyRelation:
        width = len(self.left.columns)
        on, where = list(self.on), list(conditions)
        to_left: list[Expr] = []
        to_right: list[Expr] = []
        if self.kind is JoinKind.INNER:
            to_left, to_right, on = _split([*on, *where], width)
            where = []
        elif self.kind is JoinKind.LEFT:
            first, to_right, both = _split(on, width)
            on = [*first, *both]
            to_left, second, both = _split(where, width)
            where = [*second, *both]
        pairs, extras = _pairs(on, width)
        anti = self.kind is JoinKind.LEFT and not extras and len(where) == 1 and _absent(where[0], pairs)
        left, right = self.left.certify(to_left, 0, context), self.right.certify(to_right, width, context)
        form = ["join", self.kind, left.form, right.form, form_of_conditions(on), form_of_conditions(where)]
        filtered = bool(extras) or bool(where and not anti)
        found = join.certify(left, right, self.kind, pairs, filtered, anti, self.loc, form)
        scope = Scope.of(found, context.probes)
        for condition in (*on, *where):
            scope.check(condition)
        return apply((), projected, found, context)


def _pairs(conditions: Sequence[Expr], width: int) -> tuple[list[tuple[int, int]], list[Expr]]:
    """Equalities of a left and a right column, and the other conditions."""
    pairs, extras = [], []
    for condition in conditions:
        sides = _equality(condition)
        if sides and _plain_equality(condition) and isinstance(sides[0], Col) and isinstance(sides[1], Col):
            a, b = sorted((sides[0].col, sides[1].col))
            if a <= width < b:
                pairs.append((a, b))
                continue
        extras.append(condition)
    return pairs, extras


def _absent(condition: Expr, pairs: Sequence[tuple[int, int]]) -> bool:
    """right key IS NULL: no row of the right side matched."""
    if not isinstance(condition, NullTest) or condition.negated:
        return False
    tested = bare(condition.args[0])
    return isinstance(tested, Col) and tested.col in {b for _, b in pairs}


@dataclass(frozen=True)
class LookedUp:
    """A private side and the public rows that its rows find; private columns first."""

    side: Side
    public: FromPublic
    kind: JoinKind  # INNER or LEFT
    on: tuple[Expr, ...]
    loc: int

    def finish(self, conditions: Sequence[Expr], projected: Sequence[Target], context: Context) -> AnyRelation:
        width = len(self.side.columns)
        first, second, both = _split(conditions, width)
        on, where = list(self.on), [*second, *both]
        if self.kind is JoinKind.INNER:
            early, second, both = _split([*on, *where], width)
            first, on, where = [*first, *early], [*second, *both], []
        below = self.side.certify(first, 0, context)
        match below:
            case Certificate() | Joined():
                pass
            case Listed():
                raise NoRule(f'join with "{self.public.alias}" has no rule above listed keys', position=position(self.loc),
                             detail="Every listed key has its group, which this join could drop.",
                             hint=f'Join "{self.public.alias}" to the private rows in a subquery, and the list of keys to that.')
            case _:
                assert_never(below)
        equated, extras = _equated(on, lambda col: col > width, width)
        scope = Scope.of(below, context.probes)
        form = ["look up", self.kind, below.form, _public_form(self.public), form_of_conditions(on)]
        lookup.check_unique(self.public, [place for place, _ in equated], self.loc, context.public)
        found: Certificate | Joined
        if isinstance(below, Joined):
            rows = lookup.certify(below, self.public, self.kind, equated, extras, scope, self.loc, form)
            found = replace(rows, filtered=rows.filtered or self.kind is JoinKind.INNER)
        else:
            found = lookup.certify(below, self.public, self.kind, equated, extras, scope, self.loc, form)
        within = Scope.of(found, context.probes)
        for condition in on:
            within.check(condition)
        return apply(where, projected, found, context)


@dataclass(frozen=True)
class ListedRows:
    """public LEFT JOIN private; public columns first."""

    public: FromPublic
    side: Side
    on: tuple[Expr, ...]
    loc: int

    def finish(self, conditions: Sequence[Expr], projected: Sequence[Target], context: Context) -> AnyRelation:
        width = len(self.public.columns)
        public_only, early, both = _split(self.on, width)
        equated, extras = _equated([*public_only, *both], lambda col: col <= width, 0)
        of_public, of_rows, mixed = _split(conditions, width)
        if extras:
            raise NoRule(f'condition on "{self.public.alias}" has no rule beside the equalities that it is joined on',
                         position=position(extras[0].loc), detail="Its rows are the groups of the answer, every one of them.",
                         hint="Write conditions on the keys into WHERE, and those on the other side into ON.")
        public = _chosen(self.public, of_public, context)
        own = {width + i: column for i, column in enumerate(_own(self.side), 1)}
        private = [(place, substitute(expr, own)) for place, expr in equated]
        below = self._rows(self.side.certify(early, width, context))
        # conditions on one side alone are in what is left of that side
        form = ["listed", _public_form(public), below.form, form_of_conditions([*public_only, *both]),
                form_of_conditions([*of_rows, *mixed])]
        lookup.check_unique(public, [place for place, _ in private], self.loc, context.public)
        found = listing.certify(public, below, private, bool(of_rows or mixed), Scope.of(below, context.probes), self.loc, form)
        scope = Scope.of(found, context.probes)
        for condition in (*self.on, *conditions):
            scope.check(condition)
        return apply((), projected, found, context)

    def _rows(self, below: AnyRelation) -> Certificate:
        """What is listed has a bound of its own."""
        alias = self.public.alias
        match below:
            case Certificate():
                return below
            case Joined():
                raise NoRule(f'"{alias}" LEFT JOIN joined rows has no rule', position=position(self.loc),
                             detail="One row can match any number of rows of the other side, so joined rows have no bound; groups have.",
                             hint=f'Group by the join key in a subquery, and join that: "{alias}" LEFT JOIN (SELECT a.plate, count(*) AS n '
                                  f'FROM a JOIN b ON a.plate = b.plate GROUP BY a.plate) q ON q.plate = "{alias}".key.')
            case Listed():
                raise NoRule(f'"{alias}" LEFT JOIN the listed keys of "{below.public.alias}" has no rule', position=position(self.loc),
                             detail="Their rows of NULLs come and go with the first match, and are no private rows.",
                             hint=f'Group by columns of "{below.public.alias}" in a subquery, and join that to "{alias}".')
            case _:
                assert_never(below)


def _chosen(public: FromPublic, conditions: Sequence[Expr], context: Context) -> FromPublic:
    """The public relation with the rows that conditions on it alone leave; PostgreSQL decides which."""
    if not conditions:
        return public
    scope = Scope(lookup.public_facts(public, outer=False))
    for condition in conditions:
        scope.check(condition)
    written = deparse_numbered(conditions[0] if len(conditions) == 1 else Logic(type="boolean", kind="and", args=tuple(conditions)))
    return replace(public, rows=tuple(context.public.matching(lookup.types_of(public), public.rows, written)))


def _own(side: Side) -> list[Expr]:
    """A side's columns as its own relation numbers them."""
    return [Col(type=expr.type, rel=0, col=number, name="") for number, expr in enumerate(side.columns, 1)]


def _equated(conditions: Sequence[Expr], is_public: Callable[[int], bool], offset: int) -> tuple[list[tuple[int, Expr]], list[Expr]]:
    """Public columns and the private expressions that they are equal to; the other conditions."""
    equated, extras = [], []
    for condition in conditions:
        sides = _equality(condition)
        for one, other in ((sides, sides[::-1]) if sides and _plain_equality(condition) else ()):
            if isinstance(one, Col) and is_public(one.col) and columns_of(other) and not any(map(is_public, columns_of(other))):
                equated.append((one.col - offset, other))
                break
        else:
            extras.append(condition)
    return equated, extras


def _public_form(public: FromPublic) -> list[object]:
    """The types of its columns, and a digest of its rows, in whatever order they came: they can be many."""
    rows = sorted(json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in public.rows)
    return [[[c.type, c.labels] for c in public.columns], sha256("\n".join(rows).encode()).hexdigest()]
