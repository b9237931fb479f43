"""Expressions in a form that some equal ones have in common: other words for the same question are the same release.

Every rewriting below yields the same value for every row, NULL where it was NULL and the same text of it, in PostgreSQL's own semantics
(three-valued logic, its order of NaN, the database's collation, the only one that is evaluated). What is not listed here stays as it was
written: then the same question in other words is another release, which costs epsilon and gives nothing away. Nothing is evaluated in this
form; it serves to tell releases apart (canonical.py). Why each rewriting holds: normal.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from hashlib import sha256
from typing import Any

from .functions import FUNCTIONS, names
from .tree import Aggregate, AnyOf, Call, Const, DistinctFrom, Expr, Logic

__all__ = ["form_of", "normal", "normal_aggregate", "normal_conditions"]

#: x op y is y commuted(op) x, for every pair of types for which PostgreSQL has both
_COMMUTED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: functions whose first argument is a unit, which they read in any letter case
_UNITS = ("date_trunc", "date_part", "extract")
_COUNT, _COUNT_VALUES = "pg_catalog.count()", "pg_catalog.count(any)"


def normal(expr: Expr) -> Expr:
    """The expression in that form."""
    return _Normal()(expr)


def normal_conditions(conditions: Iterable[Expr]) -> list[Expr]:
    """Conditions of which every one must hold, in whatever order and however often they were written."""
    found = normal(Logic(type="boolean", kind="and", args=tuple(conditions)))
    if isinstance(found, Logic) and found.kind == "and":
        return list(found.args)
    return [] if _is(found, "t") else [found]


def normal_aggregate(agg: Aggregate) -> Aggregate:
    """Its arguments and its filter in that form. A constant that is not NULL counts every row, as * does; a filter that is true is none."""
    kept = None if agg.filter is None else normal(agg.filter)
    found = replace(agg, args=tuple(map(normal, agg.args)), filter=None if kept is None or _is(kept, "t") else kept)
    counted = found.args[0] if found.name == _COUNT_VALUES and not found.distinct else None
    if isinstance(counted, Const) and counted.value is not None:
        return replace(found, name=_COUNT, star=True, args=())
    return found


class _Normal:
    """One rewriting, parts first; remembers the keys of parts, because every level sorts by those of the level below."""

    def __init__(self) -> None:
        self._keys: dict[int, tuple[Expr, str]] = {}  # by identity, with the node itself so that no other can take its number

    def __call__(self, expr: Expr) -> Expr:
        if expr.args:
            expr = replace(expr, args=tuple(map(self, expr.args)))
        match expr:
            case Logic():
                return self._logic(expr)
            case AnyOf():
                return self._any_of(expr)
            case Call():
                return self._call(expr)
            case DistinctFrom():
                return self._distinct(expr)
            case _:
                return expr

    def _logic(self, expr: Logic) -> Expr:
        """AND and OR are associative, commutative and idempotent, also with NULL; true and false are neutral or decide. Not not x is x."""
        if expr.kind == "not":
            (inside,) = expr.args
            return inside.args[0] if isinstance(inside, Logic) and inside.kind == "not" else expr
        neutral, decisive = ("t", "f") if expr.kind == "and" else ("f", "t")
        flat = [part for arg in expr.args for part in (arg.args if isinstance(arg, Logic) and arg.kind == expr.kind else (arg,))]
        if any(_is(part, decisive) for part in flat):
            return Const(type="boolean", value=decisive)
        parts = self._sorted(self._listed([part for part in flat if not _is(part, neutral)], every=expr.kind == "and"))
        if len(parts) > 1:
            return replace(expr, args=tuple(parts))
        return parts[0] if parts else Const(type="boolean", value=neutral)

    def _listed(self, parts: Sequence[Expr], *, every: bool) -> list[Expr]:
        """x = a OR x = b is x IN (a, b); x <> a AND x <> b is x NOT IN (a, b): by definition, with the same operator; of constants."""
        together: dict[tuple[str, str], tuple[AnyOf, list[Expr]]] = {}
        others: list[Expr] = []
        for part in parts:
            listing = _as_list(part, every)
            if listing is None:
                others.append(part)
            else:
                together.setdefault((listing.fn, self._key(listing.args[0])), (listing, []))[1].extend(listing.args[1:])
        return [*others, *(self._any_of(replace(listing, args=(listing.args[0], *items))) for listing, items in together.values())]

    def _any_of(self, expr: AnyOf) -> Expr:
        """Whether some, or all, of the comparisons hold depends on neither order nor repetition. A list of one is a comparison."""
        subject, *items = expr.args
        items = self._sorted(items)
        if len(items) == 1 and names(expr.fn)[1] in _COMMUTED:
            return self._compared(Call(type=expr.type, fn=expr.fn, args=(subject, *items)))
        return replace(expr, args=(subject, *items))

    def _call(self, expr: Call) -> Expr:
        schema, name, _ = names(expr.fn)
        if schema == "pg_catalog" and name in _UNITS:
            return _unit(expr)
        return self._compared(expr) if schema == "pg_catalog" and name in _COMMUTED and len(expr.args) == 2 else expr

    def _compared(self, expr: Call) -> Call:
        """a < b is b > a, by the built-in commutator for the two types. Constants stand on the right."""
        left, right = expr.args
        _, name, types = names(expr.fn)
        turned = f"pg_catalog.{_COMMUTED[name]}({types[1]},{types[0]})"
        if turned not in FUNCTIONS or self._side(left) <= self._side(right):
            return expr
        return replace(expr, fn=turned, args=(right, left))

    def _distinct(self, expr: DistinctFrom) -> Expr:
        """Whether two values of one type are distinct does not depend on which is named first."""
        schema, name, types = names(expr.fn)
        if (schema, name) == ("pg_catalog", "=") and len(set(types)) == 1 and self._side(expr.args[0]) > self._side(expr.args[1]):
            return replace(expr, args=expr.args[::-1])
        return expr

    def _side(self, expr: Expr) -> tuple[bool, str]:
        return isinstance(expr, Const), self._key(expr)

    def _sorted(self, parts: Iterable[Expr]) -> list[Expr]:
        """In one order, each once."""
        found = {self._key(part): part for part in parts}
        return [found[key] for key in sorted(found)]

    def _key(self, expr: Expr) -> str:
        """Equal for equal expressions, and as long for large ones as for small ones."""
        if not expr.args:
            return json.dumps(form_of(expr))
        if id(expr) not in self._keys:
            text = json.dumps([type(expr).__name__, _own(expr), [self._key(a) for a in expr.args]])
            self._keys[id(expr)] = (expr, sha256(text.encode()).hexdigest())
        return self._keys[id(expr)][1]


def _as_list(part: Expr, every: bool) -> AnyOf | None:
    """The part as a list of constants that its subject is compared with, if it can be joined to others of its kind."""
    if isinstance(part, AnyOf) and part.all == every and names(part.fn)[:2] == ("pg_catalog", "<>" if every else "="):
        return part if len(part.args) > 1 and all(isinstance(item, Const) for item in part.args[1:]) else None
    if isinstance(part, Call) and len(part.args) == 2 and names(part.fn)[:2] == ("pg_catalog", "<>" if every else "="):
        return AnyOf(type=part.type, fn=part.fn, all=every, args=part.args) if isinstance(part.args[1], Const) else None
    return None


def _unit(expr: Call) -> Expr:
    """PostgreSQL puts a unit into small letters before it looks it up; of ASCII these are the same in every encoding."""
    unit = expr.args[0]
    if isinstance(unit, Const) and unit.value is not None and unit.value.isascii():
        return replace(expr, args=(replace(unit, value=unit.value.lower()), *expr.args[1:]))
    return expr


def _is(expr: Expr, value: str) -> bool:
    return isinstance(expr, Const) and expr.type == "boolean" and expr.value == value


# Forms: what is compared.


def form_of(expr: Expr) -> list[Any]:
    """Kind, the fields that count in comparisons, and the parts."""
    return [type(expr).__name__, _own(expr), [form_of(a) for a in expr.args]]


def _own(expr: Expr) -> list[Any]:
    return [getattr(expr, name) for name in _own_fields(type(expr))]


_OWN: dict[type[Expr], tuple[str, ...]] = {}


def _own_fields(kind: type[Expr]) -> tuple[str, ...]:
    if kind not in _OWN:
        _OWN[kind] = tuple(f.name for f in fields(kind) if f.compare and f.name != "args")
    return _OWN[kind]
