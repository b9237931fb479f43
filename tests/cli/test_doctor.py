"""privid doctor: every line has a verdict, and what fails has a remedy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from privid.cli import doctor
from privid.cli.stack import Stack
from tests.conftest import RunningStack, run_privid


def test_a_running_stack_on_this_machine_passes(stack: RunningStack) -> None:
    stack.up()
    done = run_privid("doctor", "--data", stack.data)
    findings = [line for line in done.stdout.splitlines() if not line.startswith("         remedy: ")]
    assert all(line.split()[0] in ("PASS", "CAUTION") for line in findings)
    for subject in ("PostgreSQL: PostgreSQL 15", "library: version", "runtime: ", "disk:", "engine: pid", "extension: version"):
        assert any(line.startswith(f"PASS     {subject}") for line in findings), (subject, done.stdout)


def test_a_missing_postgresql_fails_with_a_remedy(tmp_path: Path) -> None:
    done = run_privid("doctor", "--data", tmp_path / "none", check=False, env={**os.environ, "PG_CONFIG": str(tmp_path / "pg_config")})
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("FAIL     postgres"))
    assert "apt-get install postgresql-15" in lines[at + 1]


def test_a_postgresql_of_another_version_fails(tmp_path: Path) -> None:
    other = tmp_path / "pg_config"
    other.write_text("#!/bin/sh\nprintf 'PostgreSQL 14.9\\n/a\\n/b\\n/c\\n'\n")
    other.chmod(0o755)
    done = run_privid("doctor", "--data", tmp_path / "none", check=False, env={**os.environ, "PG_CONFIG": str(other)})
    assert done.returncode == 1 and "is of PostgreSQL 14.9, not of PostgreSQL 15" in done.stdout


def test_a_stopped_piece_is_told_with_its_remedy(stack: RunningStack) -> None:
    stack.up()
    stack.kill_engine()
    try:
        told = run_privid("doctor", "--data", stack.data).stdout
        assert "CAUTION  engine: not running\n         remedy: Start it with privid up." in told
    finally:
        stack.up()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has users to give")
def test_accounts_among_the_numbers_of_lanes_and_rooms_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(taken: dict[int, str]) -> doctor.Finding:
        monkeypatch.setattr(doctor, "holder", taken.get)
        (finding,) = doctor._numbers(Stack(tmp_path))
        return finding

    assert told({}).level == "PASS"
    for number in (64100, 65099, 65200, 65399):
        found = told({number: "account mallory"})
        assert found.level == "CAUTION" and f"{number} is of account mallory" in found.detail and "docs/sandbox.md" in (found.remedy or "")
    assert "lanes share" in told({64099: "group staff"}).detail and told({64098: "x", 65100: "x", 65199: "x", 65400: "x"}).level == "PASS"
    assert "and 7 more" in told(dict.fromkeys(range(64100, 64110), "account a")).detail
