"""The levels of an inner query: sources, conditions, groups, DISTINCT, set operations, LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privid.calculus.deparse import Sql, Writer, collated, literal
from privid.calculus.expressions import conjuncts
from privid.calculus.functions import names as parts_of
from privid.calculus.tree import (
    Call,
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
    Order,
    Query,
    Select,
    SetKind,
    SetOperation,
    position,
    walk,
)
from privid.calculus.weight import check_written
from privid.errors import NoRule
from privid.model import Collected

from .grouping import Grouping, refuse_width
from .writers import Column, Groups, Names, Rows, Scope, of_type, type_of, unreadable

__all__ = ["Level", "Levels"]



@dataclass(frozen=True)
class Level:
    """A SELECT whose columns are c1, c2, …"""

    text: str
    columns: tuple[Column, ...]


class Levels:
    """Writes the levels of one statement; counts the steps of all their expressions, and their bytes with subqueries in the place of
    their columns: PostgreSQL takes short levels for the long ones that they stand for, and so much memory."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.steps, self.size = 0, 0

    def _count(self, *written: Sql | Column, copies: int = 1) -> None:
        """`copies`: of a condition, that PostgreSQL makes one for each part of a set operation below."""
        for one in written:
            self.steps += one.steps
            self.size += one.size * copies
            check_written(self.size)

    def _count_sorted(self, columns: Sequence[Column]) -> None:
        """Columns of a level that is put in order: shown, sorted by, and sorted by their texts."""
        self.size += 3 * sum(column.size for column in columns)
        check_written(self.size)

    def _count_level(self, grouping: Grouping) -> None:
        self.steps += grouping.steps
        self.size += grouping.size
        check_written(self.size)

    def release(self, select: Select, columns: Sequence[Collected]) -> str:
        """Keys k1, k2, …, then what is collected: v1, v2, …"""
        limits = select.having, select.limit, select.offset
        if limits != (None, None, None) or select.distinct or select.targets or select.order:
            raise unreadable("the level that is released has more than groups and aggregates")
        if not select.group and not select.aggs:
            raise unreadable("nothing is released")
        wanted = columns or [Collected(number) for number in range(len(select.aggs))]
        if any(not 0 <= column.agg < len(select.aggs) for column in wanted):
            raise unreadable("an aggregate is missing")
        grouping = Grouping(select.group, *self._rows(select))
        values = [grouping.collected(select.aggs[column.agg], column) for column in wanted]
        self._count_level(grouping)
        self._count(*values)
        shown = [f"{key.text} AS k{number}" for number, key in enumerate(grouping.keys, 1)]
        shown += [f"{value.text} AS v{number}" for number, value in enumerate(values, 1)]
        refuse_width(len(shown))
        return f"SELECT {', '.join(shown)}{grouping.tail(None)}"

    def query(self, query: Query) -> Level:
        if isinstance(query, SetOperation):
            return self._set_operation(query)
        return self._select(query)

    # One level

    def _select(self, select: Select) -> Level:
        if select.argmax is not None:
            raise unreadable("argmax stands in a subquery")
        rows, source = self._rows(select)
        writer: Writer = rows
        grouping = None
        if select.grouped:
            grouping = Grouping(select.group, rows, source)
            values = [grouping.value(agg) for agg in select.aggs]
            writer = Groups(self.names, grouping.keys, values)
        elif select.group or select.aggs or select.having is not None:
            raise unreadable("a level that does not group has groups")
        targets = [writer.write(target.expr) for target in select.targets]
        columns = tuple(Column(f"c{place + 1}", target.expr.type, targets[place].steps, targets[place].size)
                        for place, target in enumerate(select.targets))
        limited = select.limit is not None or select.offset is not None
        sorts, more = self._sorts(select, columns, writer) if limited else ([], [])
        having = None if select.having is None else writer.condition(select.having)
        self._count(*targets, *more, *([having] if having else []))
        if grouping is not None:
            self._count_level(grouping)
            source = grouping.tail(having.text if having else None)
        if select.distinct and not targets:
            raise unreadable("DISTINCT of no columns")
        shown = [f"{sql.text} AS c{number}" for number, sql in enumerate(targets, 1)]
        shown += [f"{sql.text} AS o{number}" for number, sql in enumerate(more, 1)]
        refuse_width(len(shown))
        text = f"SELECT{' DISTINCT' if select.distinct else ''} {', '.join(shown)}{source}"
        if limited:
            self._count_sorted(columns)
        return Level(_limited(text, columns, sorts, select) if limited else text, columns)

    def _sorts(self, select: Select, columns: Sequence[Column],
               writer: Writer) -> tuple[list[tuple[Column, Order]], list[Sql]]:
        """What the level orders by: its columns, or expressions that become columns o1, o2, …"""
        sorts, more = [], list[Sql]()
        exprs = [target.expr for target in select.targets]
        for order in select.order:
            if not isinstance(order.by, Expr):
                raise unreadable("a level is ordered by a number")
            if order.by in exprs:
                sorts.append((columns[exprs.index(order.by)], order))
            elif select.distinct:
                raise unreadable("DISTINCT rows are ordered by what is none of their columns")
            else:
                more.append(writer.write(order.by))
                sorts.append((Column(f"o{len(more)}", order.by.type), order))
        return sorts, more

    def _rows(self, select: Select) -> tuple[Rows, str]:
        """FROM and WHERE."""
        joined, scope = "", dict[tuple[int, int], Column]()
        for item in select.sources:
            text, more = self._source(item)
            joined = f"({joined} INNER JOIN {text} ON true)" if joined else text
            scope = _both(scope, more)
        rows = Rows(self.names, scope)
        source = f" FROM {joined}" if joined else ""
        if select.where is not None:
            where = rows.condition(select.where)
            self._count(where, copies=_copies(select))
            source += f" WHERE {where.text}"
        return rows, source

    def _set_operation(self, query: SetOperation) -> Level:
        sides = self._sides(query)
        if not query.columns or any(len(side.columns) != len(query.columns) for side in sides):
            raise unreadable("sides of a set operation differ")
        steps, more = [0] * len(query.columns), [0] * len(query.columns)
        texts = []
        for side in sides:
            shown = []
            for place, (column, wanted) in enumerate(zip(side.columns, query.columns, strict=True)):
                own = Column(f"s.{column.text}", column.type, column.steps, column.more)
                sql = of_type(own, wanted.type)
                steps[place], more[place] = max(steps[place], sql.steps), max(more[place], sql.size)
                shown.append(f"{sql.text} AS {column.text}")
                self._count(sql)
            texts.append(f"(SELECT {', '.join(shown)} FROM ({side.text}) AS s)")
        text = f" {query.kind.upper()}{' ALL' if query.all else ''} ".join(texts)
        columns = tuple(Column(f"c{place + 1}", column.type, steps[place], more[place])
                        for place, column in enumerate(query.columns))
        if query.limit is None and query.offset is None:
            return Level(text, columns)
        self._count_sorted(columns)
        sorts = []
        for order in query.order:
            if not isinstance(order.by, int) or not 1 <= order.by <= len(columns):
                raise unreadable("a set operation is ordered by what is none of its columns")
            sorts.append((columns[order.by - 1], order))
        return Level(_limited(text, columns, sorts, query), columns)

    def _sides(self, query: SetOperation) -> list[Level]:
        """UNION ALL of many nests to the left; written so, it takes PostgreSQL seconds to plan a hundred."""
        left = query.left
        if (isinstance(left, SetOperation) and left.kind is query.kind is SetKind.UNION and left.all and query.all
                and left.limit is None and left.offset is None
                and [column.type for column in left.columns] == [column.type for column in query.columns]):
            return [*self._sides(left), self.query(query.right)]
        return [self.query(left), self.query(query.right)]

    # FROM

    def _source(self, item: FromItem) -> tuple[str, dict[tuple[int, int], Column]]:
        match item:
            case FromTable(rel=rel, table=index):
                name, declared = self.names.tables[index], self.names.known[index].columns
                return _named(name, rel, [(c.attno, type_of(c)) for c in declared])
            case FromPublic(rel=rel, columns=listed):
                return _named(self.names.public(item), rel, [(c.number, c.type) for c in listed])
            case FromSubquery(rel=rel, select=below):
                level = self.query(below)
                return f"({level.text}) AS r{rel}", {
                    (rel, number): Column(f"r{rel}.{c.text}", c.type, c.steps, c.more)
                    for number, c in enumerate(level.columns, 1)}
            case FromJoin():
                return self._join(item)
            case FromOther(what=what, loc=loc):
                raise NoRule(f"{what} in FROM has no rule beside a foreign table of a camera",
                             detail="A release reads foreign tables, VALUES and ordinary tables.",
                             hint="Release the aggregate in a subquery and combine its rows "
                                  "outside, where any SQL is free.", position=position(loc))

    def _join(self, join: FromJoin) -> tuple[str, dict[tuple[int, int], Column]]:
        (left, first), (right, second) = self._source(join.left), self._source(join.right)
        scope = _both(first, second)
        on = "true"
        if join.on is not None:
            if join.join is JoinKind.FULL:
                _refuse_unmergeable(join.on, first, second)
            written = Rows(self.names, scope).condition(join.on)
            self._count(written, copies=_copies(join))
            on = written.text
        return f"({left} {join.join.upper()} JOIN {right} ON {on})", scope


def _named(name: str, rel: int,
           columns: Sequence[tuple[int, str]]) -> tuple[str, dict[tuple[int, int], Column]]:
    """A table of the room, its columns called by their numbers."""
    called = f"({', '.join(f'c{number}' for number, _ in columns)})" if columns else ""
    scope = {(rel, number): Column(f"r{rel}.c{number}", type_) for number, type_ in columns}
    return f"pg_temp.{name} AS r{rel}{called}", scope


def _copies(source: FromItem | Query) -> int:
    """Parts of the set operations that a condition above can go down to."""
    match source:
        case SetOperation(left=left, right=right) | FromJoin(left=left, right=right):
            return _copies(left) + _copies(right) - isinstance(source, FromJoin)
        case FromSubquery(select=below):
            return _copies(below)
        case Select(sources=sources):
            return 1 + sum(_copies(item) - 1 for item in sources)
        case _:
            return 1


def _both(one: Scope, other: Scope) -> dict[tuple[int, int], Column]:
    if {rel for rel, _ in one} & {rel for rel, _ in other}:
        raise unreadable("two relations have one number")
    return {**one, **other}


def _refuse_unmergeable(on: Expr, left: Scope, right: Scope) -> None:
    """PostgreSQL evaluates FULL JOIN on equalities of the two sides, and raises otherwise."""
    one, other = ({rel for rel, _ in side} for side in (left, right))
    for part in conjuncts(on):
        equal = isinstance(part, Call) and parts_of(part.fn)[:2] == ("pg_catalog", "=")
        used = [{node.rel for node in walk(arg) if isinstance(node, Col)} for arg in part.args]
        if not equal or not all(used) or not ((used[0] <= one and used[1] <= other)
                                              or (used[0] <= other and used[1] <= one)):
            raise NoRule("full join has no rule for this condition", position=position(part.loc),
                         detail="It must be equalities between columns of its two sides.",
                         hint="Filter each side in a subquery before the join.")


def _limited(text: str, columns: Sequence[Column], sorts: Sequence[tuple[Column, Order]],
             query: Query) -> str:
    """The first rows in an order that the rows decide: the statement's own, then every column."""
    order: dict[Column, str] = {}
    for column, sort in sorts:
        nulls = f"NULLS {'FIRST' if sort.nulls_first else 'LAST'}"
        order.setdefault(column, f"{'DESC' if sort.desc else 'ASC'} {nulls}")
    keys = [f"{collated(f'q.{column.text}', column.type)} {way}" for column, way in order.items()]
    # then by what the columns print, byte by byte: equal values need not be alike (0 and -0, 1 and 1.0), and which of them
    # is kept must not be the sort's matter
    keys += [f'q.{column.text}::pg_catalog.text COLLATE pg_catalog."C" ASC NULLS LAST' for column in columns]
    by = ", ".join(keys)
    counts = "".join(f" {word} {_number(expr)}" for word, expr in
                     (("LIMIT", query.limit), ("OFFSET", query.offset)) if expr is not None)
    shown = ", ".join(f"q.{column.text} AS {column.text}" for column in columns)
    return f"SELECT {shown} FROM ({text}) AS q{f' ORDER BY {by}' if by else ''}{counts}"


def _number(expr: Expr) -> str:
    if isinstance(expr, Const) and expr.value is None:
        return "NULL"
    if not isinstance(expr, Const) or not (str(expr.value).isascii() and str(expr.value).isdigit()):
        raise NoRule("LIMIT has no rule for a count that is not a constant",
                     position=position(expr.loc),
                     detail="The bound follows from the number of rows that are kept.",
                     hint="Write LIMIT with a number, for example LIMIT 100.")
    return f"{literal(str(expr.value))}::pg_catalog.int8"
