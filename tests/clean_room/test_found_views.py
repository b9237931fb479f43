"""Views and tables of the extension: what EXPLAIN tells of rows that a view does not show, and who can lock what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.conftest import RunningStack

from .pair import Connection, Pair

STRANGER = "passer_by"


@pytest.fixture(scope="module")
def stranger(pair: Pair) -> Iterator[Connection]:
    """An analyst who has asked nothing and may use no camera."""
    pair.stack.run(f"CREATE ROLE {STRANGER} LOGIN IN ROLE privid_analyst", user="privid")
    with closing(pair.stack.connect(STRANGER)) as connection:
        yield connection
    pair.stack.run(f"DROP ROLE {STRANGER}", user="privid")


def steps(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "Node Type" in node:
            yield node
        for value in node.values():
            yield from steps(value)
    elif isinstance(node, list):
        for value in node:
            yield from steps(value)


def plan(connection: Connection, statement: str) -> list[dict[str, Any]]:
    told = connection.execute(f"EXPLAIN (ANALYZE, VERBOSE, TIMING OFF, SUMMARY OFF, FORMAT JSON) {statement}".encode()).fetchone()
    assert told is not None
    return list(steps(told[0] if not isinstance(told[0], str) else json.loads(told[0])))


#: conditions that PostgreSQL would evaluate below a view, on rows that the view does not show
CONDITIONS = {
    "privid.failures": ("camera = 'event_a' AND count > 0", "camera = 'nowhere'"),
    "privid.releases": ("query > 'S'", "query < ''"),
    "privid.executables": ("name > ''", "name < ''"),
    "privid.attachments": ("sha256 > ''", "sha256 = 'x'"),
}


@pytest.mark.parametrize("view", CONDITIONS)
def test_explain_tells_nothing_of_rows_that_a_view_does_not_show(pair: Pair, stranger: Connection, view: str) -> None:
    pair.warm("t")
    assert pair.stack.run("SELECT count(*) > 0 FROM privid.releases WHERE who = 'analyst'") == [(True,)]
    assert stranger.execute(f"SELECT count(*) FROM {view}".encode()).fetchall() == [(0,)]
    true, false = (plan(stranger, f"SELECT * FROM {view} WHERE {condition}") for condition in CONDITIONS[view])
    for one, other in zip(true, false, strict=True):
        assert one["Node Type"] == other["Node Type"]
        assert [one.get(n) for n in ("Actual Rows", "Rows Removed by Filter")] == [
            other.get(n) for n in ("Actual Rows", "Rows Removed by Filter")]


def test_releases_and_failures_are_shown_to_whom_they_concern(pair: Pair) -> None:
    pair.warm("t")
    for user, sees in (("analyst", True), ("owner", True), ("privid", True)):
        assert pair.stack.run("SELECT count(*) > 0 FROM privid.releases WHERE camera = 'event_a'", user=user) == [(sees,)]
    assert pair.stack.run("SELECT count(*) > 0 FROM privid.failures", user="owner") == [(True,)]
    with pair.stack.connect("privid") as connection:  # a role that is put on is the one that asks
        connection.execute("SET ROLE analyst")
        assert connection.execute("SELECT count(*) FROM privid.failures").fetchall() == [(0,)]


def test_no_analyst_can_lock_a_table_of_the_extension(pair: Pair, stranger: Connection) -> None:
    tables = pair.stack.run("SELECT c.oid::regclass::text FROM pg_class c WHERE relkind IN ('r', 'v', 'p') "
                            "AND relnamespace = 'privid'::regnamespace", user="privid")
    assert len(tables) > 20
    for (table,) in tables:
        for mode in ("ACCESS EXCLUSIVE", "SHARE", "ROW EXCLUSIVE"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), stranger.transaction():
                stranger.execute(f"LOCK TABLE {table} IN {mode} MODE NOWAIT".encode())


def test_advisory_locks_of_an_analyst_hold_nobody_up(stack: RunningStack, pair: Pair, stranger: Connection) -> None:
    name = stranger.execute("SELECT quote_ident(session_user)").fetchall()[0][0]
    stack.run(f"GRANT EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint) TO {name}", user="privid")
    with stranger.transaction():
        for chain in ("engine", "owners"):
            stranger.execute("SELECT pg_advisory_xact_lock(hashtextextended('privid.history ' || %s, 0))", (chain,))
        with stack.connect("owner") as owner:
            owner.execute("SET statement_timeout = '10s'")
            owner.execute("ALTER SERVER event_a OPTIONS (SET epsilon '999999')")
            owner.execute("ALTER SERVER event_a OPTIONS (SET epsilon '1000000')")
    assert stack.run("SELECT count(*) FROM privid.verify_history()") == [(0,)]
    stack.run(f"REVOKE EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint) FROM {name}", user="privid")


def test_own_executables_and_files_are_removed_and_no_others(stack: RunningStack, stranger: Connection) -> None:
    stranger.execute("SELECT privid.upload('gone', %s)", (b"#!/bin/sh\n",))
    stranger.execute("SELECT privid.attach('gone', 'file', %s)", (b"x",))
    for statement in ("SELECT privid.detach('gone', 'file')", "SELECT privid.remove('gone')"):
        with pytest.raises(psycopg.Error, match=r"does not exist|has no file"):
            stack.run(statement)
        stranger.execute(statement.encode())
    assert stranger.execute("SELECT count(*) FROM privid.executables").fetchall() == [(0,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.execute("DELETE FROM privid.executable_store")


def test_code_that_runs_in_anothers_command_reads_nothing_in_his_name(pair: Pair, stranger: Connection) -> None:
    """An expression of an index is evaluated with its owner's rights, whoever asks for it."""
    pair.stack.run(f"CREATE SCHEMA {STRANGER} AUTHORIZATION {STRANGER}", user="privid")
    stranger.execute(f"""
        SET search_path = {STRANGER};
        CREATE TABLE heard (what text);
        CREATE FUNCTION hear() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO {STRANGER}.heard SELECT query FROM privid.releases LIMIT 5;
                INSERT INTO {STRANGER}.heard SELECT camera FROM privid.failures LIMIT 5;
                INSERT INTO {STRANGER}.heard VALUES (privid.invoker() || ' asked'); END $$;
        CREATE FUNCTION listen(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
            $$ BEGIN PERFORM {STRANGER}.hear(); RETURN x; END $$;
        CREATE TABLE bait (x int);
        INSERT INTO bait SELECT generate_series(1, 2);
        CREATE INDEX ON bait (listen(x));
        TRUNCATE heard""".encode())
    try:
        pair.warm("t")
        with pair.stack.connect("privid") as superuser:
            superuser.execute(f"REINDEX TABLE {STRANGER}.bait".encode())
        assert stranger.execute("SELECT DISTINCT what FROM heard").fetchall() == [(f"{STRANGER} asked",)]
    finally:
        pair.stack.run(f"DROP SCHEMA {STRANGER} CASCADE", user="privid")


def test_rows_that_anothers_view_hides_are_not_listed_as_keys(pair: Pair) -> None:
    """Neither those that its condition leaves out, nor those that row security keeps from whoever asks."""
    run = pair.stack.run
    run("CREATE SCHEMA lender; CREATE TABLE lender.notes (who int, k text, secret text); "
        "INSERT INTO lender.notes VALUES (1, 'X', 'shown'), (2, 'Y', 'hidden'); "
        "CREATE VIEW lender.shown WITH (security_barrier) AS SELECT t.v, n.secret FROM event_a.t t JOIN lender.notes n ON t.plate = n.k "
        "WHERE n.who = 1; GRANT USAGE ON SCHEMA lender TO analyst; GRANT SELECT ON lender.shown TO analyst", user="privid")
    statements = ("SELECT DISTINCT secret FROM lender.shown", "SELECT secret, count(*) FROM lender.shown GROUP BY secret")
    try:
        with pair.connect("a") as connection:
            for statement in statements:
                with pytest.raises(psycopg.Error, match="a table that you may read through a view only"):
                    connection.execute(statement)
            run("GRANT SELECT ON lender.notes TO analyst", user="privid")
            assert connection.execute(statements[0]).fetchall()
            run("ALTER TABLE lender.notes ENABLE ROW LEVEL SECURITY", user="privid")
            with pytest.raises(psycopg.Error, match="a table that you may read through a view only"):
                connection.execute(statements[0])
    finally:
        run("DROP SCHEMA lender CASCADE", user="privid")
