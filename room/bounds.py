"""The levels of a statement with their bounds: rows, values, and the cost of everything below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import assert_never

from privid.calculus.expressions import conjuncts
from privid.calculus.facts import unwidened
from privid.calculus.tree import (
    Aggregate,
    Col,
    Const,
    Expr,
    FromItem,
    FromJoin,
    GroupRef,
    Query,
    Select,
    SetKind,
    SetOperation,
    walk,
)
from privid.model import Collect, Collected

from .aggregates import adding, aggregate, binned
from .calls import NODE, call
from .lengths import held
from .relations import (
    arranging,
    grouping,
    hash_space,
    limiting,
    printed,
    printing,
    sort_space,
    sorting,
)
from .sizes import Size, fixed, join_sizes, number
from .sources import PASSED, Relation, Sources, carried, columns_of, flat, missing, width
from .values import MANY, Carried, Value

__all__ = ["Statement", "states"]

_RANGE = "privid.range(float8,float8,float8)"
_TIMES = "pg_catalog.*(numeric,numeric)"


class Statement(Sources):
    """Adds up what one statement costs, level by level."""

    #: sorts that are in the sum
    group_sorts = 0
    #: levels that were made one with those above
    levels = 0
    #: nanoseconds, memory and files of those that would be in the place of hash tables
    _sorts = 0, 0, 0

    def _might_sort(self, rows: int, keys: Sequence[Size], wide: int) -> None:
        cost, (memory, files) = sorting(rows, keys, wide, self.room), sort_space(rows, wide, self.room)
        self._sorts = (self._sorts[0] + cost, self._sorts[1] + memory, self._sorts[2] + files)

    def count_sorts(self) -> None:
        """Where PostgreSQL sorts more than what is in the sum, which hash tables it does without is
        not known: all of them."""
        planned = self.planned
        if planned.other_sorts or planned.group_sorts > self.group_sorts:
            self.cost += self._sorts[0]
            self.occupy(self._sorts[1:])

    # The level that is released

    def release(self, select: Select, columns: Sequence[Collected]) -> tuple[int, list[Size]]:
        """Rows of the result, and how wide its columns are."""
        below = self._level(select)
        wanted = columns or [Collected(place) for place in range(len(select.aggs))]
        if any(not 0 <= one.agg < len(select.aggs) for one in wanted):
            raise missing("an aggregate")
        groups, keys, aggs = self._group(
            select, below, [(select.aggs[one.agg], one) for one in wanted]
        )
        return groups, [value.size for value in (*keys, *aggs)]

    # One level

    def query(self, query: Query, rel: int) -> Relation:
        """A subquery; its columns are numbered from 1."""
        if isinstance(query, SetOperation):
            found, order = (
                self._set_operation(query, rel),
                [o.by for o in query.order if isinstance(o.by, int)],
            )
            columns = list(found.columns.values())
            sorts = [columns[place - 1] for place in order if 0 < place <= len(columns)]
            return self._limited(query, found, sorts)
        below = self._level(query)
        groups: list[Value] = []
        aggs: list[Value] = []
        rows, keys = below.rows, list[frozenset[tuple[int, int]]]()
        if query.grouped:
            rows, groups, aggs = self._group(query, below, [(agg, None) for agg in query.aggs])
            keys = _group_keys(query, rel)
            if query.having is not None:
                having = self.values(query.having, {}, groups, aggs)
                self.cost += below.under * having.cost
        scope = {} if query.grouped else below.columns
        targets = [self.values(target.expr, scope, groups, aggs) for target in query.targets]
        sorts = [
            self.values(o.by, scope, groups, aggs) for o in query.order if isinstance(o.by, Expr)
        ]
        self.cost += rows * (PASSED + sum(value.cost for value in sorts))
        if query.distinct:
            keys = [frozenset((rel, place) for place in range(1, len(targets) + 1))]
            rows = self._distinct(rows, targets)
        elif query.grouped:
            self.cost += rows * sum(value.cost for value in targets)
        # columns of public rows are public rows
        public = below.keys is None and not query.grouped and not query.distinct
        columns_ = _numbered(targets, rel)
        found = Relation(rows, max(below.under, rows), columns_, None if public else tuple(keys))
        if not query.grouped and not query.distinct:  # one level with that above, for PostgreSQL
            found = self._merged(query, below, found, rel)
        return self._limited(query, found, sorts)

    def _merged(self, query: Select, below: Relation, found: Relation, rel: int) -> Relation:
        """A level that PostgreSQL makes one with that above: its expressions are evaluated up there, and
        so are conditions on several relations, if it joins others first."""
        self.levels += 1
        columns = {}
        for place, target in enumerate(query.targets, 1):
            value = found.columns[rel, place]
            kept = carried(below.columns, columns_of(target.expr), self.levels)
            if not isinstance(target.expr, Col):  # or it is evaluated down here
                kept |= {(self.levels, -1, place, value.size.bytes)}
            columns[rel, place] = value._replace(carried=kept)
        waiting = frozenset[Carried]()
        if len(below.parts) > 1:
            waiting = carried(below.columns, _used(query) & below.columns.keys(), self.levels) | below.waiting
        return found._replace(columns=columns, leaves=below.leaves, joint=below.joint, waiting=waiting)

    def _level(self, select: Select) -> Relation:
        """FROM and WHERE."""
        conditions = conjuncts(select.where)
        used = _used(select)
        parts, more = list[Relation](), list[Expr]()
        for item in select.sources:
            for part, on in flat(item):
                if part is not None:
                    parts.append(self.item(part, used))
                more += conjuncts(on)
        self.cost += arranging(_leaves(select.sources))
        found = self.inner(parts, [*more, *conditions], used)
        return self.tested(found, (*more, *conditions))

    def _group(
        self, select: Select, below: Relation, wanted: Sequence[tuple[Aggregate, Collected | None]]
    ) -> tuple[int, list[Value], list[Value]]:
        rows = below.rows
        keys = [self.values(group.expr, below.columns) for group in select.group]
        groups = min(rows, prod(key.distinct for key in keys)) if keys else 1
        wide = width(below, _used(select)) + sum(
            key.size.bytes
            for key, group in zip(keys, select.group, strict=True)
            if not isinstance(group.expr, Col)
        )
        self.cost += rows * (PASSED + sum(key.cost for key in keys))
        sizes = [key.size for key in keys]
        if keys and any(agg.distinct for agg, _ in wanted):
            # PostgreSQL has no hash table of groups with distinct values
            self.cost += sorting(rows, sizes, wide, self.room)
            self.occupy(sort_space(rows, wide, self.room))
            self.group_sorts += 1
        elif keys:
            self._might_sort(rows, sizes, wide)
            wide += 64 * len(wanted) + sum(adding(one) for _, one in wanted if one is not None)
            self.cost += grouping(rows, groups, sizes, wide, self.room)
            self.occupy(hash_space(rows, groups, wide, self.room))
        found = [self._aggregate(agg, one, below, groups) for agg, one in wanted]
        if keys:
            self.occupy((states(groups, found), 0))
        # a condition on a key is evaluated before rows are grouped, the key being computed again
        shown = [key._replace(distinct=min(key.distinct, groups + 1)) for key in keys]
        return groups, shown, found

    def _aggregate(
        self, agg: Aggregate, collected: Collected | None, below: Relation, groups: int
    ) -> Value:
        args = [self.values(arg, below.columns) for arg in agg.args]
        step = sum(arg.cost for arg in args)
        if agg.filter is not None:
            step += self.values(agg.filter, below.columns).cost
        what = collected.what if collected is not None else Collect.VALUE
        sizes = [arg.size for arg in args]
        if what is not Collect.VALUE and args:
            counted = "pg_catalog.count(any)" if what is Collect.COUNT else "pg_catalog.sum(numeric)"
            # of a quantile the first argument is the fraction
            cost, size = self._converted(unwidened(agg.args[-1]), args[-1], collected)
            step += cost
            if what is Collect.SQUARES:
                step += args[0].cost + cost + call(_TIMES, [size, size], (), self.room)
                size = number(2 * size.whole, 2 * size.scale)
            if what is Collect.BINS and collected is not None:
                step += binned(size, len(collected.edges))
                size = number(collected.digits * (len(collected.edges) + 1))
            agg, sizes = (
                Aggregate(counted, agg.args, agg.star, False, None, agg.type, agg.loc),
                [size],
            )
        ending = aggregate(agg, sizes, below.rows, self.room)
        self.values.memory += 2 * held(sizes, ending.size)  # what a mechanism makes of them, and the result
        self.cost += below.rows * (step + ending.step) + groups * ending.end
        if agg.distinct:
            wide = sum(size.bytes for size in sizes)
            self.cost += sorting(below.rows, sizes, wide, self.room)
            self.occupy(sort_space(below.rows, wide, self.room))
        return Value(ending.size, NODE, MANY, 1)

    def _converted(self, expr: Expr, arg: Value, collected: Collected | None) -> tuple[int, Size]:
        """The argument as numeric, within its range if it has one."""
        size, cost = arg.size, 0
        if collected is not None and collected.low is not None:
            if expr.type == "numeric":
                cost += call("pg_catalog.float8(numeric)", [size], (), self.room)
            return cost + call(_RANGE, [fixed("float8")] * 3, (), self.room), number(19, 12)
        if expr.type == "float8":
            return call("pg_catalog.numeric(float8)", [size], (), self.room), number(309, 340)
        if expr.type != "numeric":
            return call("pg_catalog.numeric(int8)", [size], (), self.room), number(19)
        return cost, size

    def _distinct(self, rows: int, values: Sequence[Value], *, whole: bool = False) -> int:
        """`whole`: the hash table is in memory as a whole, however large it is."""
        groups = min(rows, prod(value.distinct for value in values))
        sizes = [value.size for value in values]
        wide = sum(size.bytes for size in sizes)
        self.cost += rows * sum(value.cost for value in values)
        self.cost += grouping(rows, groups, sizes, wide, self.room)
        self._might_sort(rows, sizes, wide)
        room = replace(self.room, hash_memory=MANY) if whole else self.room
        self.occupy(hash_space(rows, groups, wide, room))
        return groups

    def _limited(self, query: Query, found: Relation, sorts: Sequence[Value]) -> Relation:
        """The first rows, in an order of the statement's own parts and then of all columns."""
        if query.limit is None and query.offset is None:
            return found
        columns = list(found.columns.values())
        texts = [printed(value.size) for value in columns]  # the last parts of the order
        sizes = [*(value.size for value in sorts), *texts]
        kept = min(found.rows, sum(_constant(part) for part in (query.limit, query.offset)))
        self.cost += found.rows * sum(value.cost + printing(value.size) for value in columns)
        wide = sum(size.bytes for size in (*sizes, *(value.size for value in columns)))
        self.values.memory += sum(held([value.size], text) for value, text in zip(columns, texts, strict=True))
        self.cost += limiting(found.rows, kept, sizes, wide, self.room)
        self.occupy(sort_space(found.rows, wide, self.room))
        # no condition passes a limit, and its columns are there
        shown = {
            place: value._replace(cost=NODE, nodes=1, memory=0, distinct=min(value.distinct, kept + 1), carried=frozenset())
            for place, value in found.columns.items()
        }
        return Relation(kept, kept, shown, found.keys)

    def _set_operation(self, query: SetOperation, rel: int) -> Relation:
        sides = [self._side(query, side, rel) for side in (query.left, query.right)]
        listed = [list(side.columns.values()) for side in sides]
        if len(listed[0]) != len(listed[1]):
            raise missing("a column of a set operation")
        columns = [
            Value(
                join_sizes((a.size, b.size)),
                max(a.cost, b.cost) + NODE,
                min(a.distinct + b.distinct, MANY),
                a.nodes + b.nodes,  # what is asked of both is asked of each
                max(a.memory, b.memory),
            )
            for a, b in zip(*listed, strict=True)
        ]
        both = sides[0].rows + sides[1].rows
        match query.kind:
            case SetKind.UNION:
                rows = both
            case SetKind.INTERSECT:
                rows = min(sides[0].rows, sides[1].rows)
            case SetKind.EXCEPT:
                rows = sides[0].rows
            case _:
                assert_never(query.kind)
        self.cost += sum(
            side.rows * (PASSED + sum(value.cost for value in mine))
            for side, mine in zip(sides, listed, strict=True)
        )
        if not (query.kind is SetKind.UNION and query.all):
            free = [value._replace(cost=0) for value in columns]
            groups = self._distinct(both, free, whole=query.kind is not SetKind.UNION)
            rows = min(rows, groups) if not query.all else rows
        return Relation(rows, sides[0].under + sides[1].under, _numbered(columns, rel))


    def _side(self, query: SetOperation, side: Query, rel: int) -> Relation:
        """PostgreSQL puts columns of UNION ALL in the place of references to them when it has made
        hash tables of the lists that it found: it finds none in them."""
        before = self.values.looked_up
        self.values.looked_up = before and not (query.kind is SetKind.UNION and query.all)
        found = self.query(side, rel)
        self.values.looked_up = before
        return found


def states(groups: int, aggregates: Sequence[Value]) -> int:
    """Bytes that aggregates hold. They may grow when all groups are there, whatever a hash table may take."""
    return groups * sum(value.size.bytes for value in aggregates)


def _numbered(values: Sequence[Value], rel: int) -> dict[tuple[int, int], Value]:
    return {(rel, place): value._replace(carried=frozenset()) for place, value in enumerate(values, 1)}


def _group_keys(query: Select, rel: int) -> list[frozenset[tuple[int, int]]]:
    """The columns that show all groups, if they do."""
    shown: dict[int, int] = {}
    for place, target in enumerate(query.targets, 1):
        if isinstance(target.expr, GroupRef):
            shown.setdefault(target.expr.index, place)
    if not query.group or len(shown) < len(query.group):
        return []
    return [frozenset((rel, place) for place in shown.values())]


def _used(select: Select) -> set[tuple[int, int]]:
    """Columns of the level that anything refers to."""
    exprs: list[Expr | None] = [select.where, *(group.expr for group in select.group)]
    exprs += [target.expr for target in select.targets] + [
        o.by for o in select.order if isinstance(o.by, Expr)
    ]
    for agg in select.aggs:
        exprs += [*agg.args, agg.filter]
    pending = list(select.sources)
    while pending:
        item = pending.pop()
        if isinstance(item, FromJoin):
            pending += [item.left, item.right]
            exprs.append(item.on)
    return {
        (node.rel, node.col)
        for expr in exprs
        if expr is not None
        for node in walk(expr)
        if isinstance(node, Col)
    }


def _leaves(items: Sequence[FromItem]) -> int:
    """Relations that a level joins."""
    return sum(
        _leaves((item.left, item.right)) if isinstance(item, FromJoin) else 1 for item in items
    )


def _constant(expr: Expr | None) -> int:
    if expr is None:
        return 0
    if isinstance(expr, Const) and expr.value is not None and expr.value.isdigit():
        return int(expr.value)
    return MANY
