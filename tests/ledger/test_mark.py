"""The mark outside the database: an older state that was restored is found out, whatever was restored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from psycopg import sql

from privid.errors import EngineUnavailable
from privid.ledger import Claim, Ledger
from privid.ledger.mark import KEPT, Mark
from tests.ledger.postgres import Database, camera, record

CAMPUS = camera(epsilon="1000")


def charge(ledger: Ledger) -> int:
    return ledger.charge([Claim(CAMPUS, [(0, 10)], Fraction(1))], record())


@pytest.fixture
def marked(database: Database, tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(database.server.conninfo(database.name, "privid_engine"), mark=tmp_path / "ledger.mark")
    yield ledger
    ledger.close()


def restored(database: Database, dump: Path, mark: Path) -> Ledger:
    """A ledger on a database made from a dump, beside the mark of the one it came from."""
    name, host = next(database.server.names), database.server.directory
    database.server.command("createdb", "-h", host, "-U", "postgres", name)
    database.server.command("pg_restore", "-h", host, "-U", "postgres", "-d", name, "--exit-on-error", dump)
    return Ledger(database.server.conninfo(name, "privid_engine"), mark=mark)


def dumped(database: Database) -> Path:
    dump = database.server.directory / f"{next(database.server.names)}.dump"
    database.server.command("pg_dump", "-h", database.server.directory, "-U", "postgres", "-Fc", "-f", dump, database.name)
    return dump


def test_a_restored_older_ledger_charges_nothing_and_the_latest_one_goes_on(database: Database, marked: Ledger, tmp_path: Path) -> None:
    for _ in range(3):
        charge(marked)
    old = dumped(database)
    late = charge(marked)
    latest = dumped(database)
    behind = restored(database, old, tmp_path / "ledger.mark")
    with pytest.raises(EngineUnavailable, match="1 of its latest 4 charges are missing") as refused:
        charge(behind)
    assert f"Release {late} " in (refused.value.detail or "") and "accept-restore" in (refused.value.hint or "")
    with behind.pool.connection() as conn:
        assert behind.mark.missing(conn) == [late]
    behind.close()
    level = restored(database, latest, tmp_path / "ledger.mark")
    assert charge(level) == late + 1
    level.close()


def test_a_dump_that_fell_between_two_charges_is_found_out(database: Database, marked: Ledger, tmp_path: Path) -> None:
    """The charge with the lower number commits after the dump, the one with the higher before it."""
    other = camera("other", files="b", epsilon="1000")
    marked.register(CAMPUS)
    marked.register(other)
    with database.connect() as blocker:
        blocker.execute("SET session_replication_role = replica")  # the recording itself stays unlocked
        blocker.execute("BEGIN")
        # the first charge gets its number and then waits for its step of the ledger
        blocker.execute(sql.SQL("INSERT INTO privid.ledger VALUES ({}, -3, 0)").format(sql.Literal(marked.register(CAMPUS))))
        slow = threading.Thread(target=charge, args=(marked,))
        slow.start()
        while not blocker.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
            pass
        higher = marked.charge([Claim(other, [(0, 10)], Fraction(1))], record())
        between = dumped(database)
        blocker.execute("ROLLBACK")
        slow.join()
    assert sorted(marked.mark.charges)[-1] == higher
    behind = restored(database, between, tmp_path / "ledger.mark")
    with pytest.raises(EngineUnavailable, match="1 of its latest 2 charges are missing"):
        charge(behind)
    behind.close()


def test_a_number_that_was_given_anew_is_not_taken_for_the_old_one(database: Database, marked: Ledger, tmp_path: Path) -> None:
    old = dumped(database)
    charge(marked)
    behind = restored(database, old, tmp_path / "other.mark")
    charge(behind)
    behind.close()
    again = Ledger(behind.pool._conninfo, mark=tmp_path / "ledger.mark")
    with pytest.raises(EngineUnavailable, match="ledger is older"):
        charge(again)
    again.close()


def test_a_mark_that_lags_behind_or_is_new_is_harmless(database: Database, marked: Ledger, tmp_path: Path) -> None:
    charge(marked)
    charge(database.ledger)  # not marked
    charge(marked)
    fresh = Ledger(database.server.conninfo(database.name, "privid_engine"), mark=tmp_path / "fresh" / "ledger.mark")
    charge(fresh)
    fresh.close()


def test_the_latest_charges_are_kept_and_survive_a_restart(database: Database, marked: Ledger, tmp_path: Path) -> None:
    at = database.rows("SELECT now()")[0][0]
    for release in range(1, KEPT + 50):
        marked.mark.note(release, at)
    kept = Mark(tmp_path / "ledger.mark").charges
    assert len(kept) == KEPT and max(kept) == KEPT + 49
    marked.mark.reset()
    assert Mark(tmp_path / "ledger.mark").charges == {}


@pytest.mark.parametrize("content", ["{", "[]", '{"charges": [1]}', '{"charges": {"x": "y"}}'])
def test_a_damaged_mark_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "ledger.mark").write_text(content)
    with pytest.raises(EngineUnavailable, match="is damaged"):
        Mark(tmp_path / "ledger.mark")
