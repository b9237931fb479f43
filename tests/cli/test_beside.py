"""The page for operators, followed word for word beside a cluster made with pg_createcluster.

Its blocks marked `<!-- run: root -->` and `<!-- run: analyst -->` are run in their order, on a
machine of their own (apart.py); in between, the commands are used there over TCP. The tests of this
file build on each other, from installing to removing.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import cv2
import numpy as np
import pytest

import privid
from privid.cli.processes import wait_until
from tests.cli.apart import COPIED, EMPTY, Apart, apart
from tests.conftest import BRIGHTNESS, LEVELS, REPOSITORY, write_video

if os.geteuid() != 0:
    pytest.skip("installing beside a cluster needs root", allow_module_level=True)
if shutil.which("pg_createcluster") is None:
    pytest.skip("pg_createcluster (Debian's postgresql-common) is missing", allow_module_level=True)

PAGE = (REPOSITORY / "docs" / "operators.md").read_text()
SECTIONS = re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
#: the marked blocks of the page by their sections: who runs it, and what
BLOCKS: dict[str, list[tuple[str, str]]] = {
    title: re.findall(r"^<!-- run: (root|analyst) -->\n```sh\n(.*?)^```$", text,
                      re.MULTILINE | re.DOTALL) for title, text in SECTIONS}

NOTHING: Mapping[str, str] = MappingProxyType({})
#: over TCP, with a password
ANA = {"PGHOST": "127.0.0.1", "PGDATABASE": "cameras", "PGUSER": "ana",
       "PGPASSWORD": "change me too"}
OLGA = "host=127.0.0.1 dbname=cameras user=olga password='change me'"
ENGINE = ("--dsn", "dbname=cameras user=privid_engine")
MARK = ("--engine-data", "/var/lib/privid/cameras")


class Machine:
    """The cluster, and the blocks of the page."""

    def __init__(self, inside: Apart) -> None:
        self.inside = inside

    def follow(self, title: str, *, first: int = 0, last: int | None = None) -> str:
        """Runs blocks of a section as a person would; each ends with its first failure."""
        assert BLOCKS[title]
        told = ""
        for who, block in BLOCKS[title][first:last]:
            cwd = REPOSITORY if who == "root" else self.inside.home
            told += self.inside.run("bash", "-euo", "pipefail", "-c", block, cwd=cwd).stdout
        return told

    def psql(self, statement: str, database: str = "cameras") -> str:
        """As the superuser."""
        return self.inside.run("runuser", "-u", "postgres", "--", "psql", "-XAtqd", database,
                               "-c", statement, cwd=Path("/")).stdout.strip()

    def ask(self, statement: str) -> str:
        """As the analyst."""
        return self.privid("psql", "--", "-XAtqc", statement, env=ANA).strip()

    def privid(self, *arguments: str, check: bool = True, env: Mapping[str, str] = NOTHING) -> str:
        return self.inside.run("privid", *arguments, check=check, env=env).stdout


def listing() -> dict[str, list[str]]:
    """What the machine itself has where the page writes."""
    places = [*map(Path, (*EMPTY, *COPIED)), Path("/run/postgresql")]
    # rooms of other engines come and go
    return {str(place): sorted(entry.name for entry in place.iterdir() if not entry.name.startswith("room-")) for place in places}


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """The page's first section done, engine and all."""
    before = listing()
    with apart() as inside:
        systemctl = inside.path("/usr/local/bin/systemctl")
        stand_in = Path(__file__).with_name("systemctl.py")
        systemctl.write_text(f'#!/bin/sh\nexec {sys.executable} -I {stand_in} "$@"\n')
        systemctl.chmod(0o755)
        inside.run("pg_createcluster", "15", "main")
        inside.run("pg_ctlcluster", "15", "main", "start")
        machine = Machine(inside)
        machine.follow("Beside an existing cluster", last=-1)
        write_video(inside.path("/srv/privid/videos/street.mp4"), LEVELS)
        machine.follow("Beside an existing cluster", first=-1)
        yield machine
    assert listing() == before, "the machine outside was touched"


def test_the_server_is_ready_and_the_engine_answers_through_it(machine: Machine) -> None:
    told = machine.inside.run("runuser", "-u", "postgres", "--", "privid", "doctor",
                              "--dsn", "dbname=cameras", cwd=Path("/")).stdout
    assert "FAIL" not in told and "CAUTION" not in told
    assert "PASS     engine: answers through the server" in told
    assert machine.psql("SELECT camera, frames FROM privid.cameras") == "street|200"


def test_installed_files_are_readable_by_all_and_belong_to_root(machine: Machine) -> None:
    found = [*machine.inside.path("/usr/lib/postgresql/15/lib/privid.so").parent.glob("privid*"),
             *machine.inside.path("/usr/share/postgresql/15/extension/x").parent.glob("privid*")]
    assert {file.name for file in found} >= {"privid.so", "privid.control", "privid--0.1.0.sql"}
    assert {(file.stat().st_uid, file.stat().st_mode & 0o7777) for file in found} == {(0, 0o644)}
    again = machine.privid("install")
    assert len(again.splitlines()) == len(found) and again.count("same ") == len(found)


def test_the_unit_on_the_page_is_the_one_that_is_printed(machine: Machine) -> None:
    def settings(text: str) -> list[str]:
        lines = [line.strip() for line in text.splitlines()]
        # left out for a checkout in somebody's home, as the test's may be
        return [line for line in lines if line and line[0] != "#" and line != "ProtectHome=yes"]

    printed = machine.inside.path("/etc/systemd/system/privid-engine.service").read_text()
    shown = re.search(r"^    \[Unit\]\n(?:    .*\n|\n)+", PAGE, re.MULTILINE)
    assert shown and settings(shown[0]) == settings(printed)


def test_an_analyst_elsewhere_asks_with_a_password_over_tls(machine: Machine) -> None:
    machine.follow("From other machines", last=-1)
    authority = machine.inside.path("/etc/postgresql/15/main/authority.crt")
    for file in (authority, REPOSITORY / "examples" / "count_people.py"):
        shutil.copy(file, machine.inside.home)
    told = machine.follow("From other machines", first=-1)
    assert "PASS     connection: to db.example.org, encrypted" in told
    assert "PASS     engine: answers through the server" in told
    assert re.search(r"count_people: \d+ bytes, for role ana", told)
    assert re.search(r"count *\n-+\n *-?\d+\n\(1 row\)", told)
    assert "camera street: epsilon 10 per frame" in told
    assert machine.psql("SELECT who, state FROM privid.releases") == "ana|answered"
    elsewhere = "service=cameras host=localhost"
    other = machine.privid("budget", "street", "--dsn", elsewhere, check=False)
    assert "does not match host name" in other and "HINT:  Connect by the name" in other


def test_every_command_works_with_the_variables_of_postgresql(machine: Machine) -> None:
    home = machine.inside.home
    (home / "brightness.py").write_text(BRIGHTNESS)
    (home / "ask.privid").write_text("""
        SPLIT street BEGIN 03-01-2026/08:00am END 03-01-2026/08:00:02am
            BY TIME 1sec STRIDE 0sec INTO chunks;
        PROCESS chunks USING brightness.py TIMEOUT 1sec PRODUCING 1 ROWS
            WITH SCHEMA (v:NUMBER=0) INTO t;
        SELECT COUNT(*) FROM t;""")
    cv2.imwrite(str(home / "dark.png"), np.zeros((48, 64), np.uint8))
    assert "for role ana" in machine.privid("upload", "brightness.py", env=ANA)
    made = machine.privid("mask", "street", "dark", "dark.png", "--rho", "1s", "--dsn", OLGA)
    assert "mask dark of camera street: 100.0%" in made
    answer = machine.privid("query", "--epsilon", "0.5", "ask.privid", env=ANA)
    assert re.search(r"^ +-?\d+$", answer, re.MULTILINE), answer
    for command in ("budget", "exposure"):
        assert "camera street: epsilon 10" in machine.privid(command, "street", env=ANA)
    # it is told beside the answer, not before it
    assert wait_until(lambda: machine.privid("progress", "--once", env=ANA) == "Nothing is being read.\n", 20)
    assert machine.ask("SELECT current_user") == "ana"
    assert "permission denied" in machine.privid("ledger", "check", check=False, env=ANA)
    told = machine.privid("ledger", "check", *MARK,
                          env={"PGDATABASE": "cameras", "PGUSER": "privid_engine"})
    assert re.match(r"charges: \d+ marked, 0 missing in the database\nhistory: whole\n", told)


def test_what_is_wrong_is_told_with_what_to_do(machine: Machine) -> None:
    def refused(*arguments: str, env: Mapping[str, str] = NOTHING) -> str:
        return machine.privid(*arguments, check=False, env=env)

    engine = ("engine", "--data", "/srv/other", "--videos", "/srv")
    told = refused(*engine, "--dsn", "dbname=postgres user=privid_engine")
    assert "Peer authentication failed" in told and "pg_ident.conf" in told
    machine.psql("CREATE DATABASE bare")
    told = refused("budget", "street", env={**ANA, "PGDATABASE": "bare"})
    assert 'relation "privid.cameras" does not exist' in told and "right database" in told
    told = refused(*engine, "--dsn", "dbname=bare", env=ANA)
    assert "the server was reached over TCP" in told and "--peer" in told and "--socket" in told
    recognized = (*engine, "--peer", "postgres", "--socket", "/srv/engine.sock")
    told = refused(*recognized, "--dsn", "dbname=bare", env=ANA)
    assert 'extension "privid" is missing in database "bare"' in told
    told = refused(*recognized, env=ANA)
    assert 'role "ana" cannot act as the engine' in told
    told = refused("uninstall")
    assert 'server in "/var/lib/postgresql/15/main" uses the library; the extension is in cameras' \
        in told and "DROP EXTENSION" in told


def test_a_dump_is_restored_as_the_page_says_and_an_older_state_is_found_out(
        machine: Machine) -> None:
    left = "SELECT begins, ends, remaining FROM privid.budget ORDER BY 1"
    before = machine.psql(left)
    assert "0 missing in the database" in machine.follow("Backup and restore")
    assert machine.psql(left) == before
    machine.ask("SET privid.reuse = off; SELECT count(*) FROM passers")
    with pytest.raises(AssertionError, match="1 missing in the database"):
        machine.follow("Backup and restore", first=1)
    assert machine.psql(left) == before
    accept = ("ledger", "accept-restore", *ENGINE, *MARK)
    assert "the ledger lacks 1 charges" in machine.privid(*accept, check=False)
    assert "Accepted: 1 charges are forgotten" in machine.privid(*accept, "--yes")
    machine.inside.run("systemctl", "start", "privid-engine")
    accepted = "SELECT count(*) FROM privid.history WHERE event = 'restore accepted'"
    assert machine.psql(accepted) == "1"


def test_upgrading_goes_as_the_page_says(machine: Machine) -> None:
    told = machine.follow("Upgrades")
    assert f'version "{privid.__version__}" of extension "privid" is already installed' in told
    assert re.fullmatch(r"-?\d+", machine.ask("SELECT count(*) FROM passers").splitlines()[-1])


def test_it_is_removed_as_the_page_says_and_the_server_goes_on(machine: Machine) -> None:
    assert "removed /usr/lib/postgresql/15/lib/privid.so" in machine.follow("Removing it")
    places = ("/usr/lib/postgresql/15", "/usr/share/postgresql/15", "/etc/postgresql",
              "/etc/systemd", "/run", "/usr/local", "/var/lib/privid")
    left = machine.inside.run("find", *places, "-path", "/var/lib/privid/runtime", "-prune",
                              "-o", "-name", "*privid*", "-print").stdout.split()
    assert left == ["/run/privid", "/var/lib/privid"]  # locks and runtimes, of all engines
    assert machine.psql("SELECT count(*) FROM pg_extension WHERE extname = 'privid'") == "0"
    assert machine.psql("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'privid%'") == "0"
    machine.inside.run("pg_dropcluster", "--stop", "15", "main")
