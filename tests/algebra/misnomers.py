"""Normal forms with a mistake in them: each gives one identity to statements that can have different answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from privid.calculus import analysis, canonical, filters, joins, normal, sources
from privid.calculus.bounds import draft
from privid.calculus.canonical import form_of_conditions
from privid.calculus.functions import names
from privid.calculus.tree import Aggregate, AnyOf, Call, Const, DistinctFrom, Expr, NullTest
from privid.engine import identity
from privid.model import Plan, TableUse

__all__ = ["MISNOMERS", "Misnomer"]

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Misnomer:
    name: str
    make: Callable[[Patch], None]


def _comparisons_as_they_stand(patch: Patch) -> None:
    patch.setattr(normal, "_COMMUTED", {op: op for op in normal._COMMUTED})


def _lists_of_any_operator(patch: Patch) -> None:
    """x <> a OR x <> b as the list of x <> a AND x <> b."""
    right = normal._as_list
    patch.setattr(normal, "_as_list", lambda part, every: right(part, every) or right(part, not every))


def _nulls_left_out(patch: Patch) -> None:
    right = normal._Normal._any_of

    def wrong(self: Any, expr: AnyOf) -> Expr:
        kept = tuple(item for item in expr.args[1:] if not isinstance(item, Const) or item.value is not None)
        return right(self, replace(expr, args=(expr.args[0], *kept)) if kept else expr)

    patch.setattr(normal._Normal, "_any_of", wrong)


def _texts_in_small_letters(patch: Patch) -> None:
    right = normal._Normal.__call__

    def wrong(self: Any, expr: Expr) -> Expr:
        found = right(self, expr)
        return replace(found, value=found.value.lower()) if isinstance(found, Const) and found.value and found.type == "text" else found

    patch.setattr(normal._Normal, "__call__", wrong)


def _every_count_a_count_of_rows(patch: Patch) -> None:
    right = normal.normal_aggregate

    def wrong(agg: Aggregate) -> Aggregate:
        found = right(agg)
        return replace(found, name="pg_catalog.count()", star=True, args=()) if "count" in found.name and not found.distinct else found

    patch.setattr(canonical, "normal_aggregate", wrong)


def _and_or_alike(patch: Patch) -> None:
    right = normal._Normal._logic
    patch.setattr(normal._Normal, "_logic", lambda self, expr: right(self, expr if expr.kind == "not" else replace(expr, kind="or")))


def _not_left_out(patch: Patch) -> None:
    right = normal._Normal._logic
    patch.setattr(normal._Normal, "_logic", lambda self, expr: expr.args[0] if expr.kind == "not" else right(self, expr))


def _distinct_is_unequal(patch: Patch) -> None:
    """As if NULL were a value for <> too."""
    right = normal._Normal._distinct

    def wrong(self: Any, expr: DistinctFrom) -> Expr:
        found = right(self, expr)
        types = names(expr.fn)[2]
        return self._compared(Call(type="boolean", fn=f"pg_catalog.<>({types[0]},{types[1]})", args=found.args))  # type: ignore[no-any-return]

    patch.setattr(normal._Normal, "_distinct", wrong)


def _null_tests_alike(patch: Patch) -> None:
    """Nobody is ever NULL."""
    right = normal._Normal.__call__

    def wrong(self: Any, expr: Expr) -> Expr:
        found = right(self, expr)
        return Const(type="boolean", value="t" if found.negated else "f") if isinstance(found, NullTest) else found

    patch.setattr(normal._Normal, "__call__", wrong)


def _chunks_left_out(patch: Patch) -> None:
    right = canonical.form_of_scan
    patch.setattr(sources, "form_of_scan", lambda use: right(TableUse(use.table, ((0, use.table.grid.count),))))
    patch.setattr(analysis, "draft", _same_bounds(draft))


def _regions_left_out(patch: Patch) -> None:
    right = canonical.form_of_scan
    patch.setattr(sources, "form_of_scan", lambda use: right(TableUse(use.table, use.chunks)))


def _chunks_of_filters_left_out(patch: Patch) -> None:
    right = filters.without_chunks
    patch.setattr(analysis, "without_chunks", lambda *args: (right(*args)[0], None))


def _same_bounds(right: Callable[..., Any]) -> Callable[..., Any]:
    """Bounds are a part of a release too, and would hide the mistake."""
    return lambda *args: replace(right(*args), weights={name: type(w)(1) for name, w in right(*args).weights.items()})


def _units_left_out(patch: Patch) -> None:
    patch.setattr(normal, "_unit", lambda expr: replace(expr, args=expr.args[1:]))
    patch.setattr(analysis, "draft", _same_bounds(draft))


def _conditions_of_a_join_after_it(patch: Patch) -> None:
    """A join names the conditions on its pairs twice: those of ON, then those of WHERE; here all together."""
    right, waiting = form_of_conditions, list[list[Expr]]()

    def wrong(conditions: Iterable[Expr]) -> list[Any]:
        waiting.append(list(conditions))
        return right([*waiting.pop(), *waiting.pop()]) if len(waiting) == 2 else []

    patch.setattr(joins, "form_of_conditions", wrong)


def _order_of_keys_left_out(patch: Patch) -> None:
    """Also where the first of equal scores wins."""
    right = identity.reuse_key

    def wrong(plan: Plan, reads: Any) -> str:
        text = json.loads(plan.canonical)
        sorted_ = json.dumps({**text, "keys": sorted(text["keys"], key=str)}, sort_keys=True)
        return right(replace(plan, keys=tuple(sorted(plan.keys, key=str)), canonical=sorted_), reads)

    patch.setattr(identity, "reuse_key", wrong)


MISNOMERS = tuple(Misnomer(name, make) for name, make in (
    ("comparisons are turned without their operator", _comparisons_as_they_stand),
    ("lists of <> by OR", _lists_of_any_operator),
    ("NULL in a list is nothing", _nulls_left_out),
    ("letter case of texts", _texts_in_small_letters),
    ("every count is count(*)", _every_count_a_count_of_rows),
    ("AND is OR", _and_or_alike),
    ("NOT is nothing", _not_left_out),
    ("IS DISTINCT FROM is <>", _distinct_is_unequal),
    ("nothing is ever NULL", _null_tests_alike),
    ("chunks do not count", _chunks_left_out),
    ("regions do not count", _regions_left_out),
    ("chunks of filters do not count", _chunks_of_filters_left_out),
    ("units do not count", _units_left_out),
    ("ON is WHERE", _conditions_of_a_join_after_it),
    ("the order of keys does not count for a winner", _order_of_keys_left_out),
))
