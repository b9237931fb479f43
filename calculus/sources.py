"""Relations before their conditions are applied: a condition goes as far down as it means the same, to where it chooses chunks.

A source is a base, conditions on it, and visible columns in terms of the base's own. A subquery that only projects and filters is the
base below it: whatever the level at which the analyst wrote a condition, the rules see one base with its conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, assert_never

from privid.errors import NoRule
from privid.model import Evaluate, PublicRows, Table

from .alike import check_keys
from .canonical import form_of_aggregate, form_of_conditions, form_of_expr, form_of_scan
from .certificate import AnyRelation, Certificate, Joined, Listed
from .expressions import Scope, columns_of, substitute
from .inline import size_of
from .rules import base_table, choose_chunks, filter_rows, group_bins, group_rows, having, project, union_all
from .tree import Aggregate, Col, Expr, Target, position
from .weight import Expressions

__all__ = ["Base", "Context", "Finished", "Grouped", "Scanned", "Source", "United", "apply", "column", "finish", "materialise", "side"]


@dataclass
class Context:
    """What one analysis shares."""

    tables: Sequence[Table]
    evaluate: Evaluate
    public: PublicRows
    leaves: int = 0
    #: trusted parts that must be tried before the charge, by scan
    probes: list[tuple[int, Expr]] = field(default_factory=list)
    expressions: Expressions = field(default_factory=Expressions)

    def leaf(self) -> int:
        self.leaves += 1
        return self.leaves

    def below(self, conditions: Sequence[Expr], columns: Mapping[int, Expr]) -> tuple[Expr, ...]:
        """Conditions in terms of a relation further down. Each part of a UNION ALL has its own, so that they are weighed as if written."""
        sizes = {number: size_of(columns[number]) for number in set[int]().union(*map(columns_of, conditions))}
        for condition in conditions:
            self.expressions.take(size_of(condition, sizes).bytes, condition)
        return tuple(substitute(condition, columns) for condition in conditions)


class Base(Protocol):
    def finish(self, conditions: Sequence[Expr], projected: Sequence[Target], context: Context) -> AnyRelation: ...


@dataclass(frozen=True)
class Source:
    base: Base
    columns: Mapping[int, Expr]
    conditions: tuple[Expr, ...] = ()
    #: columns that some level computed, used or not: PostgreSQL may evaluate them all the same
    projected: tuple[Target, ...] = ()

    def where(self, *conditions: Expr) -> Source:
        return replace(self, conditions=(*self.conditions, *conditions)) if conditions else self


def column(number: int, expr: Expr, name: str = "") -> Col:
    """A column of a base, with the type of what it is."""
    return Col(type=expr.type, rel=0, col=number, name=name or (expr.name if isinstance(expr, Col) else ""), loc=expr.loc)


def finish(source: Source, context: Context) -> AnyRelation:
    """The base with its conditions, in the base's own columns."""
    return source.base.finish(source.conditions, source.projected, context)


def materialise(source: Source, columns: Sequence[Expr], context: Context) -> Certificate:
    """A relation of its own, with columns 1, 2, …"""
    return _visible(finish(source, context), columns, context)


def side(source: Source, columns: Sequence[Expr], context: Context) -> AnyRelation:
    """A side of a join: joined rows pass as they are, to be grouped later. The join's own rule says which of them it takes."""
    below = finish(source, context)
    return below if not isinstance(below, Certificate) and _identity(columns, below) else _visible(below, columns, context)


def _visible(below: AnyRelation, columns: Sequence[Expr], context: Context) -> Certificate:
    match below:
        case Certificate():
            pass
        case Joined() | Listed():
            raise NoRule("joined rows have no rule before they are grouped", position=position(below.loc),
                         detail="One row can match any number of rows of the other side; groups of the join key are bounded.",
                         hint="Group by the columns of the join in the same subquery.")
        case _:
            assert_never(below)
    scope = Scope.of(below, context.probes)
    for expr in columns:
        scope.check(expr)
    if _identity(columns, below):
        return below
    return project.certify(columns, below, scope, ["project", below.form, [form_of_expr(e) for e in columns]])


def _identity(columns: Sequence[Expr], below: AnyRelation) -> bool:
    return len(columns) == len(below.columns) and all(isinstance(e, Col) and e.col == i for i, e in enumerate(columns, 1))


def apply(conditions: Sequence[Expr], projected: Sequence[Target], below: AnyRelation, context: Context) -> AnyRelation:
    """Projections and conditions above a finished relation."""
    scope = Scope.of(below, context.probes)
    for target in projected:
        scope.check(target.expr)
    named = [t.name for t in projected if t.name]
    if named:
        below = project.named(named, below)
    if not conditions:
        return below
    for condition in conditions:
        scope.check(condition)
    form = ["filter", below.form, form_of_conditions(conditions)]
    match below:
        case Certificate():
            kept = having.certify(conditions, below, scope) if below.keyed else filter_rows.certify(conditions, below)
            return replace(kept, form=form)
        case Joined():
            return replace(below, filtered=True, form=form)
        case Listed():
            raise NoRule("condition on the rows of listed keys has no rule here", position=position(conditions[0].loc),
                         detail="Every listed key has its group, which the condition could drop.",
                         hint="Write conditions on the private side into ON, or into FILTER of the aggregate.")
        case _:
            assert_never(below)


@dataclass(frozen=True)
class Scanned:
    """A foreign table."""

    table: Table
    leaf: int

    def finish(self, conditions: Sequence[Expr], projected: Sequence[Target], context: Context) -> AnyRelation:
        below = base_table.certify(self.table, self.leaf, None)
        scope = Scope.of(below, context.probes)
        for condition in conditions:
            # each by itself, also those that choose chunks: the room evaluates them in any order, on the chunks of all scans of the table
            scope.check(condition)
        chosen = [c for c in conditions if scope.trusted(c)]
        if chosen:
            below = choose_chunks.certify(chosen, below, context.evaluate, None)
        # what the conditions chose, and not the conditions: a moving one over the same chunks is the same
        below = replace(below, form=form_of_scan(below.leaves[0].use))
        return apply([c for c in conditions if not scope.trusted(c)], projected, below, context)


@dataclass(frozen=True)
class United:
    """UNION ALL: conditions hold for its parts."""

    parts: tuple[tuple[Source, tuple[Expr, ...]], ...]

    def finish(self, conditions: Sequence[Expr], projected: Sequence[Target], context: Context) -> AnyRelation:
        certified = []
        for source, columns in self.parts:
            below = dict(enumerate(columns, 1))
            pushed = source.where(*context.below(conditions, below))
            certified.append(materialise(pushed, columns, context))
        found = union_all.certify(certified, ["union all", [c.form for c in certified]])
        return apply((), projected, found, context)


@dataclass(frozen=True)
class Grouped:
    """GROUP BY in a subquery: conditions on its keys hold for the rows below."""

    source: Source
    keys: tuple[Expr, ...]
    aggs: tuple[Aggregate, ...]

    def finish(self, conditions: Sequence[Expr], projected: Sequence[Target], context: Context) -> AnyRelation:
        check_keys(self.keys)
        keys = dict(enumerate(self.keys, 1))
        early = [c for c in conditions if self.keys and columns_of(c) and columns_of(c) <= keys.keys()]
        below = finish(self.source.where(*context.below(early, keys)), context)
        scope = Scope.of(below, context.probes)
        bins = group_bins.applies(self.keys, scope)
        for key in self.keys:
            scope.check(key)
        form = ["group", below.form, [form_of_expr(k) for k in self.keys], [form_of_aggregate(a) for a in self.aggs]]
        if bins and isinstance(below, Certificate):
            found = group_bins.certify(self.keys, self.aggs, below, scope, context.evaluate, form)
        else:
            found = group_rows.certify(self.keys, self.aggs, below, scope, form)
        return apply([c for c in conditions if c not in early], projected, found, context)


@dataclass(frozen=True)
class Finished:
    """A relation that conditions cannot pass."""

    certificate: Certificate
    #: where its rows are the distinct values of expressions over whole chunks: the relation of these chunks, and the expressions
    counted: tuple[Certificate, tuple[Expr, ...]] | None = None

    def finish(self, conditions: Sequence[Expr], projected: Sequence[Target], context: Context) -> AnyRelation:
        return apply(conditions, projected, self.certificate, context)
