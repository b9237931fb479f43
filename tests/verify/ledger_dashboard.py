"""A dashboard of twenty panels refreshes a thousand times, and spends what the first refresh spent."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from tests.conftest import RunningStack, run_privid, write_video


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=20)
    parser.add_argument("--refreshes", type=int, default=1000)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="privid-dashboard-"))
    directory.chmod(0o755)
    begun = time.monotonic()
    try:
        stack = RunningStack(directory / "stack")
        stack.up()
        try:
            spent = refresh(stack, options.panels, options.refreshes)
        finally:
            run_privid("down", "--data", stack.data)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{options.panels} panels, {options.refreshes} refreshes in {time.monotonic() - begun:.0f} s: epsilon {spent} spent by the first "
          "and by all")


def refresh(stack: RunningStack, panels: int, refreshes: int) -> str:
    write_video(stack.videos / "board.mp4", [i // 10 for i in range(20)])
    stack.camera("board", "board.mp4", rho="1s", epsilon="10", quantum="1ms")
    stack.executable("one", "#!/bin/sh\necho '{\"v\": 1}'\n")
    stack.table("board", "board", "one", timeout="60ms", end="2026-03-01 06:00:02+00")
    statements = [f"SELECT count(*) FROM board WHERE v > {number}".encode() for number in range(panels)]
    with stack.connect() as connection:
        connection.execute("SET privid.epsilon = 0.1")
        first = [connection.execute(statement).fetchall() for statement in statements]
        spent = stack.run("SELECT frames::text, remaining::text FROM privid.budget ORDER BY 1")
        for _ in range(refreshes - 1):
            assert [connection.execute(statement).fetchall() for statement in statements] == first
    assert stack.run("SELECT frames::text, remaining::text FROM privid.budget ORDER BY 1") == spent
    assert stack.run("SELECT count(*) FROM privid.releases", user="privid") == [(panels,)]
    return str(stack.run("SELECT 10 - min(remaining) FROM privid.budget")[0][0])


if __name__ == "__main__":
    main()
