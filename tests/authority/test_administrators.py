"""Roles that administrators have: what they reach of what a camera saw, and what they do not."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.conftest import RunningStack, write_video
from tests.ledger.postgres import PG_CONFIG

CAMERA = "watched_camera"
#: in every row that the program prints, and nowhere in the program
SECRET = "zirconium-4711"
PROGRAM = "#!/bin/sh\nprintf '{\"w\": \"zirconium-%d\"}\\n' $((4700 + 11))\n"
READS = ("SELECT w FROM watched.seen", "COPY (SELECT w FROM watched.seen) TO STDOUT", "SELECT count(*) FROM watched.seen",
         f"SELECT count(*) FROM watched.seen WHERE w = '{SECRET}'", "CREATE TEMP TABLE got AS SELECT * FROM watched.seen",
         "SET privid.raw = on")

RAW_ROWS = "PV001"

#: the attribute or the role that an administrator has
ROLES = ("CREATEROLE", "CREATEDB", "REPLICATION", "BYPASSRLS", "IN ROLE pg_read_all_data", "IN ROLE pg_write_all_data",
         "IN ROLE pg_monitor", "IN ROLE pg_signal_backend", "IN ROLE pg_read_all_settings", "IN ROLE pg_stat_scan_tables",
         "IN ROLE pg_checkpoint")


@pytest.fixture(scope="module")
def watched(stack: RunningStack) -> Iterator[RunningStack]:
    """A camera whose table has been read once, so that rows are kept."""
    write_video(stack.videos / "watched.mp4", [88] * 20)
    stack.camera(CAMERA, "watched.mp4", rho="1s", epsilon="100")
    stack.run("CREATE ROLE watched LOGIN IN ROLE privid_analyst; CREATE SCHEMA AUTHORIZATION watched", user="privid")
    stack.run(f"GRANT USAGE ON FOREIGN SERVER {CAMERA} TO watched", user="owner")
    stack.executable("tells", PROGRAM, user="watched")
    stack.table("seen", CAMERA, "tells", columns="w text DEFAULT ''", user="watched", end="2026-03-01 06:00:02+00", timeout="600ms")
    stack.run("SELECT count(*) FROM seen", user="watched")
    yield stack
    stack.run(f"DROP SERVER {CAMERA} CASCADE", user="owner")
    stack.run("DELETE FROM privid.executable_store WHERE owner = 'watched'; DROP OWNED BY watched CASCADE; DROP ROLE watched",
              user="privid")


@pytest.fixture(params=ROLES)
def administrator(request: pytest.FixtureRequest, watched: RunningStack) -> Iterator[str]:
    watched.run(f"CREATE ROLE keeper LOGIN {request.param}", user="privid")
    yield "keeper"
    watched.run("DROP OWNED BY keeper; DROP ROLE keeper", user="privid")


def test_no_role_of_administrators_shows_a_row_or_an_answer_of_a_camera(watched: RunningStack, administrator: str) -> None:
    for statement in READS:
        with watched.connect(administrator) as session, pytest.raises(psycopg.Error) as refused:
            if statement.startswith("COPY"):
                with session.cursor().copy(statement.encode()) as copy:
                    list(copy)
            session.execute(statement.encode())
        assert refused.value.sqlstate in ("42501", RAW_ROWS), (statement, refused.value)


def test_no_role_of_administrators_sees_a_printed_value_anywhere_in_the_catalogs(watched: RunningStack, administrator: str) -> None:
    """Also not in statistics, nor in the tables behind the views, of which one that reads all data reads most."""
    with watched.connect(administrator) as session:
        relations = session.execute("SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                                    "WHERE c.relkind IN ('r', 'v', 'm') AND nspname IN ('pg_catalog', 'privid', 'information_schema') "
                                    "AND has_table_privilege(c.oid, 'SELECT')").fetchall()
        assert len(relations) > 100
        found = []
        for relation, in relations:
            with suppress(psycopg.errors.InsufficientPrivilege):  # a view of PostgreSQL's calls what is for superusers
                rows = session.execute(sql.SQL("SELECT count(*) FROM {} t WHERE t::text LIKE {}").format(
                    sql.SQL(relation), sql.Literal(f"%{SECRET[:5]}%{SECRET[5:]}%"))).fetchone()
                if rows != (0,):
                    found.append(relation)
    assert set(found) <= {"pg_stat_activity"}  # what this test asks


def test_who_watches_sees_statements_of_the_engine_without_their_values(stack: RunningStack, unique: Callable[[str], str]) -> None:
    name, watcher = unique("watched"), unique("watcher")
    stack.camera(name, "levels.mp4", rho="1s")
    stack.executable(name)
    stack.table(name, name, name)
    stack.run(f"CREATE ROLE {watcher} LOGIN IN ROLE pg_monitor", user="privid")
    with stack.connect(watcher) as session, stack.connect() as analyst:
        analyst.execute(f"SELECT count(*) FROM {name}".encode())
        seen = session.execute("SELECT usename, query FROM pg_stat_activity WHERE backend_type = 'client backend'").fetchall()
    assert any(name in query for role, query in seen if role == "analyst")
    assert [query for role, query in seen if role == "privid_engine"]
    assert not [query for role, query in seen if role == "privid_engine" and name in query]
    stack.run(f"DROP ROLE {watcher}", user="privid")


def test_who_signals_sessions_gets_no_budget_back_and_breaks_no_account(watched: RunningStack) -> None:
    """A release that is cancelled stays charged; the engine's own sessions can be ended, and are made anew."""
    watched.run("CREATE ROLE keeper LOGIN IN ROLE pg_signal_backend", user="privid")
    spent = f"SELECT 100 - min(remaining) FROM privid.budget WHERE camera = '{CAMERA}'"
    charged = "SELECT count(*) FROM privid.release_log WHERE role = 'watched'"
    try:
        watched.run("CREATE FOREIGN TABLE again (w text DEFAULT '') SERVER watched_camera OPTIONS (executable 'tells', "
                    "begin '2026-03-01 06:00+00', \"end\" '2026-03-01 06:00:02+00', chunk '1s', timeout '900ms', max_rows '1')",
                    user="watched")
        before, count = watched.run(spent)[0][0], watched.run(charged, user="privid")[0][0]
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(watched.run, "SELECT count(*) FROM again", user="watched", settings={"privid.epsilon": "2"})
            until = time.monotonic() + 30
            while watched.run(charged, user="privid")[0][0] == count and time.monotonic() < until:
                time.sleep(0.02)
            for users in ("watched", "privid_engine"):
                watched.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{users}'", user="keeper")
            with pytest.raises(psycopg.Error):
                asked.result()
        assert watched.run(spent)[0][0] == before + 2
        assert watched.run("SELECT count(*) FROM again", user="watched", settings={"privid.epsilon": "2"})
        assert watched.run(spent)[0][0] == before + 4
    finally:
        watched.run("DROP ROLE keeper", user="privid")


def test_a_role_that_replicates_gets_the_database_and_in_it_no_row_of_a_camera(watched: RunningStack, tmp_path: Path) -> None:
    """It has what a backup has: answers, programs, texts, the ledger; not what programs printed, which is never there."""
    watched.run("CREATE ROLE keeper LOGIN REPLICATION", user="privid")
    try:
        copied = _dump(watched, "pg_basebackup", "-D", str(tmp_path / "copy"), "-X", "stream", "-c", "fast", user="keeper")
        if copied is None:  # refused, which is as well
            return
        files = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    finally:
        watched.run("DROP ROLE keeper", user="privid")
    assert len(files) > 500
    assert not [path for path in files if _printed(path.read_bytes())]


def test_a_backup_has_no_row_of_a_camera_and_no_frame(watched: RunningStack) -> None:
    dump = _dump(watched, "pg_dump", "privid", user="privid")
    assert dump is not None and b"release_log" in dump and PROGRAM.encode().hex().encode() in dump
    assert not _printed(dump)


def test_rows_are_where_only_who_has_the_engines_directory_finds_them(watched: RunningStack) -> None:
    """Which shows that the tests above would have found them."""
    kept = [path for path in watched.layout.cache.rglob("*") if path.is_file() and _printed(path.read_bytes())]
    assert kept and all(path.stat().st_mode & 0o077 == 0 for path in kept)
    assert not [path for path in watched.layout.pg.rglob("*") if path.is_file() and _printed(path.read_bytes())]


def _printed(content: bytes) -> bool:
    return SECRET.encode() in content


def _dump(stack: RunningStack, program: str, *arguments: str, user: str) -> bytes | None:
    where = "-h", stack.layout.run, "-p", str(stack.layout.socket_port), "-U", user
    done = subprocess.run([Path(PG_CONFIG).with_name(program), *where, *arguments], capture_output=True,
                          timeout=120)
    return done.stdout if done.returncode == 0 else None
