"""What was charged stays charged, however a session ends, and nobody gets what another has taken."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from .conftest import World
from .world import seconds

ONE = "SET privid.reuse = off; SET privid.epsilon = 1"


@pytest.fixture
def camera(world: World, unique: Callable[[str], str], make_video: Callable[..., Path]) -> str:
    """A camera and table of the test's own, with footage and so a budget of its own."""
    name = unique("budget")
    make_video(world.stack.videos / f"{name}.mp4", seconds(random.Random(name).choices(range(200), k=10)))
    world.stack.camera(name, f"{name}.mp4", rho="1s", epsilon="100000", quantum="20ms")
    make_table(world, name)
    return name


def make_table(world: World, name: str) -> None:
    world.stack.table(name, name, "world", columns="chunk timestamptz, v float8 DEFAULT 0", max_rows="4", timeout="300ms",
                      end="2026-03-01 06:00:02+00")


@pytest.fixture
def slow(world: World, camera: str) -> str:
    """A table whose release takes ten seconds, of a program that nothing has run before."""
    world.stack.executable(camera, f"#!/bin/sh\necho '{{\"v\": 1}}' # {camera}\n".encode())
    world.stack.table(camera + "_slow", camera, camera, max_rows="1", timeout="900ms")
    return camera + "_slow"


def test_each_execution_of_a_prepared_statement_is_charged(world: World, camera: str) -> None:
    before = world.spent(camera)
    with world.connect() as connection:
        connection.execute(ONE.encode())
        connection.execute(f"PREPARE q(float8) AS SELECT count(*) FROM {camera} WHERE v > $1".encode())
        answers = [connection.execute("EXECUTE q(3)").fetchall()[0][0] for _ in range(10)]
    assert world.spent(camera) == before + 10
    assert len(set(answers)) > 1


def test_an_identical_release_is_answered_again_for_nothing_unless_fresh_noise_is_asked_for(world: World, camera: str) -> None:
    statement = f"SELECT count(*), sum(range(v, 0, 5)) FROM {camera} WHERE v < 77"
    first = world.rows(statement, epsilon="1")
    spent = world.spent(camera)
    assert [world.rows(statement, epsilon="1") for _ in range(5)] == [first] * 5
    assert world.spent(camera) == spent
    world.rows(statement, epsilon="1", reuse="off")
    assert world.spent(camera) == spent + 1
    world.rows(statement, epsilon="2")
    assert world.spent(camera) == spent + 3


def test_rollback_gives_nothing_back(world: World, camera: str) -> None:
    before = world.spent(camera)
    with world.connect(autocommit=False) as connection:
        connection.execute(ONE.encode())
        connection.execute("SAVEPOINT s")
        connection.execute(f"SELECT count(*) FROM {camera}".encode())
        connection.execute("ROLLBACK TO s")
        connection.rollback()
    assert world.spent(camera) == before + 1


def test_an_error_after_the_release_gives_nothing_back(world: World, camera: str) -> None:
    before = world.spent(camera)
    with world.connect() as connection:
        connection.execute(ONE.encode())
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute(f"SELECT 1 / (count(*) - count(*)) FROM {camera}".encode())
    assert world.spent(camera) == before + 1


def in_background(world: World, table: str) -> tuple[threading.Thread, list[Any], int]:
    """A release of ten seconds under way; what became of it; the backend it runs in."""
    connection = world.connect()
    connection.execute(ONE.encode())
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchall())
        except psycopg.Error as error:
            results.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    pid = connection.info.backend_pid
    thread.start()
    return thread, results, pid


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_cancel_ends_the_work_at_once_and_gives_nothing_back(world: World, camera: str, slow: str) -> None:
    before = world.spent(camera)
    thread, results, pid = in_background(world, slow)
    assert wait_for(lambda: world.spent(camera) == before + 1)
    time.sleep(0.5)
    began = time.monotonic()
    world.rows(f"SELECT pg_cancel_backend({pid})", user="privid")
    thread.join(5)
    assert isinstance(results[0], psycopg.errors.QueryCanceled) and time.monotonic() - began < 2
    assert world.spent(camera) == before + 1
    # the lane is free again: another release of one slot need not wait for the nine that were left
    began = time.monotonic()
    world.rows(f"SELECT count(*) FROM {slow} WHERE chunk = '2026-03-01 06:00:09+00'", epsilon="0.001")
    assert time.monotonic() - began < 4


def test_a_statement_timeout_gives_nothing_back(world: World, camera: str, slow: str) -> None:
    before = world.spent(camera)
    with world.connect() as connection:
        connection.execute(ONE.encode())
        connection.execute("SET statement_timeout = '1s'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(f"SELECT count(*) FROM {slow}".encode())
    assert world.spent(camera) == before + 1


def test_killing_the_backend_gives_nothing_back(world: World, camera: str, slow: str) -> None:
    before = world.spent(camera)
    thread, results, pid = in_background(world, slow)
    assert wait_for(lambda: world.spent(camera) == before + 1)
    os.kill(pid, signal.SIGKILL)
    thread.join(10)
    assert isinstance(results[0], psycopg.OperationalError)

    def charged() -> bool:
        try:
            return world.spent(camera) == before + 1
        except psycopg.Error:  # PostgreSQL restarts after a crash
            return False

    assert wait_for(charged, 20)
    assert wait_for(lambda: len(works(world, camera)) == 1, 20)


def works(world: World, table: str) -> list[Any]:
    try:
        return world.rows(f"SELECT count(*) FROM {table}", epsilon="0.001")
    except psycopg.Error:
        return []


def test_killing_the_engine_gives_nothing_back(world: World, camera: str, slow: str) -> None:
    before = world.spent(camera)
    thread, results, _ = in_background(world, slow)
    assert wait_for(lambda: world.spent(camera) == before + 1)
    world.stack.kill_engine()
    thread.join(10)
    assert isinstance(results[0], psycopg.Error) and results[0].sqlstate == "PV004"
    with pytest.raises(psycopg.Error) as caught:
        world.rows(f"SELECT count(*) FROM {camera}")
    assert caught.value.sqlstate == "PV004" and "privid up" in (caught.value.diag.message_hint or "")
    world.stack.up()
    assert world.spent(camera) == before + 1
    assert works(world, camera)


def test_of_two_sessions_racing_for_the_last_epsilon_exactly_one_gets_it(world: World, camera: str) -> None:
    statement = f"SELECT count(*) FROM {camera} WHERE chunk = '2026-03-01 06:00:01+00'".encode()
    world.rows(statement.decode())
    spent = world.spent(camera)
    with world.connect() as one, world.connect() as other, world.connect("owner") as owner:
        sessions = [one, other]
        for connection in sessions:
            connection.execute(ONE.encode())
        outcomes: list[int] = []
        for turn in range(80):
            owner.execute(f"ALTER SERVER {camera} OPTIONS (SET epsilon '{spent + turn + 1}')".encode())
            won: list[int] = []
            start = threading.Barrier(2)

            def race(connection: psycopg.Connection[Any], won: list[int] = won, start: threading.Barrier = start) -> None:
                start.wait()
                try:
                    connection.execute(statement)
                    won.append(1)
                except psycopg.Error as error:
                    assert error.sqlstate == "PV003", error
                    won.append(0)

            threads = [threading.Thread(target=race, args=(connection,)) for connection in sessions]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            outcomes.append(sum(won))
    assert outcomes == [1] * 80
    assert world.spent(camera) == spent + 80


def test_no_renaming_or_making_anew_refills_a_budget(world: World, camera: str) -> None:
    world.rows(f"SELECT count(*) FROM {camera}", epsilon="3", reuse="off")
    spent = world.spent(camera)
    world.rows(f"ALTER SERVER {camera} RENAME TO {camera}_r", user="owner")
    world.rows(f"SELECT count(*) FROM {camera}", epsilon="0.001", reuse="off")
    assert world.spent(camera + "_r") == pytest.approx(spent + 0.001)
    world.rows(f"DROP SERVER {camera}_r CASCADE", user="owner")
    world.stack.camera(camera, f"{camera}.mp4", rho="1s", epsilon="100000")
    make_table(world, camera)
    world.rows(f"SELECT count(*) FROM {camera}", epsilon="0.001", reuse="off")
    assert world.spent(camera) == pytest.approx(spent + 0.002)


def test_an_exhausted_budget_is_refused_with_numbers_and_place(world: World, camera: str) -> None:
    world.rows(f"SELECT count(*) FROM {camera}", epsilon="1", reuse="off")
    world.rows(f"ALTER SERVER {camera} OPTIONS (SET epsilon '{world.spent(camera) + 0.25}')", user="owner")
    with pytest.raises(psycopg.Error) as caught:
        world.rows(f"SELECT count(*) FROM {camera}", epsilon="0.5", reuse="off")
    assert caught.value.sqlstate == "PV003"
    assert "0.5" in str(caught.value) and "0.25" in str(caught.value) and "2026-03-01" in str(caught.value)
    assert caught.value.diag.message_hint
    world.rows(f"SELECT count(*) FROM {camera}", epsilon="0.25", reuse="off")
