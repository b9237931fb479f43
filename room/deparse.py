"""The inner query of a release, written from the judged tree, and what it reads.

Levels are scopes: relation 3 of a level is r3 and its columns are c1, c2, … whatever the statement
calls them. A level that groups is two: what it groups by and aggregates is computed below, as
columns of s. A level with a LIMIT is ordered by all its columns, so that which rows it keeps is a
matter of the rows. What has no form here is refused, before anything is charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from privid.calculus.deparse import COLLATED, COLLATION, TYPES, literal
from privid.calculus.tree import FromPublic, Select
from privid.model import Collected, Table

from .levels import Levels
from .memory import check_memory
from .premises import Room
from .writers import Names, type_of, unreadable

__all__ = ["Enums", "Inner", "enum_ddl", "inner_query", "public_ddl", "table_ddl"]

#: bytes up to which a row stays as it is, neither compressed nor elsewhere: calls then read it where it lies (calculus/reader.py, MAX_ROW)
_TARGET = 8160
#: by the type's name in the request: its name in the room, its labels
Enums = Mapping[str, tuple[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Inner:
    """An inner query and the objects of schema pg_temp that it reads."""

    enums: Enums
    tables: tuple[tuple[int, str], ...]  # index in the request's tables, name in the room
    publics: tuple[tuple[FromPublic, str], ...]  # relation, name in the room
    #: its columns are the group columns, then what is collected
    query: str
    #: expressions that are evaluated for a row at most, with subqueries and repetitions expanded
    steps: int
    #: what its session has for sorts and hash tables, where it is not what every session has
    premises: Room | None = None


def inner_query(select: Select, columns: Sequence[Collected], tables: Sequence[Table]) -> Inner:
    """The release's rows before noise. `columns` are the plan's; none: each aggregate itself."""
    check_memory(select)
    names = Names(select, tables)
    levels = Levels(names)
    query = levels.release(select, columns)
    return Inner(dict(names.enums), tuple(names.tables.items()), tuple(names.publics), query,
                 levels.steps)


def enum_ddl(name: str, labels: Sequence[str]) -> str:
    """An enum of a request."""
    return f"CREATE TYPE pg_temp.{name} AS ENUM ({', '.join(map(literal, labels))})"


def table_ddl(table: Table, name: str, enums: Enums, handle: str, rows: int = 0) -> str:
    """A table of a request: its rows come from the engine, under the handle of the release.

    `rows`: the most that it can have, which is what the planner is told.
    """
    columns = ", ".join(f"{f'c{column.attno}' if column.printed else column.name} "
                        f"{_type(type_of(column), enums)}" for column in table.columns)
    options = f"handle {literal(handle)}, number '{table.index}', rows '{rows}'"
    return f"CREATE FOREIGN TABLE pg_temp.{name} ({columns}) SERVER room OPTIONS ({options})"


def public_ddl(public: FromPublic, name: str, enums: Enums) -> str:
    """A public relation of a request. Types that no expression can use stay the text they were."""
    types = [c.type if c.type in TYPES or c.type in enums else "text" for c in public.columns]
    columns = ", ".join(f"c{column.number} {_type(type_, enums)}"
                        for column, type_ in zip(public.columns, types, strict=True))
    return f"CREATE TABLE pg_temp.{name} ({columns}) WITH (toast_tuple_target = {_TARGET})"


def _type(type_: str, enums: Enums) -> str:
    if type_ in enums:
        return f"pg_temp.{enums[type_][0]}"
    if type_ not in TYPES:
        raise unreadable(f"a column of type {type_}")
    return f"pg_catalog.{TYPES[type_]}{f' {COLLATION}' if type_ in COLLATED else ''}"
