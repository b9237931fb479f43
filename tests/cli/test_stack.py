"""up, down, status and psql: a stack is created, found again, and survives what happens to processes and pid files."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import privid
from privid.cli.layout import Account, Layout
from privid.cli.postgres import Postgres
from privid.cli.processes import ended, inside, wait_until
from tests.conftest import REPOSITORY, RunningStack, run_privid

Start = Callable[..., RunningStack]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, reachable_directory: Path) -> Iterator[Start]:
    """Starts a stack in the named directory; all of them are stopped at the end."""
    begun: list[Path] = []

    def start(name: str | Path, *options: str) -> RunningStack:
        data = reachable_directory / name
        begun.append(data)
        run_privid("up", "--data", data, *options)
        return RunningStack(data)

    yield start
    for data in begun:
        run_privid("down", "--data", data)


@pytest.fixture(scope="module")
def shared(start: Start) -> RunningStack:
    return start("shared")


def postmaster(stack: RunningStack) -> int:
    pid = Postgres(stack.layout).pid()
    assert pid is not None
    return pid


def test_up_is_idempotent_and_prints_the_psql_line(shared: RunningStack) -> None:
    before = postmaster(shared), shared.engine_pid()
    told = run_privid("up", "--data", shared.data).stdout
    assert (postmaster(shared), shared.engine_pid()) == before
    assert f"psql -h {shared.layout.run} -U analyst privid" in told
    assert f"privid down --data {shared.data}" in told


def test_status_lists_the_pieces_and_its_exit_code_tells_whether_they_run(shared: RunningStack) -> None:
    shared.up()
    running = run_privid("status", "--data", shared.data)
    assert "PostgreSQL  running" in running.stdout and "engine      running" in running.stdout
    run_privid("down", "--data", shared.data)
    stopped = run_privid("status", "--data", shared.data, check=False)
    assert stopped.returncode == 3 and "PostgreSQL  stopped" in stopped.stdout and "engine      stopped" in stopped.stdout
    absent = run_privid("status", "--data", shared.data / "nothing", check=False)
    assert absent.returncode == 3 and "no stack" in absent.stdout


def test_down_leaves_no_process_and_no_socket_and_up_starts_again(shared: RunningStack) -> None:
    shared.up()
    engine = shared.engine_pid()
    run_privid("down", "--data", shared.data)
    assert engine is not None and ended([engine]) and not inside(shared.layout.pg)
    assert list(shared.layout.run.iterdir()) == []
    assert "was not running" in run_privid("down", "--data", shared.data).stdout
    shared.up()
    assert shared.run("SELECT 1") == [(1,)]


def test_psql_runs_as_the_role_asked_for(shared: RunningStack) -> None:
    shared.up()
    query = ("-Atc", "SELECT current_user, current_database(), current_schema()")
    assert run_privid("psql", "--data", shared.data, "--", *query).stdout.strip() == "privid|privid|public"
    assert run_privid("psql", "--data", shared.data, "--", "-U", "owner", *query).stdout.strip() == "owner|privid|owner"
    # settings for another server do not lead astray
    led = run_privid("psql", "--data", shared.data, "--", "-U", "analyst", *query,
                     env={**os.environ, "PGHOST": "elsewhere", "PGPORT": "1", "PGUSER": "x", "PGSERVICE": "y"})
    assert led.stdout.strip() == "analyst|privid|analyst"


def test_the_roles_are_what_they_are_called(shared: RunningStack) -> None:
    shared.up()
    rows = shared.run("SELECT rolname, rolsuper, pg_has_role(rolname, 'privid_owner', 'member'), "
                      "pg_has_role(rolname, 'privid_analyst', 'member') FROM pg_roles "
                      "WHERE rolname IN ('owner', 'analyst', 'privid') ORDER BY 1")
    assert rows == [("analyst", False, False, True), ("owner", False, True, False), ("privid", True, True, True)]


def test_the_socket_directory_is_private_and_nothing_listens_on_a_port(shared: RunningStack) -> None:
    shared.up()
    assert stat.S_IMODE(shared.layout.run.stat().st_mode) == 0o700
    assert shared.run("SHOW listen_addresses") == [("",)]
    assert shared.run("SHOW fsync", user="privid") == [("on",)]


def test_as_many_lanes_as_there_are_cores_can_be_asked_for(shared: RunningStack, make_video: Callable[..., Path]) -> None:
    cores = len(os.sched_getaffinity(0))
    run_privid("up", "--data", shared.data, "--lanes", str(cores))
    before = shared.engine_pid()
    run_privid("up", "--data", shared.data)
    assert shared.engine_pid() == before and before is not None
    command = Path(f"/proc/{before}/cmdline").read_bytes().split(b"\0")
    assert command[command.index(b"--lanes") + 1] == str(cores).encode()
    make_video(shared.videos / "lanes.mp4", [10] * 100)
    shared.camera("lanes", "lanes.mp4")
    shared.executable("lanes")
    shared.table("lanes", "lanes", "lanes", timeout="400ms")
    assert shared.run("SELECT count(*), sum(range(v, 0, 100)) FROM lanes") == [(10, 100)]
    run_privid("up", "--data", shared.data, "--lanes", "0")
    assert b"--lanes" not in Path(f"/proc/{shared.engine_pid()}/cmdline").read_bytes().split(b"\0")
    refused = run_privid("up", "--data", shared.data, "--lanes", "many", check=False)
    assert refused.returncode == 2 and "is not a number of lanes" in refused.stderr


def test_two_stacks_run_side_by_side(shared: RunningStack, start: Start) -> None:
    shared.up()
    other = start("other")
    assert postmaster(other) != postmaster(shared) and other.engine_pid() != shared.engine_pid()
    shared.run("CREATE TABLE only_here ()", user="privid")
    assert other.run("SELECT to_regclass('only_here')", user="privid") == [(None,)]
    run_privid("down", "--data", other.data)
    assert run_privid("status", "--data", shared.data).returncode == 0


def test_killed_processes_are_started_again(shared: RunningStack) -> None:
    shared.up()
    shared.kill_engine()
    assert run_privid("status", "--data", shared.data, check=False).returncode == 3
    shared.up()
    os.kill(postmaster(shared), signal.SIGKILL)
    assert run_privid("status", "--data", shared.data, check=False).returncode == 3
    shared.up()
    shared.kill_engine()
    for pid in inside(shared.layout.pg):
        os.kill(pid, signal.SIGKILL)
    shared.up()
    assert run_privid("status", "--data", shared.data).returncode == 0


def test_stale_pid_files_that_name_strangers_are_survived_and_the_strangers_too(shared: RunningStack) -> None:
    run_privid("down", "--data", shared.data)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            (shared.layout.state / "engine.pid").write_text(json.dumps({"pid": stranger.pid, "identity": f"{boot} {stranger.pid} 1"}))
            for lock in (shared.layout.pg / "postmaster.pid", shared.layout.run / ".s.PGSQL.5432.lock"):
                lock.write_text(f"{stranger.pid}\n{shared.layout.pg}\n1700000000\n5432\n{shared.layout.run}\n\n")
            assert run_privid("status", "--data", shared.data, check=False).returncode == 3
            run_privid("down", "--data", shared.data)
            (shared.layout.state / "engine.pid").write_text("half a fi")
            shared.up()
            assert run_privid("status", "--data", shared.data).returncode == 0
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_data_directory_below_a_private_one_works(start: Start, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    stack = start(private / "stack")
    assert stack.run("SELECT 1") == [(1,)]
    assert run_privid("status", "--data", stack.data).returncode == 0
    os.kill(postmaster(stack), signal.SIGKILL)
    stack.up()
    assert stack.run("SELECT 2") == [(2,)]
    run_privid("down", "--data", stack.data)
    assert not inside(stack.layout.pg)


def test_a_path_that_is_too_long_for_a_socket_works(start: Start) -> None:
    stack = start("long-" * 25)
    assert len(str(stack.layout.run)) < 100 and stat.S_IMODE(stack.layout.run.stat().st_mode) == 0o700
    assert stack.run("SELECT 1") == [(1,)]
    shutil.rmtree(stack.layout.run)  # as a reboot does with /tmp
    stack.up()
    assert stack.run("SELECT 1") == [(1,)]
    run_privid("down", "--data", stack.data)
    assert not stack.layout.run.exists()


def test_a_directory_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    refused = run_privid("up", "--data", tmp_path, check=False)
    assert refused.returncode == 1 and "is not empty and does not hold a stack" in refused.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


@pytest.fixture(scope="module")
def odd(start: Start, reachable_directory: Path) -> RunningStack:
    """A stack with an awkward name, whose creation was interrupted once, and whose videos are elsewhere."""
    half = reachable_directory / "it's a \"stack\" %d" / "pg.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("15\n")
    (reachable_directory / "recordings").mkdir()
    return start(half.parent, "--videos", str(reachable_directory / "recordings"))


def test_a_path_with_spaces_and_quotes_works_and_an_interrupted_creation_is_begun_again(odd: RunningStack) -> None:
    assert odd.run("SELECT 1") == [(1,)]
    assert run_privid("psql", "--data", odd.data, "--", "-Atc", "SELECT 2").stdout == "2\n"
    assert not (odd.data / "pg.new").exists()


def test_videos_may_live_elsewhere_and_where_is_remembered(odd: RunningStack, reachable_directory: Path) -> None:
    assert odd.videos == reachable_directory / "recordings"
    odd.up()
    assert RunningStack(odd.data).videos == odd.videos
    refused = run_privid("up", "--data", reachable_directory / "new", "--videos", reachable_directory / "none", check=False)
    assert refused.returncode == 1 and f'"{reachable_directory / "none"}" does not exist' in refused.stderr


def test_a_port_asks_for_a_password_and_is_remembered_until_taken_back(odd: RunningStack) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = run_privid("up", "--data", odd.data, "--port", str(port), check=False)
        assert refused.returncode == 1 and f"could not use port {port}" in refused.stderr and "HINT" in refused.stderr
    run_privid("up", "--data", odd.data, "--port", str(port))
    odd.up()
    odd.run("ALTER ROLE analyst PASSWORD 'secret'", user="privid")
    psql = ["psql", "-w", "-h", "127.0.0.1", "-p", str(port), "-U", "analyst", "privid", "-Atc", "SELECT 7"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    assert "no password supplied" in subprocess.run(psql, env=environment, capture_output=True, text=True).stderr
    assert subprocess.run(psql, env=environment | {"PGPASSWORD": "secret"}, capture_output=True, text=True).stdout == "7\n"
    run_privid("up", "--data", odd.data, "--port", "0")
    assert odd.run("SHOW listen_addresses") == [("",)]


def test_up_brings_an_older_extension_to_the_version_of_the_library(odd: RunningStack) -> None:
    odd.up()
    odd.run("DROP EXTENSION privid CASCADE", user="privid")
    odd.run("CREATE EXTENSION privid VERSION '0.1.0'", user="privid")
    odd.up()
    assert odd.run("SELECT extversion FROM pg_extension WHERE extname = 'privid'") == [(privid.__version__,)]


@pytest.fixture
def somebody(reachable_directory: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line as an ordinary user with an empty home; as nobody, when the tests run as root."""
    home = reachable_directory / "home"
    home.mkdir()
    options: dict[str, Any] = {"cwd": "/", "env": {"PATH": "/usr/bin:/bin", "HOME": str(home)}}
    if os.geteuid() != 0:
        return partial(run_privid, **options)
    nobody = Account.of(pwd.getpwnam("nobody").pw_uid)
    os.chown(home, nobody.uid, nobody.gid)
    if nobody.reaches(REPOSITORY):
        return partial(run_privid, **options, **nobody.popen())
    # a checkout in a private folder: shown to that user elsewhere, in a mount namespace of its own
    shown, package = reachable_directory / "checkout", reachable_directory / "package" / "privid"
    shown.mkdir()
    package.mkdir(parents=True)
    for file in (REPOSITORY / "core").glob("*.py"):
        (package / file.name).symlink_to(shown / "core" / file.name)
    for room in (REPOSITORY / "cli").parent.glob("*/__init__.py"):
        (package / room.parent.name).symlink_to(shown / room.parent.name)
    options["env"]["PYTHONPATH"] = str(package.parent)
    command = ["unshare", "--mount", "sh", "-c", f'mount --bind "{REPOSITORY}" "{shown}" && exec setpriv --reuid {nobody.uid} '
               f'--regid {nobody.gid} --clear-groups "{shown}/.venv/bin/python" "$@"', "sh"]
    return partial(run_privid, **options, command=command)


def test_an_ordinary_user_has_a_stack_of_his_own(somebody: Callable[..., subprocess.CompletedProcess[str]],
                                                 reachable_directory: Path) -> None:
    home = reachable_directory / "home"
    layout = Layout(home / ".local/share/privid/default")
    try:
        somebody("up")
        assert somebody("psql", "--", "-Atc", "SELECT 5").stdout == "5\n"
        assert {Path(f"/proc/{pid}").stat().st_uid for pid in inside(layout.pg)} == {home.stat().st_uid}
        if os.geteuid() == 0:
            refused = run_privid("down", "--data", layout.data, check=False)
            assert refused.returncode == 1 and "belongs to nobody" in refused.stderr
    finally:
        somebody("down")
    assert wait_until(lambda: not inside(layout.pg), 5)


def test_every_command_and_option_has_a_help_text() -> None:
    from privid.cli.main import COMMANDS, parser

    listed = run_privid("--help").stdout
    assert all(name in listed for name in COMMANDS)
    assert run_privid("up", "--help").stdout.startswith("usage: privid up")
    for command in parser()._subparsers._group_actions[0].choices.values():  # type: ignore[union-attr]
        assert command.description
        for action in command._actions:
            assert action.help, (command.prog, action.dest)


def test_wrong_usage_is_told_with_exit_code_2() -> None:
    for arguments in ((), ("fly",), ("up", "--port", "70000"), ("up", "--prot", "1")):
        done = subprocess.run([sys.executable, "-m", "privid.cli.main", *arguments], capture_output=True, text=True)
        assert done.returncode == 2 and "usage:" in done.stderr
