"""Runtimes, and what the machine offers."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from privid.errors import SandboxFailed
from privid.sandbox import capabilities, runtime
from privid.sandbox.capabilities import Status, lanes, survey
from privid.sandbox.runtime import RUNTIMES, build_runtime, find_runtime


def test_a_built_runtime_is_found_at_once_and_is_complete_and_closed() -> None:
    built = build_runtime()
    assert find_runtime() == built
    assert json.loads((built.root / "privid-runtime.json").read_text())["requirements"] == list(RUNTIMES["python"])
    assert built.root.name == f"python-{built.digest}"
    for path in [built.root, *built.root.rglob("*")]:
        mode = path.lstat().st_mode
        assert stat.S_ISLNK(mode) or (mode & 0o004 and not mode & 0o022), path


def test_the_command_prints_the_path_of_the_runtime() -> None:
    done = subprocess.run([sys.executable, "-m", "privid.sandbox.runtime"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(build_runtime(name).root) for name in ("python", "none")]


def test_a_missing_runtime_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runtime, "_SYSTEM_HOME", tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(SandboxFailed, match='runtime "python" is not built') as failure:
        find_runtime()
    assert failure.value.hint == "Run: python -m privid.sandbox.runtime."
    with pytest.raises(SandboxFailed, match='runtime "ruby" does not exist'):
        find_runtime("ruby")


def test_another_list_of_packages_is_another_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    before = find_runtime().digest
    monkeypatch.setitem(RUNTIMES, "python", ("numpy==1.0",))
    assert runtime._digest("python") != before


def test_the_survey_names_every_need_and_finds_the_sandbox_working() -> None:
    findings = {finding.name: finding for finding in survey()}
    assert set(findings) == {"bubblewrap", "user namespaces", "AppArmor", "seccomp", "control groups", "warm starts", "users", "processes",
                             "runtime", "cores", "priorities", "RAM", "/dev/shm"}
    for name in ("bubblewrap", "seccomp", "runtime"):
        assert findings[name].status is Status.PASS
    for finding in findings.values():
        assert finding.found
        assert finding.status is Status.PASS or finding.remedy.endswith(".")
    assert findings["users"].status is (Status.PASS if os.geteuid() == 0 else Status.CAUTION)
    assert lanes() >= 1


def test_the_survey_counts_with_the_lanes_that_were_asked_for() -> None:
    one, eight = ({finding.name: finding for finding in survey(lanes)} for lanes in (1, 8))
    gib = [float(re.search(r"up to ([\d.]+) GiB", found["RAM"].found)[1]) for found in (one, eight)]  # type: ignore[index]
    assert gib[1] - 1 == pytest.approx(8 * (gib[0] - 1), abs=1)  # a GiB for the engine
    crowded = {finding.name: finding for finding in survey(len(os.sched_getaffinity(0)))}["cores"]
    assert crowded.status is Status.CAUTION and "asked for" in crowded.found


def test_a_bubblewrap_that_does_not_work_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "find_bwrap", lambda: "/bin/false")
    finding = survey()[0]
    assert (finding.name, finding.status) == ("bubblewrap", Status.FAIL)
    assert finding.remedy
