"""Races, restarts and killed backends: a charge is whole or absent, and the last epsilon goes to one."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from fractions import Fraction

import pytest

from privid.errors import BudgetExhausted, EngineUnavailable
from privid.ledger import Claim, Ledger
from tests.ledger.postgres import Database, Server, camera, record

MILLI = Fraction(1, 1000)


def test_two_sessions_racing_for_the_last_epsilon_200_times_have_one_winner_each(database: Database) -> None:
    rounds, campus = 200, camera(frames=4000, r=5)
    start, wins = threading.Barrier(2), [[0] * rounds, [0] * rounds]

    def racer(me: int) -> None:
        mine = database.open_ledger(1)
        for n in range(rounds):
            start.wait()
            try:
                # not the same window, but one segment can meet both
                mine.charge([Claim(campus, [(20 * n + 4 * me, 20 * n + 4 * me + 4)], Fraction(1))], record())
                wins[me][n] = 1
            except BudgetExhausted:
                pass
        mine.close()

    threads = [threading.Thread(target=racer, args=(me,)) for me in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [a + b for a, b in zip(*wins, strict=True)] == [1] * rounds
    assert database.rows("SELECT count(*) FROM privid.release_log") == [(rounds,)]
    assert database.rows("SELECT max(spent) FROM privid.ledger_levels") == [(1,)]


def test_releases_over_several_cameras_in_any_order_do_not_deadlock(database: Database) -> None:
    cameras = [camera(name, files=name, epsilon="100") for name in "abc"]
    ledger = database.open_ledger(6)
    troubles: list[BaseException] = []

    def run(seed: int) -> None:
        chosen = random.Random(seed)
        try:
            for _ in range(10):
                picked = chosen.sample(cameras, 2)
                ledger.charge([Claim(one, [(0, 100)], Fraction(1)) for one in picked], record())
        except BaseException as trouble:  # told in the test's own thread
            troubles.append(trouble)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not troubles
    assert sum(100 - ledger.remaining(one, [(0, 100)]) for one in cameras) == 6 * 10 * 2
    ledger.close()


def charge(ledger: Ledger) -> int:
    return ledger.charge([Claim(camera(), [(0, 100)], MILLI)], record())


def whole(database: Database) -> int:
    """How many charges are in the ledger, all of them with their log entry."""
    left = database.open_ledger(1)
    spent = (1 - left.remaining(camera(), [(50, 51)])) / MILLI
    left.close()
    assert database.rows("SELECT count(*) FROM privid.release_log") == [(spent,)]
    assert database.rows("SELECT count(*) FROM privid.release_charges") == [(spent,)]
    return int(spent)


def wait_for_recovery(database: Database) -> None:
    for _ in range(200):
        try:
            database.ledger.in_recovery()
            return
        except EngineUnavailable:
            time.sleep(0.05)
    raise AssertionError("PostgreSQL did not come back")


def test_a_backend_killed_in_the_middle_of_a_charge_leaves_nothing_of_it(database: Database) -> None:
    charge(database.ledger)
    failures: list[EngineUnavailable] = []

    def run() -> None:
        with pytest.raises(EngineUnavailable) as failure:
            charge(database.ledger)
        failures.append(failure.value)

    with database.connect() as blocker, blocker.transaction():
        blocker.execute("LOCK TABLE privid.release_charges IN SHARE MODE")  # the debit is written, its log entry has to wait
        thread = threading.Thread(target=run)
        thread.start()
        waiting: list[tuple[int]] = []
        while not waiting:
            waiting = blocker.execute("SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'privid.release_charges'::regclass"
                                      ).fetchall()
        os.kill(waiting[0][0], signal.SIGKILL)
        thread.join()
        blocker.close()
    assert failures and failures[0].hint
    wait_for_recovery(database)
    assert whole(database) == 1


def test_backends_killed_at_any_moment_leave_each_charge_whole_or_absent(database: Database) -> None:
    chosen, returned, tried = random.Random(7), 0, 0
    for _ in range(6):
        stop = time.monotonic() + chosen.uniform(0.01, 0.15)
        with database.ledger.pool.connection() as conn:
            pid = conn.info.backend_pid

        def kill(pid: int = pid, stop: float = stop) -> None:
            time.sleep(max(0, stop - time.monotonic()))
            os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            while True:
                tried += 1
                charge(database.ledger)
                returned += 1
        except EngineUnavailable:
            killer.join()
        wait_for_recovery(database)
    assert returned <= whole(database) <= tried


def test_the_ledger_reconnects_after_a_restart_and_says_so_while_it_cannot(database: Database) -> None:
    charge(database.ledger)
    database.server.stop()
    try:
        with pytest.raises(EngineUnavailable) as refused:
            charge(database.ledger)
        assert refused.value.sqlstate == "PV004" and refused.value.hint and refused.value.detail
    finally:
        database.server.start()
    charge(database.ledger)
    assert whole(database) == 2


def test_sessions_of_the_engine_commit_synchronously_whatever_the_database_says(server: Server) -> None:
    database = Database(server)
    database.rows(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    database.rows(f"ALTER DATABASE {database.name} SET search_path = public")
    with database.open_ledger(1).pool.connection() as conn:
        shown = [conn.execute(f"SHOW {name}".encode()).fetchone() for name in
                 ("synchronous_commit", "search_path", "application_name", "transaction_isolation", "role")]
        conn.close()
    assert shown == [("on",), ("pg_catalog",), ("privid engine",), ("read committed",), ("privid_engine",)]
