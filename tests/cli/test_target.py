"""Which database a command means, and what it says when that cannot be reached."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from privid.cli.layout import default_data
from privid.cli.target import find_target
from tests.conftest import BRIGHTNESS, RunningStack, run_privid

#: the environment of the tests, without what PostgreSQL would read
BARE = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
WHO = ("--", "-Atc", "SELECT current_user, current_database()")


@pytest.fixture
def there(stack: RunningStack) -> SimpleNamespace:
    """The stack of the tests, as a server that is named by PostgreSQL's own means."""
    variables = {"PGHOST": str(stack.layout.run), "PGPORT": str(stack.layout.socket_port),
                 "PGDATABASE": "privid", "PGUSER": "analyst"}
    dsn = (f"host='{stack.layout.run}' port={stack.layout.socket_port} dbname=privid "
           "user=analyst")
    return SimpleNamespace(dsn=dsn, environment={**BARE, **variables})


def test_a_connection_string_is_used_whatever_the_variables_say(there: SimpleNamespace) -> None:
    elsewhere = {**BARE, "PGHOST": "nowhere.invalid", "PGPORT": "1", "PGUSER": "nobody"}
    done = run_privid("psql", "--dsn", there.dsn, *WHO, env=elsewhere)
    assert done.stdout == "analyst|privid\n"


def test_options_of_psql_win_over_the_connection_string(there: SimpleNamespace) -> None:
    done = run_privid("psql", "--dsn", there.dsn, "--", "-U", "owner", *WHO[1:], env=BARE)
    assert done.stdout == "owner|privid\n"


def test_a_stack_is_used_whatever_the_variables_say(stack: RunningStack, tmp_path: Path) -> None:
    program = tmp_path / "beside.py"
    program.write_text(BRIGHTNESS)
    elsewhere = {**BARE, "PGHOST": "nowhere.invalid", "PGSERVICE": "none", "PGUSER": "nobody",
                 "PGCHANNELBINDING": "require"}
    done = run_privid("upload", program, "--data", stack.data, env=elsewhere)
    assert "for role analyst" in done.stdout


def test_variables_that_name_a_server_are_used(there: SimpleNamespace, tmp_path: Path) -> None:
    assert run_privid("psql", *WHO, env=there.environment).stdout == "analyst|privid\n"
    program = tmp_path / "variables.py"
    program.write_text(BRIGHTNESS)
    assert "for role analyst" in run_privid("upload", program, env=there.environment).stdout
    done = run_privid("upload", program, "-U", "owner", env=there.environment)
    assert "for role owner" in done.stdout
    service = tmp_path / "services"
    service.write_text("[cameras]\n" + "\n".join(there.dsn.replace("'", "").split()) + "\n")
    named = {**BARE, "PGSERVICEFILE": str(service), "PGSERVICE": "cameras"}
    assert "for role analyst" in run_privid("upload", program, env=named).stdout


def test_a_user_alone_does_not_mean_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    neither = argparse.Namespace(dsn=None, data=None)
    monkeypatch.setenv("PGUSER", "ana")
    monkeypatch.setenv("PGSSLMODE", "require")
    stack = find_target(neither).stack
    assert stack is not None and stack.layout.data == default_data()
    for name in ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE"):
        with monkeypatch.context() as inner:
            inner.setenv(name, "1")
            assert find_target(neither).stack is None


def test_a_stack_and_a_server_at_once_are_refused(there: SimpleNamespace, tmp_path: Path) -> None:
    done = run_privid("progress", "--data", tmp_path, "--dsn", there.dsn, check=False)
    assert done.returncode == 2 and "not allowed with" in done.stderr


def test_a_connection_string_that_is_none_is_not_repeated() -> None:
    done = run_privid("progress", "--dsn", "host=x password=secret nonsense", check=False)
    assert done.returncode == 2 and "missing" in done.stderr and "secret" not in done.stderr


@pytest.mark.parametrize(("change", "told", "hint"), [
    ("port=1", "could not connect", "Is the server running"),
    ("dbname=nowhere", 'database "nowhere" does not exist', "CREATE DATABASE"),
    ("user=privid_owner", "is not permitted to log in", 'ALTER ROLE "privid_owner" LOGIN'),
    ("dbname=postgres", 'relation "privid.cameras" does not exist', "CREATE EXTENSION privid"),
    ("service=none", 'definition of service "none" not found', "PGSERVICEFILE"),
])
def test_what_fails_is_told_with_what_to_do(there: SimpleNamespace, change: str, told: str,
                                            hint: str) -> None:
    done = run_privid("budget", "street", "--dsn", f"{there.dsn} {change}", check=False, env=BARE)
    assert done.returncode == 1 and told in done.stderr and hint in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_tells_of_a_server_what_can_be_seen_through_a_connection(
        there: SimpleNamespace) -> None:
    owner = there.dsn.replace("analyst", "owner")
    told = run_privid("doctor", "--dsn", owner, env=BARE).stdout
    for line in ("preload: the server has preloaded", "versions: ", "package: version",
                 "connection: by the socket", 'role: "owner" is an owner', "durability: ",
                 "engine: answers through the server"):
        assert f"PASS     {line}" in told, told
    missing = run_privid("doctor", "--dsn", f"{owner} dbname=postgres", check=False, env=BARE)
    assert missing.returncode == 1 and "FAIL     extension: " in missing.stdout
    nobody = run_privid("doctor", "--dsn", f"{owner} port=1", check=False, env=BARE)
    assert nobody.returncode == 1 and nobody.stdout.startswith("FAIL     connection: ")


def test_doctor_finds_out_that_the_server_does_not_reach_the_engine(
        stack: RunningStack, there: SimpleNamespace) -> None:
    stack.kill_engine()
    try:
        owner = there.dsn.replace("analyst", "owner")
        done = run_privid("doctor", "--dsn", owner, check=False, env=BARE)
        assert done.returncode == 1 and "FAIL     engine: " in done.stdout
        assert stack.run("SELECT count(*) FROM pg_foreign_server WHERE srvname LIKE 'privid_doc%%'",
                         user="privid") == [(0,)]
    finally:
        stack.up()


def test_the_engine_of_a_stack_is_not_run_twice(stack: RunningStack,
                                                there: SimpleNamespace) -> None:
    dsn = there.dsn.replace("analyst", "privid_engine")
    done = run_privid("engine", "--data", stack.data, "--videos", stack.videos, "--dsn", dsn,
                      check=False, env=BARE)
    assert done.returncode == 1 and "holds an embedded stack" in done.stderr
    other = run_privid("engine", "--data", stack.data, "--videos", stack.videos, "--dsn", there.dsn,
                       check=False, env=BARE)
    assert 'role "analyst" cannot act as the engine' in other.stderr
    nowhere = run_privid("engine", "--data", stack.data, "--videos", stack.videos, check=False,
                         env=BARE)
    assert "which database the engine serves" in nowhere.stderr


def test_a_unit_holds_every_argument_as_systemd_reads_it() -> None:
    unit = run_privid("engine", "--data", "/var/lib/100% mine", "--videos", "/srv/$x", "--lanes",
                      "3", "--dsn", "dbname=cameras user='a b'", "--print-unit", env=BARE).stdout
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    assert line.endswith('engine --data "/var/lib/100%% mine" --videos /srv/$$x '
                         "--dsn \"dbname=cameras user='a b'\" --lanes 3")
    assert "RuntimeDirectory=privid-engine/cameras\n" in unit
    elsewhere = run_privid("engine", "--data", "/var/lib/p", "--videos", "/srv", "--socket",
                           "/srv/e.sock", "--print-unit", env=BARE).stdout
    assert "RuntimeDirectory" not in elsewhere and "--socket /srv/e.sock" in elsewhere
