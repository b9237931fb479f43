"""Expressions over trusted columns as SQL that PostgreSQL evaluates for the engine.

Nothing of the analyst's text reaches it: functions come from the list, operators and types are schema-qualified,
constants are quoted and cast.
"""

from __future__ import annotations

from privid.errors import NoRule

from .functions import FUNCTIONS, is_operator, names
from .tree import AnyOf, Call, Case, Choice, Col, Const, DistinctFrom, Expr, Logic, NullIf, NullTest, Relabel, Truth, position

__all__ = ["deparse", "literal"]

_TYPES = {"boolean": "bool", **{t: t for t in ("text", "float8", "numeric", "int2", "int4", "int8", "timestamptz", "timestamp",
                                               "date", "time", "interval")}}
_COLUMNS = {"chunk", "region"}


def deparse(expr: Expr) -> str:
    """SQL for an expression whose columns are chunk and region."""
    args = [deparse(a) for a in expr.args]
    match expr:
        case Col():
            if expr.name not in _COLUMNS:
                raise _no_form(expr, f'column "{expr.name}"')
            return f'"{expr.name}"'
        case Const(value=None):
            return f"NULL::{_type(expr)}"
        case Const():
            return f"{literal(str(expr.value), expr)}::{_type(expr)}"
        case Call() if expr.fn.startswith("cast("):
            return f"({args[0]})::{_type(expr)}"
        case Call():
            return _call(expr.fn, args, expr)
        case DistinctFrom():
            # the analysed operator is named: IS DISTINCT FROM would look its own up
            same = f"({args[0]} IS NULL) AND ({args[1]} IS NULL)"
            return f"(NOT COALESCE({_call(expr.fn, args, expr)}, {same}))"
        case AnyOf():
            if len(args) < 2:
                return "true" if expr.all else "false"
            # one comparison for each item, so that no array type is needed
            each = [_call(expr.fn, [args[0], item], expr) for item in args[1:]]
            return "(" + (" AND " if expr.all else " OR ").join(each) + ")"
        case Logic(kind="not"):
            return f"(NOT {args[0]})"
        case Logic():
            return "(" + f" {expr.kind.upper()} ".join(args) + ")"
        case NullTest():
            return f"({args[0]} IS {'NOT ' if expr.negated else ''}NULL)"
        case Truth():
            return f"({args[0]} {expr.test.upper()})"
        case Case():
            whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1:-1:2], strict=True))
            return f"(CASE {whens} ELSE {args[-1]} END)"
        case Choice():
            return f"{expr.kind.upper()}({', '.join(args)})"
        case NullIf():
            # NULLIF would look its operator up; the analysed one is named instead
            return f"(CASE WHEN {_call(expr.fn, args, expr)} THEN NULL::{_type(expr)} ELSE {args[0]} END)"
        case Relabel():
            return f"({args[0]})::{_type(expr)}"
        case _:
            raise _no_form(expr, "this expression")


def literal(text: str, expr: Expr | None = None) -> str:
    """Text as a literal that reads the same under every setting of standard_conforming_strings."""
    if "\0" in text:
        raise _no_form(expr, "a constant with a zero byte")
    quoted = text.replace("'", "''")
    return f" E'{quoted}'".replace("\\", "\\\\") if "\\" in text else f"'{quoted}'"


def _call(fn: str, args: list[str], expr: Expr) -> str:
    if fn not in FUNCTIONS:
        raise _no_form(expr, f'"{fn}"')
    schema, name, types = names(fn)
    if len(types) != len(args):
        raise _no_form(expr, f'"{fn}" with {len(args)} arguments')
    if not is_operator(fn):
        return f'{schema}."{name}"({", ".join(args)})'
    operator = f"OPERATOR({schema}.{name})"
    return f"({args[0]} {operator} {args[1]})" if len(args) == 2 else f"({operator} {args[0]})"


def _type(expr: Expr) -> str:
    if expr.type not in _TYPES:
        raise _no_form(expr, f"type {expr.type}")
    return f"pg_catalog.{_TYPES[expr.type]}"


def _no_form(expr: Expr | None, what: str) -> NoRule:
    return NoRule("expression over trusted columns has a part that no rule covers",
                  detail=f"There is no safe form for {what}.",
                  hint="Use chunk, region and constants with date_trunc, extract, comparison and arithmetic.",
                  position=position(expr.loc) if expr is not None else None)
