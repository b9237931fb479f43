"""What the room calls things, and expressions as it evaluates them: over rows and over groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from privid.calculus.deparse import Sql, Writer, collated
from privid.calculus.tree import (
    AggRef,
    Col,
    FromItem,
    FromJoin,
    FromPublic,
    FromSubquery,
    FromTable,
    GroupRef,
    Query,
    SetOperation,
)
from privid.errors import NoRule
from privid.model import Column as TableColumn
from privid.model import Table

__all__ = ["Column", "Groups", "Names", "Rows", "Scope", "of_type", "type_of", "unreadable"]


@dataclass(frozen=True)
class Column:
    """A column that expressions refer to: how, its type, the steps that its value takes, and the bytes that it stands for."""

    text: str
    type: str
    steps: int = 1
    more: int = 0

    @property
    def size(self) -> int:
        return len(self.text) + self.more


#: columns of a level's relations, by relation and number
Scope: TypeAlias = Mapping[tuple[int, int], Column]


def type_of(column: TableColumn) -> str:
    """The type of a table's column as expressions name it."""
    return column.type_name if column.type == "enum" else column.type


class Names:
    """What the room calls the tables, public relations and enums of a request."""

    def __init__(self, query: Query, tables: Sequence[Table]) -> None:
        self.known = {table.index: table for table in tables}
        self.tables: dict[int, str] = {}
        self.publics: list[tuple[FromPublic, str]] = []
        self.enums: dict[str, tuple[str, tuple[str, ...]]] = {}
        # all of them first: an expression may use an enum of a relation that stands further down
        self._query(query)

    def public(self, wanted: FromPublic) -> str:
        return next(name for public, name in self.publics if public is wanted)

    def _query(self, query: Query) -> None:
        if isinstance(query, SetOperation):
            self._query(query.left)
            self._query(query.right)
        else:
            for item in query.sources:
                self._item(item)

    def _item(self, item: FromItem) -> None:
        match item:
            case FromTable(table=index):
                if index not in self.known:
                    raise unreadable("a table is missing")
                if index not in self.tables:
                    self.tables[index] = f"t{len(self.tables)}"
                    for column in self.known[index].columns:
                        self._enum(type_of(column), column.labels)
            case FromPublic():
                self.publics.append((item, f"p{len(self.publics)}"))
                for listed in item.columns:
                    self._enum(listed.type, listed.labels)
            case FromSubquery(select=below):
                self._query(below)
            case FromJoin(left=left, right=right):
                self._item(left)
                self._item(right)

    def _enum(self, type_: str, labels: tuple[str, ...] | None) -> None:
        if labels is None:
            return
        if self.enums.setdefault(type_, (f"e{len(self.enums)}", labels))[1] != labels:
            raise unreadable(f"type {type_} has labels of two kinds")


class _Room(Writer):
    """Names of a request's enums."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def enum(self, type_: str) -> str | None:
        return f"pg_temp.{self.names.enums[type_][0]}" if type_ in self.names.enums else None


class Rows(_Room):
    """Over the rows of a level's relations."""

    def __init__(self, names: Names, scope: Scope) -> None:
        super().__init__(names)
        self.scope = scope

    def column(self, col: Col) -> Sql:
        found = self.scope.get((col.rel, col.col))
        if found is None or found.type != col.type:
            raise self.no_form(col, f'column "{col.name}" of type {col.type}')
        return Sql(found.text, found.steps, found.more)


class Groups(_Room):
    """Over the groups of a level: its keys and its aggregates, by number."""

    def __init__(self, names: Names, keys: Sequence[Column], values: Sequence[Column]) -> None:
        super().__init__(names)
        self.keys, self.values = keys, values

    def group(self, ref: GroupRef) -> Sql:
        return self._numbered(ref, self.keys)

    def aggregate(self, ref: AggRef) -> Sql:
        return self._numbered(ref, self.values)

    def _numbered(self, ref: GroupRef | AggRef, known: Sequence[Column]) -> Sql:
        if not 0 <= ref.index < len(known) or known[ref.index].type != ref.type:
            raise self.no_form(ref, f"group or aggregate {ref.index} of type {ref.type}")
        return Sql(known[ref.index].text, known[ref.index].steps, known[ref.index].more)


def of_type(column: Column, wanted: str) -> Sql:
    """A column where a type is wanted. Nothing is converted here: conversions are in the tree that was judged (calculus/conversions.py)."""
    if column.type != wanted:
        raise TypeError(f"a column of type {column.type} was judged where one of type {wanted} is written")
    return Sql(collated(column.text, column.type), column.steps, column.more)


def unreadable(why: str) -> NoRule:
    return NoRule("statement has a part that no rule covers",
                  detail=f"In the analysed statement: {why}.",
                  hint="Write an aggregate over foreign tables with WHERE and GROUP BY.")
