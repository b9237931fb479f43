"""Sessions for releases are ready and used once; those for public work are used again."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from privid.engine.cancel import Cancel, Cancelled
from privid.errors import EngineUnavailable, InvalidValue
from privid.room.pool import RoomPool
from privid.room.settings import SESSION
from tests.room.conftest import House


def backend(conn: psycopg.Connection[tuple[object, ...]]) -> int:
    row = conn.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    assert row is not None
    return int(str(row[0]))


def test_a_used_session_is_never_lent_again(pool: RoomPool) -> None:
    with pool.public() as conn:
        seen = {backend(conn)}
    for count in range(2, 12):
        with pool.take() as conn:
            seen.add(backend(conn))
            conn.execute("CREATE TEMPORARY TABLE left_behind (c0 text)")
            conn.execute("SET TimeZone = 'Asia/Tokyo'")
            conn.execute("PREPARE left_behind AS SELECT 1")
        assert len(seen) == count
    with pool.take() as conn:
        assert conn.execute("SELECT pg_catalog.to_regclass('pg_temp.left_behind')").fetchone() == (None,)
        assert conn.execute("SHOW TimeZone").fetchone() == ("UTC",)
        assert conn.execute("SELECT count(*) FROM pg_catalog.pg_prepared_statements").fetchone() == (0,)


def test_many_at_once_have_a_session_each(pool: RoomPool) -> None:
    together = threading.Barrier(10)

    def use(_: int) -> int:
        with pool.take() as conn:
            together.wait(20)  # all hold theirs now
            return backend(conn)

    with ThreadPoolExecutor(10) as threads:
        assert len(set(threads.map(use, range(10)))) == 10


def test_a_session_is_ready_before_it_is_wanted(pool: RoomPool) -> None:
    waits = []
    for _ in range(5):
        time.sleep(0.15)
        began = time.monotonic()
        conn = pool.take()
        waits.append(time.monotonic() - began)
        conn.close()
    assert min(waits) < 0.003


def test_no_more_than_so_many_are_lent_at_once(house: House) -> None:
    pool = RoomPool(house.server, at_once=2, patience=0.3)
    first, second = pool.take(), pool.take()
    with pytest.raises(EngineUnavailable, match="too many releases"):
        pool.take()
    first.close()
    first.close()  # makes way once
    third = pool.take()
    with pytest.raises(EngineUnavailable, match="too many releases"):
        pool.take()
    for conn in (second, third):
        conn.close()
    pool.close()
    with pytest.raises(EngineUnavailable):
        pool.take()


def test_a_pool_that_is_too_large_for_the_room_is_a_mistake(house: House) -> None:
    with pytest.raises(ValueError, match="too few connections"):
        RoomPool(house.server, at_once=house.server.connections)


def test_public_sessions_are_used_again_unless_a_transaction_was_left_open(pool: RoomPool) -> None:
    with pool.public() as conn:
        first = backend(conn)
    with pool.public() as conn:
        assert backend(conn) == first
        conn.execute("BEGIN")
    with pool.public() as conn:
        assert backend(conn) != first


def test_two_roles_leave_a_public_session_for_others(house: House) -> None:
    """Statements that are only explained cost nothing, and may take long."""
    pool = RoomPool(house.server, stock=0, public=3, patience=0.1)
    try:
        with ExitStack() as stack:
            for role in ("ana", "ben"):  # who agree to take all that they can get
                stack.enter_context(pool.wanted_by(Cancel(), role))
                stack.enter_context(pool.public())
                with pytest.raises(EngineUnavailable, match="too busy"), pool.public():
                    pass
            with pool.wanted_by(Cancel(), "cat"), pool.public() as conn:
                assert conn.execute("SELECT 1").fetchone() == (1,)
    finally:
        pool.close()


def test_a_session_that_has_grown_is_not_used_again(pool: RoomPool) -> None:
    """PostgreSQL keeps the rules of every zone that a session has met, and takes any name for one."""
    with pool.public() as conn:
        first = backend(conn)
        conn.execute("SELECT count(timezone('posix/XYZ' || i || ':' || i % 60 || 'DST', now())) FROM generate_series(1, 160) i")
    with pool.public() as conn:
        assert backend(conn) == first
        conn.execute("SELECT count(timezone('posix/ABC' || i % 160 || ':' || i / 160 || 'DST', now())) FROM generate_series(1, 5000) i")
    with pool.public() as conn:
        assert backend(conn) != first


def test_a_session_that_breaks_is_an_error_of_ours(pool: RoomPool) -> None:
    with pytest.raises(EngineUnavailable, match="own PostgreSQL"), pool.public() as conn, pool.take() as other:
        other.execute("SELECT pg_catalog.pg_terminate_backend(%s)", (backend(conn),))
        time.sleep(0.1)
        conn.execute("SELECT 1")
    with pool.public() as conn:
        conn.execute("SELECT 1")


def test_a_session_that_ended_while_it_was_in_stock_is_not_lent(house: House) -> None:
    pool = RoomPool(house.server, stock=1)
    with pool.take() as conn:
        deadline = time.monotonic() + 10
        while not pool._ready and time.monotonic() < deadline:
            time.sleep(0.01)
        ended = pool._ready[0].info.backend_pid
        conn.execute("SELECT pg_catalog.pg_terminate_backend(%s)", (ended,))
        time.sleep(0.2)
    with pool.take() as conn:
        assert backend(conn) != ended
    pool.close()


def test_a_session_ends_in_the_middle_of_a_statement_when_its_client_is_gone(pool: RoomPool) -> None:
    conn = pool.take()
    pid = backend(conn)
    conn.pgconn.send_query(b"SELECT room.spin(9223372036854775807)")
    time.sleep(0.05)
    conn.close()
    with pool.public() as other:
        deadline = time.monotonic() + 5
        count = "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE pid = %s"
        while other.execute(count, (pid,)).fetchone() != (0,) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert other.execute(count, (pid,)).fetchone() == (0,)


def test_a_statement_can_be_cancelled_by_another_thread(pool: RoomPool) -> None:
    with pool.take() as conn:
        later = threading.Timer(0.1, conn.cancel)
        later.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute("SELECT room.spin(9223372036854775807)")
        later.join()


def test_public_work_is_given_up_when_nobody_waits_for_it(pool: RoomPool) -> None:
    """What judges an EXPLAIN that was cancelled would keep others waiting, for nobody."""
    gone = Cancel()
    later = threading.Timer(0.1, gone.set)
    later.start()
    began = time.monotonic()
    with pytest.raises(Cancelled), pool.wanted_by(gone), pool.public() as conn:
        pid = backend(conn)
        conn.execute("SELECT room.spin(9223372036854775807)")
    later.join()
    assert time.monotonic() - began < 5
    with pool.public() as conn:
        assert backend(conn) != pid  # it may be told so a second time, in the middle of somebody else's work
    with pytest.raises(Cancelled), pool.wanted_by(gone), pool.public() as conn:
        pytest.fail("work began for somebody who had left")
    with pool.public() as conn:  # outside of the block it is nobody's
        conn.execute("SELECT 1")


def test_who_leaves_between_two_statements_is_heard_in_the_next(pool: RoomPool) -> None:
    """PostgreSQL forgets a cancel that finds a session with nothing to do."""
    gone = Cancel()
    with pytest.raises(Cancelled), pool.wanted_by(gone), pool.public() as conn:
        gone.set()
        time.sleep(0.3)
        conn.execute("SELECT pg_catalog.pg_sleep(5)")
        pytest.fail("what nobody waits for came to its end")


def test_every_setting_of_the_planner_is_pinned(pool: RoomPool) -> None:
    with pool.take() as conn:
        names = conn.execute("SELECT name FROM pg_catalog.pg_settings WHERE category LIKE 'Query Tuning%'").fetchall()
        assert {str(name) for name, in names} <= set(SESSION)
        changed = conn.execute("""SELECT n, v, pg_catalog.current_setting(n) FROM unnest(%s::text[], %s::text[]) s(n, v)
                                  WHERE pg_catalog.current_setting(n) <> v""", (list(SESSION), list(SESSION.values()))).fetchall()
        assert changed == []
        assert conn.execute("SHOW enable_nestloop").fetchone() == ("off",)


def test_the_environment_has_no_say(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGTZ": "Asia/Tokyo", "PGDATESTYLE": "German", "PGOPTIONS": "-c work_mem=1MB", "PGHOST": "nowhere", "PGPORT": "1",
                        "PGHOSTADDR": "192.0.2.1", "PGUSER": "nobody", "PGDATABASE": "none", "PGSSLMODE": "require",
                        "PGCLIENTENCODING": "LATIN1"}.items():
        monkeypatch.setenv(name, value)
    with house.server.connect(psycopg.Connection) as conn:
        shown = [conn.execute(b"SHOW " + name).fetchone() for name in (b"TimeZone", b"DateStyle", b"work_mem", b"client_encoding")]
    assert shown == [("UTC",), ("ISO, MDY",), ("256kB",), ("UTF8",)]


def test_a_request_chooses_how_values_are_written_and_nothing_else(pool: RoomPool) -> None:
    with pool.take({"timezone": "Asia/Kathmandu", "DateStyle": "German, DMY", "work_mem": "1MB", "enable_hashjoin": "off"}) as conn:
        assert conn.execute("SELECT timestamptz '2026-03-01 06:00+00'::text").fetchone() == ("01.03.2026 11:45:00 +0545",)
        assert [conn.execute(b"SHOW " + name).fetchone() for name in (b"work_mem", b"enable_hashjoin")] == [("256kB",), ("on",)]
    with pytest.raises(InvalidValue, match='invalid value for parameter "TimeZone"'):
        pool.take({"TimeZone": "Nowhere/Atlantis"})
