"""Through a whole stack: releases that are cancelled leave nothing in the engine, and what is too large for it is refused before the
charge."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from privid.cli.processes import wait_until
from privid.sandbox.stock import HOLD
from tests.conftest import RunningStack

PROGRAM = "N = %d\ndef process(chunk):\n    yield {'v': 1.0}\n"
#: Threads and descriptors of servers that come and go.
SLACK = 12


def held(stack: RunningStack) -> dict[str, int]:
    engine = Path(f"/proc/{stack.engine_pid()}")
    return {
        "descriptors": len(list((engine / "fd").iterdir())),
        "threads": len(list((engine / "task").iterdir())),
        "mounts": len((engine / "mountinfo").read_text().splitlines()),
        "files": len(list((engine / "root" / (stack.data / "engine.scratch").read_text().strip().lstrip("/")).iterdir())),
    }


def cancelled(stack: RunningStack, table: str, after: float) -> None:
    with stack.connect() as connection:
        connection.execute("SET privid.epsilon = '1e-6'")
        timer = threading.Timer(after, connection.cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(f"SELECT count(*) FROM {table}".encode())
        timer.join()


def test_releases_that_are_cancelled_leave_nothing_in_the_engine(stack: RunningStack, make_video: Callable[..., Path]) -> None:
    make_video(stack.videos / "long.mp4", [number % 200 for number in range(2000)])
    stack.camera("long", "long.mp4", rho="1s", epsilon="1000")
    stack.executable("hasty", PROGRAM % 0)
    stack.table("hasty", "long", "hasty", columns="chunk timestamptz, v float8 DEFAULT 0", end="2026-03-01 06:03:20+00", chunk="0.1s",
                timeout="2ms", max_rows="1")
    cancelled(stack, "hasty", 2)
    time.sleep(HOLD + 3)
    before = held(stack)
    for number in range(1, 4):
        stack.executable("hasty", PROGRAM % number)
        cancelled(stack, "hasty", 2.5)
    assert wait_until(lambda: all(now <= before[name] + SLACK for name, now in held(stack).items()), 2 * HOLD), (before, held(stack))
