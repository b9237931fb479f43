"""FROM with its bounds: rows of tables and public relations, and of their joins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from privid.calculus.expressions import conjuncts
from privid.calculus.functions import names
from privid.calculus.tree import (
    Call,
    Col,
    Const,
    Expr,
    FromItem,
    FromJoin,
    FromPublic,
    FromSubquery,
    FromTable,
    JoinKind,
    Query,
    Relabel,
    walk,
)
from privid.errors import NoRule
from privid.model import Column, Table, TableUse

from .calls import NODE
from .plans import Planned
from .premises import Room
from .relations import (
    joining,
    loading,
    making,
    pairing,
    scanning,
    set_aside_space,
    side_space,
    split_space,
    splitting,
)
from .sizes import Size, enum, fixed, join_sizes, of_literal, program_text, text
from .values import MANY, Carried, Value, Values

__all__ = ["PASSED", "Relation", "Sources", "carried", "columns_of", "flat", "has_hash", "missing", "width"]

#: bytes of a message with rows: one, and the largest block that may be added to it
_MESSAGE = 64 << 20
#: the column that an expression is which is none
_NONE = (-1, -1)
#: types of whole numbers, which have one family of hash functions
_WHOLE = frozenset({"int2", "int4", "int8"})
#: passing a row from one level to the next
PASSED = 15


class Relation(NamedTuple):
    rows: int
    #: rows on which a condition of the level above may be evaluated, further down
    under: int
    columns: dict[tuple[int, int], Value]
    #: sets of columns that have no values twice; None for public rows: whatever is equated has none
    keys: tuple[frozenset[tuple[int, int]], ...] | None = ()
    #: rows of the relations that PostgreSQL joins with those of the level above, in any order
    leaves: tuple[int, ...] = ()
    #: what conditions on several of these cost: they wait until all of them are joined
    joint: int = 0
    #: what its rows carry along for these
    waiting: frozenset[Carried] = frozenset()

    @property
    def parts(self) -> tuple[int, ...]:
        return self.leaves or (self.rows,)


class Sources(ABC):
    """Adds up what the relations of FROM cost."""

    def __init__(
        self, tables: Sequence[Table], uses: Sequence[TableUse], room: Room, planned: Planned
    ) -> None:
        self.tables = {table.index: table for table in tables}
        self.runs = {use.table.index: use.count for use in uses}
        self.room = room
        self.planned = planned
        self.values = Values(room)
        self.cost = 0
        self.memory = 0
        self.files = 0
        #: bytes of the largest hash table of a join
        self.largest = 0
        self.scanned: set[int] = set()

    @property
    def nodes(self) -> int:
        return self.values.nodes

    @property
    def items(self) -> int:
        return self.values.items

    def occupy(self, space: tuple[int, int]) -> None:
        """Bytes of memory and of files, until the statement ends."""
        self.memory += space[0]
        self.files += space[1]

    @abstractmethod
    def query(self, query: Query, rel: int) -> Relation:
        """A subquery; its columns are numbered from 1."""

    def item(self, item: FromItem, used: set[tuple[int, int]]) -> Relation:
        match item:
            case FromTable(rel=rel, table=index):
                return self._scan(rel, index)
            case FromSubquery(rel=rel, select=below):
                return self.query(below, rel)
            case FromPublic():
                return self._public(item)
            case FromJoin():
                return self._outer(item, used)
        raise missing(f"{item.what} in FROM")

    def _scan(self, rel: int, index: int) -> Relation:
        table = self.tables.get(index)
        if table is None:
            raise missing("a table")
        runs = self.runs.get(index, table.grid.count * len(table.region_names))
        rows = runs * table.max_rows
        found = {(rel, column.attno): _column(column, table, runs) for column in table.columns}
        self.scanned.add(index)
        sizes = [value.size for value in found.values()]
        self.memory += _MESSAGE  # a scan holds one message at a time
        self.cost += scanning(table, runs, sizes)
        return Relation(rows, rows, found)

    def _public(self, item: FromPublic) -> Relation:
        if item.rows is None:
            raise missing(f'the rows of "{item.alias}"')
        widths = [Size(0)] * len(item.columns)
        bytes_ = 0
        for row in item.rows:
            for place, (cell, column) in enumerate(zip(row, item.columns, strict=True)):
                literal = _literal(cell)
                size = of_literal(literal, column.type)
                widths[place] = join_sizes((widths[place], size))
                bytes_ += 4 * len(literal or "")
        rows = len(item.rows)
        labels = [getattr(column, "labels", None) or () for column in item.columns]
        self.cost += making(1 + sum(map(bool, labels)), len(item.columns), sum(map(len, labels)))
        self.cost += loading(rows, len(item.columns), bytes_)
        columns = {
            (item.rel, column.number): Value(size, NODE, rows + 1)
            for column, size in zip(item.columns, widths, strict=True)
        }
        return Relation(rows, rows, columns, None)

    def inner(
        self, parts: Sequence[Relation], conditions: Sequence[Expr], used: set[tuple[int, int]]
    ) -> Relation:
        """An inner join of all of them; PostgreSQL may begin anywhere."""
        if not parts:
            return Relation(1, 1, {})
        first, *others = sorted(parts, key=lambda part: part.keys is None)
        together = first
        for other in others:
            together = self._join(together, other, JoinKind.INNER, conditions, used, crowd=len(parts) > 2)
        self._hold(together, parts, used)
        looked_at = [
            (1,) if self._is_pinned(part, conditions) else part.parts for part in parts
        ]
        return self._paired(together, parts, looked_at, used)

    def _is_pinned(self, part: Relation, conditions: Sequence[Expr]) -> bool:
        """Is it public rows of which PostgreSQL joins one at most? They are joined by a unique key;
        where it must equal a constant, PostgreSQL sees to that when it reads them."""
        if part.keys is not None or self.planned.whole_scans:
            return False
        equal = [pair for pair in map(_same, conditions) if pair is not None]
        pinned = {a for a, b in equal if b is None}
        for _ in equal:
            pinned |= {c for a, b in equal if b is not None and pinned & {a, b} for c in (a, b)}
        keys = {c for a, b in equal if b is not None for c in (a, b)
                if c in part.columns and not {a, b} <= part.columns.keys()}
        joined = [test for test in conditions if 0 < len(columns_of(test) & part.columns.keys())
                  < len(columns_of(test))]
        return bool(keys) and keys <= pinned and all(map(_same, joined))

    def _outer(self, item: FromJoin, used: set[tuple[int, int]]) -> Relation:
        left, right = self.item(item.left, used), self.item(item.right, used)
        conditions = conjuncts(item.on)
        found = self._join(left, right, item.join, conditions, used)
        self._hold(found, (left, right), used)
        found = self._paired(found, (left, right), (left.parts, right.parts), used)
        return self.tested(found, conditions)

    def tested(self, found: Relation, conditions: Iterable[Expr]) -> Relation:
        """With conditions evaluated: its own, and those of several relations below it, which
        PostgreSQL may evaluate here, where it begins with another join."""
        joins = max(1, len(found.parts) - 1)
        own = sum(self.values(test, found.columns).cost * _times(test, joins) for test in conditions)
        self.cost += found.under * (PASSED + own + (found.joint if len(found.parts) > 2 else 0))
        return found._replace(joint=found.joint + own) if len(found.parts) > 1 else found

    def _hold(
        self, found: Relation, parts: Sequence[Relation], used: set[tuple[int, int]]
    ) -> None:
        """The hash tables of a level's joins. Nothing is known of the order in which PostgreSQL joins,
        nor of which side it makes a hash table: at worst all relations but one are joined in it."""
        if len(parts) < 2:
            return
        leaves = [max(rows, 1) for part in parts for rows in part.parts]
        wide = sum(width(part, used) for part in parts)
        if len(leaves) == 2:
            side = max(side_space(part.rows, width(part, used)) for part in parts)
        else:
            # the one that is left out makes no row more, if it has each key once
            multiplied = found.rows >= prod(leaves)
            rows = found.rows // min(leaves) if multiplied else found.rows
            side = side_space(max(rows, *leaves), wide)
        self.largest = max(self.largest, side)
        self.occupy(((len(leaves) - 1) * side, 0))
        if self.planned.batches:
            bytes_ = (len(leaves) - 1) * 2 * side
            self.cost += splitting(bytes_, self.planned.batches, self.room)
            self.occupy(split_space(bytes_, self.planned.batches))

    def _paired(
        self,
        found: Relation,
        parts: Sequence[Relation],
        looked_at: Sequence[tuple[int, ...]],
        used: set[tuple[int, int]],
    ) -> Relation:
        """Where PostgreSQL looks at all pairs of one join, it may be any: nothing is known of the
        order in which it joins, nor which keys the pairs have by then."""
        if not self.planned.nested_loops or len(parts) < 2:
            return found
        wide = sum(width(part, used) for part in parts)
        sizes = sorted((max(rows, 1) for part in looked_at for rows in part), reverse=True)
        pairs = sizes[0]
        for size in sizes[1:]:
            self.cost += pairing(pairs, size, wide)
            self.occupy(set_aside_space(pairs, wide, self.room))
            pairs *= size
        return found._replace(under=max(found.under, pairs))

    def _join(
        self,
        left: Relation,
        right: Relation,
        kind: JoinKind,
        conditions: Iterable[Expr],
        used: set[tuple[int, int]],
        crowd: bool = False,
    ) -> Relation:
        columns = {**left.columns, **right.columns}
        equated = [
            sides
            for condition in conditions
            if (sides := _equated(condition, left, right)) is not None
        ]
        pairs = max(left.rows, 1) * max(right.rows, 1)
        # a side that has each key once gives each row of the other one partner; of many relations
        # only public ones are known to
        if equated and _once(right, {_plain(b) for _, b in equated}, crowd):
            pairs = left.rows
        if equated and _once(left, {_plain(a) for a, _ in equated}, crowd):
            pairs = min(pairs, right.rows)
        values = [[self.values(arg, columns) for arg in sides] for sides in equated]
        keys = [join_sizes([value.size for value in both]) for both in values]
        widths = width(left, used), width(right, used)
        self.cost += joining(left.rows, right.rows, pairs, keys, widths, self.room)
        rows = (
            pairs
            + (left.rows if kind in (JoinKind.LEFT, JoinKind.FULL) else 0)
            + (right.rows if kind in (JoinKind.RIGHT, JoinKind.FULL) else 0)
        )
        wider = {
            place: value._replace(distinct=min(value.distinct + 1, MANY))
            for place, value in columns.items()
        }
        leaves = left.parts + right.parts
        under = max(rows, left.under + right.under)
        return Relation(rows, under, wider, (), leaves, left.joint + right.joint, left.waiting | right.waiting)


def missing(what: str) -> NoRule:
    return NoRule(
        "statement has a part that no rule covers",
        detail=f"In the analysed statement: {what} has no bound.",
        hint="Write an aggregate over foreign tables with WHERE and GROUP BY.",
    )


def flat(item: FromItem) -> list[tuple[FromItem | None, Expr | None]]:
    """Inner joins as a list of sources and conditions."""
    if isinstance(item, FromJoin) and item.join is JoinKind.INNER:
        return [*flat(item.left), *flat(item.right), (None, item.on)]
    return [(item, None)]


def width(relation: Relation, used: set[tuple[int, int]]) -> int:
    """Bytes of a row's columns that are used, or of those below of which they are still to be computed."""
    found = carried(relation.columns, used & relation.columns.keys(), 0) | relation.waiting
    return sum(bytes_ + 8 for *_, bytes_ in found)


def carried(columns: Mapping[tuple[int, int], Value], used: Iterable[tuple[int, int]], level: int) -> frozenset[Carried]:
    """What rows have for these columns. `level`: a number that no other level has."""
    found = frozenset[Carried]()
    for place in used:
        found |= columns[place].carried or {(level, *place, columns[place].size.bytes)}
    return found


def columns_of(expr: Expr) -> set[tuple[int, int]]:
    return {(node.rel, node.col) for node in walk(expr) if isinstance(node, Col)}


def _equated(condition: Expr, left: Relation, right: Relation) -> tuple[Expr, Expr] | None:
    """What of the left side an equality compares with what of the right, by their hashes."""
    if not isinstance(condition, Call) or len(condition.args) != 2:
        return None
    if not has_hash(condition.fn):
        return None
    first, second = condition.args
    a, b = columns_of(first), columns_of(second)
    if a and b and a <= left.columns.keys() and b <= right.columns.keys():
        return first, second
    if a and b and b <= left.columns.keys() and a <= right.columns.keys():
        return second, first
    return None


def _times(condition: Expr, joins: int) -> int:
    """How often a row's condition may be computed. Of an equality PostgreSQL makes a class with others:
    it compares neighbours of that when it reads a relation, and for each join computes a side to look it
    up and again to make sure."""
    match condition:
        case Call(args=(first, second), fn=fn) if names(fn)[:2] == ("pg_catalog", "="):
            if not isinstance(first, Const) and not isinstance(second, Const) and _NONE in (_plain(first), _plain(second)):
                return 1 + 2 * joins
    return 1


def has_hash(fn: str) -> bool:
    """Is it an equality that PostgreSQL looks up in a hash table? Moments of two types are not:
    they are compared one by one. Whole numbers are."""
    schema, name, types = names(fn)
    alike = len(set(types)) == 1 or set(types) <= _WHOLE
    return (schema, name) == ("pg_catalog", "=") and alike


def _same(condition: Expr) -> tuple[tuple[int, int], tuple[int, int] | None] | None:
    """Two columns of one type that are to be equal, or one column that is to equal a constant."""
    if not isinstance(condition, Call) or len(condition.args) != 2 or not has_hash(condition.fn):
        return None
    first, second = sorted(condition.args, key=lambda arg: isinstance(arg, Const))
    if len(set(names(condition.fn)[2])) != 1 or _plain(first) == _NONE:
        return None
    if isinstance(second, Const):
        return None if second.value is None else (_plain(first), None)
    return None if _plain(second) == _NONE else (_plain(first), _plain(second))


def _plain(expr: Expr) -> tuple[int, int]:
    """The column that an expression is; of no relation, if it is none."""
    while isinstance(expr, Relabel):
        expr = expr.args[0]
    return (expr.rel, expr.col) if isinstance(expr, Col) else _NONE


def _once(side: Relation, equated: set[tuple[int, int]], crowd: bool) -> bool:
    """Has the side each value of the equated columns once? The calculus joins public rows by a
    unique key only."""
    return side.keys is None or (not crowd and any(key <= equated for key in side.keys))


def _column(column: Column, table: Table, runs: int) -> Value:
    rows = runs * table.max_rows
    if column.trusted and column.type == "text":
        chars = max(map(len, table.region_names), default=0)
        return Value(text(chars), NODE, len(table.region_names) + 1)
    if column.trusted:
        return Value(fixed("timestamptz"), NODE, runs + 1)
    if column.labels is not None:
        return Value(enum(column.labels), NODE, len(column.labels) + 1, 1, True)
    if column.keys is not None:
        sizes = [of_literal(key, "text") for key in column.keys]
        return Value(join_sizes(sizes), NODE, min(len(sizes), rows) + 1)
    if column.type == "text":
        return Value(program_text(), NODE, rows + 1)
    return Value(
        fixed(column.type),
        NODE,
        3 if column.type == "boolean" else rows + 1,
        1,
        column.type == "boolean",
    )


def _literal(cell: object) -> str | None:
    """A value of a public row: a text, or a constant under casts that change nothing."""
    while isinstance(cell, Expr):
        if isinstance(cell, Const):
            return cell.value
        if len(cell.args) != 1:
            raise missing("a value of the public rows")
        cell = cell.args[0]
    if cell is None or isinstance(cell, str):
        return cell
    raise missing("a value of the public rows")
