"""History: what owners change is told, linked, and cannot be rewritten quietly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from psycopg import errors

from tests.ledger.postgres import Database, camera


def events(database: Database, *, engine: bool = False) -> list[tuple[Any, ...]]:
    return database.rows("SELECT who, camera, event FROM privid.history WHERE (chain = 'engine') = %s ORDER BY id", engine)


def test_every_change_of_a_camera_is_told_with_who_and_what(database: Database) -> None:
    database.create_server(camera())
    database.rows("ALTER SERVER campus OPTIONS (SET rho '9s', SET epsilon '2')", user="olga")
    database.rows("ALTER SERVER campus RENAME TO square", user="olga")
    database.rows("ALTER SERVER square OWNER TO oscar")
    database.rows("SET ROLE oscar; DROP SERVER square")
    assert events(database) == [("olga", "campus", "created"), ("olga", "campus", "altered"), ("olga", "square", "renamed"),
                                ("postgres", "square", "altered"), ("oscar", "square", "dropped")]
    details = [row[0] for row in database.rows("SELECT details FROM privid.history WHERE chain <> 'engine' ORDER BY id")]
    assert details[1] == {"rho": {"from": "2/5s", "to": "9s"}, "epsilon": {"from": "1", "to": "2"}}
    assert details[2] == {"from": "campus", "to": "square"}
    assert details[3] == {"owner": {"from": "olga", "to": "oscar"}}


def test_footage_and_policy_as_the_engine_applies_them_are_told(database: Database) -> None:
    for one in (camera(files="a"), camera(files="ab"), camera(files="ax"), camera(files="ax", epsilon="2")):
        database.ledger.register(one)
    assert [row[2] for row in events(database, engine=True)] == ["footage registered", "footage added", "footage replaced", "footage known"]
    last = database.rows("SELECT details FROM privid.history WHERE chain = 'engine' ORDER BY id DESC LIMIT 1")[0][0]
    assert last["epsilon"] == "2" and last["files"] == []


def test_a_statement_that_is_rolled_back_leaves_no_entry(database: Database) -> None:
    with database.connect("olga") as conn, conn.transaction(force_rollback=True):
        conn.execute("CREATE SERVER x FOREIGN DATA WRAPPER privid")
    assert events(database) == []


def test_a_change_made_while_nobody_looked_is_told_at_the_next_occasion(database: Database) -> None:
    database.create_server(camera())
    database.rows("SET check_function_bodies = off; ALTER SERVER campus OPTIONS (SET epsilon '5')")
    assert [row[2] for row in events(database)] == ["created"]
    database.ledger.register(camera())
    assert events(database)[1:] == [("unseen", "campus", "altered")]


def test_an_owner_cannot_pretend_to_restore_a_dump(database: Database) -> None:
    database.create_server(camera())
    database.rows("SET check_function_bodies = off; ALTER SERVER campus OPTIONS (SET epsilon '5')", user="olga")
    database.rows("SET check_function_bodies = off; SELECT privid.grant_budget('campus', 'ana', 1)", user="olga")
    assert events(database)[1:] == [("olga", "campus", "altered"), ("olga", "campus", "share granted")]


def test_the_engine_does_not_wait_for_an_owners_open_transaction(database: Database) -> None:
    with database.connect("olga") as conn, conn.transaction():
        conn.execute("CREATE SERVER x FOREIGN DATA WRAPPER privid")
        database.ledger.register(camera())
    assert [row[2] for row in events(database, engine=True)] == ["footage registered"]


@pytest.mark.parametrize("user", ["ana", "olga", "privid_engine"])
@pytest.mark.parametrize("statement", [
    "UPDATE privid.history_log SET who = 'nobody'", "DELETE FROM privid.history_log", "TRUNCATE privid.history_log",
    "INSERT INTO privid.history_log (chain, who, event, details, previous, hash) VALUES ('owners', 'x', 'x', '{}', '', '')"])
def test_nobody_can_write_to_history_directly(database: Database, user: str, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        database.rows(statement, user=user)


@pytest.mark.parametrize("statement", ["UPDATE privid.history_log SET who = 'nobody'", "DELETE FROM privid.history_log",
                                       "TRUNCATE privid.history_log"])
def test_even_a_superuser_does_not_change_history_by_accident(database: Database, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege, match="cannot be changed"):
        database.rows(statement)


def test_people_cannot_write_entries_through_the_functions(database: Database) -> None:
    for user in ("ana", "olga"):
        with pytest.raises(errors.InsufficientPrivilege):
            database.rows("SELECT privid.write_history('owners', 'x', 'x', 'x', '{}')", user=user)
        with pytest.raises(errors.InsufficientPrivilege):
            database.rows("SELECT privid.reconcile_cameras()", user=user)


@pytest.mark.parametrize(("tampering", "found"), [
    ("UPDATE privid.history_log SET who = 'somebody' WHERE id = 2", [("by olga", 2, "entry was changed")]),
    ("UPDATE privid.history_log SET details = '{}' WHERE id = 3", [("by olga", 3, "entry was changed")]),
    ("UPDATE privid.history_log SET at = at - interval '1 microsecond' WHERE id = 1", [("by olga", 1, "entry was changed")]),
    ("DELETE FROM privid.history_log WHERE id = 2", [("by olga", 3, "entry before it is missing or was changed")]),
    ("DELETE FROM privid.history_log WHERE id = 1", [("by olga", 2, "entry before it is missing or was changed")]),
    ("DELETE FROM privid.history_log WHERE id = 4", [("by olga", 4, "entry is missing, or is not the latest")]),
    ("DELETE FROM privid.history_log", [("by olga", 4, "entry is missing, or is not the latest")])])
def test_a_changed_or_missing_entry_is_found(database: Database, tampering: str, found: list[tuple[Any, ...]]) -> None:
    database.create_server(camera())
    for epsilon in (2, 3, 4):
        database.rows(f"ALTER SERVER campus OPTIONS (SET epsilon '{epsilon}')", user="olga")
    assert database.rows("SELECT * FROM privid.verify_history()", user="ana") == []
    database.rows("SET session_replication_role = replica; " + tampering)
    assert database.rows("SELECT * FROM privid.verify_history()") == found


def test_entries_written_at_once_from_many_sessions_make_one_chain(database: Database) -> None:
    import threading

    def work(n: int) -> None:
        for turn in range(5):
            database.ledger.register(replace(camera(f"camera{n}", files="abcdef"[n]), epsilon=Fraction(turn + 1)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(events(database, engine=True)) == 30
    assert database.rows("SELECT * FROM privid.verify_history()") == []
