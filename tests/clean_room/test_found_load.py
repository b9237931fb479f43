"""What sessions of analysts compute takes nothing from the time of a release.

Found by attack: the evaluator, which carries rows to the room, ran at the priority of every session. Two dozen sessions in a loop made the
answer that of an empty input exactly if the event printed much; and where much was printed in any case, everybody's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from privid.room.description import parent_of
from privid.room.priority import QUICK, priority_of
from tests.conftest import RunningStack

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root raises priorities")

#: sessions, and seconds for which each computes
SESSIONS, SECONDS = 30, 12
#: as many rows as a chunk may have, as long as rows may be
BULKY = """#!/usr/bin/python3
import sys
text = chr(0x20000) * 1024
row = '{"v": 1, %s}\\n' % ", ".join('"%s": "%s"' % (name, text) for name in "abcdef")
sys.stdout.buffer.write(row.encode() * 640)
"""
PLAIN = """#!/bin/sh
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo '{"v": 1}'; done
"""
STATEMENT = "SELECT count(*) FROM (SELECT v FROM {plain} UNION ALL (SELECT v FROM {bulky} ORDER BY v LIMIT 1)) q"


@contextmanager
def computing(stack: RunningStack) -> Iterator[None]:
    def compute() -> None:
        with stack.connect() as connection, suppress(psycopg.errors.QueryCanceled):
            connection.execute(f"SET statement_timeout = '{SECONDS}s'".encode())
            connection.execute("DO $$ BEGIN LOOP END LOOP; END $$")

    threads = [threading.Thread(target=compute) for _ in range(SESSIONS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def test_sessions_that_compute_cut_no_release(stack: RunningStack, unique: Callable[[str], str], make_video: Callable[..., Path]) -> None:
    camera, plain, bulky = (unique(name) for name in ("busy", "plain", "bulky"))
    make_video(stack.videos / f"{camera}.mp4", [10] * 100)
    stack.camera(camera, f"{camera}.mp4", rho="1s", epsilon="1000000", quantum="5ms")
    stack.executable(plain, PLAIN)
    stack.executable(bulky, BULKY)
    stack.table(plain, camera, plain, max_rows="20")
    stack.table(bulky, camera, bulky, columns="v float8 DEFAULT 0, " + ", ".join(f"{name} text DEFAULT ''" for name in "abcdef"),
                end="2026-03-01 06:00:01+00", timeout="3s", max_rows="640")
    with stack.connect() as connection:
        connection.execute("SET privid.epsilon = 1000; SET privid.reuse = off")
        assert connection.execute(f"SELECT count(*) > 630 FROM {bulky} WHERE length(f) > 1000".encode()).fetchall() == [(True,)]
        statement = STATEMENT.format(plain=plain, bulky=bulky).encode()
        answers = connection.execute(statement).fetchall()
        with computing(stack):
            answers += [row for _ in range(4) for row in connection.execute(statement).fetchall()]
    assert [round(count, -1) for (count,) in answers] == [200] * len(answers), answers


def test_all_that_rows_pass_through_comes_before_sessions(stack: RunningStack) -> None:
    engine = stack.engine_pid()
    assert engine is not None
    raised = {name: [priority_of(pid) for pid in below(engine, name)] for name in ("evaluator", "reader")}
    assert all(found and set(found) == {QUICK} for found in raised.values()), raised
    assert QUICK < priority_of(engine) < 0


def below(engine: int, name: str) -> list[int]:
    """Processes of the engine with a module's name in their command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"privid.engine.{name}".encode() in (process / "cmdline").read_bytes() and parent_of(int(process.name)) == engine:
                found.append(int(process.name))
    return found
