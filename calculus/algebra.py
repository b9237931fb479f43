"""From the statement to relational algebra: scan, choose chunks, project, filter, release.

A subquery that only projects and filters is the relation below it with its columns computed, so it is inlined: whatever the level
at which the analyst wrote a condition, the rules see one scan with its conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from privid.errors import NoRule, RawRows
from privid.model import Table

from .expressions import Trust, conjuncts
from .reader import MAX_NODES
from .tree import Aggregate, Col, Expr, FromJoin, FromOther, FromSubquery, FromTable, Group, Select, Target, position

__all__ = ["Choose", "Filter", "Project", "Relation", "Release", "Scan", "build"]

#: nesting of one expression after subqueries have been inlined
MAX_INLINED_DEPTH = 300


@dataclass(frozen=True)
class Scan:
    """A base table."""

    table: Table


@dataclass(frozen=True)
class Choose:
    """WHERE on trusted columns only: which chunks run."""

    input: Relation
    conditions: tuple[Expr, ...]


@dataclass(frozen=True)
class Project:
    """Columns computed from a row and nothing else."""

    input: Relation
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Filter:
    """WHERE on what the executable outputs."""

    input: Relation
    conditions: tuple[Expr, ...]


Relation: TypeAlias = Scan | Choose | Project | Filter


@dataclass(frozen=True)
class Release:
    """The outermost aggregation."""

    input: Relation
    table: Table
    trust: Trust
    conditions: tuple[Expr, ...]  # every top-level conjunct: where declared keys are looked for
    group: tuple[Group, ...]
    aggs: tuple[Aggregate, ...]


@dataclass(frozen=True)
class _Source:
    """A table with the conditions met so far, and its visible columns in terms of the table's own."""

    table: Table
    conditions: tuple[Expr, ...]
    columns: dict[int, Expr]
    projected: tuple[Target, ...] = ()


def build(select: Select, tables: Sequence[Table]) -> Release:
    """The algebra of a release, or a refusal."""
    if not select.aggs and not select.group:
        raise RawRows("rows of a foreign table of a camera cannot be shown",
                      detail="Only aggregates leave the database, with noise.",
                      hint="Write an aggregate, for example SELECT count(*) FROM ….")
    _refuse_limits(select, "the level that is released")
    rel, source = _from(select, tables)
    inline = _Inliner(rel, source)
    conditions = source.conditions + conjuncts(inline.maybe(select.where))
    trust = Trust(source.table)
    # what no outer level uses is checked as well: PostgreSQL may evaluate it all the same
    for target in source.projected:
        trust.check(target.expr)
    for condition in conditions:
        trust.check(condition, evaluated=True)
    chosen = tuple(c for c in conditions if trust.trusted(c))
    filtered = tuple(c for c in conditions if not trust.trusted(c))
    relation: Relation = Scan(source.table)
    if chosen:
        relation = Choose(relation, chosen)
    if source.projected:
        relation = Project(relation, tuple(t.name for t in source.projected))
    if filtered:
        relation = Filter(relation, filtered)
    group = tuple(replace(g, expr=inline(g.expr)) for g in select.group)
    aggs = tuple(replace(a, args=tuple(map(inline, a.args)), filter=inline.maybe(a.filter)) for a in select.aggs)
    for g in group:
        trust.check(g.expr, evaluated=True)
    for expr in (e for a in aggs for e in (*a.args, *conjuncts(a.filter))):
        trust.check(expr)
    return Release(relation, source.table, trust, conditions, group, aggs)


def _from(select: Select, tables: Sequence[Table]) -> tuple[int, _Source]:
    """The one source of a level."""
    if len(select.sources) != 1:
        raise _no_join(-1)
    match select.sources[0]:
        case FromTable(rel=rel, table=index):
            if not 0 <= index < len(tables):
                raise NoRule("statement has a part that no rule covers", detail="In the analysed statement: a table is missing.")
            table = tables[index]
            return rel, _Source(table, (), {c.attno: Col(type=c.type if c.type != "enum" else c.type_name, rel=0, col=c.attno,
                                                         name=c.name) for c in table.columns})
        case FromSubquery(rel=rel, alias=alias, select=inner):
            return rel, _subquery(inner, alias, tables)
        case FromJoin(loc=loc):
            raise _no_join(loc)
        case FromOther(what=what, loc=loc):
            raise NoRule(f"{what} in FROM has no rule beside a foreign table of a camera", position=position(loc),
                         detail="The release must read one foreign table, alone or through subqueries that project and filter.",
                         hint="Release the aggregate in a subquery and combine its rows outside, where any SQL is free.")


def _subquery(inner: Select, alias: str, tables: Sequence[Table]) -> _Source:
    if inner.aggs or inner.group:
        raise NoRule(f'aggregate over the grouped subquery "{alias}" has no rule',
                     detail="The rule for nested grouping is missing.",
                     hint="Aggregate once, over the foreign table itself; the answer may be aggregated again outside.")
    _refuse_limits(inner, f'subquery "{alias}"')
    rel, source = _from(inner, tables)
    inline = _Inliner(rel, source)
    columns = {i: inline(t.expr) for i, t in enumerate(inner.targets, 1)}
    computed = tuple(Target(t.name, columns[i]) for i, t in enumerate(inner.targets, 1) if not isinstance(t.expr, Col))
    return _Source(source.table, source.conditions + conjuncts(inline.maybe(inner.where)), columns, source.projected + computed)


def _refuse_limits(select: Select, where: str) -> None:
    if select.distinct:
        raise NoRule(f"DISTINCT has no rule in {where}", detail="The rule for DISTINCT is missing.",
                     hint="Write GROUP BY over trusted columns or declared keys instead.")
    for clause, expr in (("LIMIT", select.limit), ("OFFSET", select.offset)):
        if expr is not None:
            raise NoRule(f"{clause} has no rule in {where}", position=position(expr.loc), detail=f"The rule for {clause} is missing.",
                         hint=f"Apply {clause} to the released rows: SELECT … FROM (SELECT …, count(*) … GROUP BY …) q {clause} ….")


def _no_join(loc: int) -> NoRule:
    return NoRule("release over several tables has no rule", position=position(loc), detail="The rule for joins is missing.",
                  hint="Release each table by itself and join the answers outside: their rows are ordinary rows.")


class _Inliner:
    """Puts a source's columns in the place of the references to it."""

    def __init__(self, rel: int, source: _Source) -> None:
        self.rel, self.columns = rel, source.columns
        self.nodes = 0
        self.sizes = {i: _measure(e) for i, e in source.columns.items()}

    def maybe(self, expr: Expr | None) -> Expr | None:
        return None if expr is None else self(expr)

    def __call__(self, expr: Expr) -> Expr:
        nodes, depth = self.measure(expr)
        self.nodes += nodes
        # measured before anything is built: each level can double what is below it
        if self.nodes > MAX_NODES or depth > MAX_INLINED_DEPTH:
            raise NoRule("statement is too complex to be analysed", position=position(expr.loc),
                         detail=f"With subqueries inlined its expressions have {self.nodes} parts, nested {depth} deep.",
                         hint="Compute the value inside the executable.")
        return self.substitute(expr)

    def column(self, expr: Col) -> int:
        if expr.rel != self.rel or expr.col not in self.columns:
            raise NoRule("column of an outer query has no rule here", position=position(expr.loc),
                         detail="Each level may use the columns of its own source only.",
                         hint="Write the condition at the level of the column's table.")
        return expr.col

    def measure(self, expr: Expr) -> tuple[int, int]:
        if isinstance(expr, Col):
            return self.sizes[self.column(expr)]
        parts = [self.measure(a) for a in expr.args]
        return 1 + sum(n for n, _ in parts), 1 + max((d for _, d in parts), default=0)

    def substitute(self, expr: Expr) -> Expr:
        if isinstance(expr, Col):
            # the place of the reference, not of the definition, is what the analyst asked for
            return replace(self.columns[expr.col], loc=expr.loc)
        return replace(expr, args=tuple(map(self.substitute, expr.args))) if expr.args else expr


def _measure(expr: Expr) -> tuple[int, int]:
    parts = [_measure(a) for a in expr.args]
    return 1 + sum(n for n, _ in parts), 1 + max((d for _, d in parts), default=0)
