"""Kills in a whole stack, from psql's end: backends, the real engine and the postmaster die at random moments while clients ask.

For every answer that a client has seen there must be a committed charge with that very answer, the budget must be what all charges leave,
and privid up must bring everything back.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from privid.cli.postgres import Postgres
from tests.conftest import RunningStack, run_privid, write_video

EPSILON = "0.001"


class Client(threading.Thread):
    """Asks one question after the other, each of them new, and keeps the answers it has seen."""

    def __init__(self, stack: RunningStack, number: int) -> None:
        super().__init__()
        self.seen: dict[str, Any] = {}
        self.enough = threading.Event()
        self._stack, self._number = stack, number

    def run(self) -> None:
        turn = 0
        while not self.enough.is_set():
            try:
                with self._stack.connect() as connection:
                    connection.execute(f"SET privid.epsilon = {EPSILON}".encode())
                    while not self.enough.is_set():
                        turn += 1
                        question = f"SELECT count(*) FROM victims WHERE v > {self._number}.{turn:06d}"
                        self.seen[question] = connection.execute(question.encode()).fetchall()[0][0]
            except psycopg.Error:
                time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="privid-kills-"))
    directory.chmod(0o755)
    begun = time.monotonic()
    try:
        stack = RunningStack(directory / "stack")
        stack.up()
        try:
            seen, kills = massacre(stack, options.kills, random.Random(options.seed))
        finally:
            run_privid("down", "--data", stack.data)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{options.kills} kills ({', '.join(f'{n} of {what}' for what, n in kills.items())}) in {time.monotonic() - begun:.0f} s: "
          f"{seen} answers seen, all paid for")


def massacre(stack: RunningStack, kills: int, chosen: random.Random) -> tuple[int, Counter[str]]:
    write_video(stack.videos / "victims.mp4", [i // 10 for i in range(20)])
    stack.camera("victims", "victims.mp4", rho="1s", epsilon="1000000", quantum="1ms")
    stack.executable("one", "#!/bin/sh\necho '{\"v\": 1}'\n")
    stack.table("victims", "victims", "one", timeout="60ms", end="2026-03-01 06:00:02+00")
    clients, counted = [Client(stack, number) for number in range(3)], Counter[str]()
    for client in clients:
        client.start()
    try:
        wait_for_answers(clients)
        for _ in range(kills):
            time.sleep(chosen.uniform(0, 0.5))
            victim = chosen.choices(["backend", "engine", "postmaster"], [5, 3, 2])[0]
            kill(stack, victim, chosen)
            counted[victim] += 1
            stack.up()
            wait_for_answers(clients)
    finally:
        for client in clients:
            client.enough.set()
        for client in clients:
            client.join()
    return check(stack, {question: answer for client in clients for question, answer in client.seen.items()}), counted


def kill(stack: RunningStack, victim: str, chosen: random.Random) -> None:
    if victim == "engine":
        pid = stack.engine_pid()
    elif victim == "postmaster":
        pid = Postgres(stack.layout).pid()
    else:
        rows = stack.run("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
                         user="privid")
        pid = chosen.choice(rows)[0] if rows else None
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_for_answers(clients: list[Client]) -> None:
    before = [len(client.seen) for client in clients]
    end = time.monotonic() + 60
    while any(len(client.seen) <= n for client, n in zip(clients, before, strict=True)):
        assert time.monotonic() < end, "a client has not been answered for a minute"
        time.sleep(0.02)


def check(stack: RunningStack, seen: dict[str, Any]) -> int:
    rows = stack.run("SELECT query, answer #>> '{0,0}' FROM privid.releases WHERE state = 'answered'", user="privid")
    logged: dict[str, str] = dict(rows)
    for question, answer in seen.items():
        assert logged.get(question) == str(answer), question
    charges, spent = stack.run("""SELECT (SELECT count(*) FROM privid.release_charges), (SELECT max(spent) FROM privid.ledger_levels)""",
                               user="privid")[0]
    assert spent * 1000 == charges, (spent, charges)
    assert stack.run("SELECT * FROM privid.verify_history()", user="owner") == []
    return len(seen)


if __name__ == "__main__":
    main()
