"""Through a whole stack: attached files reach the program and are part of what it is; progress comes from the timetable; runtimes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from privid.cli.processes import wait_until
from tests.conftest import RunningStack

WEIGHTED = """
weight = float(open('/app/files/weight.txt').read())
def process(chunk):
    yield {'v': weight * float(chunk.frames[0, 0, 0, 0])}
"""
SIX = "2026-03-01 06:00:06+00"
SUM = "SELECT count(*), sum(range(v, 0, 1000)) FROM {}"


@pytest.fixture(scope="module")
def camera(stack: RunningStack, make_video: Callable[..., Path]) -> str:
    make_video(stack.videos / "attached.mp4", [level for level in (1, 2, 3, 4, 5, 6) for _ in range(10)])
    stack.camera("attached", "attached.mp4")
    return "attached"


def total(stack: RunningStack, table: str) -> tuple[Any, ...]:
    return stack.run(SUM.format(table))[0]


def test_another_file_is_another_program_and_the_same_file_runs_nothing_again(stack: RunningStack, camera: str) -> None:
    stack.executable("weighted", WEIGHTED)
    stack.run("SELECT privid.attach('weighted', 'weight.txt', %s)", b"2")
    stack.table("weighted", camera, "weighted", end=SIX, timeout="300ms", max_rows="1")
    assert total(stack, "weighted") == (6, 42)
    stack.run("SELECT privid.attach('weighted', 'weight.txt', %s)", b"3")
    assert total(stack, "weighted") == (6, 63)
    begun = time.monotonic()
    assert total(stack, "weighted") == (6, 63)
    assert time.monotonic() - begun < 1


def test_attached_files_belong_to_their_role_alone(stack: RunningStack, camera: str) -> None:
    stack.executable("kept", WEIGHTED)
    stack.run("SELECT privid.attach('kept', 'weight.txt', %s)", b"2")
    assert stack.run("SELECT count(*) FROM privid.attachments WHERE executable = 'kept'") == [(1,)]
    assert stack.run("SELECT count(*) FROM privid.attachments", user="owner") == [(0,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stack.run("SELECT count(*) FROM privid.attachment_store", user="owner")
    with pytest.raises(psycopg.Error, match='executable "kept" does not exist'):
        stack.run("SELECT privid.attach('kept', 'weight.txt', 'x')", user="owner")
    with pytest.raises(psycopg.Error, match="invalid name for an attached file"):
        stack.run("SELECT privid.attach('kept', '../weight.txt', 'x')")
    with pytest.raises(psycopg.Error, match="has 0 bytes"):
        stack.run("SELECT privid.attach('kept', 'empty', '')")


def test_progress_is_told_while_a_table_is_read_and_names_it_to_its_owner_only(stack: RunningStack, camera: str) -> None:
    stack.executable("slow", "def process(chunk):\n    yield {'v': 1}\n")
    stack.table("slow", camera, "slow", end=SIX, timeout="900ms", max_rows="1")
    assert wait_until(lambda: stack.run("SELECT count(*) FROM privid.progress") == [(0,)], 10)
    thread = threading.Thread(target=total, args=(stack, "slow"))
    thread.start()
    seen: list[tuple[Any, ...]] = []
    deadline = time.monotonic() + 15
    while thread.is_alive() and time.monotonic() < deadline:
        seen += stack.run('SELECT camera, "table", slots, slots_over, percent FROM privid.progress')
        seen += stack.run('SELECT camera, "table", slots, slots_over, percent FROM privid.progress', user="owner")
        time.sleep(0.3)
    thread.join()
    assert {row[0] for row in seen} == {camera}
    assert {row[1] for row in seen} == {"slow", None}
    assert {row[2] for row in seen} == {6}
    over = [row[3] for row in seen if row[1] == "slow"]
    assert over[0] < over[-1] <= 6
    assert wait_until(lambda: stack.run("SELECT count(*) FROM privid.progress") == [(0,)], 10)


def test_a_table_names_its_runtime_and_cold_starts_are_the_owners_to_force(stack: RunningStack, camera: str) -> None:
    stack.executable("plain", "import os\ndef process(chunk):\n    yield {'v': os.getpid()}\n")
    stack.table("plain_warm", camera, "plain", end=SIX, timeout="400ms", max_rows="1")
    assert total(stack, "plain_warm") == (6, 6)  # each is process 1 of its own
    stack.camera("attached_cold", "attached.mp4", warm="off")
    stack.table("plain_cold", "attached_cold", "plain", end="2026-03-01 06:00:01+00", timeout="3s", max_rows="1")
    assert total(stack, "plain_cold") == (1, 2)
    with pytest.raises(psycopg.Error, match="needs an interpreter"):
        stack.table("plain_none", camera, "plain", end=SIX, timeout="400ms", max_rows="1", runtime="none")
    with pytest.raises(psycopg.Error, match='invalid value for option "runtime"'):
        stack.table("plain_odd", camera, "plain", end=SIX, timeout="400ms", max_rows="1", runtime="ruby")
