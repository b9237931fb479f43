"""Kills backends, engines and postmasters at random moments under load, and then asks whether every answer that was seen is paid for."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import psycopg

from privid.ledger.costs import debits, logged_steps
from tests.ledger.charger import CAMPUS
from tests.ledger.postgres import ROOT, Database, Server

__all__ = ["Massacre", "massacre"]

#: how long anything may take to go on after a kill; far more than it takes
PATIENCE = 30


class Engine:
    """A process with a ledger of its own, and the releases that its client has seen answered."""

    def __init__(self, database: Database, seed: str) -> None:
        conninfo = database.server.conninfo(database.name, "privid_engine")
        self.seen: list[int] = []
        self.process = subprocess.Popen([sys.executable, "-m", "tests.ledger.charger", conninfo, seed], stdout=subprocess.PIPE, text=True,
                                        cwd=ROOT)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.seen.append(int(line))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass
class Massacre:
    """Some engines under load on a database of their own, and a killer."""

    database: Database
    seed: int
    engines: list[Engine] = field(default_factory=list)
    ended: list[Engine] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)

    def run(self, kills: int, engines: int = 3) -> None:
        chosen = random.Random(self.seed)
        self.engines = [Engine(self.database, f"{self.seed} {n}") for n in range(engines)]
        try:
            self._wait_for_answers()
            for turn in range(kills):
                time.sleep(chosen.uniform(0, 0.2))
                victim = chosen.choices(["backend", "engine", "postmaster"], [4, 4, 2])[0]
                getattr(self, f"_kill_{victim}")(chosen, turn)
                self.kills[victim] += 1
                self._wait_for_answers()
        finally:
            for engine in self.engines:
                engine.kill()
            self.ended += self.engines
        self.check()

    def _kill_backend(self, chosen: random.Random, turn: int) -> None:
        with self.database.connect() as conn:
            pids = [row[0] for row in conn.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'privid engine'").fetchall()]
            pid = chosen.choice(pids)
            # the kill makes PostgreSQL end all its sessions; ours must not be seen doing anything else meanwhile
            time.sleep(chosen.uniform(0, 0.02))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _kill_engine(self, chosen: random.Random, turn: int) -> None:
        n = chosen.randrange(len(self.engines))
        self.engines[n].kill()
        self.ended.append(self.engines[n])
        self.engines[n] = Engine(self.database, f"{self.seed} {turn} {n}")

    def _kill_postmaster(self, chosen: random.Random, turn: int) -> None:
        server = self.database.server
        pid = int((server.data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                server.start()
                return
            except AssertionError:  # its orphans are still leaving
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def _wait_for_answers(self) -> None:
        """Nothing is wedged: every engine answers again."""
        before = [len(engine.seen) for engine in self.engines]
        end = time.monotonic() + PATIENCE
        while any(len(engine.seen) <= n for engine, n in zip(self.engines, before, strict=True)):
            assert time.monotonic() < end, "an engine has not answered for half a minute"
            time.sleep(0.01)

    def check(self) -> None:
        """Every answer is paid for, and the ledger holds the sum of all that was charged: no more, no less."""
        seen = {release for engine in self.ended for release in engine.seen}
        answered = {row[0] for row in self._rows("SELECT id FROM privid.release_log WHERE state = 'answered'")}
        charged = self._rows("SELECT release, frames, shift, charge::text, uses, r_star FROM privid.release_charges")
        assert seen <= answered, sorted(seen - answered)[:9]
        assert answered <= {row[0] for row in charged}
        assert self._rows("SELECT count(*) FROM privid.release_log") == [(len(charged),)]
        jumps: dict[int, Fraction] = {}
        for _, frames, shift, charge, uses, r_star in charged:
            read = [(piece.lower + shift, piece.upper + shift) for piece in frames]
            for lo, hi, amount in debits(logged_steps(read, uses, shift, r_star), Fraction(charge)):
                jumps[lo] = jumps.get(lo, Fraction(0)) + Fraction(amount)
                jumps[hi] = jumps.get(hi, Fraction(0)) - Fraction(amount)
        level, expected = Fraction(0), []
        for place in sorted(jumps):
            level += jumps[place]
            if jumps[place]:
                expected.append((place, level))
        recording = self.database.ledger.register(CAMPUS)
        assert self.database.steps(recording) == expected

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.database.rows(statement)
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    @property
    def answers(self) -> int:
        return sum(len(engine.seen) for engine in self.ended)


def massacre(server: Server, kills: int, seed: int) -> Massacre:
    run = Massacre(Database(server), seed)
    run.run(kills)
    return run
