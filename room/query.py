"""The inner query of one release before it is charged for: what it reads, and whether PostgreSQL takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg

from privid.errors import InvalidValue, NoRule
from privid.model import Key, Table, TableUse

from .deparse import Inner, enum_ddl, public_ddl, table_ddl
from .inner import make
from .plans import Planned, read_plan
from .pool import Connection, RoomPool, apply_settings
from .premises import Room
from .settings import memory_settings, request_settings

__all__ = ["objects", "publics", "rehearse"]


#: of a rehearsal, which plans and runs nothing
_TIMEOUT = 10_000


def rehearse(pool: RoomPool, inner: Inner, tables: Sequence[Table], uses: Sequence[TableUse],
             settings: Mapping[str, str]) -> Planned:
    """Has PostgreSQL read and plan the query, with nothing in its foreign tables: what it refuses, it refuses before the charge, and so is
    a plan whose time is not bounded (plans.py). All that a plan depends on is as it will be when the query runs: the settings, the most
    rows that a foreign table can have, and the public rows, whose number PostgreSQL estimates from the pages that they fill."""
    with pool.public() as conn, conn.transaction(force_rollback=True):
        try:
            apply_settings(conn, {**request_settings(settings), "statement_timeout": str(_TIMEOUT)}, local=True)
            make(conn, objects(inner, tables, uses, ""), publics(inner))
            (plan,) = conn.execute(f"EXPLAIN (FORMAT JSON) {inner.query}".encode()).fetchall()[0]
            return read_plan(plan, lambda name, condition: _count(conn, name, condition), (inner.premises or Room()).hash_memory)
        except psycopg.DataError as error:  # a constant that no value of a program plays a part in
            told = error.diag
            raise InvalidValue(told.message_primary or "a constant of the statement cannot be used",
                               detail=told.message_detail, hint=told.message_hint) from error
        except (psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.OperationalError) as error:
            if conn.closed or conn.broken:
                raise
            raise NoRule("statement has a form that cannot be computed", detail=_sentence(error.diag.message_primary),
                         hint="Write it with simpler expressions, or compute the value inside the executable.") from error


def _count(conn: Connection, name: str, condition: str) -> int:
    """How many public rows a scan finds, its condition being as PostgreSQL has written it."""
    found = conn.execute(f"SELECT pg_catalog.count(*) FROM pg_temp.{name} WHERE {condition}".encode()).fetchall()
    return int(str(found[0][0]))


def _sentence(text: str | None) -> str | None:
    return f"{text[:1].upper()}{text[1:]}." if text else None


def objects(inner: Inner, tables: Sequence[Table], uses: Sequence[TableUse], handle: str) -> list[str]:
    """The statements that make what the query reads, and the memory that it is planned and run with."""
    most = {use.table.index: use.count * use.table.max_rows for use in uses}
    made = [f"SET LOCAL {name} = '{value}'" for name, value in memory_settings(inner.premises).items()] if inner.premises else []
    made += [enum_ddl(name, labels) for name, labels in inner.enums.values()]
    made += [table_ddl(tables[index], name, inner.enums, handle, most.get(index, 0)) for index, name in inner.tables]
    return made + [public_ddl(public, name, inner.enums) for public, name in inner.publics]


def publics(inner: Inner) -> list[tuple[str, Sequence[Key]]]:
    """The public rows that the query reads, by their names in the room."""
    return [(name, public.rows) for public, name in inner.publics]
