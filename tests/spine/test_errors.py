"""Every mistake is told clearly: SQLSTATE, message in PostgreSQL's style, and a hint; and docs/errors.md knows it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from .conftest import World

ERRORS = (Path(__file__).resolve().parents[2] / "docs" / "errors.md").read_text()

SERVER = ("CREATE SERVER {name} FOREIGN DATA WRAPPER privid OPTIONS (source 'calm.mp4', starts '2026-03-01 06:00+00', rho '1s', k '1', "
          "epsilon '1')")
TABLE = ("CREATE FOREIGN TABLE {name} (chunk timestamptz, v float8 DEFAULT 0) SERVER open_calm OPTIONS (executable 'world', "
         "begin '2026-03-01 06:00+00', \"end\" '2026-03-01 06:00:10+00', chunk '1s', timeout '400ms', max_rows '1')")

#: what is changed in the definition, SQLSTATE, a part of the message, a part of the hint
SERVERS = [
    ("source 'calm.mp4'", "sourc 'calm.mp4'", "HV00D", 'invalid option "sourc"', '"source"'),
    ("source 'calm.mp4'", "chunk '1s'", "HV00D", "not an option of a server", "foreign table"),
    ("rho '1s'", "rho 'long'", "22023", 'invalid value for option "rho": "long"', "5s"),
    ("rho '1s'", "rho '-1s'", "22023", "out of bounds", ""),
    ("k '1'", "k '1.5'", "22023", 'invalid value for option "k"', "whole number"),
    ("epsilon '1'", "epsilon '0'", "22023", "out of bounds", ""),
    ("starts '2026-03-01 06:00+00'", "starts '2026-03-01 06:00'", "22023", 'option "starts"', "time zone"),
    (", epsilon '1'", "", "HV002", 'option "epsilon" is required', ""),
    ("calm.mp4", "nowhere.mp4", "PV007", "nowhere.mp4", "video"),
    ("calm.mp4", "none/*.mp4", "PV007", '"none"', ""),
    ("calm.mp4", "../secret.mp4", "PV007", "..", ""),
    ("calm.mp4", "/etc/passwd", "PV007", "/etc/passwd", ""),
    ("calm.mp4", "truncated.mp4", "PV007", "truncated.mp4", ""),
    ("calm.mp4", "garbage.mp4", "PV007", "garbage.mp4", ""),
    ("k '1'", "k '1', fps '25'", "PV007", "25", ""),
]

TABLES = [
    ("executable 'world'", "executabel 'world'", "HV00D", "executabel", '"executable"'),
    ("executable 'world'", "rho '1s'", "HV00D", "not an option of a foreign table", "server"),
    ("'2026-03-01 06:00:10+00'", "'2026-03-01 05:00+00'", "PV009", "end", ""),
    ("'2026-03-01 06:00:10+00'", "'2026-03-01 06:00:11+00'", "PV009", "", "06:00:10"),
    ("begin '2026-03-01 06:00+00'", "begin '2020-03-01 06:00+00'", "PV009", "", "06:00"),
    ("chunk '1s'", "chunk '250ms'", "PV009", "250 ms", "200 ms"),
    ("chunk '1s'", "chunk '1s', stride '-1s'", "PV009", "", ""),
    ("chunk '1s'", "chunk '11s'", "PV009", "", ""),
    ("max_rows '1'", "max_rows '0'", "22023", "out of bounds", ""),
    ("timeout '400ms'", "timeout '1ms'", "22023", "out of bounds", ""),
    ("v float8 DEFAULT 0", "v float8", "22023", '"v"', "DEFAULT"),
    ("v float8 DEFAULT 0", "v float8 DEFAULT random()", "22023", '"v"', ""),
    ("v float8 DEFAULT 0", "v int DEFAULT 0", "22023", '"v"', "double precision"),
    ("chunk timestamptz", "chunk text", "22023", '"chunk"', "timestamptz"),
    ("max_rows '1'", "max_rows '1', mask 'm'", "22023", 'mask "m" of camera "open_calm" does not exist', "privid.masks"),
    ("max_rows '1'", "max_rows '1', regions 'r'", "22023", 'regions "r" of camera "open_calm" do not exist', "privid.regions"),
]


def check(caught: psycopg.Error, sqlstate: str, message: str, hint: str) -> None:
    d = caught.diag
    said = " ".join(filter(None, (d.message_primary, d.message_detail, d.message_hint)))
    assert d.sqlstate == sqlstate, (d.sqlstate, said)
    assert message in said and hint in said, said
    assert d.message_primary and re.match(r"[^A-Z]", d.message_primary) and not d.message_primary.endswith("."), said
    for sentence in filter(None, (d.message_detail, d.message_hint)):
        ends_in_a_command = re.search(r": ffmpeg -\S", sentence)
        assert (sentence[-1] in ".;)" or ends_in_a_command) and not sentence[0].islower(), said
    assert f"`{sqlstate}`" in ERRORS


@pytest.fixture(scope="module")
def broken(world: World) -> World:
    """Videos that are none."""
    whole = (world.stack.videos / "calm.mp4").read_bytes()
    (world.stack.videos / "truncated.mp4").write_bytes(whole[: len(whole) // 2])
    (world.stack.videos / "garbage.mp4").write_bytes(b"not a video" * 1000)
    return world


@pytest.mark.parametrize(("old", "new", "sqlstate", "message", "hint"), SERVERS)
def test_a_wrong_camera_is_refused_when_it_is_made(broken: World, unique: Callable[[str], str], old: str, new: str, sqlstate: str,
                                                   message: str, hint: str) -> None:
    name = unique("wrong")
    with pytest.raises(psycopg.Error) as caught:
        broken.rows(SERVER.format(name=name).replace(old, new), user="owner")
    check(caught.value, sqlstate, message, hint)
    assert broken.rows(f"SELECT count(*) FROM pg_foreign_server WHERE srvname = '{name}'") == [(0,)]


@pytest.mark.parametrize(("old", "new", "sqlstate", "message", "hint"), TABLES)
def test_a_wrong_table_is_refused_when_it_is_made(world: World, unique: Callable[[str], str], old: str, new: str, sqlstate: str,
                                                  message: str, hint: str) -> None:
    name = unique("wrong")
    with pytest.raises(psycopg.Error) as caught:
        world.rows(TABLE.format(name=name).replace(old, new))
    check(caught.value, sqlstate, message, hint)
    assert world.rows(f"SELECT count(*) FROM pg_class WHERE relname = '{name}'") == [(0,)]


def test_a_missing_executable_is_a_notice_at_first_and_an_error_when_it_is_needed(world: World, unique: Callable[[str], str]) -> None:
    name = unique("missing")
    notices: list[str] = []
    with world.connect() as connection:
        connection.add_notice_handler(lambda d: notices.append(d.message_primary or ""))
        connection.execute(TABLE.format(name=name).replace("'world'", "'nobody_uploaded_this'").encode())
        assert any("nobody_uploaded_this" in notice for notice in notices)
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(f"SELECT count(*) FROM {name}".encode())
    check(caught.value, "PV008", "nobody_uploaded_this", "upload")


@pytest.mark.parametrize("content", [b"", b"just words", b"\x00\x01\x02", b"def proces(chunk):\n    pass\n", b"def process(:\n"])
def test_what_is_not_a_program_is_refused(world: World, unique: Callable[[str], str], content: bytes) -> None:
    name = unique("words")
    with pytest.raises(psycopg.Error) as caught:
        world.stack.executable(name, content)
        world.rows(TABLE.format(name=name).replace("'world'", f"'{name}'"))
    check(caught.value, "PV008", name, "")


def test_a_video_that_vanishes_or_changes_is_an_error_and_no_charge(world: World, unique: Callable[[str], str],
                                                                    make_video: Callable[..., Path]) -> None:
    name = unique("vanishing")
    video = make_video(world.stack.videos / f"{name}.mp4", [10 * (i // 10) + 3 for i in range(100)])
    world.stack.camera(name, video.name, rho="1s")
    world.stack.table(name, name, "world")
    spent = world.spent(name)
    shutil.move(video, video.with_suffix(".away"))
    with pytest.raises(psycopg.Error) as caught:
        world.rows(f"SELECT count(*) FROM {name}")
    check(caught.value, "PV007", f'footage of camera "{name}" cannot be read', "Ask the owner")
    assert world.spent(name) == spent


def test_an_engine_that_is_down_refuses_everything_and_says_how_to_start_it(world: World) -> None:
    world.stack.kill_engine()
    try:
        for statement in ("SELECT count(*) FROM open_calm", "EXPLAIN SELECT count(*) FROM open_calm"):
            with pytest.raises(psycopg.Error) as caught:
                world.rows(statement)
            check(caught.value, "PV004", "engine", "privid up")
        with pytest.raises(psycopg.Error, match="raw rows"):
            world.rows("SELECT * FROM open_calm")
    finally:
        world.stack.up()
    assert world.rows("SELECT count(*) FROM open_calm") == world.rows("SELECT count(*) FROM truth")


def test_a_library_that_is_not_preloaded_refuses(world: World, reachable_directory: Path) -> None:
    """A server of its own, with the same library but without the preload."""
    binaries = Path("/usr/lib/postgresql/15/bin")
    data = reachable_directory / "unguarded"
    user = world.stack.layout.run.owner()
    step_down = [] if user == Path.home().owner() else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
    data.mkdir()
    shutil.chown(data, user)
    run = [*step_down, str(binaries / "initdb"), "-D", str(data / "pg"), "-U", "privid", "-A", "trust", "--no-sync"]
    subprocess.run(run, check=True, capture_output=True)
    destination = world.rows("SHOW extension_destdir", user="privid")[0][0]
    with (data / "pg" / "postgresql.conf").open("a") as file:
        file.write(f"listen_addresses = ''\nunix_socket_directories = '{data}'\nextension_destdir = '{destination}'\n")
    control = [*step_down, str(binaries / "pg_ctl"), "-D", str(data / "pg"), "-w", "-l", str(data / "log")]
    subprocess.run([*control, "start"], check=True, stdout=subprocess.DEVNULL)
    try:
        with psycopg.connect(host=str(data), user="privid", dbname="postgres", autocommit=True) as connection:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute("CREATE EXTENSION privid")
            check(caught.value, "PV005", "not preloaded", "shared_preload_libraries")
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL)


def test_versions_that_differ_are_refused(world: World) -> None:
    world.rows("UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'privid'", user="privid")
    try:
        with pytest.raises(psycopg.Error) as caught:
            world.rows("SELECT count(*) FROM open_calm")
        check(caught.value, "PV006", "0.0.9", "ALTER EXTENSION")
    finally:
        world.rows("UPDATE pg_extension SET extversion = (SELECT default_version FROM pg_available_extensions WHERE name = 'privid') "
                   "WHERE extname = 'privid' AND (SELECT default_version FROM pg_available_extensions WHERE name = 'privid') IS NOT NULL",
                   user="privid")
        world.rows("UPDATE pg_extension SET extversion = privid.library_version() WHERE extname = 'privid'", user="privid")
    assert len(world.rows("SELECT count(*) FROM open_calm")) == 1


def test_a_refused_expression_is_pointed_at(world: World) -> None:
    statement = "SELECT count(*) FROM calm WHERE v > 3 AND sinh(v) > 2"
    with pytest.raises(psycopg.Error) as caught:
        world.rows(statement)
    assert int(caught.value.diag.statement_position or 0) == statement.index("sinh") + 1
    statement = "SELECT count(*), sum(v) FROM calm"
    with pytest.raises(psycopg.Error) as caught:
        world.rows(statement)
    assert int(caught.value.diag.statement_position or 0) == statement.index("sum(v)") + 1
    assert "range(v, low, high)" in (caught.value.diag.message_hint or "")
