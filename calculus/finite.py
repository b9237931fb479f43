"""Expressions that have few values by their form, whatever the rows are: then these are keys.

A CASE has the value of one of its arms, a COALESCE that of one of its arguments; a boolean is true, false or NULL, also as a number or a
text; width_bucket is NULL or one of its buckets, the one below and the one above. Proof: rules/group_keys.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .alike import alike_text
from .expressions import Scope
from .tree import Call, Case, Choice, Const, Expr, Relabel, bare

__all__ = ["BUCKETS", "EXACT", "alternatives", "values_of"]

#: types of which equal values print alike, once they are in the form that keys have (alike.py)
EXACT = {"float8", "numeric", "text", "boolean", "anyenum", "int2", "int4", "int8"}
BUCKETS = "pg_catalog.width_bucket(float8,float8,float8,int4)"
#: buckets of one expression
MAX_BUCKETS = 10_000

Values = tuple[str | None, ...]


def values_of(expr: Expr, scope: Scope) -> Values | None:
    """All values that the expression can have, as its type prints them in the form of keys; None where its form does not tell."""
    match expr:
        case Const():
            return (_printed(expr),) if expr.type in EXACT or expr.value is None else None
        case Relabel():
            return values_of(expr.args[0], scope)
        case Case():
            return _together([values_of(arm, scope) for arm in (*expr.args[1:-1:2], expr.args[-1])])
        case Choice(kind="coalesce"):
            found = _together([values_of(arm, scope) for arm in expr.args])
            # NULL only if every argument can be
            return found if found is None or scope.facts(expr).nullable else tuple(v for v in found if v is not None)
        case Call(fn="pg_catalog.int4(boolean)"):
            return _nullable(("0", "1"), expr.args[0], scope)
        case Call(fn="pg_catalog.text(boolean)"):
            return _nullable(("false", "true"), expr.args[0], scope)
        case Call(fn="cast(anyenum,text)"):
            return values_of(expr.args[0], scope)
        case Call(fn=fn) if fn == BUCKETS:
            return _buckets(expr.args[3])
    if expr.type == "boolean":
        return _nullable(("f", "t"), expr, scope)
    labels = scope.facts(expr).labels
    if labels is None:
        return None
    return _nullable(tuple(dict.fromkeys(alike_text(expr.type, label) for label in labels)), expr, scope)


def alternatives(exprs: Sequence[Expr]) -> list[Values] | None:
    """What several CASEs of the same conditions can be together: each has the value of the same arm. None for others."""
    cases = [bare(expr) for expr in exprs]
    first = cases[0]
    if not all(isinstance(case, Case) and case.args[:-1:2] == first.args[:-1:2] for case in cases):
        return None
    rows = list(zip(*((*case.args[1:-1:2], case.args[-1]) for case in cases), strict=True))
    found: dict[Values, None] = {}
    for row in rows:
        constants = [arm for arm in map(bare, row) if isinstance(arm, Const)]
        if len(constants) < len(row) or not all(c.type in EXACT or c.value is None for c in constants):
            return None
        found[tuple(map(_printed, constants))] = None
    return list(found)


def _printed(const: Const) -> str | None:
    return None if const.value is None else alike_text(const.type, const.value)


def _together(parts: Iterable[Values | None]) -> Values | None:
    found: dict[str | None, None] = {}
    for part in parts:
        if part is None:
            return None
        found |= dict.fromkeys(part)
    return tuple(found)


def _nullable(values: tuple[str, ...], expr: Expr, scope: Scope) -> Values:
    return (*values, None) if scope.facts(expr).nullable else values


def _buckets(count: Expr) -> Values | None:
    if not isinstance(count, Const) or count.value is None or not 0 < int(count.value) <= MAX_BUCKETS:
        return None
    return (*map(str, range(int(count.value) + 2)), None)
