"""The SQL surface: who sees and does what, what the views show, and that a dump keeps it all."""

from __future__ import annotations

import time
from datetime import timedelta
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from privid.errors import BudgetExhausted, ExecutableInvalid, OutOfDate
from privid.ledger import Claim, Ledger, ReleaseRecord, Use
from privid.ledger.recordings import footage_digest
from privid.model import Grid, Output
from tests.ledger.postgres import STARTS, Database, Server, camera, record, table

MODULE = b"def process(chunk):\n    yield {}\n"
HALF = Fraction(1, 2)
STATE = ("recordings", "recording_files", "footage", "ledger", "ledger_blocks", "release_log", "release_charges", "executable_store",
         "program_failures", "history", "camera_state", "share_grants", "share_accounts", "share_ledger", "share_blocks",
         "mask_store", "region_store")


def upload(database: Database, user: str, name: str = "count_people", content: bytes | None = MODULE) -> str:
    return str(database.rows("SELECT privid.upload(%s, %s)", name, content, user=user)[0][0])


# Executables


def test_an_upload_returns_the_digest_and_replaces_the_earlier_one_of_that_name(database: Database) -> None:
    assert upload(database, "ana") == sha256(MODULE).hexdigest()
    newer = b"#!/bin/sh\n"
    assert upload(database, "ana", content=newer) == sha256(newer).hexdigest()
    assert database.rows("SELECT name, sha256, bytes FROM privid.executables", user="ana") == [
        ("count_people", sha256(newer).hexdigest(), len(newer))]
    found = database.ledger.executable("ana", "count_people")
    assert (found.head, found.size, found.sha256, found.name) == (newer, len(newer), sha256(newer).hexdigest(), "count_people")
    assert database.ledger.content("ana", found) == newer
    upload(database, "ana")
    with pytest.raises(OutOfDate, match="replaced meanwhile"):
        database.ledger.content("ana", found)


def test_analysts_see_and_change_only_their_own_executables(database: Database) -> None:
    upload(database, "ana")
    assert database.rows("SELECT * FROM privid.executables", user="ben") == []
    with pytest.raises(psycopg.Error, match="does not exist"):
        database.rows("SELECT privid.remove('count_people')", user="ben")
    database.rows("SELECT privid.remove('count_people')", user="ana")
    with pytest.raises(ExecutableInvalid, match='executable "count_people" of role "ana" does not exist') as missing:
        database.ledger.executable("ana", "count_people")
    assert "privid.upload('count_people'" in (missing.value.hint or "")


def test_the_identity_of_an_upload_is_the_current_role_not_the_login(database: Database) -> None:
    with database.connect() as conn:
        conn.execute("SET ROLE ana")
        conn.execute("SELECT privid.upload('mine', %s)", (MODULE,))
    assert database.ledger.content("ana", database.ledger.executable("ana", "mine")) == MODULE


@pytest.mark.parametrize(("name", "content", "state"), [
    ("empty", b"", "PV008"), ("text", b"hello", "PV008"), ("latin", b"process \xff\xfe", "PV008"), ("zero", b"process\0", "PV008"),
    ("none", None, "PV008"), ("../x", MODULE, "22023"), ("", MODULE, "22023"), ("a b", MODULE, "22023"), ("x" * 64, MODULE, "22023"),
    ("big", b"#!" + bytes(64 << 20), "PV008")], ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_be_an_executable_is_refused(database: Database, name: str, content: bytes | None, state: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        upload(database, "ana", name, content)
    assert refused.value.sqlstate == state


def test_programs_and_python_modules_are_accepted(database: Database) -> None:
    for name, content in (("elf", b"\x7fELF\x02"), ("script", b"#!/bin/sh\n"), ("module.py", "# é\nprocess = lambda chunk: []".encode())):
        assert upload(database, "ana", name, content)


def test_only_members_of_the_groups_can_upload(database: Database) -> None:
    assert upload(database, "olga")
    assert upload(database, "postgres")
    with pytest.raises(errors.InsufficientPrivilege):
        upload(database, "nobody")


# Rights


def test_no_table_that_holds_state_can_be_read_or_written_by_people(database: Database) -> None:
    for name in STATE:
        if name == "history":  # a view
            continue
        for user in ("ana", "olga", "nobody"):
            for statement in (f"SELECT FROM privid.{name}", f"DELETE FROM privid.{name}", f"INSERT INTO privid.{name} DEFAULT VALUES",
                              f"TRUNCATE privid.{name} CASCADE"):
                with pytest.raises(errors.InsufficientPrivilege):
                    database.rows(statement, user=user)


def test_the_engine_cannot_remove_what_was_registered_or_released(database: Database) -> None:
    for statement in ("DELETE FROM privid.recordings", "DELETE FROM privid.recording_files", "DELETE FROM privid.release_log",
                      "DELETE FROM privid.release_charges", "UPDATE privid.release_charges SET charge = 0",
                      "UPDATE privid.release_log SET epsilon = 0", "UPDATE privid.recording_files SET first_frame = 0",
                      "DELETE FROM privid.executable_store", "TRUNCATE privid.ledger"):
        with pytest.raises(errors.InsufficientPrivilege):
            database.rows(statement, user="privid_engine")


def test_owners_can_create_cameras_and_analysts_cannot(database: Database) -> None:
    database.create_server(camera())
    with pytest.raises(errors.InsufficientPrivilege):
        database.create_server(camera("other", owner="ana"))


def test_every_object_of_the_extension_has_a_comment(database: Database) -> None:
    missing = database.rows("""
        SELECT pg_describe_object(d.classid, d.objid, 0) FROM pg_depend d
        WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'privid')
          AND d.deptype = 'e' AND d.classid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_event_trigger'::regclass,
                                                'pg_foreign_data_wrapper'::regclass)
          AND obj_description(d.objid, d.classid::regclass::name) IS NULL
          AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = d.objid AND d.classid = 'pg_class'::regclass AND c.relkind IN ('S', 'i'))""")
    assert missing == []


def test_functions_that_run_with_other_rights_or_in_plpgsql_pin_their_search_path(database: Database) -> None:
    loose = database.rows("""
        SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
        WHERE n.nspname = 'privid' AND (p.prosecdef OR l.lanname = 'plpgsql')
          AND NOT coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp']""")
    assert loose == []


# Views


def charge(database: Database, role: str, name: str = "campus", files: str = "a", owner: str = "olga") -> int:
    output = Output("count(*)", "bigint", Fraction(1), Fraction(2), Fraction(20, 3), HALF, Fraction(20))
    entry = ReleaseRecord(role, f"SELECT count(*) FROM {name}", "count(*)", role + name, HALF, "discrete Laplace", [output])
    return database.ledger.charge([Claim(camera(name, files=files, owner=owner, epsilon="9"), [(0, 10), (20, 30)], HALF)], entry)


def test_releases_are_shown_to_who_asked_to_the_cameras_owner_and_to_nobody_else(database: Database) -> None:
    database.create_server(camera("campus"))
    first, second = charge(database, "ana"), charge(database, "ben")
    third = charge(database, "ana", "harbour", "b", "oscar")

    def seen(user: str) -> list[int]:
        return [row[0] for row in database.rows("SELECT id FROM privid.releases ORDER BY id", user=user)]

    assert seen("ana") == [first, third]
    assert seen("ben") == [second]
    assert seen("olga") == [first, second]
    assert seen("oscar") == [third]
    assert seen("postgres") == [first, second, third]
    assert seen("nobody") == []
    database.rows("ALTER SERVER campus OWNER TO oscar")
    assert seen("oscar") == [first, second, third]


def test_a_release_is_shown_with_what_it_cost_and_answered(database: Database) -> None:
    database.create_server(camera("campus"))
    database.rows("GRANT USAGE ON FOREIGN SERVER campus TO ana", user="olga")
    release = charge(database, "ana")
    database.ledger.answered(release, [["17", None]], timedelta(seconds=2))
    shown = database.rows("""SELECT who, camera, query, epsilon, mechanism, noise_scale[1]::text, frames::text, answer, state, duration
                             FROM privid.releases""", user="ana")
    assert shown == [("ana", "campus", "SELECT count(*) FROM campus", HALF, "discrete Laplace", "6.666666666666666666666666666666",
                      "{[0,10),[20,30)}", [["17", None]], "answered", timedelta(seconds=2))]


def test_the_latest_answer_to_an_identical_release_is_found_again(database: Database) -> None:
    ledger = database.ledger
    first, second, third = (ledger.charge([Claim(camera(epsilon="9"), [(0, 10)], HALF)], record("key")) for _ in range(3))
    assert ledger.find_answer("key") is None
    ledger.answered(first, [["1"]], 0.5)
    ledger.answered(second, [["2", None]], 0.5)
    ledger.failed(third)
    found = ledger.find_answer("key")
    assert found is not None and (found.release, found.rows) == (second, [("2", None)])
    ledger.answered(third, [["3"]], 0.5)  # a failed release stays failed
    found = ledger.find_answer("key")
    assert found is not None and found.release == second
    assert ledger.find_answer("other") is None


def test_the_budget_shows_the_whole_timeline_with_margin_to_everybody(database: Database) -> None:
    campus = camera(r=4)
    database.create_server(campus)
    database.ledger.charge([Claim(campus, [(10, 20)], HALF)], record())
    for user in ("ana", "olga", "nobody"):
        shown = database.rows("SELECT camera, frames::text, remaining::text, begins, ends FROM privid.budget ORDER BY begins", user=user)
        tenth = timedelta(seconds=0.1)
        assert shown == [("campus", "[-3,7)", "1", STARTS - 3 * tenth, STARTS + 7 * tenth),
                         ("campus", "[7,20)", "0.5", STARTS + 7 * tenth, STARTS + 20 * tenth),
                         ("campus", "[20,100)", "1", STARTS + 20 * tenth, STARTS + 100 * tenth)]


def test_the_budget_follows_an_altered_policy_and_a_shifted_camera(database: Database) -> None:
    whole, tail = camera("whole", files="ab", r=1), camera("tail", files="b", r=1, k=2)
    for one in (whole, tail):
        database.create_server(one)
    database.ledger.charge([Claim(whole, [(150, 160)], Fraction(1, 4))], record())
    database.ledger.register(tail)
    database.rows("ALTER SERVER whole OPTIONS (SET epsilon '1/2')", user="olga")
    shown = database.rows("""SELECT camera, frames::text, remaining::text FROM privid.budget
                             WHERE remaining < 0.5 OR camera = 'tail' ORDER BY begins""")
    assert [row for row in shown if row[0] == "whole"] == [("whole", "[150,160)", "0.25")]
    assert [row for row in shown if row[0] == "tail"] == [("tail", "[0,50)", "1"), ("tail", "[50,60)", "0.5"), ("tail", "[60,100)", "1")]


def test_cameras_are_shown_to_everybody_also_before_their_footage_was_seen_and_sources_to_their_owner(database: Database) -> None:
    database.create_server(camera(r=490, k=2, epsilon="1.5"))
    for user, source in (("nobody", None), ("oscar", None), ("olga", "x.mp4"), ("postgres", "x.mp4")):
        assert database.rows("SELECT camera, owner, source, rho, k, epsilon, frames FROM privid.cameras", user=user) == [
            ("campus", "olga", source, timedelta(seconds=49), 2, Fraction(3, 2), None)]
    database.ledger.register(camera(r=490, k=2, epsilon="1.5"))
    assert database.rows("SELECT starts, ends, fps, frames, width, height FROM privid.cameras", user="ana") == [
        (STARTS, STARTS + timedelta(seconds=10), 10, 100, 64, 48)]


def test_options_that_cannot_be_read_do_not_break_the_views(database: Database) -> None:
    database.rows("CREATE SERVER odd FOREIGN DATA WRAPPER privid OPTIONS (rho 'long', k '9999999999999999999', epsilon '1/0')", user="olga")
    database.rows("CREATE SERVER odder FOREIGN DATA WRAPPER privid OPTIONS (rho '1e300 d', k '-1', epsilon 'NaN')", user="olga")
    assert database.rows("SELECT camera, k, epsilon FROM privid.cameras ORDER BY 1") == [("odd", None, None), ("odder", None, None)]
    assert database.rows("SELECT * FROM privid.budget") == []


def test_failures_are_told_to_the_owner_alone(database: Database) -> None:
    for _ in range(2):
        database.ledger.count_failures(table(), {"crashed": 3, "timed out": 0})
    assert database.rows("SELECT camera, role, foreign_table, outcome, count FROM privid.failures ORDER BY outcome", user="olga") == [
        ("campus", "ana", "people", "crashed", 6), ("campus", "ana", "people", "timed out", 0)]
    for user in ("ana", "oscar", "nobody"):
        assert database.rows("SELECT * FROM privid.failures", user=user) == []


def test_failures_are_counted_by_table_and_day(database: Database) -> None:
    for name, crashed in (("people", 3), ("cars", 1), ("people", 2)):
        database.ledger.count_failures(table(name), {"crashed": crashed})
    with database.connect() as conn:  # a day that was
        conn.execute("UPDATE privid.program_failures SET day = day - 1 WHERE foreign_table = 'people'")
    database.ledger.count_failures(table("people"), {"crashed": 7})
    assert database.rows("SELECT foreign_table, count, day - (now() AT TIME ZONE 'UTC')::date FROM privid.failures ORDER BY 1, 3",
                         user="olga") == [("cars", 1, 0), ("people", 5, -1), ("people", 7, 0)]


def test_counting_failures_writes_as_many_rows_whatever_the_numbers(database: Database) -> None:
    def total() -> int:
        return int(database.rows("SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = 'program_failures'")[0][0])

    def written(counts: dict[str, int]) -> int:
        before, ledger = total(), database.open_ledger(1)
        ledger.count_failures(table(), counts)
        ledger.close()  # a backend reports its counts when it ends
        deadline = time.monotonic() + 10
        while total() == before and time.monotonic() < deadline:
            time.sleep(0.01)
        return total() - before

    written({"crashed": 0, "timed out": 0})
    assert written({"crashed": 0, "timed out": 0}) == written({"crashed": 5, "timed out": 1}) == 2


@pytest.mark.parametrize("compression", ["off", "on"])
def test_counting_failures_writes_as_much_wal_whatever_the_numbers(
    database: Database, compression: str
) -> None:
    """pg_stat_wal, which all can read, has the length of what is logged."""
    with database.connect() as conn:
        conn.execute(f"ALTER SYSTEM SET wal_compression = {compression}".encode())
        conn.execute("SELECT pg_reload_conf()")

        def place() -> int:
            row = conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
            assert row is not None
            return int(row[0])

        def written(count: int, checkpoint: bool) -> int:
            """The least of some runs: others on the server may write at any time."""
            lengths = []
            for _ in range(4):
                if checkpoint:  # the next change of a page logs all of it
                    conn.execute("CHECKPOINT")
                before = place()
                database.ledger.count_failures(table(), {"ok": count, "crashed": 3 * count})
                lengths.append(place() - before)
            return min(lengths)

        written(0, False)
        for checkpoint in (False, True):
            assert written(0, checkpoint) == written(0x0123456789ABCD, checkpoint)
        conn.execute("ALTER SYSTEM RESET wal_compression")
        conn.execute("SELECT pg_reload_conf()")


def test_bins_of_time_are_reachable_without_the_schema(database: Database) -> None:
    assert database.rows("""SELECT hour(t) = date_trunc('hour', t), day(t) = privid.day(t), minute(t) = privid.minute(t),
                                   week(t) = privid.week(t), month(t) = privid.month(t), year(t) = privid.year(t), bin(t, '15 min')
                            FROM (VALUES (timestamptz '2026-03-01 06:47:11+00')) v(t)""", user="nobody") == [
        (True, True, True, True, True, True, STARTS + timedelta(minutes=45))]


# Versions and dumps


def test_the_version_and_the_standby_state_are_told(database: Database) -> None:
    assert database.ledger.extension_version() == "0.4.0"
    assert database.ledger.in_recovery() is False


def test_a_dump_restored_elsewhere_keeps_budget_releases_and_executables(database: Database) -> None:
    database.create_server(camera())
    charge(database, "ana")
    database.ledger.answered(charge(database, "ben"), [["1"]], 1.0)
    database.ledger.count_failures(table(), {"crashed": 3})
    upload(database, "ana")
    database.rows("SELECT privid.grant_budget('campus', 'public', 0.9)", user="olga")
    database.rows("SELECT privid.create_mask('campus', 'benches', '{\"((0,0),(9,0),(9,9.25))\"}', '0.1s', 1, 'P4\n64 48\n' || %s)",
                  bytes(range(256)) + bytes(128), user="olga")
    database.rows("SELECT privid.create_mask('campus', 'more', '{\"((0,0),(9,0),(9,9.25))\"}', '0.1s', 3, visible => '1/3 s')", user="olga")
    database.rows("SELECT privid.create_regions('campus', 'halves', %s, 'hard', rho => '0.1s', pieces => 2, visible => '1/7 s')",
                  '{"a": "((0,0),(9,0),(9,9))", "b": [[9,0],[18,0],[18,9]]}', user="olga")
    third = Fraction(1, 3)
    grid = Grid(40, 3, 5, 5)
    database.ledger.charge([Claim(camera(), [(40, 55)], third, [Use.of(grid, [(0, 3)], 4)])], record())
    remaining = database.rows("SELECT frames::text, remaining::text FROM privid.budget ORDER BY 1")
    assert any(len(row[1]) > 30 for row in remaining)
    content = {name: database.rows(f"SELECT * FROM privid.{name} ORDER BY 1, 2") for name in STATE}
    dump = database.server.directory / f"{database.name}.dump"
    database.server.command("pg_dump", "-h", database.server.directory, "-U", "postgres", "-Fc", "-f", dump, database.name)
    restored = f"{database.name}_restored"
    database.server.command("createdb", "-h", database.server.directory, "-U", "postgres", restored)
    database.server.command("pg_restore", "-h", database.server.directory, "-U", "postgres", "-d", restored, "--exit-on-error", dump)
    Path(dump).unlink()
    with database.server.connect(restored) as conn:
        for name in STATE:
            assert conn.execute(f"SELECT * FROM privid.{name} ORDER BY 1, 2".encode()).fetchall() == content[name], name
        assert conn.execute("SELECT frames::text, remaining::text FROM privid.budget ORDER BY 1").fetchall() == remaining
        assert conn.execute("SELECT * FROM privid.verify_history()").fetchall() == []
    ledger = Ledger(database.server.conninfo(restored, "privid_engine"))
    assert ledger.remaining(camera(epsilon="9"), [(0, 10)]) == 8
    release = ledger.charge([Claim(camera(epsilon="9"), [(60, 70)], HALF)], record())
    assert release == max(row[0] for row in content["release_log"]) + 1
    with pytest.raises(BudgetExhausted, match='share of role "public"'):
        ledger.charge([Claim(camera(), [(40, 55)], Fraction("0.6"))], record())
    ledger.close()


@pytest.mark.parametrize("by_way_of", [None, "0.2.0"])
def test_an_extension_of_0_1_0_is_upgraded_with_all_it_holds(server: Server, by_way_of: str | None) -> None:
    name = next(server.names)
    with server.connect("postgres") as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    one, old = camera(files="a", r=4), camera(files="a", r=4).footage.files[0]
    with server.connect(name) as conn:
        conn.execute("CREATE EXTENSION privid VERSION '0.1.0'")
        conn.execute("SET ROLE olga")
        conn.execute("CREATE SERVER campus FOREIGN DATA WRAPPER privid OPTIONS (source 'a.mp4', rho '0.4s', k '1', epsilon '1')")
        conn.execute("RESET ROLE")
        conn.execute("INSERT INTO privid.recordings (k, r_star) VALUES (1, 4)")
        conn.execute("INSERT INTO privid.recording_files VALUES (%s, 1, 0, 100)", (old.sha256,))
        conn.execute("INSERT INTO privid.footage VALUES ('campus', %s, 1, 0, 100, 10, 1, 64, 48, %s, 0.4, 1, 1)",
                     (footage_digest(one), one.starts))
        conn.execute("INSERT INTO privid.ledger VALUES (1, 7, 0.5), (1, 20, 0)")
        conn.execute("""INSERT INTO privid.release_log (role, query, canonical, reuse_key, epsilon, mechanism, outputs)
                        VALUES ('ana', 'q', 'c', 'k', 0.5, 'discrete Laplace', '[]')""")
        conn.execute("INSERT INTO privid.release_charges VALUES (1, 0, 'campus', 'olga', NULL, 1, 0, '{[10,20)}', 4, 0.5, 0.5)")
        if by_way_of:
            conn.execute(f"ALTER EXTENSION privid UPDATE TO '{by_way_of}'".encode())
        conn.execute("ALTER EXTENSION privid UPDATE")
        assert conn.execute("SELECT camera, event FROM privid.history").fetchall() == [("campus", "created")]
        assert conn.execute("SELECT starts, fps_numerator FROM privid.recordings").fetchall() == [(one.starts, 10)]
        conn.execute("SELECT privid.create_mask('campus', 'benches', '{\"((0,0),(9,0),(9,9))\"}', '0.4s')")
        assert conn.execute("SELECT camera, name FROM privid.masks").fetchall() == [("campus", "benches")]
    ledger = Ledger(server.conninfo(name, "privid_engine"))
    assert ledger.extension_version() == "0.4.0"
    assert ledger.remaining(one, [(10, 20)]) == HALF
    assert ledger.remaining(camera(files="b", r=4), [(10, 20)]) == HALF  # replaced since: placed by the time that was filled in
    assert ledger.register(camera("long", files="a", r=10)) == 1
    assert ledger.remaining(one, [(1, 2)]) == HALF  # the old charge is known, and widened
    ledger.close()
