"""Directories in which another user has a say: no command believes what lies there, waits for it, or sends a password to what it names."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from privid.cli import psql
from privid.cli.layout import Layout
from privid.cli.main import parser
from privid.cli.postgres import Postgres
from privid.cli.processes import wait_until
from privid.cli.stack import Stack
from privid.cli.terminal import CommandFailed
from privid.closed import check_path, make_directory, open_file, read_file
from privid.errors import PrividError
from tests.conftest import RunningStack, run_privid

from .stranger import UID, belongings, family, tried

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="nobody but root can play another user")

#: every command that is about a stack, with what else it must be given
COMMANDS: dict[str, list[str]] = {
    "up": [], "down": [], "status": [], "doctor": [], "psql": [], "budget": ["cam"], "exposure": ["cam"], "progress": ["--once"],
    "ledger": ["check"], "mask": ["--rho", "1s", "cam", "m", "mask.pbm"], "upload": ["model.py"], "query": ["question.privid"],
}
_FILES = {
    "mask.pbm": b"P4\n8 1\n\xff", "model.py": b"def process(chunk):\n    yield {}\n",
    "question.privid": b"""SPLIT cam BEGIN 12-01-2020/12:00am END 12-02-2020/12:00am BY TIME 5sec STRIDE 0sec INTO chunks;
        PROCESS chunks USING model.py TIMEOUT 1sec PRODUCING 1 ROWS WITH SCHEMA (v:NUMBER=0) INTO rows;
        SELECT COUNT(v) FROM rows;""",
}


@pytest.fixture
def theirs(reachable_directory: Path) -> Iterator[Path]:
    """What looks like a stack of somebody else, whose files have no end, and no beginning either."""
    path = reachable_directory / "looks-like-a-stack"
    for folder in ("pg", "state", "log", "run", "videos"):
        (path / folder).mkdir(parents=True)
    (path / "pg" / "PG_VERSION").write_text("15\n")
    for name in ("pg/postmaster.pid", "state/stack.json", "state/engine.pid", "state/ledger.mark", "engine.scratch", "engine.lock"):
        os.mkfifo(path / name)
    for entry in (path, *path.rglob("*")):
        os.chown(entry, UID, UID)
    yield path
    shutil.rmtree(path)


def told(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "privid.cli.main", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, timeout=30, cwd=cwd)


def test_all_commands_that_are_about_a_stack_are_tried_here() -> None:
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    about = {name for name, command in commands.choices.items()
             for action in command._actions if "--data" in action.option_strings and "of the stack" in str(action.help)}
    assert about == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_of_somebody_else_is_refused_before_anything_in_it_is_read(theirs: Path, command: str, tmp_path: Path) -> None:
    for name, content in _FILES.items():
        (tmp_path / name).write_bytes(content)
    before = sorted(theirs.rglob("*"))
    done = told(command, "--data", theirs, *COMMANDS[command], cwd=tmp_path)
    said = done.stdout if command == "doctor" else done.stderr
    assert done.returncode == 1 and f'"{theirs}" belongs to user {UID}' in said and "Traceback" not in done.stderr, done
    if command == "doctor":  # the machine is looked at all the same
        assert "remedy: " in said and "FAIL     data directory" in said and "PASS     PostgreSQL" in said and "bubblewrap" in said
    else:
        assert "HINT:  Run the command as the user whose it is" in said
    assert sorted(theirs.rglob("*")) == before


def test_the_ledger_of_an_engine_in_a_directory_of_somebody_else_is_not_read(theirs: Path, stack: RunningStack) -> None:
    done = told("ledger", "--dsn", f"host='{stack.layout.run}' dbname=privid user=privid", "--engine-data", theirs, "check")
    assert done.returncode == 1 and f'"{theirs}" belongs to user {UID}' in done.stderr


def test_a_state_that_others_may_write_is_not_believed(reachable_directory: Path) -> None:
    layout = Layout(reachable_directory / "open-state")
    layout.state.mkdir(parents=True)
    layout.state.chmod(0o777)
    with pytest.raises(CommandFailed, match="can be written to by other users"):
        Stack(layout.data)


@pytest.mark.parametrize("kind", ["a pipe", "a link", "a device", "without end"])
def test_what_is_read_of_a_stack_is_a_file_of_bounded_length(tmp_path: Path, kind: str) -> None:
    layout = Layout(tmp_path / "own")
    layout.state.mkdir(parents=True)
    place = layout.state / "stack.json"
    if kind == "a pipe":
        os.mkfifo(place)
    elif kind == "a link":
        (tmp_path / "secret").write_text('{"run": "/secret"}')
        place.symlink_to(tmp_path / "secret")
    elif kind == "a device":
        os.mknod(place, 0o600 | 0o020000, os.makedev(1, 5))
    else:
        with place.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(CommandFailed, match=f'could not read "{place}"'):
        layout.remembered()
    with pytest.raises(OSError):
        read_file(place)


def test_postgresql_is_reached_in_a_directory_of_the_stacks_own_alone(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "own")
    layout.state.mkdir(parents=True)
    layout.pg.mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(layout.pg)
    (tmp_path / "foreign").mkdir(mode=0o700)
    os.chown(tmp_path / "foreign", UID, UID)
    for run in ("127.0.0.1", "localhost", "/", str(tmp_path / "none"), *(str(tmp_path / name) for name in ("open", "link", "foreign"))):
        layout.remember(run=run)
        with pytest.raises(CommandFailed, match="the stack's own"):
            Postgres(layout).connect()


class _Asks(threading.Thread):
    """What looks like PostgreSQL, and asks for the password in clear."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.heard: list[bytes] = []

    def run(self) -> None:
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                connection.recv(struct.unpack("!I", connection.recv(4))[0])
                connection.sendall(b"R" + struct.pack("!II", 8, 3))
                self.heard.append(connection.recv(4096))


def test_a_server_of_a_stack_gets_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(tmp_path / "own")
    for folder in (layout.state, layout.pg, layout.run):
        folder.mkdir(parents=True)
    layout.run.chmod(0o700)
    os.chown(layout.run, layout.account.uid, layout.account.gid)
    (tmp_path / ".pgpass").write_text("*:*:*:*:hush\n")
    (tmp_path / ".pgpass").chmod(0o600)
    for name in ("HOME", "PGPASSFILE", "PGPASSWORD"):
        monkeypatch.setenv(name, {"HOME": str(tmp_path), "PGPASSFILE": str(tmp_path / ".pgpass"), "PGPASSWORD": "hush"}[name])
    server = _Asks(layout.run / ".s.PGSQL.5432")
    server.start()
    stack = Stack(layout.data)
    environment = psql.environment_of(stack)
    done = subprocess.run(["psql", "-w", "-c", "SELECT 1"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=20)
    assert done.returncode == 2 and "no password supplied" in done.stderr
    assert not Postgres(layout).answers()
    assert wait_until(lambda: len(server.heard) == 2, 10)
    server.listener.close()
    assert [said for said in server.heard if b"hush" in said] == []


# Access control lists: rights beyond those of the mode

def grant(path: Path, *entries: tuple[int, int, int], mask: int = 7, default: bool = False) -> None:
    """An ACL of a directory: (tag, rights, number) of users (2) and groups (8) besides the usual."""
    no = 0xffffffff
    acl = [(1, 7, no), *(e for e in entries if e[0] == 2), (4, 5, no), *(e for e in entries if e[0] == 8), (0x10, mask, no), (0x20, 5, no)]
    os.setxattr(path, f"system.posix_acl_{'default' if default else 'access'}",
                struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in acl))


@pytest.mark.parametrize(("entry", "mask", "refused"), [
    ((2, 7, UID), 7, True), ((2, 2, UID), 7, True), ((8, 7, 100), 7, True), ((8, 7, 0), 7, True),
    ((2, 7, UID), 5, False), ((2, 5, UID), 7, False), ((2, 7, 0), 7, False), ((8, 5, 100), 7, False)])
def test_who_may_write_by_an_access_control_list_counts(reachable_directory: Path, entry: tuple[int, int, int], mask: int,
                                                        refused: bool) -> None:
    place = reachable_directory / f"acl-{'-'.join(map(str, entry))}-{mask}"
    place.mkdir(mode=0o755)
    grant(place, entry, mask=mask)
    if not refused:
        check_path(place / "stack")
        return
    with pytest.raises(PrividError, match=f'"{place}" can be written to by other users'):
        check_path(place / "stack")
    done = run_privid("up", "--data", place / "stack", check=False)
    assert done.returncode == 1 and "can be written to by other users" in done.stderr and list(place.iterdir()) == []


def test_a_default_access_control_list_opens_nothing_that_is_made_below_it(reachable_directory: Path) -> None:
    above = reachable_directory / "default"
    above.mkdir()
    grant(above, (2, 7, UID), default=True)
    try:
        run_privid("up", "--data", above / "stack")
        stack = RunningStack(above / "stack")
        paths = belongings(stack.layout, family(stack.layout, stack.engine_pid() or 0))
        assert str(stack.layout.state / "postgresql.conf") in paths and any(path.endswith("/privid.so") for path in paths)
        assert tried(paths) == []
        assert [place for place in above.joinpath("stack").rglob("*") if "system.posix_acl_default" in
                os.listxattr(place, follow_symlinks=False)] == []
        assert "PASS     other users" in run_privid("doctor", "--data", stack.data).stdout
    finally:
        run_privid("down", "--data", above / "stack", check=False)
    make_directory(above / "made", 0o755)
    os.close(open_file(above / "file", os.O_RDWR))
    assert os.listxattr(above / "made") == [] == os.listxattr(above / "file")


def test_an_access_control_list_on_what_a_stack_has_is_found_by_doctor_and_closed_by_up(stack: RunningStack) -> None:
    stack.up()
    grant(stack.layout.state, (2, 1, UID), mask=1)
    try:
        assert f"{stack.layout.state} can be opened by others" in run_privid("doctor", "--data", stack.data, check=False).stdout
        grant(stack.data, (2, 7, UID))
        done = run_privid("doctor", "--data", stack.data, check=False)
        assert done.returncode == 1 and f'"{stack.data}" can be written to by other users' in done.stdout
        stack.data.chmod(0o711)
        stack.up()
        assert "PASS     other users" in run_privid("doctor", "--data", stack.data).stdout
        assert [name for place in (stack.data, stack.layout.state) for name in os.listxattr(place) if "acl" in name] == []
    finally:
        for place in (stack.data, stack.layout.state):
            if "system.posix_acl_access" in os.listxattr(place):
                os.removexattr(place, "system.posix_acl_access")
        stack.up()


def test_what_is_remembered_is_json(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.remembered() == {}
    layout.state.mkdir()
    for text in ("", "[1]", "{", "\udcff"):
        (layout.state / "stack.json").write_bytes(text.encode(errors="surrogateescape"))
        assert layout.remembered() == {}
    (layout.state / "stack.json").write_text(json.dumps({"port": 5}))
    assert layout.port == 5
