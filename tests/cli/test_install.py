"""privid install and privid uninstall, into a tree of their own that a pg_config describes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privid.cli.library import library_files
from tests.conftest import run_privid


@pytest.fixture
def tree(reachable_directory: Path, unique: Callable[[str], str]) -> Path:
    """What a PostgreSQL 15 has, as far as the commands look at it."""
    root = reachable_directory / unique("tree")
    for folder in ("bin", "share/extension", "lib"):
        (root / folder).mkdir(parents=True)
    (root / "bin" / "postgres").touch()
    config = root / "bin" / "pg_config"
    told = ("PostgreSQL 15.1", root / "bin", root / "share", root / "lib")
    config.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in told))
    config.chmod(0o755)
    return root


def files(tree: Path) -> set[str]:
    return {str(file.relative_to(tree)) for folder in ("lib", "share")
            for file in (tree / folder).rglob("*") if file.is_file()}


def ours() -> set[str]:
    library, scripts = library_files()
    return {f"lib/{library.name}", *(f"share/extension/{script.name}" for script in scripts)}


def test_what_a_server_needs_is_put_in_its_places_and_taken_away_again(tree: Path) -> None:
    others = {"lib/other.so", "share/extension/privid_other.control", "share/extension/privid.txt"}
    for other in others:
        (tree / other).touch()
    before = run_privid("install", "--pg-config", tree / "bin" / "pg_config", "--dry-run").stdout
    assert before.count("would write") == len(ours()) and files(tree) == others
    run_privid("install", "--pg-config", tree / "bin" / "pg_config", umask=0o077)
    assert files(tree) == others | ours()
    library = library_files()[0]
    assert (tree / "lib" / "privid.so").read_bytes() == library.read_bytes()
    assert {stat.S_IMODE((tree / file).stat().st_mode) for file in ours()} == {0o644}
    again = run_privid("install", "--pg-config", tree / "bin" / "pg_config").stdout
    assert again.count("same") == len(ours())
    run_privid("uninstall", "--pg-config", tree / "bin" / "pg_config", "--dry-run")
    assert files(tree) == others | ours()
    run_privid("uninstall", "--pg-config", tree / "bin" / "pg_config")
    assert files(tree) == others
    told = run_privid("uninstall", "--pg-config", tree / "bin" / "pg_config").stdout
    assert "Nothing of privid is installed" in told


def test_scripts_of_a_later_version_go_as_well(tree: Path) -> None:
    (tree / "share/extension/privid--9.9.8--9.9.9.sql").touch()
    run_privid("uninstall", "--pg-config", tree / "bin" / "pg_config")
    assert files(tree) == set()


def test_a_file_that_is_in_use_is_replaced_and_not_overwritten(tree: Path) -> None:
    library = tree / "lib" / "privid.so"
    library.write_text("an older library")
    with library.open() as mapped:
        run_privid("install", "--pg-config", tree / "bin" / "pg_config")
        assert mapped.read() == "an older library"


def test_nothing_is_written_when_not_all_of_it_can_be(tree: Path) -> None:
    (tree / "share" / "extension").rmdir()
    done = run_privid("install", "--pg-config", tree / "bin" / "pg_config", check=False)
    assert done.returncode == 1 and "could not write to" in done.stderr
    assert "--pg-config" in done.stderr and files(tree) == set()


def test_who_may_not_write_there_is_told_who_may(tree: Path) -> None:
    for folder in ("lib", "share/extension"):
        (tree / folder).chmod(0o555)
    anybody: dict[str, Any] = {}
    if os.geteuid() == 0:
        anybody = {"user": 65534, "group": 65534, "extra_groups": []}
    done = run_privid("install", "--pg-config", tree / "bin" / "pg_config", check=False, **anybody)
    if "No module named" in done.stderr or "can't open file" in done.stderr:
        pytest.skip("the checkout is closed to other users")
    assert done.returncode == 1 and "Permission denied" in done.stderr
    assert "run the command as root" in done.stderr and files(tree) == set()


@pytest.mark.parametrize(("script", "told"), [
    ("printf 'PostgreSQL 14.9\\n/a\\n/b\\n/c\\n'", "not of PostgreSQL 15"),
    ("true", "is no pg_config"), ("exit 3", "could not run")])
def test_what_is_no_postgresql_15_is_refused(tree: Path, script: str, told: str) -> None:
    other = tree / "bin" / "other"
    other.write_text(f"#!/bin/sh\n{script}\n")
    other.chmod(0o755)
    for command in ("install", "uninstall"):
        done = run_privid(command, "--pg-config", other, check=False)
        assert done.returncode == 1 and told in done.stderr and "HINT" in done.stderr
