"""A statement as typed nodes. Two expressions are equal when they mean the same: positions and names do not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias

__all__ = ["AggRef", "Aggregate", "AnyOf", "Argmax", "Call", "Case", "Choice", "ChoiceKind", "Col", "Const", "DistinctFrom", "Expr",
           "FromItem", "FromJoin", "FromOther", "FromPublic", "FromSubquery", "FromTable", "Group", "GroupRef", "JoinKind", "Logic",
           "LogicKind", "NullIf", "NullTest", "Order", "PublicColumn", "Query", "Relabel", "Select", "SetKind", "SetOperation", "Target",
           "Truth", "bare", "position", "walk", "with_queries"]


LogicKind: TypeAlias = Literal["and", "or", "not"]
ChoiceKind: TypeAlias = Literal["coalesce", "greatest", "least"]


@dataclass(frozen=True, kw_only=True)
class Expr:
    """Any expression. `args` are all its parts, so that trees are walked and rebuilt in one way."""

    type: str
    args: tuple[Expr, ...] = ()
    loc: int = field(default=-1, compare=False)


@dataclass(frozen=True, kw_only=True)
class Col(Expr):
    rel: int
    col: int
    name: str = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Const(Expr):
    value: str | None


@dataclass(frozen=True, kw_only=True)
class Call(Expr):
    """A function or an operator by its identity, for example pg_catalog.<(float8,float8)."""

    fn: str


@dataclass(frozen=True, kw_only=True)
class AnyOf(Expr):
    """x IN (…), x = ANY (…), x <> ALL (…): args are x and then the items."""

    fn: str
    all: bool


@dataclass(frozen=True, kw_only=True)
class Logic(Expr):
    kind: LogicKind


@dataclass(frozen=True, kw_only=True)
class NullTest(Expr):
    negated: bool


@dataclass(frozen=True, kw_only=True)
class Truth(Expr):
    test: str  # is true, is not true, ...


@dataclass(frozen=True, kw_only=True)
class Case(Expr):
    """args are condition, value, condition, value, …, and the value otherwise."""


@dataclass(frozen=True, kw_only=True)
class Choice(Expr):
    kind: ChoiceKind


@dataclass(frozen=True, kw_only=True)
class NullIf(Expr):
    fn: str


@dataclass(frozen=True, kw_only=True)
class DistinctFrom(Expr):
    """x IS DISTINCT FROM y: never NULL."""

    fn: str


@dataclass(frozen=True, kw_only=True)
class Relabel(Expr):
    """A cast that changes nothing but the type's name."""


@dataclass(frozen=True, kw_only=True)
class GroupRef(Expr):
    """A group column of the level, by number."""

    index: int


@dataclass(frozen=True, kw_only=True)
class AggRef(Expr):
    """An aggregate of the level, by number."""

    index: int


@dataclass(frozen=True)
class FromTable:
    rel: int
    table: int


@dataclass(frozen=True)
class FromSubquery:
    rel: int
    alias: str
    select: Query


@dataclass(frozen=True)
class PublicColumn:
    name: str
    type: str
    number: int
    labels: tuple[str, ...] | None = None  # of an enum


@dataclass(frozen=True)
class FromPublic:
    """VALUES, or an ordinary table: its rows are public, and came with the statement as text."""

    rel: int
    alias: str
    columns: tuple[PublicColumn, ...]
    rows: tuple[tuple[str | None, ...], ...]


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


@dataclass(frozen=True)
class FromJoin:
    join: JoinKind
    left: FromItem
    right: FromItem
    on: Expr | None
    loc: int


@dataclass(frozen=True)
class FromOther:
    what: str
    loc: int


FromItem: TypeAlias = FromTable | FromSubquery | FromJoin | FromPublic | FromOther


@dataclass(frozen=True)
class Group:
    expr: Expr
    name: str
    type: str


@dataclass(frozen=True)
class Aggregate:
    name: str
    args: tuple[Expr, ...]
    star: bool
    distinct: bool
    filter: Expr | None
    type: str
    loc: int


@dataclass(frozen=True)
class Target:
    name: str
    expr: Expr


@dataclass(frozen=True)
class Select:
    """One query level."""

    sources: tuple[FromItem, ...]
    where: Expr | None
    group: tuple[Group, ...]
    aggs: tuple[Aggregate, ...]
    targets: tuple[Target, ...]
    distinct: bool
    limit: Expr | None
    offset: Expr | None
    having: Expr | None = None
    grouped: bool = False
    argmax: Argmax | None = None
    order: tuple[Order, ...] = ()


@dataclass(frozen=True)
class Order:
    """One part of ORDER BY: an expression of the level, or the number of a set operation's column."""

    by: Expr | int
    desc: bool
    nulls_first: bool


@dataclass(frozen=True)
class Argmax:
    """The group with the largest aggregate among those that differ in some group columns."""

    agg: int
    of: tuple[int, ...]


class SetKind(StrEnum):
    UNION = "union"
    INTERSECT = "intersect"
    EXCEPT = "except"


@dataclass(frozen=True)
class SetOperation:
    kind: SetKind
    all: bool
    left: Query
    right: Query
    columns: tuple[PublicColumn, ...]
    limit: Expr | None
    offset: Expr | None
    order: tuple[Order, ...] = ()


Query: TypeAlias = Select | SetOperation


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its parts, outermost first."""
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.args))


def with_queries(item: FromItem, change: Callable[[Query], Query]) -> FromItem:
    """An item of FROM with other queries in the place of its own."""
    match item:
        case FromSubquery():
            return replace(item, select=change(item.select))
        case FromJoin():
            return replace(item, left=with_queries(item.left, change), right=with_queries(item.right, change))
        case _:
            return item


def bare(expr: Expr) -> Expr:
    """Without relabelling."""
    while isinstance(expr, Relabel):
        expr = expr.args[0]
    return expr


def position(loc: int) -> int | None:
    """A node's "loc" as an error carries it."""
    return loc if loc >= 0 else None
