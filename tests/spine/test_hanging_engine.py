"""An engine that does not answer keeps nobody: whoever waits for it can be cancelled, and sent away."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from privid.cli.processes import wait_until

from .conftest import World


@contextmanager
def hanging(world: World, full: bool) -> Iterator[None]:
    """The engine stands still; if full, so many wait at its socket that the system lets nobody else connect."""
    pid = world.stack.engine_pid()
    path = world.rows("SHOW privid.socket", user="privid")[0][0]
    os.kill(pid, signal.SIGSTOP)
    try:
        with ExitStack() as held:
            while full:
                waiting = held.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                try:
                    waiting.connect(path)
                except BlockingIOError:
                    break
            yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("full", [False, True], ids=["accepts", "full"])
def test_a_statement_that_waits_for_the_engine_can_be_cancelled_and_terminated(world: World, full: bool) -> None:
    with world.connect() as cancelled, world.connect() as terminated, ThreadPoolExecutor() as pool, hanging(world, full):
        asked = [pool.submit(connection.execute, "EXPLAIN SELECT count(*) FROM calm") for connection in (cancelled, terminated)]
        pids = [connection.info.backend_pid for connection in (cancelled, terminated)]
        assert wait_until(lambda: world.rows(f"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND "
                                             f"pid IN ({pids[0]}, {pids[1]})", user="privid") == [(2,)] or full, 10)
        cancelled.cancel()
        world.rows(f"SELECT pg_terminate_backend({pids[1]})", user="privid")
        with pytest.raises(psycopg.errors.QueryCanceled):
            asked[0].result(5)
        with pytest.raises(psycopg.errors.AdminShutdown):
            asked[1].result(5)


def test_a_statement_that_found_no_place_at_the_engine_goes_on_when_there_is_one(world: World) -> None:
    with world.connect() as connection, ThreadPoolExecutor() as pool:
        with hanging(world, full=True):
            asked = pool.submit(connection.execute, "EXPLAIN SELECT count(*) FROM calm")
            assert wait_until(lambda: world.rows(f"SELECT state FROM pg_stat_activity WHERE pid = {connection.info.backend_pid}",
                                                 user="privid") == [("active",)], 10)
            assert not asked.done()
        assert asked.result(20).fetchall()
