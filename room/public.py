"""Public rows in the room: loaded into temporary tables, and looked at by PostgreSQL's own idea of what is equal.

Every function here works inside a transaction that its caller rolls back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import psycopg
from psycopg import errors, sql

from privid.errors import InvalidValue
from privid.model import Key

from .pool import Connection, RoomPool, apply_settings
from .settings import request_settings

__all__ = ["ColumnType", "Row", "copy_rows", "is_unique", "load", "make_enums", "matching", "type_of"]

#: a row as the output functions of its types write it; None is NULL
Row = Sequence[str | None]

#: short names of types as requests have them, and PostgreSQL's names in pg_catalog
_TYPES = {"boolean": "bool", **{name: name for name in (
    "text", "float8", "numeric", "int2", "int4", "int8", "timestamptz", "timestamp", "date", "time", "interval")}}

#: rows are formatted and sent in pieces of about this many
_PIECE = 5_000
_TIMEOUT = "10s"

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class ColumnType(NamedTuple):
    """The short name of a built-in type; or the name of an enum, with its labels in order."""

    name: str
    labels: tuple[str, ...] | None = None


def make_enums(conn: Connection, columns: Iterable[ColumnType], first: int = 0) -> dict[str, sql.Identifier]:
    """Makes each enum of the columns once, as pg_temp.e<number>, and tells what it is called in the room."""
    wanted: dict[str, tuple[str, ...]] = {}
    for column in columns:
        if column.labels is not None and wanted.setdefault(column.name, column.labels) != column.labels:
            raise ValueError(f'enum "{column.name}" has two lists of labels')
    made = {}
    for number, (name, labels) in enumerate(wanted.items(), first):
        made[name] = sql.Identifier("pg_temp", f"e{number}")
        conn.execute(sql.SQL("CREATE TYPE {} AS ENUM ({})").format(made[name], sql.SQL(", ").join(map(sql.Literal, labels))))
    return made


def type_of(column: ColumnType, enums: Mapping[str, sql.Identifier]) -> sql.Composable:
    """What a type is called in the room."""
    if column.labels is not None:
        return enums[column.name]
    if column.name not in _TYPES:
        raise InvalidValue(f"type {column.name} cannot be used in public rows", hint="Cast the column to text.")
    return sql.Identifier("pg_catalog", _TYPES[column.name])


def load(conn: Connection, name: str, columns: Sequence[ColumnType], rows: Sequence[Row],
         enums: Mapping[str, sql.Identifier] | None = None) -> None:
    """Makes pg_temp.<name> with columns c1, c2, ... and copies the rows in. Enums are made unless the caller has made them."""
    if enums is None:
        enums = make_enums(conn, columns)
    table = sql.Identifier("pg_temp", name)
    defined = [sql.SQL("{} {}").format(sql.Identifier(f"c{n}"), type_of(column, enums)) for n, column in enumerate(columns, 1)]
    conn.execute(sql.SQL("CREATE TEMPORARY TABLE {} ({}) WITH (toast_tuple_target = 8160)").format(table, sql.SQL(", ").join(defined)))
    if any(len(row) != len(columns) for row in rows):
        raise InvalidValue(f"a public row does not have {len(columns)} values")
    copy_rows(conn, name, rows)


def copy_rows(conn: Connection, name: str, rows: Sequence[Row]) -> None:
    """Copies rows into pg_temp.<name>, whose columns they have."""
    try:
        with conn.cursor() as cursor, cursor.copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier("pg_temp", name))) as copy:
            for start in range(0, len(rows), _PIECE):
                copy.write(_as_text(rows[start:start + _PIECE]))
    except psycopg.DataError as error:
        told = error.diag
        raise InvalidValue(told.message_primary or "a value of the public rows is not valid for its type",
                           detail=told.message_detail, hint=told.message_hint) from error


def _as_text(rows: Sequence[Row]) -> bytes:
    """The rows in the text format of COPY."""
    lines = []
    for row in rows:
        lines.append("\t".join(["\\N" if value is None else value.translate(_ESCAPES) for value in row]))
    text = "\n".join(lines) + "\n"
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise InvalidValue("a text of the public rows is not valid UTF8") from None
    if b"\0" in encoded:
        raise InvalidValue("a text of the public rows has a zero byte")
    return encoded


def matching(pool: RoomPool, settings: Mapping[str, str], columns: Sequence[tuple[str, Sequence[str] | None]], rows: Sequence[Key],
             condition: str) -> list[Key]:
    """The rows for which a condition over c1, c2, ... holds, as a session with these settings has it. The condition must come from the
    calculus, never from a client."""
    with pool.public() as conn, conn.transaction(force_rollback=True):
        apply_settings(conn, {**request_settings(settings), "statement_timeout": _TIMEOUT}, local=True)
        types = [*map(_column_type, columns), ColumnType("int8")]
        load(conn, "rows", types, [(*row, str(number)) for number, row in enumerate(rows)])
        statement = f"SELECT c{len(types)} FROM pg_temp.rows WHERE {condition} ORDER BY 1"
        try:
            return [rows[cast(int, number)] for (number,) in conn.execute(statement.encode()).fetchall()]
        except errors.QueryCanceled as error:
            raise InvalidValue("a condition on public rows takes too long", hint="Join with fewer rows.") from error
        except (psycopg.DataError, psycopg.ProgrammingError) as error:
            raise InvalidValue(error.diag.message_primary or "a condition on public rows cannot be evaluated") from error


def _column_type(column: tuple[str, Sequence[str] | None]) -> ColumnType:
    return ColumnType(column[0], None if column[1] is None else tuple(column[1]))


def is_unique(pool: RoomPool, settings: Mapping[str, str], columns: Sequence[tuple[str, Sequence[str] | None]], rows: Sequence[Row],
              places: Sequence[int]) -> bool:
    """Whether no two rows have equal values in these columns, as a unique index has it: a NULL equals nothing.

    All columns are loaded, so that values that a release could not load are refused here, before anything is charged.
    """
    with pool.public() as conn, conn.transaction(force_rollback=True):
        apply_settings(conn, {**request_settings(settings), "statement_timeout": _TIMEOUT}, local=True)
        try:
            types = [*map(_column_type, columns)]
            load(conn, "rows", types, rows)
            if not places:
                return len(rows) <= 1
            conn.execute(sql.SQL("CREATE UNIQUE INDEX ON {} ({})").format(
                sql.Identifier("pg_temp", "rows"), sql.SQL(", ").join(_key(types, place) for place in dict.fromkeys(places))))
        except errors.UniqueViolation:
            return False
        except (errors.ProgramLimitExceeded, errors.TooManyColumns) as error:
            raise InvalidValue("the key of the public rows is too large to be looked up",
                               detail=_sentence(error.diag.message_primary), hint="Join on fewer or shorter columns.") from error
        except errors.QueryCanceled as error:
            raise InvalidValue("the public rows take too long to load", hint="Join with fewer rows.") from error
    return True


def _key(columns: Sequence[ColumnType], place: int) -> sql.Composable:
    """A column of the index. Texts are equal if their bytes are, in every collation that a database can have; bytes are compared
    fastest."""
    column = sql.Identifier(f"c{place + 1}")
    return sql.SQL('{} COLLATE "C"').format(column) if columns[place] == ColumnType("text") else column


def _sentence(text: str | None) -> str | None:
    return f"{text[:1].upper()}{text[1:]}." if text else None
