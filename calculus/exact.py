"""Sums of a float8 column with bounds, in subqueries, as exact ones: sum(v) is the float8 of sum(range(v, low, high)).

A sum of float8 depends on the order of its rows, and with it which rows a condition keeps; so it has no rule. A column with the options low
and high is on the grid of their range already, so that adding up its values there changes nothing but the rounding errors. The tree
that is judged is the one that is evaluated: it is changed before either. (What the release itself aggregates is put on a grid by its rule.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from privid.model import Table

from .functions import names
from .tree import AggRef, Aggregate, Call, Col, Const, Expr, FromItem, FromJoin, FromSubquery, FromTable, Query, Select, SetOperation, bare

__all__ = ["exact"]

_SUMS = {f"pg_catalog.{name}(float8)" for name in ("sum", "avg", "variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp")}


def exact(select: Select, tables: Sequence[Table]) -> Select:
    """The statement with such sums in its subqueries."""
    return replace(select, sources=tuple(_source(item, tables) for item in select.sources))


def _source(item: FromItem, tables: Sequence[Table]) -> FromItem:
    match item:
        case FromSubquery():
            return replace(item, select=_query(item.select, tables))
        case FromJoin():
            return replace(item, left=_source(item.left, tables), right=_source(item.right, tables))
        case _:
            return item


def _query(query: Query, tables: Sequence[Table]) -> Query:
    if isinstance(query, SetOperation):
        return replace(query, left=_query(query.left, tables), right=_query(query.right, tables))
    found = exact(query, tables)
    aggs = [_aggregate(agg, found, tables) for agg in found.aggs]
    changed = {i for i, (old, new) in enumerate(zip(found.aggs, aggs, strict=True)) if old is not new}
    if not changed:
        return found
    return replace(found, aggs=tuple(aggs), targets=tuple(replace(t, expr=_cast(t.expr, changed)) for t in found.targets),
                   having=None if found.having is None else _cast(found.having, changed),
                   order=tuple(replace(o, by=_cast(o.by, changed)) if isinstance(o.by, Expr) else o for o in found.order))


def _aggregate(agg: Aggregate, select: Select, tables: Sequence[Table]) -> Aggregate:
    bounds = _bounds(agg.args[0], select, tables) if agg.name in _SUMS else None
    if bounds is None:
        return agg
    low, high = (Const(type="float8", value=repr(float(bound))) for bound in bounds)
    value = Call(type="numeric", fn="privid.range(float8,float8,float8)", args=(agg.args[0], low, high), loc=agg.args[0].loc)
    return replace(agg, name=f"pg_catalog.{names(agg.name)[1]}(numeric)", args=(value,), type="numeric")


def _bounds(expr: Expr, select: Select, tables: Sequence[Table]) -> tuple[Fraction, Fraction] | None:
    """Of a column of a table, shown by subqueries that only choose among rows. Not of one side of a join, where it may be NULL."""
    expr = bare(expr)
    if not isinstance(expr, Col):
        return None
    for item in select.sources:
        match item:
            case FromTable() if item.rel == expr.rel and 0 <= item.table < len(tables):
                return next((c.bounds for c in tables[item.table].columns if c.attno == expr.col), None)
            case FromSubquery(select=Select(grouped=False) as below) if item.rel == expr.rel and not below.group and not below.aggs:
                return _bounds(below.targets[expr.col - 1].expr, below, tables) if 0 < expr.col <= len(below.targets) else None
    return None


def _cast(expr: Expr, changed: set[int]) -> Expr:
    if isinstance(expr, AggRef) and expr.index in changed:
        return Call(type="float8", fn="pg_catalog.float8(numeric)", args=(replace(expr, type="numeric"),), loc=expr.loc)
    return replace(expr, args=tuple(_cast(arg, changed) for arg in expr.args)) if expr.args else expr
