"""Expressions and numbers for people: labels in EXPLAIN, hints and notices."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from .functions import is_operator, names
from .tree import Aggregate, AnyOf, Call, Case, Choice, Col, Const, DistinctFrom, Expr, Logic, NullIf, NullTest, Relabel, Truth

__all__ = ["aggregate", "expression", "log", "name", "number", "signature"]

#: characters of one expression in a message
LONGEST = 120
_NUMBERS = {"float8", "numeric", "int2", "int4", "int8"}


def expression(expr: Expr) -> str:
    """Roughly what the analyst wrote, cut when it is long."""
    text = _expression(expr)
    return text if len(text) <= LONGEST else text[:LONGEST - 3] + "..."


def _expression(expr: Expr) -> str:
    args = [_expression(a) for a in expr.args]
    match expr:
        case Col():
            return expr.name
        case Const(value=None):
            return "NULL"
        case Const():
            return str(expr.value) if expr.type in _NUMBERS else f"'{expr.value}'"
        case Call() if is_operator(expr.fn) and len(args) == 2:
            return " ".join((args[0], names(expr.fn)[1], args[1]))
        case Call() if is_operator(expr.fn) and len(args) == 1:
            return names(expr.fn)[1] + args[0]
        case Call() if expr.fn.startswith("cast("):
            return f"{args[0]}::{expr.type}"
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


def aggregate(agg: Aggregate) -> str:
    """count(*), sum(range(v, 0, 3))."""
    inside = "*" if agg.star else ", ".join(expression(a) for a in agg.args)
    label = f"{names(agg.name)[1]}({'DISTINCT ' if agg.distinct else ''}{inside})"
    return label if agg.filter is None else f"{label} FILTER (WHERE {expression(agg.filter)})"


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
