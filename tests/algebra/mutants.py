"""The calculus with the faults that it once had: the search must find each of them without being told where to look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

import privid.calculus
from privid.calculus.certificate import Facts
from privid.calculus.facts import NUMBERS, Judge
from privid.calculus.functions import names
from privid.calculus.rules import inner_aggregates, listing, lookup
from privid.calculus.rules import sum as sum_rule
from privid.calculus.tree import Call, Expr, JoinKind
from privid.room import room as room_module
from privid.udf import noise

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    name: str
    make: Callable[[pytest.MonkeyPatch], None]
    #: not in what is claimed, but in how an answer is made
    everywhere: bool = False
    #: it is in how a program's output is read, so that rows are other ones
    rows: bool = False


def _facts(change: Callable[[Judge, Expr, Facts], Facts]) -> Callable[[pytest.MonkeyPatch], None]:
    """Facts of expressions are other ones; `change` gets the right ones."""
    right = Judge._facts
    return lambda patch: patch.setattr(Judge, "_facts", lambda self, expr: change(self, expr, right(self, expr)))


def _never_null(judge: Judge, expr: Expr, found: Facts) -> Facts:
    """Arithmetic of what is not NULL is not NULL: overflow is forgotten."""
    if isinstance(expr, Call) and found.low is None:
        return replace(found, nullable=any(judge.facts(arg).nullable for arg in expr.args))
    return found


def _arithmetic(operators: str, whole: bool) -> Callable[[Judge, Expr, Facts], Facts]:
    """Bounds of arithmetic are those of exact numbers."""
    def change(judge: Judge, expr: Expr, found: Facts) -> Facts:
        if not isinstance(expr, Call) or len(expr.args) != 2 or names(expr.fn)[1] not in operators:
            return found
        a, b = (judge.facts(arg) for arg in expr.args)
        if a.low is None or a.high is None or b.low is None or b.high is None or expr.type not in NUMBERS:
            return found
        if names(expr.fn)[1] == "/" and b.low <= 0 <= b.high:
            return found
        ends = [_exactly(names(expr.fn)[1], x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return Facts(expr.type, nullable=False, low=min(ends), high=max(ends), grid=Fraction(1) if whole else a.grid)
    return change


def _exactly(operator: str, x: Fraction, y: Fraction) -> Fraction:
    return {"+": x + y, "-": x - y, "*": x * y}.get(operator) or (x / y if operator == "/" else Fraction(0))


def _whole_division(patch: pytest.MonkeyPatch) -> None:
    """Whole division has the bounds of exact division; where they are off the grid, a sum's bound is rounded outwards to it."""
    right = sum_rule._changed_by

    def changed_by(clamp: Any, *rest: Any) -> Fraction:
        delta, step = right(clamp, *rest), Fraction(clamp.step)
        return -(-delta // step) * step

    patch.setattr(sum_rule, "_changed_by", changed_by)
    _facts(_arithmetic("/", whole=True))(patch)


def _sums_of_groups(patch: pytest.MonkeyPatch) -> None:
    """A sum of a group has the bounds of its rows, a cast to float8 keeps them, and nothing is rounded when it is collected."""
    right, right_change = inner_aggregates.describe, sum_rule._changed_by

    def describe(agg: Any, below: Any, scope: Any, monotone: bool) -> Facts:
        found = right(agg, below, scope, monotone)
        value = scope.facts(agg.args[0]) if agg.args else None
        if names(agg.name)[1] != "sum" or value is None or value.low is None or value.high is None or agg.filter is not None:
            return found
        rows = below.rows
        return replace(found, nullable=False, low=rows * min(value.low, Fraction(0)), high=rows * max(value.high, Fraction(0)))

    def cast(judge: Judge, expr: Expr, found: Facts) -> Facts:
        if isinstance(expr, Call) and expr.fn in ("pg_catalog.float8(numeric)", "pg_catalog.float8(int8)", "pg_catalog.numeric(float8)"):
            return replace(judge.facts(expr.args[0]), type=expr.type)
        return found

    def changed_by(clamp: Any, *rest: Any) -> Fraction:
        return right_change(replace(clamp, collect=None), *rest)

    patch.setattr(inner_aggregates, "describe", describe)
    patch.setattr(sum_rule, "_changed_by", changed_by)
    _facts(cast)(patch)


def _conversions_unseen(judge: Judge, expr: Expr, found: Facts) -> Facts:
    """What a conversion gives has the bounds of its argument, and is NULL only where it is."""
    if isinstance(expr, Call) and expr.fn in ("pg_catalog.float8(numeric)", "pg_catalog.float8(int8)", "pg_catalog.numeric(float8)"):
        known = judge.facts(expr.args[0])
        return Facts(expr.type, nullable=known.nullable, low=known.low, high=known.high, grid=known.grid)
    return found


def _conditions_ignored(patch: pytest.MonkeyPatch) -> None:
    right = lookup.certify

    def certify(below: Any, public: Any, kind: JoinKind, equated: Any, conditions: Any, *rest: Any) -> Any:
        return right(below, public, kind, equated, () if kind is JoinKind.LEFT else conditions, *rest)

    patch.setattr(lookup, "certify", certify)


def _unique_as_text(patch: pytest.MonkeyPatch) -> None:
    def is_unique(self: Any, columns: Any, rows: Any, places: Any) -> bool:
        keys = [tuple(row[place] for place in places) for row in rows]
        return len(set(keys)) == len(keys)

    patch.setattr(room_module._PublicRows, "is_unique", is_unique)


def _keys_as_they_come(patch: pytest.MonkeyPatch) -> None:
    """Keys with rows in the order of the inner query's rows, then the others."""
    right = noise.answer

    def answer(plan: Any, rows: Any) -> Any:
        width = len(plan.keys[0]) if plan.keys else 0
        came = [key for row in rows if (key := tuple(row[:width])) in set(plan.keys)]
        return right(replace(plan, keys=tuple(dict.fromkeys((*came, *plan.keys)))), rows)

    patch.setattr(noise, "answer", answer)


MUTANTS = [
    Mutant("C1: overflow gives NULL, and is said not to", _facts(_never_null)),
    Mutant("C1: bounds of sums and products", _facts(_arithmetic("+-*", whole=False))),
    Mutant("S3: keys that PostgreSQL finds equal and the text does not", _unique_as_text),
    Mutant("C3: a condition of a left join that is ignored", _conditions_ignored),
    Mutant("C4: the row of NULLs of a key without a match", lambda patch: patch.setattr(listing, "_sees_matches", lambda *_: True)),
    Mutant("C5: whole division with the bounds of exact division", _whole_division),
    Mutant("C6: sums of groups in float8", _sums_of_groups),
    Mutant("a conversion gives NULL, and is said not to", _facts(_conversions_unseen)),
    Mutant("a span of any trusted time only grows", lambda patch: patch.setattr(inner_aggregates, "_is_chunk", lambda *_: True)),
    Mutant("C7: equal is not alike", lambda patch: patch.setattr(privid.calculus, "alike", lambda select: select)),
    Mutant("S12: the order of keys follows the inner plan", _keys_as_they_come, everywhere=True),
]
