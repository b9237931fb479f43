"""Expressions and numbers for people: labels in EXPLAIN, hints and notices."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction

from .alike import unalike
from .functions import is_operator, names
from .tree import Aggregate, AnyOf, Call, Case, Choice, Col, Const, DistinctFrom, Expr, Logic, NullIf, NullTest, Relabel, Truth, walk

__all__ = ["aggregate", "bins", "expression", "in_range", "log", "name", "name_range", "number", "quantile", "signature"]

#: what the session that asks calls our range
_range: ContextVar[str] = ContextVar("range", default="range")
#: characters of one expression in a message
LONGEST = 120
#: functions that are casts
_TYPES = {"boolean", "date", "float8", "int2", "int4", "int8", "numeric", "text", "time", "timestamp", "timestamptz"}
#: aggregates of a constant fraction and of values in order
QUANTILES = {"percentile_cont", "percentile_disc"}
_NUMBERS = {"float8", "numeric", "int2", "int4", "int8"}


def expression(expr: Expr) -> str:
    """Roughly what the analyst wrote, cut when it is long."""
    text = _expression(expr)
    return text if len(text) <= LONGEST else text[:LONGEST - 3] + "..."


def _expression(expr: Expr) -> str:
    expr = unalike(expr)
    args = [_expression(a) for a in expr.args]
    match expr:
        case Col():
            return expr.name
        case Const(value=None):
            return "NULL"
        case Const():
            return str(expr.value) if expr.type in _NUMBERS else f"'{expr.value}'"
        case Call() if is_operator(expr.fn) and len(args) == 2:
            return " ".join((_operand(expr.args[0], args[0]), names(expr.fn)[1], _operand(expr.args[1], args[1])))
        case Call() if is_operator(expr.fn) and len(args) == 1:
            return names(expr.fn)[1] + args[0]
        case Call() if expr.fn.startswith("cast(") or (len(args) == 1 and names(expr.fn)[1] in _TYPES):
            return f"{_operand(expr.args[0], args[0])}::{expr.type}"
        case Call(args=(Const(value=str() as unit), _)) if names(expr.fn)[1] == "extract":
            return f"extract({unit} FROM {args[1]})"
        case Call():
            return f"{names(expr.fn)[1]}({', '.join(args)})"
        case AnyOf():
            return f"{args[0]} {names(expr.fn)[1]} {'ALL' if expr.all else 'ANY'} ({', '.join(args[1:])})"
        case Logic(kind="not"):
            return f"NOT ({args[0]})"
        case Logic():
            return "(" + f" {expr.kind.upper()} ".join(args) + ")"
        case NullTest():
            return f"{args[0]} IS {'NOT ' if expr.negated else ''}NULL"
        case Truth():
            return f"({args[0]}) {expr.test.upper()}"
        case Case():
            whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1:-1:2], strict=True))
            return f"CASE {whens} ELSE {args[-1]} END"
        case Choice():
            return f"{expr.kind}({', '.join(args)})"
        case NullIf():
            return f"nullif({', '.join(args)})"
        case Relabel():
            return args[0]
        case DistinctFrom():
            return f"{args[0]} IS DISTINCT FROM {args[1]}"
        case _:
            return expr.type


def _operand(expr: Expr, text: str) -> str:
    """Within an operator or a cast."""
    return f"({text})" if isinstance(expr, Call) and is_operator(expr.fn) else text


def aggregate(agg: Aggregate) -> str:
    """count(*), sum(range(v, 0, 3))."""
    inside = "*" if agg.star else ", ".join(expression(a) for a in agg.args)
    label = f"{names(agg.name)[1]}({'DISTINCT ' if agg.distinct else ''}{inside})"
    if names(agg.name)[1] in QUANTILES and len(agg.args) == 2:
        fraction, value = (expression(_uncast(a)) for a in agg.args)
        label = quantile(names(agg.name)[1], fraction, value)
    return label if agg.filter is None else f"{label} FILTER (WHERE {expression(agg.filter)})"


def quantile(name: str, fraction: str, value: str) -> str:
    """percentile_cont(0.5) WITHIN GROUP (ORDER BY v)."""
    return f"{name}({fraction}) WITHIN GROUP (ORDER BY {value})"


def _uncast(expr: Expr) -> Expr:
    """Without the cast to float8 that PostgreSQL puts around what percentile_cont takes."""
    return expr.args[0] if isinstance(expr, Call) and len(expr.args) == 1 and names(expr.fn)[1] == "float8" else expr


def name_range(name: object) -> None:
    """Hints of this thread call range so, which its session may not see without its schema."""
    _range.set("privid.range" if name == "privid.range" else "range")


def in_range(inside: str, low: object, high: object) -> str:
    """A value within bounds, as the session can write it."""
    return f"{_range.get()}({inside}, {low}, {high})"


def bins(expr: Expr, trusted: Callable[[Expr], bool]) -> str | None:
    """Bins of the one number of a program in it, as an example; None where there is none."""
    found = {node for node in walk(expr) if isinstance(node, Col) and not trusted(node)}
    if len(found) != 1 or (one := found.pop()).type != "float8":
        return None
    return f"width_bucket({_expression(one)}, 0, 10, 20)"


def name(agg: Aggregate) -> str:
    """sum, avg."""
    return names(agg.name)[1]


def log(value: int) -> float:
    return math.log(value)


def signature(fn: str) -> str:
    """A function's name and types as messages quote it."""
    schema, name, types = names(fn)
    return f"{name if schema in ('pg_catalog', '') else f'{schema}.{name}'}({', '.join(types)})"


def number(value: Fraction | int) -> str:
    """Whole numbers without a point, others to six significant digits.

    >>> number(Fraction(18)), number(Fraction(1, 3))
    ('18', '0.333333')
    """
    if value.denominator == 1:
        return str(value.numerator) if abs(value.numerator) < 10**20 else f"{Decimal(value.numerator):.6g}"
    return f"{Decimal(value.numerator) / Decimal(value.denominator):.6g}"
