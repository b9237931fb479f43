"""Conversions that PostgreSQL adds when it plans, as calls of the statement: nothing is evaluated that was not judged.

The sides of a set operation may have columns of other types than the operation itself, and nothing in their trees says so. A conversion
is a call like any other: it may give NULL where its argument is none (twins.py), and the rules must see that. So it is put into the tree
before the statement is judged, and what writes the inner query converts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privid.errors import NoRule

from .functions import FUNCTIONS
from .tree import (
    Call,
    Col,
    Expr,
    FromSubquery,
    PublicColumn,
    Query,
    Relabel,
    Select,
    SetKind,
    SetOperation,
    Target,
    position,
    with_queries,
)

__all__ = ["converted", "explicit"]

#: types that are one but for their name
_ALIKE = {"text", "varchar"}


def converted(expr: Expr, to: str) -> Expr:
    """A value as another type, as PostgreSQL converts it without being asked."""
    if expr.type == to:
        return expr
    if {expr.type, to} == _ALIKE:
        return Relabel(type=to, args=(expr,), loc=expr.loc)
    fn = f"pg_catalog.{to}({expr.type})"
    if fn not in FUNCTIONS:
        raise NoRule(f"conversion from {expr.type} to {to} has no rule", position=position(expr.loc),
                     detail="It could raise an error on some value.",
                     hint="Write the cast that is meant, where privid.allowed_calls lists it.")
    return Call(type=to, fn=fn, args=(expr,), loc=expr.loc)


def explicit(select: Select) -> Select:
    """The statement with every conversion in its place."""
    return replace(select, sources=tuple(with_queries(item, _query) for item in select.sources))


def _query(query: Query) -> Query:
    if isinstance(query, Select):
        return explicit(query)
    return replace(query, left=_side(_query(query.left), query.columns), right=_side(_query(query.right), query.columns))


def _side(query: Query, wanted: Sequence[PublicColumn]) -> Query:
    """With columns of these types. Rows that are compared or counted are so as they were: their columns are converted above."""
    types, shown = [column.type for column in wanted], _columns(query)
    if len(types) != len(shown) or [type_ for _, type_ in shown] == types:
        return query
    limited = query.limit is not None or query.offset is not None
    if isinstance(query, SetOperation) and query.kind is SetKind.UNION and query.all and not limited:
        columns = tuple(replace(column, type=type_) for column, type_ in zip(query.columns, types, strict=True))
        return replace(query, left=_side(query.left, columns), right=_side(query.right, columns), columns=columns)
    if isinstance(query, Select) and not query.distinct and not limited:
        return replace(query, targets=tuple(replace(target, expr=converted(target.expr, type_))
                                            for target, type_ in zip(query.targets, types, strict=True)))
    columns_ = [Col(type=type_, rel=1, col=place, name=name) for place, (name, type_) in enumerate(shown, 1)]
    targets = tuple(Target(column.name, converted(column, type_)) for column, type_ in zip(columns_, types, strict=True))
    return Select(sources=(FromSubquery(1, "", query),), where=None, group=(), aggs=(), targets=targets, distinct=False, limit=None,
                  offset=None)


def _columns(query: Query) -> list[tuple[str, str]]:
    """Their names and types."""
    if isinstance(query, SetOperation):
        return [(column.name, column.type) for column in query.columns]
    return [(target.name, target.expr.type) for target in query.targets]
