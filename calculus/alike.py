"""Values that are equal but not alike (0 and -0, 1 and 1.0) in one form, wherever PostgreSQL lets one value stand for several.

Which of them stands for a group would depend on the group's other rows, and so would everything that looks at its form: its text, its
length. So the tree that is evaluated has keys of GROUP BY, of DISTINCT and of set operations, and the arguments of min and max, in a form
that equal values have in common. (LIMIT sorts by what a row prints, and puts no value in the place of another.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privid.errors import NoRule

from .functions import names
from .tree import (
    Aggregate,
    Call,
    Choice,
    Const,
    Expr,
    Query,
    Select,
    SetKind,
    SetOperation,
    Target,
    position,
    with_queries,
)

__all__ = ["alike", "alike_below", "alike_text", "alike_value", "check_keys", "unalike"]


_ZERO = Const(type="float8", value="0")


def alike_value(expr: Expr) -> Expr:
    """The value in that form; what has it already stays as it is. Types that are not here print equal values alike; others are no keys
    (check_keys)."""
    if unalike(expr) is not expr:
        return expr
    match expr.type:
        case "float8":
            # of -0: 0; what is not finite has no sum in the room (twins.py), and one form
            summed = Call(type="float8", fn="pg_catalog.+(float8,float8)", args=(expr, _ZERO), loc=expr.loc)
            return Choice(type="float8", kind="coalesce", args=(summed, expr), loc=expr.loc)
        case "numeric":
            return Call(type="numeric", fn="pg_catalog.trim_scale(numeric)", args=(expr,), loc=expr.loc)
        case _:
            return expr


def unalike(expr: Expr) -> Expr:
    """The value that was put in that form: equal to it, and NULL where it is."""
    match expr:
        case Choice(kind="coalesce", type="float8", args=(Call(fn="pg_catalog.+(float8,float8)", args=(inner, zero)), other)):
            return inner if inner == other and zero == _ZERO else expr
        case Call(fn="pg_catalog.trim_scale(numeric)", args=(inner,)):
            return inner
        case _:
            return expr


def alike_text(type_: str, text: str) -> str:
    """What a constant prints in that form.

    >>> alike_text("float8", "-0"), alike_text("numeric", "10.50"), alike_text("numeric", "NaN"), alike_text("text", "1.0")
    ('0', '10.5', 'NaN', '1.0')
    """
    if type_ == "float8":
        return "0" if text == "-0" else text
    return text.rstrip("0").rstrip(".") if type_ == "numeric" and "." in text else text


def check_keys(keys: Sequence[Expr]) -> None:
    """Refuses keys of a type whose equal values have no form in common."""
    for key in keys:
        if key.type in ("interval", "bpchar", "float4"):
            raise NoRule(f"{key.type} has no rule as a key", position=position(key.loc),
                         detail="Values of this type can be equal and look different; which of them is shown would depend on other rows.",
                         hint="Compare a number or a text instead, for example extract(epoch FROM value)."
                              if key.type == "interval" else "Cast it to another type in the ordinary table.")


def alike_below(select: Select) -> Select:
    """The statement as it is judged: subqueries as they are evaluated, so that whatever looks at their columns is judged by the values that
    it will see."""
    return replace(select, sources=tuple(with_queries(item, _query) for item in select.sources))


def alike(select: Select) -> Select:
    """The statement as it is evaluated."""
    found = replace(select, sources=tuple(with_queries(item, _query) for item in select.sources),
                    group=tuple(replace(group, expr=alike_value(group.expr)) for group in select.group),
                    aggs=tuple(map(_aggregate, select.aggs)))
    return _shown(found) if select.distinct else found


def _query(query: Query) -> Query:
    if isinstance(query, Select):
        return alike(query)
    sides = _query(query.left), _query(query.right)
    if not (query.kind is SetKind.UNION and query.all):
        sides = _columns(sides[0]), _columns(sides[1])
    return replace(query, left=sides[0], right=sides[1])


def _aggregate(agg: Aggregate) -> Aggregate:
    return replace(agg, args=tuple(map(alike_value, agg.args))) if names(agg.name)[1] in ("min", "max") else agg


def _columns(query: Query) -> Query:
    """A query whose columns are compared as a whole."""
    if isinstance(query, SetOperation):
        return replace(query, left=_columns(query.left), right=_columns(query.right))
    return query if query.distinct else _shown(query)


def _shown(select: Select) -> Select:
    """With its columns in that form, also where it is ordered by them."""
    targets = {target.expr: alike_value(target.expr) for target in select.targets}
    order = tuple(replace(one, by=targets.get(one.by, one.by)) if isinstance(one.by, Expr) else one for one in select.order)
    return replace(select, targets=tuple(Target(t.name, targets[t.expr]) for t in select.targets), order=order)
