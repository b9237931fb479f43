"""Runs a program in a session: uploads executables, makes the tables, asks the SELECTs one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors

from . import select, table
from .answer import Answer
from .programs import check_uploaded, read_program, upload
from .source import Mistake
from .statements import Process, Program, Select
from .trace import trace

__all__ = ["Translated", "run", "translate"]

#: a statement of the file and the SQL that it becomes; SPLIT alone becomes nothing
Translated = tuple[Process | Select, str]
Connection = psycopg.Connection[tuple[Any, ...]]

_NUMBERS = frozenset({20, 21, 23, 26, 700, 701, 1700})  # PostgreSQL's numeric types, by oid
_QUOTED = re.compile(r'"([^"]*)"')
#: how messages about a table speak of its options
_OPTION = re.compile(r'option "(\w+)"|^(chunk|stride|end) of ')


def translate(program: Program) -> list[Translated]:
    """The whole program, so that every mistake that can be seen beforehand is seen before anything runs."""
    done: list[Translated] = []
    for statement in program.statements:
        if isinstance(statement, Process):
            done.append((statement, table.to_sql(statement).as_string(None)))
        elif isinstance(statement, Select):
            done.append((statement, select.to_sql(statement)))
    return done


def run(translated: list[Translated], connection: Connection, folder: Path, *, explain: bool = False) -> Iterator[Answer]:
    """An answer for each SELECT, and one without columns for each table, which may have notices. The session should be one of its own.

    To explain uploads nothing. A SELECT travels as a prepared statement, of which PostgreSQL accepts one and no more.
    """
    programs = [read_program(statement, folder) if isinstance(statement, Process) else None for statement, _ in translated]
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(_told(notice)))
    # moments of the file are UTC unless they say otherwise, and so are hours and days of its answers
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET standard_conforming_strings = on")  # as the translation is written
    for (statement, sql), program in zip(translated, programs, strict=True):
        notices.clear()
        prefix = "EXPLAIN " if explain and isinstance(statement, Select) else ""
        try:
            if isinstance(statement, Process):
                if explain:
                    notices += check_uploaded(connection, statement, program)
                else:
                    upload(connection, statement, program)
                connection.execute(table.to_sql(statement))
                yield Answer((), (), (), tuple(notices))
            else:
                cursor = connection.execute((prefix + sql).encode(), prepare=True)
                yield _answer(cursor, tuple(notices))
        except psycopg.Error as error:
            raise _mistake(error, statement, sql, len(prefix)) from None


def _answer(cursor: psycopg.Cursor[tuple[Any, ...]], notices: tuple[str, ...]) -> Answer:
    """Values in PostgreSQL's own text form."""
    result, columns = cursor.pgresult, cursor.description or []
    assert result is not None
    values = [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]
    return Answer(tuple(column.name for column in columns),
                  tuple(tuple(None if value is None else value.decode() for value in row) for row in values),
                  tuple(column.type_code in _NUMBERS for column in columns), notices)


def _told(notice: errors.Diagnostic) -> str:
    lines = [f"{notice.severity or 'NOTICE'}:  {notice.message_primary}"]
    lines += [f"{label}:  {text}" for label, text in (("DETAIL", notice.message_detail), ("HINT", notice.message_hint)) if text]
    return "\n".join(lines)


def _mistake(error: psycopg.Error, statement: Process | Select, sql: str, prefix: int) -> Mistake:
    """PostgreSQL's error where its reason stands in the file."""
    told = error.diag
    message = told.message_primary or str(error).strip().splitlines()[0]
    at, hint = statement.at, told.message_hint
    if isinstance(statement, Process):
        at = _place(message, error.sqlstate, statement)
    elif told.statement_position:
        at += trace(sql, int(told.statement_position) - 1 - prefix, statement.text)
        word = _QUOTED.match(statement.text, at - statement.at)
        if word and isinstance(error, errors.UndefinedColumn):
            hint = f"Double quotes are for names; write a text as '{word[1]}'."
    return Mistake(message, at, detail=told.message_detail, hint=hint)


def _place(message: str, sqlstate: str | None, process: Process) -> int:
    """The clause of SPLIT or PROCESS that an error of the table's definition speaks of."""
    places = {**process.split.places, **process.places}
    option = _OPTION.search(message)
    if option and (option[1] or option[2]) in places:
        return places[option[1] or option[2]]
    for view in ("mask", "regions"):
        if view in places and message.startswith(f"{view} "):
            return places[view]
    if sqlstate == "PV008" or "executable" in message:
        return places["executable"]
    if sqlstate == "PV009":
        return places["begin"]
    return places["camera"] if "server" in message else process.at
