"""Statements of the product come from constants, psycopg.sql and parameters; whatever is put together from texts is listed here."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.conftest import REPOSITORY

from .pasted import Finder, Module

ROOMS = ["calculus", "cli", "core", "engine", "fdw", "language", "ledger", "room", "sandbox", "udf", "video"]

_COMPILED = ("the inner query, written from the judged tree: names are numbers, constants are quoted, "
             "and the room has nobody's rights but its own")
_TOLD = "a hint for people, never sent to a database"
_RESTORED = "a dump is a script; what is others' in it runs with their rights alone (cli/confined.py)"

#: where texts are put together -> why that is right
EXCEPTIONS = {
    "calculus/deparse.py::literal": _COMPILED,
    "room/deparse.py": _COMPILED,
    "room/evaluate.py": _COMPILED,
    "room/grouping.py": _COMPILED,
    "room/inner.py": _COMPILED,
    "room/levels.py": _COMPILED,
    "room/public.py::matching": _COMPILED,
    "room/query.py": _COMPILED,
    "room/cluster.py::_furnish": "the room's own script, in which the place of its library is a psycopg.sql.Literal",
    "room/settings.py::server_settings": "a path in a list of libraries of postgresql.conf, which is no SQL",
    "language/run.py::run": "a SELECT that sqlglot wrote anew from its tree; PostgreSQL takes it as one prepared statement and no more",
    "cli/restore.py::_do": _RESTORED,
    "cli/restore_rows.py::insert_rows.insert": _RESTORED,
    "cli/postgres.py::_quoted": "a value in PostgreSQL's settings file, which is no SQL",
    "cli/postgres.py::Postgres.configure": "a path in PostgreSQL's settings file, which is no SQL",
    "cli/demo.py::_play": "shown as it is typed into psql, and made of constants and a number",
    "engine/chunks.py::ChunkCache._find": "SQLite has no arrays: as many question marks as there are keys",
    "engine/definitions.py::_default": _TOLD,
    "engine/domains.py::_listed": _TOLD,
    "engine/judge.py::_check_allowance": _TOLD,
    "engine/judge.py::_check_budget": _TOLD,
    "language/rules/keys.py::keys": "a message about WITH KEYS",
}


def excepted(where: str) -> str | None:
    """The exception that a place falls under: its own, or its file's."""
    return next((one for one in (where, where.partition("::")[0]) if one in EXCEPTIONS), None)


@cache
def found() -> list[tuple[str, int, str]]:
    files = [file for room in ROOMS for file in sorted((REPOSITORY / room).rglob("*.py"))] + [REPOSITORY / "setup.py"]
    return list(Finder([Module(str(file.relative_to(REPOSITORY)), ast.parse(file.read_text())) for file in files]).findings())


def test_no_statement_of_the_product_is_put_together_from_texts() -> None:
    pasted = [f"{where}, line {line}: {source}" for where, line, source in found() if excepted(where) is None]
    assert not pasted, "\n".join(["use parameters and psycopg.sql, or list the place with its reason:", *pasted])


def test_every_exception_is_still_needed() -> None:
    assert set(EXCEPTIONS) == {excepted(where) for where, _, _ in found()} - {None}


PASTED = [
    'def f(conn, name): conn.execute(f"SELECT * FROM {name}")',
    'def f(conn, name): conn.execute("SELECT * FROM %s" % name)',
    'def f(conn, name): conn.execute("SELECT * FROM " + name)',
    'def f(conn, name): conn.execute("SELECT * FROM {}".format(name).encode())',
    'def f(conn, statement: str): conn.execute(statement)',
    'def f(conn, names): conn.execute(" ".join(names))',
    'def f(conn, name):\n    text = "SELECT 1"\n    text += name\n    conn.execute(text)',
    'def f(conn, name):\n    text = f"{name}"\n    with conn.cursor() as cursor:\n        cursor.executemany(text, [])',
    'def f(conn, name):\n    with conn.cursor() as cursor, cursor.copy(f"COPY {name} TO STDOUT") as copy: pass',
    'from psycopg import sql\ndef f(conn, name): conn.execute(sql.SQL(name))',
    'from psycopg import sql\ndef f(conn, name): conn.execute(sql.SQL(f"SELECT {name}").format())',
    'def f(conn, statement: LiteralString): conn.execute(statement)\ndef g(conn, name): f(conn, name)',
    'def f(conn, statement: LiteralString): conn.execute(statement)\ndef g(conn, name): f(conn, statement=f"SELECT {name}")',
    'def f(run, name): run(["psql", "-c", f"DROP TABLE {name}"])',
    'HEAD = "INSERT INTO "\ndef f(run, name): run(f"{HEAD}{name} VALUES (1)")',
    'def quote(text): return "\'" + text.replace("\'", "\'\'") + "\'"',
]
WHOLE = [
    'def f(conn, name): conn.execute("SELECT %s", (name,))',
    'QUERY = "SELECT 1"\ndef f(conn): conn.execute(QUERY.encode())',
    'TABLE = "t"\nQUERY = f"SELECT * FROM {TABLE}"\ndef f(conn): conn.execute(QUERY)',
    'def f(conn, old): conn.execute("SELECT 1" if old else "SELECT 2")',
    'def f(conn):\n    for one in ("SELECT 1", "SELECT 2"):\n        conn.execute(one)',
    'from psycopg import sql\ndef f(conn, name): conn.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name)))',
    'from psycopg import sql\ndef f(name) -> sql.Composed: return sql.SQL("TABLE {}").format(sql.Identifier(name))\n'
    'def g(conn): conn.execute(f("t"))',
    'def f(conn, statement: LiteralString): conn.execute(statement)\ndef g(conn): f(conn, "SELECT 1")',
    'def f(name): raise ValueError(f"cannot select {name}")',
]


@pytest.mark.parametrize("source", PASTED)
def test_a_statement_that_is_put_together_is_found(source: str) -> None:
    assert list(Finder([Module("m.py", ast.parse(source))]).findings())


@pytest.mark.parametrize("source", WHOLE)
def test_a_statement_that_is_whole_is_not_found(source: str) -> None:
    assert not list(Finder([Module("m.py", ast.parse(source))]).findings())
