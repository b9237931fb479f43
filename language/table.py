"""SPLIT and PROCESS as CREATE FOREIGN TABLE, in the session's temporary schema: the table goes when the session ends, however it ends."""

from __future__ import annotations

from fractions import Fraction
from pathlib import PurePath

from .statements import Column, Process

__all__ = ["executable_name", "literal", "quoted", "to_sql"]


def to_sql(process: Process) -> str:
    """The statement that PostgreSQL is given."""
    split = process.split
    options = {
        "executable": executable_name(process.file), "begin": split.begin.isoformat(sep=" "), '"end"': split.end.isoformat(sep=" "),
        "chunk": _seconds(split.chunk), "stride": _seconds(split.stride), "timeout": _seconds(process.timeout),
        "max_rows": str(process.max_rows), **({"pad": "on"} if process.pad else {}),
        **{name: value for name, value in (("mask", split.mask), ("regions", split.regions)) if value is not None}}
    system = ["chunk timestamptz", *(["region text"] if split.regions is not None else [])]
    columns = ", ".join([*system, *map(_column, process.columns), "failed boolean"])
    return (f"CREATE FOREIGN TABLE pg_temp.{quoted(process.table)} ({columns}) SERVER {quoted(split.camera)} "
            f"OPTIONS ({', '.join(f'{name} {literal(value)}' for name, value in options.items())})")


def executable_name(file: str) -> str:
    """An executable is called like its file, without the suffix, as privid upload does."""
    return PurePath(file).stem


def _column(column: Column) -> str:
    if column.type == "STRING":
        return f"{quoted(column.name)} text DEFAULT {literal(column.default)}"
    return f"{quoted(column.name)} float8 DEFAULT {column.default}"


def _seconds(value: Fraction) -> str:
    return f"{value}s"


def quoted(name: str) -> str:
    """A name, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text constant."""
    return "'" + text.replace("'", "''") + "'"
