"""From the statement to certified relations: FROM, WHERE, GROUP BY, HAVING, SELECT, DISTINCT, set operations, LIMIT, level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never

from privid.errors import NoRule, RawRows

from . import show
from .alike import check_keys
from .canonical import form_of_expr
from .certificate import AnyRelation, Certificate, Joined, Listed
from .expressions import Scope, conjuncts
from .inline import Env, Inliner
from .joins import JoinedRows, ListedRows, LookedUp, Side
from .rules import distinct, except_rows, intersect, limit, union_once
from .same import same_part
from .sources import Context, Finished, Grouped, Scanned, Source, United, column, finish, materialise
from .tree import (
    Aggregate,
    Argmax,
    Col,
    Const,
    Expr,
    FromItem,
    FromJoin,
    FromOther,
    FromPublic,
    FromSubquery,
    FromTable,
    JoinKind,
    PublicColumn,
    Query,
    Select,
    SetKind,
    SetOperation,
    Target,
    bare,
    position,
)

__all__ = ["Release", "build"]


@dataclass(frozen=True)
class Release:
    """The outermost aggregation, over a certified relation; expressions are in the relation's columns."""

    relation: AnyRelation
    scope: Scope
    conditions: tuple[Expr, ...]  # every top-level conjunct: where declared keys are looked for
    group: tuple[Expr, ...]
    aggs: tuple[Aggregate, ...]
    argmax: Argmax | None
    #: its rows are all those of whole chunks, chosen by trusted conditions alone
    whole: bool
    #: its rows are the distinct values of expressions over such chunks: their relation, and the expressions
    counted: tuple[Certificate, tuple[Expr, ...]] | None = None


@dataclass(frozen=True)
class _Private:
    source: Source
    env: Env


@dataclass(frozen=True)
class _Public:
    public: FromPublic


_Item: TypeAlias = _Private | _Public


def build(select: Select, context: Context) -> Release:
    """The release as the rules see it, or a refusal."""
    if not select.aggs and not select.group:
        raise RawRows("rows of a foreign table of a camera cannot be shown",
                      detail="Only aggregates leave the database, with noise.",
                      hint="Write an aggregate, for example SELECT count(*) FROM ....")
    if select.having is not None:
        raise NoRule("HAVING has no rule in the level that is released", position=position(select.having.loc),
                     detail="Which groups appear would show what the video shows.",
                     hint="Apply the condition to the released rows: SELECT * FROM (SELECT ..., count(*) AS n ... GROUP BY ...) q "
                          "WHERE n > ....")
    _refuse_limits(select)
    if select.argmax is not None and (not select.argmax.of or not 0 <= select.argmax.agg < len(select.aggs)
                                      or not set(select.argmax.of) <= set(range(len(select.group)))):
        raise NoRule("statement has a part that no rule covers", detail="In the analysed statement: argmax of no group or aggregate.",
                     hint="Write SELECT key ... GROUP BY key ORDER BY count(*) DESC LIMIT 1.")
    walker = _Walker(context)
    item = walker.level(select)
    inline = Inliner(item.env, walker.context.expressions)
    source = item.source
    relation = finish(source, context)
    scope = Scope.of(relation, context.probes)
    group = tuple(inline(g.expr) for g in select.group)
    check_keys(group)
    aggs = tuple(walker.aggregate(a, inline) for a in select.aggs)
    for expr in group:
        scope.check(expr)
    for expr in (e for a in aggs for e in (*a.args, *conjuncts(a.filter))):
        scope.check(expr)
    return Release(relation, scope, source.conditions, group, aggs, select.argmax, _whole(source, scope), _counted(source, context))


def _whole(source: Source, scope: Scope) -> bool:
    return isinstance(source.base, Scanned) and all(map(scope.trusted, source.conditions))


def _counted(source: Source, context: Context) -> tuple[Certificate, tuple[Expr, ...]] | None:
    match source.base:
        case Finished(counted=counted):
            return counted
        case Grouped(source=rows, keys=keys, aggs=()):
            below = finish(rows, context)
            return (below, keys) if isinstance(below, Certificate) and _whole(rows, Scope.of(below)) else None
    return None


def _refuse_limits(select: Select) -> None:
    if select.distinct:
        raise NoRule("DISTINCT has no rule in the level that is released", detail="Groups of a release are distinct already.",
                     hint="Write GROUP BY over trusted columns or declared keys instead.")
    for clause, expr in (("LIMIT", select.limit), ("OFFSET", select.offset)):
        if expr is not None:
            raise NoRule(f"{clause} has no rule in the level that is released", position=position(expr.loc),
                         detail=f"The rule for {clause} is missing.",
                         hint=f"Apply {clause} to the released rows: SELECT ... FROM (SELECT ..., count(*) ... GROUP BY ...) q "
                              f"{clause} ....")


class _Walker:
    def __init__(self, context: Context) -> None:
        self.context = context

    # One level

    def level(self, select: Select) -> _Private:
        """FROM and WHERE."""
        item = self.sources(select.sources)
        if isinstance(item, _Public):
            raise _nothing_private(item.public)
        inline = Inliner(item.env, self.context.expressions)
        return _Private(item.source.where(*conjuncts(inline.maybe(select.where))), item.env)

    def query(self, query: Query) -> Source:
        """A subquery; its visible columns are numbered from 1."""
        if isinstance(query, SetOperation):
            return self.limited(query, self.set_operation(query), [[o.by, o.desc, o.nulls_first] for o in query.order])
        item = self.level(query)
        inline = Inliner(item.env, self.context.expressions)
        source = item.source
        if query.grouped:
            keys = tuple(inline(g.expr) for g in query.group)
            aggs = tuple(self.aggregate(a, inline) for a in query.aggs)
            groups = tuple(column(i, k, g.name) for i, (k, g) in enumerate(zip(keys, query.group, strict=True), 1))
            results = tuple(Col(type=a.type, rel=0, col=len(keys) + j, name=_label(a)) for j, a in enumerate(aggs, 1))
            inline = Inliner({}, self.context.expressions, groups, results)
            source = Source(Grouped(source, keys, aggs), {}, conjuncts(inline.maybe(query.having)))
        columns = {i: inline(t.expr) for i, t in enumerate(query.targets, 1)}
        computed = tuple(Target(t.name, columns[i]) for i, t in enumerate(query.targets, 1) if not isinstance(columns[i], Col))
        # what the level orders by is evaluated on its rows too, whether or not anyone sees it
        sorts = tuple(Target("", inline(o.by)) for o in query.order if isinstance(o.by, Expr))
        source = replace(source, columns=columns, projected=(*source.projected, *computed, *sorts))
        if query.distinct:
            source = self.distinct(source)
        return self.limited(query, source, [[form_of_expr(t.expr), o.desc, o.nulls_first]
                                            for t, o in zip(sorts, query.order, strict=True)])

    def aggregate(self, agg: Aggregate, inline: Inliner) -> Aggregate:
        return replace(agg, args=tuple(map(inline, agg.args)), filter=inline.maybe(agg.filter))

    def inlined(self, on: Expr | None, env: Env) -> Expr | None:
        return Inliner(env, self.context.expressions).maybe(on)

    def distinct(self, source: Source) -> Source:
        parts = source.base.parts if isinstance(source.base, United) else ()
        once = union_once.kept(parts, same_part)
        if len(once) < len(parts):
            below = union_once.says(finish(replace(source, base=United(tuple(once))), self.context), len(parts), len(once))
        else:
            below = finish(source, self.context)
        columns = tuple(source.columns.values())
        check_keys(columns)
        scope = Scope.of(below, self.context.probes)
        for expr in columns:
            scope.check(expr)
        found = distinct.certify(columns, below, scope, self.context.evaluate, ["distinct", below.form, [form_of_expr(e) for e in columns]])
        return _finished(found, columns, (below, columns) if isinstance(below, Certificate) and _whole(source, scope) else None)

    def limited(self, query: Query, source: Source, order: list[list[Any]]) -> Source:
        if query.offset is not None:
            raise NoRule("OFFSET has no rule in a subquery", position=position(query.offset.loc), detail="The rule for OFFSET is missing.",
                         hint="Leave OFFSET out, or apply it to the released rows.")
        if query.limit is None:
            return source
        columns = tuple(source.columns.values())
        below = materialise(source, columns, self.context)
        return _finished(limit.certify(query.limit, below, ["limit", below.form, form_of_expr(query.limit), order]), columns)

    # Set operations

    def set_operation(self, query: SetOperation) -> Source:
        parts = self.parts(query) if query.kind is SetKind.UNION else [self.query(query.left), self.query(query.right)]
        names = [c.name for c in query.columns]
        columns = tuple(Col(type=c.type, rel=0, col=i, name=names[i - 1]) for i, c in enumerate(query.columns, 1))
        numbered = dict(enumerate(columns, 1))
        if any(len(part.columns) != len(columns) for part in parts):
            raise NoRule("statement has a part that no rule covers", detail="In the analysed statement: sides of a set operation differ.",
                         hint="Select the same number of columns on both sides.")
        if query.kind is SetKind.UNION:
            united = Source(United(tuple((part, tuple(part.columns.values())) for part in parts)), numbered)
            return united if query.all else self.distinct(united)
        check_keys(columns)
        left, right = (materialise(part, tuple(part.columns.values()), self.context) for part in parts)
        for side in (left, right):
            _refuse_joined(side, -1)
        form = [query.kind, query.all, left.form, right.form]
        match query.kind:
            case SetKind.INTERSECT:
                found = intersect.certify(left, right, form)
            case SetKind.EXCEPT:
                found = except_rows.certify(left, right, form)
            case _:
                assert_never(query.kind)
        return Source(Finished(found), numbered)

    def parts(self, query: SetOperation) -> list[Source]:
        """UNION ALL of many, which nests to the left, as one list."""
        found: list[Source] = []
        pending: list[Query] = [query]
        while pending:
            one = pending.pop()
            # UNION drops duplicates at the end anyway, so inner ALL or not is the same
            if isinstance(one, SetOperation) and (one is query or _joins(one, query)):
                pending += [one.right, one.left]
            else:
                found.append(self.query(one))
        return found

    # FROM

    def sources(self, items: Sequence[FromItem]) -> _Item:
        """A list of sources is an inner join of them: private ones first, then the public ones that they look up."""
        flat = [part for item in items for part in _flat(item)]
        conditions = [on for _, on in flat if on is not None]
        found = [self.item(item) for item, _ in flat if item is not None]
        if not found:
            raise _no_source()
        found.sort(key=lambda item: isinstance(item, _Public))
        together = found[0]
        loc = max((item.loc for item in items if isinstance(item, FromJoin)), default=-1)
        for other in found[1:]:
            together = self.join(together, other, JoinKind.INNER, None, loc)
        if conditions and isinstance(together, _Private):
            inline = Inliner(together.env, self.context.expressions)
            wanted = [part for on in conditions for part in conjuncts(inline(on))]
            together = _Private(together.source.where(*wanted), together.env)
        return together

    def item(self, item: FromItem) -> _Item:
        match item:
            case FromTable(rel=rel, table=index):
                if not 0 <= index < len(self.context.tables):
                    raise NoRule("statement has a part that no rule covers", detail="In the analysed statement: a table is missing.",
                                 hint="Write an aggregate over foreign tables with WHERE and GROUP BY.")
                table = self.context.tables[index]
                columns: dict[int, Expr] = {c.attno: Col(type=c.type if c.type != "enum" else c.type_name, rel=0, col=c.attno, name=c.name)
                                            for c in table.columns}
                return _Private(Source(Scanned(table, self.context.leaf()), columns), {(rel, i): e for i, e in columns.items()})
            case FromSubquery(rel=rel, select=inner):
                renamed = _renamed(item)
                if renamed is not None:
                    return _Public(renamed)
                source = self.query(inner)
                return _Private(source, {(rel, i): e for i, e in source.columns.items()})
            case FromPublic():
                return _Public(item)
            case FromJoin():
                return self.outer(item)
            case FromOther(what=what, loc=loc):
                raise NoRule(f"{what} in FROM has no rule beside a foreign table of a camera", position=position(loc),
                             detail="A release reads foreign tables, VALUES and ordinary tables, alone, joined or through subqueries.",
                             hint="Release the aggregate in a subquery and combine its rows outside, where any SQL is free.")

    def outer(self, node: FromJoin) -> _Item:
        left, right = self.sources([node.left]), self.sources([node.right])
        if node.join is JoinKind.RIGHT:
            return self.join(right, left, JoinKind.LEFT, node.on, node.loc)
        return self.join(left, right, node.join, node.on, node.loc)

    def join(self, left: _Item, right: _Item, kind: JoinKind, on: Expr | None, loc: int) -> _Item:
        if isinstance(left, _Public) and isinstance(right, _Public):
            raise NoRule("join of public relations has no rule beside a foreign table of a camera", position=position(loc),
                         detail="Each public relation is joined to private rows by a unique key of its own.",
                         hint="Join each of them to the foreign table, or make one table of them first.")
        if isinstance(left, _Public) and isinstance(right, _Private):
            if kind is JoinKind.INNER:
                return self.join(right, left, kind, on, loc)
            if kind is JoinKind.FULL:
                raise _full(left.public, loc)
            side, own = _side(right, len(left.public.columns))
            env = {**_public_env(left.public, 0), **own}
            return _Private(Source(ListedRows(left.public, side, conjuncts(self.inlined(on, env)), loc), _visible(env)), env)
        assert isinstance(left, _Private)
        side, own = _side(left, 0)
        if isinstance(right, _Public):
            if kind is JoinKind.FULL:
                raise _full(right.public, loc)
            env = {**own, **_public_env(right.public, len(side.columns))}
            return _Private(Source(LookedUp(side, right.public, kind, conjuncts(self.inlined(on, env)), loc), _visible(env)), env)
        second, others = _side(right, len(side.columns))
        env = {**own, **others}
        return _Private(Source(JoinedRows(side, second, kind, conjuncts(self.inlined(on, env)), loc), _visible(env)), env)


def _joins(one: SetOperation, outer: SetOperation) -> bool:
    return one.kind is SetKind.UNION and (one.all or not outer.all) and one.limit is None and one.offset is None


def _label(agg: Aggregate) -> str:
    return show.aggregate(agg)


def _finished(certificate: Certificate, columns: Sequence[Expr],
              counted: tuple[Certificate, tuple[Expr, ...]] | None = None) -> Source:
    numbered: Mapping[int, Expr] = {i: column(i, expr) for i, expr in enumerate(columns, 1)}
    return Source(Finished(certificate, counted), numbered)


def _flat(item: FromItem) -> list[tuple[FromItem | None, Expr | None]]:
    """Inner joins as a list of sources and conditions."""
    if isinstance(item, FromJoin) and item.join is JoinKind.INNER:
        return [*_flat(item.left), *_flat(item.right), (None, item.on)]
    return [(item, None)]


def _side(item: _Private, offset: int) -> tuple[Side, dict[tuple[int, int], Expr]]:
    """The item's columns numbered from offset + 1, and what they are called."""
    columns = tuple(item.env.values())
    env: dict[tuple[int, int], Expr] = {name: column(offset + i, expr) for i, (name, expr) in enumerate(item.env.items(), 1)}
    return Side(item.source, columns), env


def _public_env(public: FromPublic, offset: int) -> dict[tuple[int, int], Expr]:
    return {(public.rel, c.number): Col(type=c.type, rel=0, col=offset + place, name=c.name) for place, c in enumerate(public.columns, 1)}


def _renamed(item: FromSubquery) -> FromPublic | None:
    """(VALUES ...) k(key), or a subquery that only picks columns of a public relation: the relation itself, under other names."""
    inner = item.select
    if isinstance(inner, SetOperation) or inner.grouped or (inner.where, inner.limit, inner.offset) != (None, None, None):
        return None
    if not inner.sources and inner.targets:
        # VALUES with one row has become a SELECT of constants
        row = [bare(t.expr) for t in inner.targets]
        columns = tuple(PublicColumn(t.name, t.expr.type, i) for i, t in enumerate(inner.targets, 1))
        texts = tuple(e.value for e in row if isinstance(e, Const))
        return FromPublic(item.rel, item.alias, columns, (texts,)) if len(texts) == len(row) else None
    if len(inner.sources) != 1:
        return None
    public = inner.sources[0]
    if isinstance(public, FromSubquery):
        public = _renamed(public) or public
    if not isinstance(public, FromPublic):
        return None
    places = {c.number: place for place, c in enumerate(public.columns)}
    picked = [t.expr for t in inner.targets]
    if not all(isinstance(e, Col) and e.rel == public.rel and e.col in places for e in picked):
        return None
    chosen = [places[e.col] for e in picked if isinstance(e, Col)]
    columns = tuple(replace(public.columns[place], name=t.name, number=i)
                    for i, (place, t) in enumerate(zip(chosen, inner.targets, strict=True), 1))
    rows = [tuple(row[place] for place in chosen) for row in public.rows]
    # rows that print alike are one; whether others are equal is PostgreSQL's to say, where they are joined (lookup.check_unique)
    return FromPublic(item.rel, item.alias, columns, tuple(dict.fromkeys(rows) if inner.distinct else rows))


def _visible(env: Env) -> dict[int, Expr]:
    return dict(enumerate(env.values(), 1))


def _refuse_joined(below: AnyRelation, loc: int) -> None:
    if isinstance(below, Joined | Listed):
        raise NoRule("joined rows have no rule here", position=position(loc),
                     detail="One row can match any number of rows of the other side; groups of the join key are bounded.",
                     hint="Group by the join key first.")


def _full(public: FromPublic, loc: int) -> NoRule:
    return NoRule(f'full join with "{public.alias}" has no rule', position=position(loc),
                  detail="Rows of both sides would appear without a match.", hint=f'Write LEFT JOIN, with "{public.alias}" on either side.')


def _nothing_private(public: FromPublic) -> NoRule:
    return NoRule(f'subquery reads only the public "{public.alias}"',
                  detail="A relation of a release comes from a foreign table of a camera.",
                  hint=f'Join "{public.alias}" to the foreign table directly.')


def _no_source() -> NoRule:
    return NoRule("subquery without FROM has no rule here", detail="A relation of a release comes from a foreign table of a camera.",
                  hint="Use a constant, or VALUES.")
