"""What a server sends is ASCII, so that every client can read it; MERGE has an answer; the library
keeps its names to itself. In 0.3.0 a release was charged and then failed to be told."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from privid.postgres_build import room_library
from tests.conftest import REPOSITORY, copy_room_library

from .pair import Pair

#: encodings of clients, none of which has all of the characters that 0.3.0 sent
ENCODINGS = ["KOI8R", "LATIN1", "WIN1252", "SJIS", "EUC_KR"]

#: rooms whose text reaches a client of the database
ROOMS = ["calculus", "core", "engine", "fdw", "ledger", "room", "sandbox", "udf", "video"]

ANSWERED = [
    "SELECT count(*) FROM t",
    "SELECT avg(range(v, 0, 4)), variance(range(v, 0, 4)), sum(range(v, 0, 4)) FROM t",
    "SELECT plate FROM t WHERE plate IN ('X', 'Y') GROUP BY plate ORDER BY count(*) DESC LIMIT 1",
    "SELECT size, flag, count(DISTINCT plate) FROM t GROUP BY 1, 2",
    "SELECT sum(range(n, 0, 9)) FROM (SELECT plate, count(*) AS n FROM t GROUP BY plate "
    "HAVING count(*) > 1) q",
]

REFUSED = [
    "SELECT * FROM t",
    "SELECT plate, count(*) FROM t GROUP BY 1",
    "SELECT sum(v) FROM t",
    "SELECT min(v) FROM t",
    "SELECT count(*) FROM t a JOIN t b ON a.plate = b.plate",
    "SELECT avg(DISTINCT range(v, 0, 1)) FROM t",
    "SELECT sum(DISTINCT v) FROM t",
    "SELECT k, count(*) FROM (VALUES ('a'), ('b')) x(k) LEFT JOIN t ON plate = k WHERE flag "
    "GROUP BY k",
    "SELECT plate FROM t GROUP BY plate ORDER BY count(*) DESC LIMIT 1",
    "SELECT count(*) FROM (SELECT plate, min(DISTINCT v) FROM t GROUP BY 1) q",
    "SELECT count(*) FROM t WHERE plate LIKE plate",
    "SELECT count(*) FROM t HAVING count(*) > 3 AND max(v) > 3",
    "SELECT v FROM t OFFSET 1",
]


def sent(connection: psycopg.Connection[tuple[object, ...]], statement: str) -> str:
    """All that the server says about a statement: notices, rows or error."""
    told: list[str] = []
    connection.add_notice_handler(
        lambda d: told.extend(filter(None, (d.message_primary, d.message_detail, d.message_hint)))
    )
    try:
        cursor = connection.execute(statement.encode())
        told += [str(value) for row in cursor.fetchall() for value in row]
    except psycopg.Error as error:
        d = error.diag
        told += filter(None, (d.message_primary, d.message_detail, d.message_hint, d.context))
    return "\n".join(told)


@pytest.mark.parametrize("statement", ANSWERED + REFUSED)
def test_what_the_server_says_is_ascii(pair: Pair, statement: str) -> None:
    for form in (
        "",
        "EXPLAIN ",
        "EXPLAIN (VERBOSE) ",
        "EXPLAIN (FORMAT JSON) ",
        "EXPLAIN (FORMAT XML) ",
    ):
        with pair.connect("b") as connection:
            connection.execute("SET privid.reuse = off")
            told = sent(connection, form + statement)
        assert told and [c for c in told if not c.isascii()] == [], told


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_release_is_answered_and_explained_in_every_encoding(pair: Pair, encoding: str) -> None:
    settings = f"SET client_encoding = '{encoding}'"
    for statement in ANSWERED:
        assert pair.see("b", statement, settings).error is None
        for form in ("EXPLAIN", "EXPLAIN (FORMAT JSON)"):
            assert pair.see("b", f"{form} {statement}", settings).error is None
    for statement in REFUSED:
        assert (pair.see("b", statement, settings).sqlstate or "PV002").startswith("PV00")


#: names that some clients cannot be told
NAMED = {
    "a column": 'SELECT sum(range("größe", 0, 4)) AS s FROM "straße" WHERE "größe" > 0',
    "a column of a subquery": """SELECT sum(range("länge", 0, 4)) AS s
        FROM (SELECT "größe" AS "länge" FROM "straße") "über\"""",
    "a key": """SELECT "straße" AS k, count(*) AS n FROM "straße"
        WHERE "straße" IN ('X', 'Y') GROUP BY 1""",
    "a column of the answer": 'SELECT * FROM (SELECT count(*) AS "größe" FROM "straße") q',
}


@pytest.fixture(scope="module")
def umlauts(pair: Pair) -> Pair:
    """A table with names beyond ASCII, asked by views: who cannot read a name cannot write it."""
    pair.table(
        '"straße"',
        columns='chunk timestamptz, "straße" text DEFAULT \'none\', "größe" float8 DEFAULT 0',
        begin="2026-03-01 06:00:03+00",
    )
    for number, statement in enumerate(NAMED.values()):
        pair.execute(f"CREATE VIEW named_{number} AS {statement}")
    return pair


@pytest.mark.parametrize("number", range(len(NAMED)), ids=list(NAMED))
@pytest.mark.parametrize("encoding", [*ENCODINGS, "UTF8"])
def test_names_beyond_ascii_never_make_a_charged_release_fail(
    umlauts: Pair, encoding: str, number: int
) -> None:
    seen = umlauts.see("b", f"SELECT * FROM named_{number}", f"SET client_encoding = '{encoding}'")
    assert seen.error is None or seen.charged == 0, seen


def _strings(path: Path) -> Iterator[str]:
    """The strings of a module but for its documentation."""
    tree = ast.parse(path.read_text())
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documents
        ):
            yield node.value


def test_no_string_of_the_engine_or_the_library_is_beyond_ascii() -> None:
    """Also of messages that no test provokes. Halves of surrogate pairs cannot be sent anyway."""
    found = [
        f"{path.relative_to(REPOSITORY)}: {text!r}"
        for room in ROOMS
        for path in sorted((REPOSITORY / room).rglob("*.py"))
        for text in _strings(path)
        if not text.isascii() and not re.search("[\ud800-\udfff]", text)
    ]
    found += [
        str(path.relative_to(REPOSITORY))
        for pattern in ("fdw/*.[ch]", "sql/*.sql", "sql/*.control")
        for path in sorted(REPOSITORY.glob(pattern))
        if not path.read_text().isascii()
    ]
    assert found == []


# ------------------------------------------------------------------ MERGE, names of the library


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT count(*) AS n FROM t)",
        "(SELECT size::text AS n, count(*) FROM t GROUP BY size)",
        "(SELECT n FROM (SELECT count(*) AS n FROM t) q WHERE n > 0)",
    ],
)
def test_merge_with_a_release_is_answered_or_refused(pair: Pair, source: str) -> None:
    pair.stack.run("CREATE TABLE IF NOT EXISTS analyst.merged (x text)")
    statement = (
        f"MERGE INTO analyst.merged USING {source} q ON x = n::text "
        "WHEN NOT MATCHED THEN INSERT VALUES (n::text)"
    )
    for asked in (statement, f"EXPLAIN {statement}"):
        for seen in pair.both(asked):  # how many rows it merged follows from the noise
            refused = seen.sqlstate in ("PV001", "PV002") and seen.charged == 0
            assert seen.error is None or refused, seen


def exported(library: str | Path) -> list[str]:
    command = ["nm", "-D", "--defined-only", str(library)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in listed.splitlines()]


def of_the_room(names: list[str]) -> list[str]:
    return [name for name in names if re.search(r"privid_(total|keyed|spin)", name)]


def test_the_libraries_export_only_names_of_their_own(pair: Pair) -> None:
    """And the one that an analyst's backend has nothing of what the room evaluates."""
    with pair.stack.connect() as connection:
        connection.execute("SELECT privid.library_version()")
        maps = Path(f"/proc/{connection.info.backend_pid}/maps").read_text()
    libraries = {
        line.split(maxsplit=5)[5] for line in maps.splitlines() if line.endswith("/privid.so")
    }
    assert len(libraries) == 1 and "privid_room" not in maps
    loaded = libraries.pop()
    for library in (loaded, room_library()):
        names = exported(library)
        assert "Pg_magic_func" in names
        assert [
            name
            for name in names
            if not re.fullmatch(r"privid_\w+|pg_finfo_privid_\w+|Pg_magic_func|_PG_init", name)
        ] == []
    assert of_the_room(exported(loaded)) == []
    assert len(of_the_room(exported(room_library()))) > 100


def test_a_served_database_cannot_scan_with_the_rooms_library(
    pair: Pair, reachable_directory: Path
) -> None:
    """Whoever it is that loads it there: only a server that preloads it scans with it."""
    library = sql.Literal(copy_room_library(reachable_directory))
    with pair.stack.connect("privid") as connection, connection.transaction(force_rollback=True):
        connection.execute(
            sql.SQL(
                "CREATE FUNCTION pg_temp.handler() RETURNS fdw_handler "
                "AS {}, 'privid_fdw_handler' LANGUAGE C STRICT"
            ).format(library)
        )
        connection.execute("CREATE FOREIGN DATA WRAPPER imitation HANDLER pg_temp.handler")
        connection.execute("CREATE SERVER imitation FOREIGN DATA WRAPPER imitation")
        connection.execute(
            "CREATE FOREIGN TABLE imitation (chunk timestamptz) SERVER imitation "
            "OPTIONS (handle '1', number '0')"
        )
        with pytest.raises(psycopg.Error) as refused:
            connection.execute("SELECT count(*) FROM imitation")
        assert refused.value.sqlstate == "PV005"
