"""privid engine while somebody else listens where its PostgreSQL should: no secret is sent, and nothing is believed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunningStack, run_privid

from .stranger import UID

PROGRAM = (Path(__file__).parent / "pretender.py").read_text()
BARE = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"PGPASSWORD": "hush"}

Pretend = Callable[..., tuple[str, Callable[[], str]]]


@pytest.fixture
def pretend() -> Iterator[Pretend]:
    """Starts one; gives the port or the path, and what tells what was sent to it, which ends it."""
    with ExitStack() as cleanup:
        def start(address: str = "0", mode: str = "open", **popen: Any) -> tuple[str, Callable[[], str]]:
            process = subprocess.Popen(["/usr/bin/python3", "-I", "-c", PROGRAM, address, mode], stdout=subprocess.PIPE, text=True, **popen)
            cleanup.callback(process.wait)
            cleanup.callback(process.kill)
            assert process.stdout is not None
            cleanup.callback(process.stdout.close)

            def told() -> str:
                process.kill()
                return str(process.communicate()[0])

            return process.stdout.readline().strip(), told

        yield start


@pytest.fixture
def engine(tmp_path: Path) -> Callable[..., str]:
    """What the engine says, which does not start."""
    (tmp_path / "videos").mkdir()

    def run(where: str, *options: str) -> str:
        done = run_privid("engine", "--data", tmp_path / "data", "--videos", tmp_path / "videos", "--dsn",
                          f"{where} dbname=cameras user=privid_engine", *options, check=False, env=BARE)
        assert done.returncode == 1 and "HINT" in done.stderr and "Traceback" not in done.stderr, done.stderr
        assert not (tmp_path / "data").exists()
        return done.stderr

    return run


def test_no_password_is_sent_to_whom_asks_for_it_in_clear(pretend: Pretend, engine: Callable[..., str], tmp_path: Path) -> None:
    port, told = pretend(mode="clear")
    for options in ((), ("--peer", "root", "--socket", str(tmp_path / "s"))):
        assert "authentication" in engine(f"host=127.0.0.1 port={port}", *options)
    assert "hush" not in told()


def test_over_tcp_the_server_is_believed_nothing_and_proves_that_it_knows_the_password(pretend: Pretend, engine: Callable[..., str],
                                                                                      tmp_path: Path) -> None:
    port, told = pretend()
    where = f"host=127.0.0.1 port={port}"
    for options in ((), ("--peer", "root"), ("--socket", str(tmp_path / "s"))):
        said = engine(where, *options)
        assert "over TCP" in said and "--peer" in said and "--socket" in said, said
    assert "scram-sha-256" in engine(where, "--peer", "root", "--socket", str(tmp_path / "s"))
    assert [line for line in told().splitlines() if line[0] != "X"] == []  # nobody asked it anything


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play another user")
def test_a_socket_that_somebody_else_listens_on_is_not_believed(pretend: Pretend, engine: Callable[..., str],
                                                               reachable_directory: Path) -> None:
    place = reachable_directory / "theirs"
    place.mkdir()
    os.chown(place, UID, UID)
    _, told = pretend(str(place / ".s.PGSQL.5432"), user=UID, group=UID, extra_groups=[])
    said = engine(f"host={place}")
    assert f"user {UID}" in said and "--peer" in said, said
    said = engine(f"host={place}", "--peer", "postgres")
    assert f"user {UID}" in said and "--socket" in said, said
    assert "scram-sha-256" in engine(f"host={place}", "--peer", "postgres", "--socket", str(reachable_directory / "s"))
    assert [line for line in told().splitlines() if line[0] != "X"] == []


def test_later_connections_of_an_engine_are_to_the_same_user_alone(stack: RunningStack) -> None:
    from privid.cli.engine import _settled
    from privid.cli.reaching import reached

    where = f"host='{stack.layout.run}' port={stack.layout.socket_port}"
    with reached(f"{where} dbname=privid user=privid_engine", None, None) as (server, whose):
        assert whose is not None and whose.uid == stack.layout.account.uid
        said = _settled(server, whose)
    assert "requirepeer=" in said and "require_auth=!password,!md5" in said.replace("'", "")
