"""privid.afford is given texts from outside. PostgreSQL's own parser takes them apart; EXPLAIN is asked, and nothing of them runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]

#: Whatever runs shows in one of these: a row, a number taken, a relation made, a setting.
STATE = """SELECT (SELECT count(*) FROM marker), (SELECT (last_value, is_called)::text FROM taken),
  (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
  current_user, current_setting('search_path'), current_setting('marker.seen', true)"""


@pytest.fixture
def markers(stack: Any, unique: Callable[[str], str]) -> Iterator[Connection]:
    """An analyst's session, with a table and a sequence in a schema of its own that anything that runs would change."""
    schema = sql.Identifier(unique("afford"))
    with stack.connect("privid") as superuser, stack.connect() as connection:
        superuser.execute(sql.SQL("CREATE SCHEMA {} AUTHORIZATION analyst").format(schema))
        connection.execute(sql.SQL("SET search_path = {}").format(schema))
        connection.execute("CREATE TABLE marker (x int)")
        connection.execute("CREATE SEQUENCE taken")
        connection.execute("""CREATE FUNCTION mark() RETURNS int LANGUAGE plpgsql VOLATILE AS
            'BEGIN INSERT INTO marker VALUES (1); RETURN 1; END'""")
        connection.execute("CREATE FUNCTION mark_as_immutable() RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN mark(); END'")
        connection.execute("""CREATE FUNCTION set_as_immutable() RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
            BEGIN RETURN set_config('marker.seen', 'yes', false); END $$""")
        connection.execute("SET marker.seen = 'no'")
        yield connection
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(schema))


def state(connection: Connection) -> tuple[Any, ...]:
    return connection.execute(STATE).fetchall()[0]


def afford(connection: Connection, text: str) -> list[tuple[Any, ...]]:
    """Rows of privid.afford: number, text, whether it could be afforded, note. A text that is refused as a whole has none."""
    try:
        return connection.execute("SELECT statement, query, affordable, note FROM privid.afford(%s)", (text,)).fetchall()
    except psycopg.Error as error:
        assert error.sqlstate is not None and not error.sqlstate.startswith("XX"), error
        return []


#: What takes batches apart in another way than PostgreSQL does: an alias that looks like a dollar quote, a comment that ends at \r,
#: and so on.
HIDDEN = [
    "SELECT 1 AS x$a$; INSERT INTO marker VALUES (1); SELECT 1 AS y$a$",
    "SELECT 1 AS é$a$; INSERT INTO marker VALUES (1); SELECT 1 AS y$a$",
    "SELECT 1 --\r; INSERT INTO marker VALUES (1)",
    "SELECT 1 -- a\r; SELECT nextval('taken'); --\r CREATE TABLE made (x int)",
    "SELECT 1 AS \"a\"\"\" ; SELECT nextval('taken')",
    "SELECT $a$;$b$; $a$; SELECT nextval('taken')",
    "SELECT E'\\'; INSERT INTO marker VALUES (1); --'",
    "SELECT U&'\\0027'; INSERT INTO marker VALUES (1)",
    "SELECT /* /* */ ; */ 1; INSERT INTO marker VALUES (1) /*",
    "SELECT 1 WHERE 1 =-- x\n 1; DROP TABLE marker",
    "SELECT mark()", "SELECT mark_as_immutable()", "SELECT set_as_immutable()", "SELECT 1 WHERE mark_as_immutable() = 1",
    "SELECT nextval('taken')", "WITH x AS (INSERT INTO marker VALUES (1) RETURNING 1) SELECT * FROM x",
    "WITH x AS (SELECT 1) INSERT INTO marker SELECT 1", "SELECT 1 INTO made", "CREATE TABLE made AS SELECT 1",
    "EXPLAIN ANALYZE SELECT nextval('taken')", "EXPLAIN (ANALYZE) INSERT INTO marker VALUES (1)", "(ANALYZE) SELECT nextval('taken')",
    "ANALYZE SELECT nextval('taken')", ") SELECT nextval('taken')", "(ANALYZE, FORMAT TEXT) INSERT INTO marker VALUES (1)",
    "DO $$ BEGIN INSERT INTO marker VALUES (1); END $$", "CALL mark()", "SET marker.seen = 'yes'",
    "PREPARE q AS SELECT nextval('taken')",
    "EXECUTE ready(mark())", "EXECUTE ready(nextval('taken')::int)", "EXECUTE ready((SELECT mark()))",
    "EXECUTE ready(mark_as_immutable())",
    "COPY (SELECT nextval('taken')) TO STDOUT", "BEGIN; INSERT INTO marker VALUES (1); COMMIT", "COMMIT",
    "DECLARE c CURSOR FOR SELECT mark()",
]


@pytest.mark.parametrize("text", HIDDEN)
@pytest.mark.parametrize("strings", ["on", "off"])
def test_a_preview_runs_nothing_however_its_text_is_quoted(markers: Connection, text: str, strings: str) -> None:
    markers.execute("PREPARE ready(int) AS SELECT $1")
    markers.execute(sql.SQL("SET standard_conforming_strings = {}").format(sql.Literal(strings)))
    before = state(markers)
    afford(markers, text)
    assert state(markers) == before


def test_a_preview_does_not_alter_the_camera_of_the_owner_who_asks_for_it(stack: Any, unique: Callable[[str], str]) -> None:
    camera = unique("afford")
    stack.camera(camera, "levels.mp4", epsilon="1")
    options = "SELECT srvoptions FROM pg_foreign_server WHERE srvname = %s"
    before = stack.run(options, camera, user="privid")
    for text in (f"SELECT 1 AS x$a$; ALTER SERVER {camera} OPTIONS (SET epsilon '99'); SELECT 1 AS y$a$",
                 f"SELECT 1 --\r; ALTER SERVER {camera} OPTIONS (SET epsilon '99')"):
        with stack.connect("owner") as connection:
            afford(connection, text)
        assert stack.run(options, camera, user="privid") == before


def test_a_preview_starts_no_program_for_a_superuser(stack: Any, unique: Callable[[str], str]) -> None:
    file = unique("started")  # in the server's own folder
    copy = f"COPY (SELECT 1) TO PROGRAM 'touch {file}'"
    with stack.connect("privid") as connection:
        for text in (f"SELECT 1 AS x$a$; {copy}; SELECT 1 AS y$a$", f"SELECT 1 --\r; {copy}", copy):
            afford(connection, text)
            assert connection.execute("SELECT pg_stat_file(%s, true)", (file,)).fetchall() == [(None,)]


def test_statements_are_taken_apart_where_postgresql_takes_them_apart(markers: Connection) -> None:
    text = "SELECT 'a;b' AS x$a$; \r\n TABLE marker -- c;\r; VALUES ($q$;$q$) ;; (SELECT 1) ; DELETE FROM marker; SELECT \"é;\" FROM marker"
    assert afford(markers, text) == [
        (1, "SELECT 'a;b' AS x$a$", True, "reads no camera"), (2, "TABLE marker -- c;", True, "reads no camera"),
        (3, "VALUES ($q$;$q$)", True, "reads no camera"), (4, "(SELECT 1)", True, "reads no camera"),
        (5, "DELETE FROM marker", None, "not a query"),
        (6, 'SELECT "é;" FROM marker', False, 'column "é;" does not exist')]


@pytest.mark.parametrize(("text", "parts"), [
    ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]), ("", []), (" ;; ", []), ("SELECT 'a;b', \"c;d\"", ["SELECT 'a;b', \"c;d\""]),
    ("SELECT 'it''s; one'; TABLE x", ["SELECT 'it''s; one'", "TABLE x"]), (r"SELECT E'\';'; TABLE x", [r"SELECT E'\';'", "TABLE x"]),
    ("SELECT $$;$$; SELECT $a$;$$;$a$", ["SELECT $$;$$", "SELECT $a$;$$;$a$"]),
    ("TABLE a -- ; b\n; TABLE c", ["TABLE a -- ; b", "TABLE c"]),
    ("TABLE a /* ; /* ; */ ; */ ; TABLE b", ["TABLE a /* ; /* ; */ ; */", "TABLE b"]),
    ("SELECT date';'; TABLE e", ["SELECT date';'", "TABLE e"]),
    ("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; TABLE a",
     ["CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END", "TABLE a"])])
def test_a_batch_is_taken_apart_at_its_semicolons(stack: Any, text: str, parts: list[str]) -> None:
    assert stack.run("SELECT privid.split_statements(%s)", text) == [(parts,)]


def test_a_text_that_postgresql_cannot_parse_is_refused_with_its_place(markers: Connection) -> None:
    with pytest.raises(psycopg.errors.SyntaxError, match='syntax error at or near "SELEC"') as refused:
        markers.execute("SELECT * FROM privid.afford('SELECT 1; SELEC 2')")
    assert (refused.value.diag.internal_position, refused.value.diag.internal_query) == ("11", "SELECT 1; SELEC 2")
    assert refused.value.diag.message_hint is not None


def test_prepared_statements_are_previewed_with_constants_only(markers: Connection) -> None:
    markers.execute("PREPARE ready(int) AS SELECT $1")
    assert afford(markers, "EXECUTE ready(1); EXECUTE ready('2'); EXECUTE ready(-3); EXECUTE ready(1 + 1)") == [
        (1, "EXECUTE ready(1)", True, "reads no camera"), (2, "EXECUTE ready('2')", True, "reads no camera"),
        (3, "EXECUTE ready(-3)", True, "reads no camera"), (4, "EXECUTE ready(1 + 1)", None, "not a query")]


def test_only_one_query_is_explained_at_a_time(markers: Connection) -> None:
    for text, found in (("SELECT 1; SELECT 2", "2 statements"), ("", "0 statements"), (" ; -- x", "0 statements")):
        with pytest.raises(psycopg.errors.SyntaxError, match=found) as refused:
            markers.execute("SELECT privid.explain(%s, 'public')", (text,))
        assert refused.value.diag.message_hint is not None
    assert markers.execute("SELECT privid.explain('DELETE FROM marker', 'public')").fetchall() == [(None,)]


def test_functions_in_the_callers_path_do_not_stand_in_for_those_that_a_preview_calls(markers: Connection) -> None:
    for name, arguments, result in (("set_config", "text, text, boolean", "text"), ("jsonb_path_exists", "jsonb, jsonpath", "boolean")):
        markers.execute(sql.SQL("""CREATE FUNCTION {}({}) RETURNS {} LANGUAGE plpgsql AS
            'BEGIN PERFORM nextval(''taken''); RETURN NULL; END'""").format(sql.Identifier(name), sql.SQL(arguments), sql.SQL(result)))
    markers.execute("SELECT pg_catalog.set_config('search_path', current_schema() || ', pg_catalog', false)")
    before = state(markers)
    assert afford(markers, "SELECT 1") == [(1, "SELECT 1", True, "reads no camera")]
    assert state(markers) == before


def test_a_function_that_reads_a_camera_while_it_is_planned_is_not_charged_by_a_preview(
        stack: Any, markers: Connection, unique: Callable[[str], str]) -> None:
    camera = unique("afford")
    stack.camera(camera, "levels.mp4", rho="1s", epsilon="100000", quantum="20ms")
    stack.executable("level")
    stack.table(camera, camera, "level")
    markers.execute(sql.SQL("""CREATE FUNCTION people() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
        'BEGIN RETURN (SELECT count(*) FROM analyst.{}); END'""").format(sql.Identifier(camera)))
    assert afford(markers, "SELECT people()") == [(1, "SELECT people()", False, "a preview cannot release")]
    assert stack.run("SELECT count(*) FROM privid.releases WHERE camera = %s", camera) == [(0,)]
    assert markers.execute("SELECT note FROM privid.afford(%s)", (f"SELECT count(*) FROM analyst.{camera}",)).fetchall() == [(None,)]
    assert markers.execute("SELECT people()").fetchall()  # and afterwards all is as before
    assert stack.run("SELECT count(*) FROM privid.releases WHERE camera = %s", camera) == [(1,)]


def test_a_parallel_worker_of_a_preview_charges_nothing_either(stack: Any, markers: Connection, unique: Callable[[str], str]) -> None:
    """A worker does not know what its leader is about, so that it reads no camera at all."""
    camera = unique("parallel")
    stack.camera(camera, "levels.mp4", rho="1s", epsilon="100000", quantum="20ms")
    stack.executable("level")
    stack.table(camera, camera, "level")
    markers.execute(sql.SQL("""CREATE FUNCTION in_a_worker() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS
        'BEGIN RETURN (SELECT count(*) FROM analyst.{}); END'""").format(sql.Identifier(camera)))
    markers.execute("""CREATE FUNCTION led() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
        'DECLARE r bigint; BEGIN EXECUTE ''SELECT in_a_worker()'' INTO r; RETURN r; END'""")
    markers.execute("SET force_parallel_mode = on")
    assert afford(markers, "SELECT led()") == [(1, "SELECT led()", False, "tables of cameras cannot be read during a parallel operation")]
    with pytest.raises(psycopg.Error, match="cannot be read during a parallel operation"):
        markers.execute("SELECT in_a_worker()")
    assert stack.run("SELECT count(*) FROM privid.releases WHERE camera = %s", camera) == [(0,)]


def test_a_preview_that_failed_leaves_the_session_as_it_was(markers: Connection) -> None:
    """Path, rights to write, and the transaction, also where a preview is undone by an error of its own."""
    with markers.transaction():
        before = state(markers)
        found = afford(markers, "SELECT 1 / 0; SELECT nothing(); SELECT 1; SELECT mark_as_immutable()")
        assert [row[2] for row in found] == [False, False, True, False]
        with pytest.raises(psycopg.Error), markers.transaction():
            markers.execute("SELECT privid.explain('SELECT mark_as_immutable()', current_setting('search_path'))")
        assert state(markers) == before
        markers.execute("INSERT INTO marker VALUES (1)")
    assert markers.execute("SELECT count(*) FROM marker").fetchall() == [(1,)]


#: every way in which PostgreSQL, or somebody who reads it wrongly, begins or ends a text, a name, a comment or a statement
PIECES = [
    "'", '"', "''", '""', "$", "$$", "$a$", "$é$", "x$a$", "e'", "E'", "U&'", 'U&"', "B'", "X'", "N'", "\\", "\\'", "\\\\", "--", "/*",
    "*/", "/", "*", "-", "+", ";", ";;", "(", ")", "[", "]", ",", ":", "::", ":=", "=>", "$1", "\n", "\r", "\t", "\x0c", "\x0b", " ",
    "\xa0", "\u2028", "\ufeff", "\x01", "\x1a", "é", "😀", "0", "1", "1.", "1e", "0x", "a", "_", "%", "%s", "{", "}", "UESCAPE '!'",
    "SELECT 1", "SELECT", "FROM", "WITH x AS (", "TABLE marker", "VALUES (1)", "EXECUTE ready(1)", "EXECUTE ready(mark())", "INTO made",
    "AS", "INSERT INTO marker VALUES (1)", "SELECT nextval('taken')", "SELECT mark()", "mark_as_immutable()", "set_as_immutable()",
    "CREATE TABLE made (x int)", "EXPLAIN", "ANALYZE", "(ANALYZE)", "(ANALYZE, FORMAT JSON)",
    "DO $$ BEGIN PERFORM nextval('taken'); END $$", "CALL", "SET marker.seen = 'yes'", "SELECT pg_advisory_lock(1)", "COMMIT", "ROLLBACK",
    "BEGIN", "COPY marker TO STDOUT", "DROP TABLE marker", "PREPARE more AS", "DEALLOCATE ALL", "LOCK marker", "UNION ALL", "LIMIT",
    "ORDER BY", "FOR UPDATE", "RETURNING 1", "OR", "NULL",
]
OTHERS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), OTHERS), max_size=14)
JOINTS = st.sampled_from(["", " ", ";", "\r", "; "])


@given(joint=JOINTS, pieces=TEXTS, strings=st.sampled_from(["on", "off"]))
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_whatsoever_runs_in_a_preview_or_fails_inside(markers: Connection, joint: str, pieces: list[str], strings: str) -> None:
    markers.execute(sql.SQL("SET standard_conforming_strings = {}").format(sql.Literal(strings)))
    if not markers.execute("SELECT FROM pg_prepared_statements WHERE name = 'ready'").fetchall():
        markers.execute("PREPARE ready(int) AS SELECT $1")
    before = state(markers)
    for _, _, _, note in afford(markers, joint.join(pieces)):
        assert note is not None and not note.startswith(("unrecognized", "unexpected", "cache lookup", "could not find", "invalid")), note
    assert state(markers) == before
    assert not markers.execute("SELECT FROM pg_prepared_statements WHERE name = 'more'").fetchall()
