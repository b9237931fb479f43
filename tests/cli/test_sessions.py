"""What runs as another user has no terminal of ours: that user could stop it there, take it over, and type in our place."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.conftest import REPOSITORY

ROOMS = ("calculus", "cli", "core", "engine", "fdw", "language", "ledger", "room", "sandbox", "udf", "video")
#: programs that run as whoever starts them, and are awaited
OWN = {"cli/archive.py": 2, "cli/demo.py": 2, "core/postgres_build.py": 1, "sandbox/root.py": 1,
       "sandbox/rootfs.py": 2, "sandbox/runtime.py": 2}


def starts(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name) and node.func.value.id == "subprocess" and node.func.attr in ("run", "Popen")]


def test_every_process_that_may_be_somebody_elses_has_a_session_of_its_own() -> None:
    found: dict[str, int] = {}
    for path in (file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py")):
        if open_ := [call for call in starts(path) if "start_new_session" not in {keyword.arg for keyword in call.keywords}]:
            found[path.relative_to(REPOSITORY).as_posix()] = len(open_)
            assert not any(keyword.arg in (None, "user") for call in open_ for keyword in call.keywords), path
    assert found == OWN
