"""Statements that outgrew the server's memory, and definitions that moved under an open cursor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from .pair import Pair


def doubling(count: int, body: str = "SELECT * FROM c{0} UNION ALL SELECT * FROM c{0}") -> str:
    """A statement whose WITH queries each name the one before twice."""
    parts = [
        f"c{i} AS ({body.format(i - 1) if i else 'SELECT * FROM t'})" for i in range(count + 1)
    ]
    return f"EXPLAIN WITH {', '.join(parts)} SELECT count(*) FROM c{count}"


def nested(count: int) -> str:
    """The same, each within the next, with an aggregate in every level."""
    query = "SELECT count(*) AS n FROM t"
    for _ in range(count):
        query = f"WITH c AS ({query}) SELECT sum(a.n) AS n FROM c a, c b"
    return f"EXPLAIN {query}"


def peak(pid: int) -> int:
    """The most memory that a process ever had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize("statement", [doubling(11), nested(11)], ids=["beside", "nested"])
def test_a_statement_that_doubles_itself_is_too_complex(pair: Pair, statement: str) -> None:
    with pair.connect("a") as connection:
        connection.execute("EXPLAIN SELECT count(*) FROM t")
        before = peak(connection.info.backend_pid)
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(statement.encode())
        assert caught.value.diag.sqlstate == "54001", caught.value
        assert caught.value.diag.message_hint
        assert peak(connection.info.backend_pid) - before < 100
        connection.execute("EXPLAIN SELECT count(*) FROM t")


@pytest.mark.parametrize("kind", ["SELECT", "EXPLAIN SELECT"])
def test_a_release_has_no_more_columns_than_a_table(pair: Pair, kind: str) -> None:
    """There were more than numbers of columns, and looking for each of them had no end."""
    sums = ["num_nulls(" + ", ".join(f"sum(range(v, 0, {i + 1}))" for i in range(j, j + 90)) + ")" for j in range(0, 36_000, 90)]
    with pair.connect("a") as connection:
        connection.execute("SET statement_timeout = '20s'")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(f"{kind} {', '.join(sums)} FROM t".encode())
        assert caught.value.diag.sqlstate == "54001", caught.value
        assert caught.value.diag.message_hint


def test_an_exists_of_many_conditions_is_refused_at_once(pair: Pair) -> None:
    conditions = " AND ".join(["q.plate = t.plate"] * 20_000)
    with pair.connect("a") as connection:
        connection.execute("SET statement_timeout = '10s'")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(f"EXPLAIN SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM t q WHERE {conditions})".encode())
        assert caught.value.diag.sqlstate == "PV002", caught.value


def long_inside(levels: int) -> str:
    query = "SELECT plate || repeat('x', 8000) AS p FROM t"
    for _ in range(levels):
        query = f"SELECT nullif(p, p) AS p FROM ({query}) q"
    return f"EXPLAIN SELECT {', '.join(f'count(nullif(p, {n}::text))' for n in range(10))} FROM ({query}) q"


def many_keys() -> str:
    words = ", ".join(f"'{n:03}{chr(0x1d49c) * 150}'" for n in range(200))
    return f"EXPLAIN SELECT plate, note, count(*) FROM t WHERE plate IN ({words}) AND note IN ({words}) GROUP BY 1, 2"


def large_answer() -> str:
    """Charged, computed, and then too long for a message."""
    words = ", ".join(f"'{n:04}'" for n in range(9000))
    sums = ", ".join(f"sum(range(v, 0, {n}.125))" for n in range(1, 95))
    return f"SELECT plate, chunk, {sums} FROM t WHERE plate IN ({words}) GROUP BY 1, 2"


MUCH = {
    "eight levels": (long_inside(8), "PV002", "too long"),
    "fourteen levels": (long_inside(14), "PV002", "too long"),
    "keys": (many_keys(), "PV002", "32 MiB together"),
    "an answer": (large_answer(), "22023", "the limit is 64 MB"),
    "an answer, explained": (f"EXPLAIN {large_answer()}", "22023", "the limit is 64 MB"),
}


@pytest.mark.parametrize("name", MUCH)
def test_a_short_statement_that_makes_much_of_itself_is_refused_at_once(pair: Pair, name: str) -> None:
    statement, sqlstate, told = MUCH[name]
    with pair.connect("a") as connection:
        connection.execute("SET statement_timeout = '20s'")
        connection.execute("SET privid.allowance = '1h'")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(statement.encode())
        assert caught.value.diag.sqlstate == sqlstate, caught.value
        assert told in (caught.value.diag.message_primary or "") and caught.value.diag.message_hint
        connection.execute("EXPLAIN SELECT count(*) FROM t")


def test_a_few_hundred_levels_are_not_too_complex(pair: Pair) -> None:
    chain = ", ".join(f"c{i} AS (SELECT * FROM {f'c{i - 1}' if i else 't'})" for i in range(50))
    with pair.connect("a") as connection:
        connection.execute(doubling(6).encode())
        connection.execute(f"EXPLAIN WITH {chain} SELECT count(*) FROM c49".encode())


# ------------------------------------------------------------------ between DECLARE and FETCH

MADE = """
    CREATE TYPE {0}_e AS ENUM ('small', 'large');
    CREATE FUNCTION {0}_f(float8) RETURNS float8 LANGUAGE sql AS 'SELECT $1';
    CREATE OPERATOR analyst.<#> (LEFTARG = text, RIGHTARG = text, FUNCTION = textcat);
    CREATE FOREIGN TABLE {0} (chunk timestamptz, plate text DEFAULT 'none', v float8 DEFAULT 0,
                              size {0}_e DEFAULT 'small') SERVER event_a
        OPTIONS (executable 'event', begin '2026-03-01 06:00+00', "end" '2026-03-01 06:00:02+00',
                 chunk '1s', timeout '200ms', max_rows '20');
    CREATE TABLE {0}_p (k text, n int);
    INSERT INTO {0}_p VALUES ('X', 1), ('none', 2);
"""
QUESTIONS = {
    "count": "SELECT count(*) FROM {0} WHERE v > 1",
    "keys": "SELECT size, count(*) FROM {0} GROUP BY size",
    "join": "SELECT k, count(v) FROM {0}_p LEFT JOIN {0} ON plate = k GROUP BY k",
    "function": "SELECT count(*) FROM {0} WHERE {0}_f(v) > 1",
    "operator": "SELECT count(*) FROM {0} WHERE plate OPERATOR(analyst.<#>) 'a' = 'b'",
    "label": "SELECT count(*) FROM {0} WHERE plate = 'small'::{0}_e::text",
}
CHANGES = [
    "DROP FOREIGN TABLE {0} CASCADE",
    "DROP TABLE {0}_p",
    "ALTER FOREIGN TABLE {0} DROP COLUMN v",
    "ALTER TABLE {0}_p DROP COLUMN k",
    "ALTER TABLE {0}_p ALTER k TYPE int USING 1",
    "DROP TYPE {0}_e CASCADE",
    "ALTER TYPE {0}_e RENAME VALUE 'small' TO 'tiny'",
    "ALTER FOREIGN TABLE {0} RENAME v TO w",
    "DROP FUNCTION {0}_f",
    "DROP OPERATOR analyst.<#> (text, text)",
    "CREATE TABLE {0}_kid () INHERITS ({0})",
    "TRUNCATE {0}_p",
]


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_no_change_under_an_open_cursor_is_an_internal_error(
    pair: Pair, unique: Callable[[str], str], question: str
) -> None:
    for number, change in enumerate(CHANGES):
        name = f"{unique('z')}_{number}"
        with pair.connect("a", autocommit=False) as connection:
            connection.execute(MADE.format(name).encode())
            connection.execute(f"DECLARE cur CURSOR FOR {question.format(name)}".encode())
            try:
                connection.execute(change.format(name).encode())
                connection.execute("FETCH ALL FROM cur")
            except psycopg.Error as error:
                told = (change, error)
                assert error.diag.sqlstate in ("55000", "55006", "PV002"), told
                assert error.diag.sqlstate != "55000" or error.diag.message_hint, told
            connection.rollback()
