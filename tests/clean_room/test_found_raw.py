"""Raw rows are for a statement that the owner's client itself sent. Before, code of an analyst that
ran anywhere in an owner's session could read them too."""

from __future__ import annotations

import ctypes
import ctypes.util
import subprocess
from collections.abc import Callable

import psycopg
import pytest

from tests.conftest import RunningStack

from .pair import Pair
from .plunder import loot, owner_of
from .portals import Refused, open_portals

#: statements of an owner in which code of the analyst runs, as in any PostgreSQL
BORROWED = {
    "pruning, explained": ("EXPLAIN SELECT * FROM raid.report", None),
    "pruning": ("SELECT * FROM raid.report", None),
    "a parameter of a domain": ("INSERT INTO raid.guestbook VALUES (%s)", ("hello",)),
    "a literal of a domain": ("INSERT INTO raid.guestbook VALUES ('hello')", None),
    "an array of a domain": ("SELECT '{x}'::raid.word[]", None),
    "a function": ("SELECT raid.plunder('direct')", None),
    "an index": ("SELECT k FROM raid.listed WHERE k = 'X'", None),
    "a cursor": ("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM raid.report", None),
    "a copy": ("COPY (SELECT raid.plunder('copy')) TO STDOUT", None),
    "a table": ("CREATE TEMP TABLE got AS SELECT raid.plunder('table')", None),
    "a block": ("DO $$ BEGIN PERFORM raid.plunder('block'); END $$", None),
    "an argument": ("EXECUTE mine(raid.plunder('argument'))", None),
}


@pytest.mark.parametrize(("statement", "values"), BORROWED.values(), ids=BORROWED)
@pytest.mark.parametrize("raw", ["off", "on"])
def test_code_of_an_analyst_in_an_owners_session_reads_nothing_raw(
    plunder: Pair, raw: str, statement: str, values: tuple[str] | None
) -> None:
    loot(plunder)
    refused = False
    with owner_of(plunder, raw) as connection:
        parameter = "(text) " if "mine(" in statement else " "
        connection.execute(f"PREPARE mine{parameter}AS SELECT plate FROM event_a.t".encode())
        if statement.startswith("COPY"):
            with connection.cursor().copy(statement.encode()) as copy:
                list(copy)
        else:
            try:
                connection.execute(statement.encode(), values)
            except psycopg.Error as error:
                refused = error.diag.sqlstate == "PV001"
                assert refused, error
    ran, got = loot(plunder)
    assert (ran or refused) and got == []


#: releases before which PostgreSQL's own functions come to code of the analyst
FOLDED = [
    "SELECT * FROM raid.folds",
    "SELECT k, count(v) FROM raid.keys LEFT JOIN event_a.t ON plate = k GROUP BY k",
]


@pytest.mark.parametrize("statement", FOLDED)
@pytest.mark.parametrize("raw", ["off", "on"])
def test_code_that_runs_before_a_release_reads_nothing_raw(
    plunder: Pair, raw: str, statement: str
) -> None:
    loot(plunder)
    with owner_of(plunder, raw) as connection:
        for verb in ("EXPLAIN ", ""):
            try:
                connection.execute(f"{verb}{statement}".encode())
            except psycopg.Error as error:
                assert error.diag.sqlstate in ("PV001", "PV002"), error
    assert loot(plunder)[1] == []


def test_a_function_that_is_called_by_message_reads_nothing_raw(plunder: Pair) -> None:
    stack = plunder.stack
    loot(plunder)
    call_by_message(stack, stack.run("SELECT 'raid.plunder'::regproc::oid")[0][0], b"message")
    ran, got = loot(plunder)
    assert ran == {"message"} and got == []


def call_by_message(stack: RunningStack, function: int, argument: bytes) -> None:
    """The protocol's function call, which psycopg does not offer."""

    class Argument(ctypes.Structure):
        _fields_ = (("len", ctypes.c_int), ("isint", ctypes.c_int), ("ptr", ctypes.c_char_p))

    pq = ctypes.CDLL(ctypes.util.find_library("pq") or "libpq.so.5")
    pq.PQconnectdb.restype = pq.PQfn.restype = ctypes.c_void_p
    place = f"host={stack.layout.run} port={stack.layout.socket_port} dbname=privid user=owner"
    connection = ctypes.c_void_p(pq.PQconnectdb(place.encode()))
    result, length = ctypes.create_string_buffer(100), ctypes.c_int()
    arguments = (Argument * 1)(Argument(len(argument), 0, argument))
    pq.PQfn(connection, function, result, ctypes.byref(length), 0, arguments, 1)
    pq.PQfinish(connection)


def test_a_plan_that_was_made_for_the_owner_serves_nobody_else(plunder: Pair) -> None:
    """A statement that the driver prepared has a plan which PostgreSQL keeps; code can name it."""
    loot(plunder)
    with owner_of(plunder) as connection:
        connection.pgconn.prepare(b"mine", b"SELECT plate FROM event_a.t")
        for _ in range(3):
            assert connection.pgconn.exec_prepared(b"mine", []).ntuples == 80
        connection.execute("SELECT raid.plunder('kept plan')")
        connection.execute("SELECT * FROM raid.report")
        connection.execute("INSERT INTO raid.guestbook VALUES (%s)", ("hello",))
        for verb in ("EXECUTE", "EXPLAIN ANALYZE EXECUTE"):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(f"{verb} mine".encode())
            assert caught.value.diag.sqlstate == "PV001"
        assert connection.pgconn.exec_prepared(b"mine", []).ntuples == 80
    ran, got = loot(plunder)
    assert ran and got == []


def test_a_parameter_that_nothing_uses_lends_no_plan(plunder: Pair) -> None:
    loot(plunder)
    word = plunder.stack.run("SELECT 'raid.word'::regtype::oid")[0][0]
    with owner_of(plunder) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.pgconn.prepare(b"mine", b"SELECT plate FROM event_a.t", [word])
        connection.pgconn.exec_prepared(b"mine", [b"hello"])
        connection.pgconn.exec_prepared(b"mine", [b"hello"])
    ran, got = loot(plunder)
    assert ran == {"parameter"} and got == []


def test_code_of_an_analyst_fetches_nothing_from_an_owners_cursor(plunder: Pair) -> None:
    plunder.stack.run("""
        CREATE FUNCTION raid.fetch_one(c refcursor) RETURNS text LANGUAGE plpgsql AS
            $$ DECLARE x text; BEGIN FETCH c INTO x; RETURN x; END $$;
        CREATE FUNCTION raid.fetch_all() RETURNS SETOF text LANGUAGE sql AS
            $$ SELECT query_to_xml('FETCH ALL FROM c', true, true, '')::text $$;
        CREATE VIEW raid.peek AS SELECT cursor_to_xml('c'::refcursor, 9, true, true, '') AS x;
        CREATE VIEW raid.peek_at_all AS
            SELECT cursor_to_xml(name::refcursor, 9, true, true, '') AS x
            FROM pg_cursors WHERE name = 'c';
        CREATE DOMAIN raid.peeking AS text
            CHECK (cursor_to_xml('c'::refcursor, 9, true, true, '') IS NOT NULL);
        CREATE POLICY peek ON raid.listed
            USING (cursor_to_xml('c'::refcursor, 9, true, true, '') IS NOT NULL);
        ALTER TABLE raid.listed ENABLE ROW LEVEL SECURITY;
        INSERT INTO raid.listed VALUES ('X');
        GRANT SELECT ON raid.peek, raid.peek_at_all TO PUBLIC""")
    asked = ("SELECT raid.fetch_one('c')", "SELECT raid.fetch_all()", "SELECT * FROM raid.peek",
             "SELECT * FROM raid.peek_at_all", "SELECT 'x'::raid.peeking",
             "SELECT * FROM raid.listed", "DECLARE d CURSOR FOR TABLE raid.peek; FETCH FROM d",
             "FETCH 1 FROM c; SELECT * FROM raid.peek")
    for statement in asked:
        with owner_of(plunder) as connection, connection.transaction(force_rollback=True):
            connection.execute("DECLARE c CURSOR FOR SELECT plate FROM event_a.t")
            assert connection.execute("FETCH FROM c").fetchall() == [("none",)]
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement.encode())
            assert caught.value.diag.sqlstate in ("PV001", "0A000"), (statement, caught.value)
    with owner_of(plunder) as connection:  # one message
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("BEGIN; DECLARE c CURSOR FOR SELECT plate FROM event_a.t; "
                               "SELECT * FROM raid.peek")
        assert caught.value.diag.sqlstate == "PV001", caught.value


def test_a_suspended_portal_is_read_by_nobody_else_though_the_text_be_the_same(plunder: Pair, unique: Callable[[str], str]) -> None:
    """A text can come to mean another relation, and then it is a view that fetches from the first portal."""
    schema = unique("decoy")
    plunder.stack.run(f"CREATE SCHEMA {schema} AUTHORIZATION analyst; GRANT USAGE ON SCHEMA {schema} TO PUBLIC", user="privid")
    text = "SELECT plate FROM t"
    with open_portals(plunder.stack, "owner") as client:
        client.query(f"SET search_path = {schema}, event_a")
        client.query("SET privid.raw = on")
        client.query("BEGIN")
        assert len(client.execute("one", text, 2)) == 2
        plunder.stack.run(f"CREATE VIEW {schema}.t AS SELECT cursor_to_xml('one', 100, true, true, '')::text AS plate")
        plunder.stack.run(f"GRANT SELECT ON {schema}.t TO PUBLIC")
        with pytest.raises(Refused, match="PV001"):
            client.execute("two", text, 2)


def test_the_negator_of_an_operator_stands_in_no_raw_statement(plunder: Pair) -> None:
    """The operator's own function is PostgreSQL's; the planner puts another in its place."""
    plunder.stack.run("""
        CREATE FUNCTION raid.no_more(float8, float8) RETURNS boolean LANGUAGE plpgsql AS
            $$ BEGIN PERFORM raid.plunder('negator'); RETURN NOT $1 > $2; END $$;
        CREATE OPERATOR raid.<<<< (LEFTARG = float8, RIGHTARG = float8, FUNCTION = raid.no_more);
        CREATE OPERATOR raid.>>>> (LEFTARG = float8, RIGHTARG = float8, FUNCTION = pg_catalog.float8gt,
                                   NEGATOR = OPERATOR(raid.<<<<))""")
    loot(plunder)
    for condition in ("NOT v OPERATOR(raid.>>>>) 1", "v OPERATOR(raid.>>>>) 1", "v OPERATOR(raid.>>>>) ANY (ARRAY[1, 2])"):
        with owner_of(plunder) as connection, pytest.raises(psycopg.Error) as caught:
            connection.execute(f"SELECT count(*) FROM event_a.t WHERE {condition}".encode())
        assert caught.value.diag.sqlstate == "PV001", caught.value
    assert loot(plunder) == (set(), [])


SWITCH = "set_config('privid.raw', 'on', false)"


@pytest.mark.parametrize(
    ("made", "used"),
    [
        (f"CREATE VIEW raid.$ AS SELECT {SWITCH} AS s", "SELECT * FROM raid.$"),
        (f"CREATE FUNCTION raid.$() RETURNS text LANGUAGE sql AS $x$ SELECT {SWITCH} $x$",
         "SELECT raid.$()"),
        (f"CREATE TABLE raid.$ (x int, y text DEFAULT {SWITCH}); GRANT ALL ON raid.$ TO owner",
         "INSERT INTO raid.$ VALUES (1)"),
        (f"CREATE TABLE raid.$ (x int CHECK ({SWITCH} = 'on')); GRANT ALL ON raid.$ TO owner",
         "INSERT INTO raid.$ VALUES (1)"),
        (f"CREATE VIEW raid.$ AS SELECT count(*), {SWITCH} FROM event_a.t", "TABLE raid.$"),
    ],
    ids=["a view", "an inlined function", "a default", "a constraint", "above a release"],
)
def test_expressions_of_others_do_not_switch_raw_rows_on(
    plunder: Pair, unique: Callable[[str], str], made: str, used: str
) -> None:
    name = unique("switch")
    for statement in made.replace("$x$", "$body$").split("; "):
        text = statement.replace("$body$", "\0").replace("$", name).replace("\0", "$body$")
        plunder.stack.run(text)
    if "VIEW" in made:
        plunder.stack.run(f"GRANT SELECT ON raid.{name} TO PUBLIC")
    with plunder.stack.connect("owner") as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(used.replace("$", name).encode())
        assert caught.value.diag.sqlstate == "42501", caught.value
        assert connection.execute("SHOW privid.raw").fetchall() == [("off",)]


@pytest.mark.parametrize(
    "change",
    [
        "PERFORM set_config('privid.raw', 'on', false)",
        "SET privid.raw = on",
        "ALTER ROLE owner SET privid.raw = on",
    ],
)
def test_code_does_not_switch_raw_rows_on(
    plunder: Pair, unique: Callable[[str], str], change: str
) -> None:
    name = unique("switch")
    plunder.stack.run(
        f"CREATE FUNCTION raid.{name}() RETURNS int LANGUAGE plpgsql AS "
        f"$$ BEGIN {change}; RETURN 1; END $$"
    )
    with plunder.stack.connect("owner") as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(f"SELECT raid.{name}()".encode())
        assert caught.value.diag.sqlstate == "42501", caught.value
        assert connection.execute("SHOW privid.raw").fetchall() == [("off",)]


def test_the_client_switches_raw_rows_on_and_parallel_workers_follow(evil: Pair) -> None:
    with evil.stack.connect("owner", options="-c privid.raw=on") as connection:
        assert connection.execute("SHOW privid.raw").fetchall() == [("on",)]
    with evil.stack.connect("owner") as connection:
        connection.execute("SET privid.raw = on")
        connection.execute("SET force_parallel_mode = on")
        plan = connection.execute("EXPLAIN ANALYZE SELECT count(*) FROM pg_class").fetchall()
        assert "Workers Launched: 1" in str(plan)
        assert connection.execute("SELECT count(*) FROM event_a.t").fetchall() == [(80,)]


def test_an_owner_reads_raw_in_every_way_that_a_client_can_ask(evil: Pair) -> None:
    rows = "SELECT plate, v FROM event_a.t WHERE plate = 'X'"
    with owner_of(evil) as connection:
        assert len(connection.execute(rows.encode()).fetchall()) == 5
        assert len(connection.execute(rows.encode(), prepare=True).fetchall()) == 5
        asked = "SELECT plate, v FROM event_a.t WHERE plate = %s AND v > %s AND size = %s"
        for _ in range(12):  # custom plans, and then a generic one
            with connection.transaction():
                assert connection.execute(asked, ("X", 1, "large")).fetchall()
        for form in ("EXPLAIN", "EXPLAIN (ANALYZE, FORMAT JSON)"):
            assert "Camera" in str(connection.execute(f"{form} {rows}".encode()).fetchall())
        with connection.transaction():
            connection.execute(f"DECLARE c CURSOR FOR {rows}".encode())
            assert len(connection.execute("FETCH 3 FROM c").fetchall()) == 3
            assert len(connection.execute("FETCH ALL FROM c").fetchall()) == 2
        with pytest.raises(psycopg.Error, match="cannot be held"):
            connection.execute(f"DECLARE h CURSOR WITH HOLD FOR {rows}".encode())
        with connection.transaction(), connection.cursor(name="named") as cursor:
            assert len(cursor.execute(asked, ("X", 0, "large")).fetchall()) == 5
        with connection.cursor().copy(f"COPY ({rows}) TO STDOUT".encode()) as copy:
            assert b"".join(bytes(line) for line in copy).count(b"\n") == 5
        connection.execute(f"CREATE TEMP TABLE got AS {rows}".encode())
        connection.execute("INSERT INTO got SELECT plate, v FROM event_a.t WHERE v > %s", (3,))
        connection.execute("DELETE FROM got WHERE plate <> 'X'")
        connection.execute(f"CREATE TEMP VIEW seen AS {rows}".encode())
        joined = connection.execute("SELECT count(*) FROM got JOIN seen USING (plate)")
        assert joined.fetchall() == [(30,)]
        both = connection.execute(f"SELECT 1; {rows}; SELECT 2".encode())
        assert both.nextset() and len(both.fetchall()) == 5
        explained = connection.execute(f"EXPLAIN ANALYZE {asked}", ("X", 1, "large"))
        assert "Camera" in str(explained.fetchall())
    script = f"SET privid.raw = on; {rows};\n{rows};\n"
    place = ["-h", str(evil.stack.layout.run), "-p", str(evil.stack.layout.socket_port)]
    told = subprocess.run(
        ["psql", "-X", "-U", "owner", *place, "privid"],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.stdout.count("(5 rows)") == 2, told
