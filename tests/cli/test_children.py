"""What runs as another user than the one who started it has nothing of ours: no terminal, no file that we happened to have open.

Whoever is that user can stop such a process and take its descriptors, and with a terminal type what root would have typed.
"""

from __future__ import annotations

import ast
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

from .stranger import UID

#: what starts processes as ourselves alone, which may show what goes on
_AS_OURSELVES = {"cli/archive.py": "pg_restore", "cli/demo.py": "the command line and psql", "core/postgres_build.py": "pg_config",
                 "sandbox/root.py": "cp", "sandbox/rootfs.py": "Debian's Python and loader", "sandbox/runtime.py": "pip and compileall"}

#: in place of each process: says what it has, then becomes it
_PROBE = """
import json, os, sys
with open(sys.argv[1], "a") as report:
    json.dump({"command": sys.argv[2:], "files": [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                                                  if n != str(report.fileno()) and os.path.lexists(f"/proc/self/fd/{n}")],
               "terminal": int(open("/proc/self/stat").read().rpartition(")")[2].split()[4]), "cwd": os.getcwd(),
               "environment": sorted(os.environ)}, report)
    report.write("\\n")
os.execvp(sys.argv[2], sys.argv[2:])
"""
#: starts what steps down, on a terminal, with a file open that everybody would inherit
_START = """
import os, subprocess, sys
from pathlib import Path
report, uid, probe = sys.argv[1], int(sys.argv[2]), sys.argv[3]
class Probed(subprocess.Popen):
    def __init__(self, command, **options):
        super().__init__(["/usr/bin/python3", "-I", "-c", probe, report, *command], **options)
os.set_inheritable(os.open(report + ".secret", os.O_RDWR | os.O_CREAT), True)
from privid.cli.layout import Account
from privid.room.user import RoomUser
from privid.sandbox.capabilities import _bubblewrap
from privid.video.process import Worker
subprocess.Popen = Probed
assert Account(uid, uid, ()).reaches(Path("/usr"))
assert not Account(uid, uid, ()).reaches(Path(report + ".closed"))
assert RoomUser(uid, uid).reaches(Path("/usr"))
assert _bubblewrap().status.value == "PASS"
Worker().close()
"""


def _calls(file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) \
                and node.func.value.id == "subprocess" and node.func.attr in ("run", "Popen", "call", "check_call", "check_output"):
            yield node


def test_every_process_is_told_what_it_has() -> None:
    """Who writes the next one shall not forget it."""
    found, bare = 0, []
    for file in sorted(path for room in ("cli", "core", "engine", "ledger", "room", "sandbox", "udf", "video")
                       for path in (REPOSITORY / room).rglob("*.py")):
        name = str(file.relative_to(REPOSITORY))
        for call in _calls(file) if name not in _AS_OURSELVES else ():
            given = {keyword.arg for keyword in call.keywords}
            given |= {"stdin"} if "input" in given else set()
            given |= {"stdout", "stderr"} if "capture_output" in given else set()
            missing = {"stdin", "stdout", "stderr", "cwd", "env", "start_new_session"} - given
            found += 1
            bare += [f"{name}:{call.lineno}: {', '.join(sorted(missing))}"] if missing else []
    assert found > 15 and bare == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes as others")
def test_processes_of_other_users_have_neither_a_terminal_nor_files_of_ours(reachable_directory: Path) -> None:
    report = reachable_directory / "report"
    report.touch()
    report.chmod(0o666)
    Path(f"{report}.closed").mkdir(mode=0o700)
    master, terminal = pty.openpty()
    command = ["setsid", "--ctty", "--wait", sys.executable, "-c", _START, str(report), str(UID), _PROBE]
    environment = {"PATH": os.environ["PATH"], "MY_SECRET": "1"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as started:
        os.close(terminal)
        said = b""
        with suppress(OSError):  # the terminal has nobody left
            while piece := os.read(master, 4096):
                said += piece
        os.close(master)
    assert started.returncode == 0, said.decode()
    processes = [json.loads(line) for line in report.read_text().splitlines()]
    assert len(processes) >= 5
    for process in processes:
        assert process["terminal"] == 0, process
        assert [name for name in process["files"] if name.startswith(("/dev/pts", "/dev/tty", str(report)))] == [], process
        assert process["cwd"] == "/" and "MY_SECRET" not in process["environment"], process
