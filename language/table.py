"""SPLIT and PROCESS as CREATE FOREIGN TABLE, in the session's temporary schema: the table goes when the session ends, however it ends."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath

from psycopg import sql

from .statements import Column, Process

__all__ = ["executable_name", "to_sql"]


def to_sql(process: Process) -> sql.Composed:
    """The statement that PostgreSQL is given."""
    split = process.split
    system = [sql.SQL("chunk timestamptz"), *([sql.SQL("region text")] if split.regions is not None else [])]
    options = [
        sql.SQL("executable {}").format(executable_name(process.file)),
        sql.SQL("begin {}").format(split.begin.isoformat(sep=" ")), sql.SQL('"end" {}').format(split.end.isoformat(sep=" ")),
        sql.SQL("chunk {}").format(_seconds(split.chunk)), sql.SQL("stride {}").format(_seconds(split.stride)),
        sql.SQL("timeout {}").format(_seconds(process.timeout)), sql.SQL("max_rows {}").format(str(process.max_rows)),
        *([sql.SQL("pad 'on'")] if process.pad else []),
        *([sql.SQL("mask {}").format(split.mask)] if split.mask is not None else []),
        *([sql.SQL("regions {}").format(split.regions)] if split.regions is not None else [])]
    return sql.SQL("CREATE FOREIGN TABLE pg_temp.{} ({}) SERVER {} OPTIONS ({})").format(
        sql.Identifier(process.table), sql.SQL(", ").join([*system, *map(_column, process.columns), sql.SQL("failed boolean")]),
        sql.Identifier(split.camera), sql.SQL(", ").join(options))


def executable_name(file: str) -> str:
    """An executable is called like its file, without the suffix, as privid upload does."""
    return PurePath(file).stem


def _column(column: Column) -> sql.Composed:
    if column.type == "STRING":
        return sql.SQL("{} text DEFAULT {}").format(sql.Identifier(column.name), column.default)
    return sql.SQL("{} float8 DEFAULT {}").format(sql.Identifier(column.name), Decimal(column.default))


def _seconds(value: Fraction) -> str:
    return f"{value}s"
