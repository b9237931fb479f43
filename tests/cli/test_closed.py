"""Other users of the machine: nothing of a stack can be read, locked, written or connected to by them, and none of them leads it astray."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from privid.cli import servers
from privid.cli.daemon import Engine
from privid.cli.engine import _prepare
from privid.cli.layout import Account, Layout
from privid.cli.processes import inside
from privid.cli.servers import Server
from privid.cli.terminal import CommandFailed
from privid.closed import check_path
from privid.engine.server import listen
from privid.errors import PrividError
from privid.postgres_build import PostgresBuild
from tests.conftest import RunningStack, run_privid, write_video

from .stranger import UID, belongings, family, segments, tried

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="nobody but root can play another user")


@pytest.fixture(scope="module")
def mine(reachable_directory: Path) -> Iterator[RunningStack]:
    """A stack in which something has been asked, so that there is a bit of everything."""
    data = reachable_directory / "closed"
    try:
        run_privid("up", "--data", data)
        stack = RunningStack(data)
        write_video(stack.videos / "levels.mp4", [10] * 100)
        stack.camera("cam", "levels.mp4", rho="1s")
        stack.executable("brightness")
        stack.table("levels", "cam", "brightness")
        stack.run("SELECT count(*) FROM levels", settings={"privid.epsilon": "1"})
        yield stack
    finally:
        run_privid("down", "--data", data)


def got_to(stack: RunningStack) -> list[list[str]]:
    engine = stack.engine_pid()
    assert engine is not None
    pids = family(stack.layout, engine)
    assert len(pids) > 8
    paths = belongings(stack.layout, pids)
    assert segments(pids) == []
    for part in ("postgresql.log", "engine.log", "ledger.mark", "engine.sock", ".s.PGSQL.5432", "levels.mp4", "/dev/shm/privid-",
                 "privid.so"):
        assert any(part in path for path in paths), part
    return tried(paths)


def test_another_user_reads_locks_lists_and_reaches_nothing_of_a_stack(mine: RunningStack) -> None:
    mine.up()
    assert got_to(mine) == []


def _listening(pids: set[int]) -> set[str]:
    """Addresses on which processes listen, as the kernel writes them, with the port."""
    sockets = {}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" or table.startswith("udp"):
                sockets[f"socket:[{fields[9]}]"] = fields[1]
    held = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                held.add(str(file.readlink()))
    return {sockets[name] for name in held & sockets.keys()}


def test_nothing_of_a_stack_listens_on_an_address(mine: RunningStack) -> None:
    mine.up()
    engine, remembered = mine.engine_pid(), (mine.layout.state / "stack.json").read_text()
    assert engine is not None
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        assert _listening({os.getpid()}) >= {f"0100007F:{port:04X}"}  # one that does is found
    assert _listening({*family(mine.layout, engine)}) == set()
    try:
        run_privid("up", "--data", mine.data, "--port", str(port))
        assert _listening({*family(mine.layout, mine.engine_pid() or 0)}) == {f"0100007F:{port:04X}"}  # 127.0.0.1
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(host="127.0.0.1", port=port, dbname="privid", user="owner", connect_timeout=10)
    finally:
        run_privid("down", "--data", mine.data)
        (mine.layout.state / "stack.json").write_text(remembered)
        mine.up()


def test_a_stack_whose_directories_were_open_is_closed_by_up(mine: RunningStack) -> None:
    mine.up()
    lock, engine_lock = mine.layout.state / "lock", mine.data / "engine.lock"
    for path in (mine.data, mine.layout.log, mine.layout.lib, mine.layout.state, mine.videos):
        path.chmod(0o755)
    for path in (*mine.layout.state.iterdir(), *mine.layout.log.iterdir(), mine.data / "engine.scratch", lock, engine_lock):
        path.chmod(0o644)
    program = ["/usr/bin/python3", "-I", "-c", "import fcntl, sys; files = [open(p) for p in sys.argv[1:]]\n"
               "for f in files:\n  try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n  except OSError: pass\n"
               "print(flush=True); sys.stdin.read()", str(lock), str(engine_lock)]
    mine.kill_engine()
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=UID, group=UID, extra_groups=[], cwd="/") as holder:
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdout.readline()
        try:
            mine.up()  # though a stranger holds its locks
        finally:
            holder.stdin.close()
    assert got_to(mine) == []
    assert mine.run("SELECT 1") == [(1,)]


def test_another_user_cannot_connect_even_as_a_role_without_a_password(mine: RunningStack) -> None:
    mine.up()
    done = subprocess.run(["psql", "-h", str(mine.layout.run), "-U", "analyst", "privid", "-c", "SELECT 1"], user=UID, group=UID,
                          extra_groups=[], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Permission denied" in done.stderr


def test_neither_statements_nor_passwords_are_written_to_a_log(mine: RunningStack) -> None:
    mine.up()
    with mine.connect("privid") as connection:
        for statement in ("ALTER ROLE analyst PASSWORD 'hush-1' VALID UNTIL 'nonsense'", "CREATE ROLE analyst PASSWORD 'hush-2'",
                          "DO $$BEGIN EXECUTE 'ALTER ROLE nobody_here PASSWORD ''hush-3'''; END$$", "SELECT 1/0 AS \"hush-4\"",
                          "SELECT pg_sleep(0), 'hush-5'::int"):
            with pytest.raises(psycopg.Error):
                connection.execute(statement.encode())
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1/length(substr(%s, 100))", ("hush-6",))
    logs = "".join(path.read_text(errors="replace") for path in mine.layout.log.iterdir())
    assert "ERROR" in logs
    assert [word for word in ("hush-1", "hush-2", "hush-3", "hush-4", "hush-6") if word in logs] == []


@pytest.fixture
def theirs(reachable_directory: Path) -> Iterator[Path]:
    """A directory of somebody else's."""
    path = reachable_directory / "theirs"
    path.mkdir()
    os.chown(path, UID, UID)
    yield path
    shutil.rmtree(path)


def refusal(data: Path, *options: str) -> str:
    done = run_privid("up", "--data", data, *options, check=False)
    if done.returncode == 0:
        run_privid("down", "--data", data)
    assert done.returncode == 1 and "HINT" in done.stderr and "Traceback" not in done.stderr, done.stderr
    return done.stderr


def test_a_stack_below_a_directory_of_somebody_else_is_refused(theirs: Path) -> None:
    assert f'"{theirs}" belongs to user {UID}' in refusal(theirs / "stack")
    assert list(theirs.iterdir()) == []


def test_a_stack_below_a_directory_that_others_may_write_to_is_refused(theirs: Path) -> None:
    os.chown(theirs, 0, 0)
    theirs.chmod(0o777)
    assert f'"{theirs}" can be written to by other users' in refusal(theirs / "stack")
    theirs.chmod(0o775)
    os.chown(theirs, 0, 100)
    assert f'"{theirs}" can be written to by other users' in refusal(theirs / "stack")


def test_a_link_of_somebody_else_is_not_followed_to_a_stack(theirs: Path, reachable_directory: Path) -> None:
    goal = reachable_directory / "goal"
    goal.mkdir()
    os.chown(theirs, 0, 0)
    theirs.chmod(0o1777)
    link = theirs / "stack"
    link.symlink_to(goal)
    os.lchown(link, UID, UID)
    assert f'"{link}" belongs to user {UID}' in refusal(link)
    assert list(goal.iterdir()) == []


def test_videos_below_a_directory_of_somebody_else_are_refused(theirs: Path, reachable_directory: Path) -> None:
    """They could put a link to anybody's videos in their place, which the engine, as root, would read."""
    videos, data = theirs / "videos", reachable_directory / "with-videos"
    videos.mkdir()
    assert f'"{theirs}" belongs to user {UID}' in refusal(data, "--videos", str(videos))
    link = reachable_directory / "led"
    link.symlink_to(videos)
    assert f'"{theirs}" belongs to user {UID}' in refusal(data, "--videos", str(link))
    with pytest.raises(CommandFailed, match=f'"{theirs}" belongs to user {UID}'):
        _prepare(reachable_directory / "own", videos, reachable_directory / "s", Account.of(os.geteuid()))
    assert not (reachable_directory / "own").exists()
    os.chown(theirs, 0, 0)
    theirs.chmod(0o1777)
    os.chown(videos, UID, UID)
    assert f'"{videos}" belongs to user {UID}' in refusal(data, "--videos", str(videos))  # who can move it away
    theirs.chmod(0o755)
    check_path(videos, place=True)  # what lies in it is theirs, but not where it is
    with pytest.raises(PrividError, match="belongs to"):
        check_path(videos)
    os.chown(theirs, UID, UID)


def test_doctor_finds_videos_that_somebody_else_could_exchange(mine: RunningStack, theirs: Path) -> None:
    remembered = mine.layout.state / "stack.json"
    before = remembered.read_text()
    (theirs / "videos").mkdir()
    mine.layout.remember(videos=str(theirs / "videos"))
    try:
        done = run_privid("doctor", "--data", mine.data, check=False)
    finally:
        remembered.write_text(before)
    lines = done.stdout.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith("FAIL") and f'"{theirs}" belongs to user {UID}' in line), None)
    assert done.returncode == 1 and at is not None and "--videos" in lines[at + 1], done.stdout


def test_down_removes_nothing_that_is_not_a_socket_of_the_stack(reachable_directory: Path) -> None:
    layout = Layout(reachable_directory / "stopped")
    layout.state.mkdir(parents=True)
    layout.run.mkdir()
    layout.engine_socket.write_text("precious")
    Engine(layout).stop()
    assert layout.engine_socket.read_text() == "precious"
    (reachable_directory / "other-run").mkdir()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(reachable_directory / "other-run" / "engine.sock"))
    layout.engine_socket.unlink()
    layout.run.rmdir()
    layout.run.symlink_to(reachable_directory / "other-run")
    Engine(layout).stop()
    assert (reachable_directory / "other-run" / "engine.sock").is_socket()
    layout.run.unlink()
    (reachable_directory / "other-run").rename(layout.run)
    Engine(layout).stop()
    assert not layout.engine_socket.exists()


def test_a_link_that_was_looked_up_and_is_gone_leads_no_stack_to_somebody_else(theirs: Path, reachable_directory: Path) -> None:
    """What is written to is where the path led when it was looked up, and so that is what is checked, too."""
    link = reachable_directory / "fleeting"
    link.symlink_to(theirs / "stack")
    layout = Layout(link)
    link.unlink()
    with pytest.raises(CommandFailed, match=f"belongs to user {UID}"):
        layout.create(None)
    assert list(theirs.iterdir()) == []


def test_a_link_where_a_stack_has_its_own_is_not_followed(mine: RunningStack, reachable_directory: Path) -> None:
    run_privid("down", "--data", mine.data)
    elsewhere = reachable_directory / "elsewhere"
    elsewhere.mkdir()
    for name in ("log", "run", "state/lock"):
        place, kept = mine.data / name, reachable_directory / "kept"
        place.rename(kept)
        place.symlink_to(elsewhere if "/" not in name else elsewhere / "file")
        try:
            assert str(place) in refusal(mine.data)
        finally:
            place.unlink()
            kept.rename(place)
        assert list(elsewhere.iterdir()) == [] and elsewhere.stat().st_uid == 0 and stat.S_IMODE(elsewhere.stat().st_mode) == 0o755
    mine.up()


def test_a_socket_that_postgresql_exchanges_for_a_link_gives_no_file_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious, held, bind = tmp_path / "precious", tmp_path / "s", socket.socket.bind
    precious.write_text("root's")

    def exchanged(self: socket.socket, path: str) -> None:
        bind(self, path)
        held.unlink()
        held.symlink_to(precious)

    monkeypatch.setattr(socket.socket, "bind", exchanged)
    with pytest.raises(OSError, match="is not the socket that was made there"):
        listen(held, UID)
    assert precious.stat().st_uid == 0


def test_a_name_that_would_act_on_a_terminal_is_written_out(mine: RunningStack) -> None:
    mine.up()
    write_video(mine.videos / "acting.mp4", [11] * 100)
    mine.camera("cam\x1b]0;mine\x07", "acting.mp4", rho="1s")
    told = run_privid("budget", "--data", mine.data, "cam\x1b]0;mine\x07").stdout
    assert "camera cam\\x1b]0;mine\\x07: epsilon" in told and "\x1b" not in told
    refused = run_privid("budget", "--data", mine.data, "no\x1b[2J", check=False).stderr
    assert "no\\x1b[2J" in refused and "\x1b" not in refused


@pytest.fixture
def make_server(reachable_directory: Path, unique: Callable[[str], str]) -> Callable[..., Server]:
    """What looks like a server, with a psql of the test's."""
    def make(psql: str, uid: int, port: str = "1") -> Server:
        folder = reachable_directory / unique(f"bin{len(list(reachable_directory.iterdir()))}")
        folder.mkdir()
        (folder / "psql").write_text(f"#!/bin/sh\n{psql}\n")
        (folder / "psql").chmod(0o755)
        return Server(PostgresBuild("15", folder, folder, folder), 1, Account(uid, uid, ()), folder, port, str(folder))

    return make


def test_a_server_is_asked_without_our_terminal(make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose user its client runs as could take the client over, and type into a terminal that it has."""
    monkeypatch.setattr(servers, "_installed", lambda: UID)
    server = make_server("read -r pid rest < /proc/self/stat\nset -- $rest\necho \"$4 $$ $(id -u)\"", UID)
    (told,) = server._ask("postgres", "SELECT 1", time.monotonic() + 10) or [""]
    session, shell, uid = told.split()
    assert session == shell != str(os.getsid(0)) and uid == str(UID)


def test_a_server_of_somebody_else_is_not_asked(make_server: Callable[..., Server], reachable_directory: Path) -> None:
    """Root would start a process as whoever runs what looks like one."""
    asked = reachable_directory / "asked"
    asked.mkdir(mode=0o777)
    asked.chmod(0o777)
    assert make_server(f"touch {asked}/$$; echo privid", UID).databases_with("privid") is None
    assert list(asked.iterdir()) == []
    assert make_server(f"touch {asked}/$$; echo privid", 0).databases_with("privid") == ["privid"]
    assert list(asked.iterdir())


def test_what_a_server_says_is_bounded_in_length_and_in_time(make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_PATIENCE", 2.0)
    began = time.monotonic()
    for psql in ("yes", "sleep 60", "exec >&-; sleep 60", "echo a; sleep 1", "echo x; exit 3"):
        assert make_server("case $PGDATABASE in postgres) seq 100;; *) echo a; sleep 1;; esac" if psql == "echo a; sleep 1" else psql,
                           0).databases_with("privid") is None, psql
    assert time.monotonic() - began < 15
    assert make_server("echo privid", 0, "54\x0032").databases_with("privid") is None


def test_an_up_that_waits_for_another_says_so_in_the_end(mine: RunningStack, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    from privid.cli import stack as stacks
    from privid.cli.terminal import CommandFailed

    mine.up()
    monkeypatch.setattr(stacks, "PATIENCE", 0.2)
    with (mine.layout.state / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CommandFailed, match="another privid up or down"):
            stacks.Stack(mine.data).up()


@pytest.mark.parametrize(("name", "mode", "level"), [("log", 0o755, "FAIL"), ("state", 0o755, "FAIL"), ("videos", 0o755, "FAIL"),
                                                     ("run", 0o711, "FAIL"), ("engine.lock", 0o644, "FAIL")])
def test_doctor_finds_what_is_open_to_others_and_names_a_remedy(mine: RunningStack, name: str, mode: int, level: str) -> None:
    mine.up()
    place = mine.data / name
    before = stat.S_IMODE(place.stat().st_mode)
    place.chmod(mode)
    try:
        done = run_privid("doctor", "--data", mine.data, check=False)
    finally:
        place.chmod(before)
    lines = done.stdout.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith(level) and str(place) in line), None)
    assert done.returncode == 1 and at is not None and "remedy: " in lines[at + 1], done.stdout


def test_doctor_finds_what_belongs_to_somebody_else(mine: RunningStack) -> None:
    mine.up()
    place = mine.layout.log
    os.chown(place, UID, UID)
    try:
        done = run_privid("doctor", "--data", mine.data, check=False)
    finally:
        os.chown(place, 0, 0)
    assert done.returncode == 1 and f"{place} belongs to user {UID}" in done.stdout


def test_doctor_passes_a_stack_that_is_closed(mine: RunningStack) -> None:
    mine.up()
    told = run_privid("doctor", "--data", mine.data).stdout
    assert any(line.startswith("PASS     other users") for line in told.splitlines()), told


@pytest.mark.parametrize("name", ["a, b", "back\\slash", "tab\there", "$HOME %s ünï"])
def test_odd_characters_in_the_name_of_a_data_directory_work(reachable_directory: Path, name: str) -> None:
    data = reachable_directory / name
    try:
        run_privid("up", "--data", data)
        assert RunningStack(data).run("SELECT 1") == [(1,)]
        assert run_privid("psql", "--data", data, "--", "-Atc", "SELECT 2").stdout == "2\n"
        assert run_privid("status", "--data", data).returncode == 0
    finally:
        run_privid("down", "--data", data)


@pytest.mark.parametrize("name", ["new\nline", "bell\a", "caf\udce9"])
def test_control_characters_and_bytes_that_are_no_text_in_the_name_of_a_data_directory_are_refused(
        reachable_directory: Path, name: str, make_refusal: Callable[[Path], str]) -> None:
    assert "cannot be the name of a data directory" in make_refusal(reachable_directory / name)


@pytest.fixture
def make_refusal() -> Callable[[Path], str]:
    return refusal


def test_nothing_of_a_stack_runs_on_after_these_tests(mine: RunningStack) -> None:
    run_privid("down", "--data", mine.data)
    assert not inside(mine.layout.pg)
