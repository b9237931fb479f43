"""Waiting for an account: whoever waits takes no connection that others need, and nothing that owners write is waited for."""

from __future__ import annotations

import threading
import time
from fractions import Fraction

import pytest

from privid.clients import Client, on_behalf_of
from privid.errors import EngineUnavailable
from privid.ledger import Claim
from privid.ledger.pool import Pool
from privid.ledger.turns import Turns
from tests.ledger.postgres import Database, camera, record


def charge(database: Database, name: str, files: str) -> None:
    database.ledger.charge([Claim(camera(name, files=files), [(0, 10)], Fraction(1, 100))], record())


def test_releases_that_wait_for_one_account_hold_up_no_other(database: Database) -> None:
    charge(database, "campus", "a")
    charge(database, "harbour", "b")
    with database.connect() as holder:
        with holder.transaction():
            holder.execute("SELECT FROM privid.recordings WHERE id = 1 FOR UPDATE")
            waiting = [threading.Thread(target=charge, args=(database, "campus", "a")) for _ in range(8)]
            for thread in waiting:
                thread.start()
            time.sleep(1)
            begun = time.monotonic()
            charge(database, "harbour", "b")
            assert time.monotonic() - begun < 5
        for thread in waiting:
            thread.join()
    assert database.rows("SELECT recording, count(*) FROM privid.release_charges GROUP BY 1 ORDER BY 1") == [(1, 9), (2, 2)]


def test_a_consent_and_a_change_of_rho_in_one_transaction_do_not_wait_for_each_other(database: Database) -> None:
    database.create_server(camera())
    charge(database, "campus", "a")
    with database.connect("olga") as olga, olga.transaction():
        olga.execute("SELECT privid.consent('campus', 'oscar')")
        database.ledger.register(camera(r=9))  # as the check of ALTER SERVER has it done


def test_no_role_has_all_connections_and_nobody_waits_for_ever(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privid.ledger.pool.PATIENCE", 0.2)
    pool = Pool(database.server.conninfo(database.name, "privid_engine"), 2)
    try:
        with on_behalf_of(Client("ana")), pool.connection():
            with pytest.raises(EngineUnavailable, match="busy") as refused, pool.connection():
                pass
            assert refused.value.hint == "Try again."
            with on_behalf_of(Client("bob")), pool.connection() as conn:
                assert conn.execute("SELECT 1").fetchone() == (1,)
        with pool.connection(), pool.connection():
            pass  # the engine's own work has them all
    finally:
        pool.close()


def test_turns_are_taken_all_or_none_and_given_back_whatever_happens() -> None:
    turns = Turns(patience=0.05)
    with turns.take(1, 2):
        with pytest.raises(EngineUnavailable, match="busy"), turns.take(2, 3):
            pass
        with turns.take(3):
            pass
    with pytest.raises(ZeroDivisionError), turns.take(1):
        raise ZeroDivisionError
    with turns.take(1, 2, 3):
        pass


def test_cameras_that_an_owner_keeps_locked_do_not_make_the_engine_wait_for_each(database: Database) -> None:
    for n in range(40):
        database.create_server(camera(f"gate{n}"))
    database.rows("REASSIGN OWNED BY olga TO oscar")  # which fires no trigger: the engine is to note it
    with database.connect("oscar") as oscar, oscar.transaction():
        oscar.execute("ALTER SERVER gate0 OPTIONS (SET epsilon '2')")  # has noted all of them
        oscar.execute("SELECT count(*) FROM privid.cameras")
        begun = time.monotonic()
        database.ledger.register(camera("campus", files="z"))
        assert time.monotonic() - begun < 1.5
    assert database.rows("SELECT DISTINCT who FROM privid.history WHERE details ? 'owner' AND event = 'altered'") == [("unseen",)]
    assert database.rows("SELECT * FROM privid.verify_history()") == []
