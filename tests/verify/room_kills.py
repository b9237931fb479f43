"""Kills under sixteen sessions, at random moments, and everything goes on.

Who dies: the engine, its evaluator, backends of running releases, the engine's own PostgreSQL and
its backends.
Clients get answers or the engine's public error, every answer is paid for, what died comes back,
and in the end nothing is left: no process, no directory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from privid.cli.processes import identity, wait_until
from tests.conftest import RunningStack, run_privid, write_video
from tests.guard import guarded

from .room_processes import Room, command, descendants, standing

__all__ = ["Massacre", "main", "massacre"]

EPSILON = "0.001"
SESSIONS = 16
#: how long anything may take to go on after a kill; far more than it takes
PATIENCE = 60.0

#: What a client may hear beside an answer: that the engine is not there or was lost, or that its
#: own server is going or coming.
_EXPECTED = ("PV004", "57P01", "57P02", "57P03", "08000", "08001", "08003", "08006")

_ASKED = ("count(*)", "sum(range(v, 0, 10))", "count(DISTINCT v)", "count(v)")


class Client(threading.Thread):
    """Asks one new question after the other; keeps answers, and errors nobody should hear."""

    def __init__(self, stack: RunningStack, number: int) -> None:
        super().__init__(daemon=True)
        self.seen: dict[str, str] = {}
        self.errors: Counter[str] = Counter()
        self.strange: list[str] = []
        self.enough = threading.Event()
        self._stack, self._number, self._turn = stack, number, 0

    def run(self) -> None:
        while not self.enough.is_set():
            try:
                with self._stack.connect() as connection:
                    connection.execute(f"SET privid.epsilon = {EPSILON}".encode())
                    while not self.enough.is_set():
                        question = self._question()
                        rows = connection.execute(question.encode()).fetchall()
                        self.seen[question] = str(rows[0][0])
            except psycopg.Error as error:
                self.errors[error.sqlstate or "lost"] += 1
                if error.sqlstate is not None and error.sqlstate not in _EXPECTED:
                    self.strange.append(f"{error.sqlstate} {error}")
                self.enough.wait(0.2)

    def _question(self) -> str:
        self._turn += 1
        asked = _ASKED[self._turn % len(_ASKED)]
        return f"SELECT {asked} FROM victims WHERE v > {self._number}.{self._turn:06d}"


@dataclass
class Massacre:
    """Clients, a killer, and what was seen on the way."""

    stack: RunningStack
    chosen: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    clients: list[Client] = field(default_factory=list)
    #: what must be gone in the end; processes with what no other process is called
    processes: dict[int, str] = field(default_factory=dict)
    directories: set[Path] = field(default_factory=set)

    def run(self, kills: int) -> None:
        self.clients = [Client(self.stack, number) for number in range(SESSIONS)]
        for client in self.clients:
            client.start()
        try:
            self.wait_for_answers("the start")
            for _ in range(kills):
                time.sleep(self.chosen.uniform(0, 0.3))
                victim = self.kill()
                self.wait_for_answers(f"the death of the {victim}", SESSIONS // 4)
            self.wait_for_answers("the last kill")
        finally:
            for client in self.clients:
                client.enough.set()
            for client in self.clients:
                client.join(PATIENCE)
        strange = [text for client in self.clients for text in client.strange]
        assert not strange, f"clients heard {len(strange)} other errors: {strange[:3]}"

    def kill(self) -> str:
        """Something dies; what does not come back by itself is started again."""
        engine = self.stack.engine_pid()
        room = Room.of(engine)
        self.remember(engine, room)
        evaluators = [pid for pid in descendants(engine) if "privid.engine.evaluator" in command(pid)]
        there = {"engine": 1, "backend": 2, "room": 2 if room.postmaster else 0,
                 "room's backend": 4 if room.backends else 0, "evaluator": 2 if evaluators else 0}
        victim = self.chosen.choices(list(there), list(there.values()))[0]
        pid = {"engine": engine, "backend": self.releasing(), "room": room.postmaster,
               "room's backend": self.chosen.choice(room.backends or [0]) or None,
               "evaluator": next(iter(evaluators), None)}[victim]
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills[victim] += 1
        if victim == "engine" and engine is not None:
            assert wait_until(lambda: identity(engine) is None, 10)
            self.stack.up()
            assert wait_until(lambda: not self.living(room.everything), 20), \
                "the room of an engine that died lives on beside that of the next one"
        return victim

    def releasing(self) -> int | None:
        """A backend of the served PostgreSQL in which a release is under way."""
        with contextlib.suppress(psycopg.Error):
            rows = self.stack.run("SELECT pid FROM pg_stat_activity WHERE state = 'active' "
                                  "AND query LIKE 'SELECT%FROM victims%'", user="privid")
            return int(self.chosen.choice(rows)[0]) if rows else None
        return None

    def remember(self, engine: int | None, room: Room) -> None:
        for pid in (*([engine] if engine else []), *descendants(engine)):
            if (name := identity(pid)) is not None:
                self.processes[pid] = name
        self.directories |= room.directories

    def living(self, pids: list[int]) -> list[int]:
        """Of processes that were seen, those that are there and are no others."""
        return [pid for pid in pids if identity(pid) == self.processes.get(pid, "")]

    def wait_for_answers(self, after: str, enough: int = SESSIONS) -> None:
        """Until so many clients have been answered once more: nothing is stuck."""
        before = [len(client.seen) for client in self.clients]

        def answered() -> bool:
            now = [len(client.seen) for client in self.clients]
            return sum(n > was for n, was in zip(now, before, strict=True)) >= enough

        assert wait_until(answered, PATIENCE), f"clients are not answered any more after {after}"

    @property
    def answers(self) -> dict[str, str]:
        return {question: answer for client in self.clients
                for question, answer in client.seen.items()}

    def check_paid(self) -> None:
        """Each answer is logged with its charge, and what is spent is the sum of all charges."""
        rows = self.stack.run("SELECT query, answer #>> '{0,0}' FROM privid.releases "
                              "WHERE state = 'answered'", user="privid")
        logged = {str(question): answer for question, answer in rows}
        unpaid = [question for question, answer in self.answers.items()
                  if logged.get(question) != answer]
        assert not unpaid, f"{len(unpaid)} answers are not in the log: {unpaid[:3]}"
        charges, spent = self.stack.run(
            "SELECT (SELECT count(*) FROM privid.release_charges), "
            "(SELECT max(spent) FROM privid.ledger_levels)", user="privid")[0]
        assert charges >= len(self.answers)
        assert spent * 1000 == charges, f"{charges} charges, but {spent} is spent"
        assert self.stack.run("SELECT * FROM privid.verify_history()", user="owner") == []

    def check_gone(self) -> None:
        """After the end: no process that was seen, nobody in the directory, no room's directory."""
        wait_until(lambda: not self.living(list(self.processes)), 20)
        left = {pid: command(pid) for pid in self.living(list(self.processes))}
        assert not left, f"processes are left: {left}"
        there = standing(self.stack.data)
        assert not there, f"processes are left in {self.stack.data}: {there}"
        kept = [str(place) for place in self.directories if place.exists()]
        assert not kept, f"directories are left: {kept}"


def massacre(directory: Path, kills: int, seed: int) -> Massacre:
    """A stack of its own below a directory, from its start to its end."""
    stack = RunningStack(directory / "stack")
    stack.up()
    run = Massacre(stack, random.Random(seed))
    try:
        write_video(stack.videos / "victims.mp4", [i // 10 for i in range(20)])
        stack.camera("victims", "victims.mp4", rho="1s", epsilon="1000000", quantum="1ms")
        stack.executable("one", "#!/bin/sh\necho '{\"v\": 1}'\n")
        stack.table("victims", "victims", "one", timeout="60ms", end="2026-03-01 06:00:02+00")
        run.run(kills)
        run.check_paid()
        run.remember(stack.engine_pid(), Room.of(stack.engine_pid()))
    finally:
        run_privid("down", "--data", stack.data)
    run.check_gone()
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="privid-kills-"))
    directory.chmod(0o755)
    begun = time.monotonic()
    down = [sys.executable, "-m", "privid.cli.main", "down", "--data", str(directory / "stack")]
    with guarded(directory, down):
        run = massacre(directory, options.kills, options.seed)
    heard = sum((client.errors for client in run.clients), Counter[str]())
    listed = ", ".join(f"{n} of the {victim}" for victim, n in run.kills.items())
    print(f"{run.kills.total()} kills ({listed}) in {time.monotonic() - begun:.0f} s: "
          f"{len(run.answers)} answers, all paid for; clients heard {dict(heard)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
