"""Ten thousand random accepted statements beside two busy loops: no allowance cuts any of them.

The answer of a release that was cut looks like any other, so the engine's log is read: it names
every release that the room was late for, or failed in.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from tests.conftest import RunningStack

from .statements_calls import read_calls
from .statements_fuzz import own_stack
from .statements_scenario import Author
from .statements_world import Connection, drop_world, made_world

__all__ = ["CUT", "Outcome", "ask", "busy", "main", "report"]

#: events of the engine's log that tell of a release without its real answer
CUT = ("room late", "room failed")
JOB = 2_000


@dataclass
class Outcome:
    answered: int = 0
    states: Counter[str] = field(default_factory=Counter)
    #: what the log says of statements that were cut
    cut: list[str] = field(default_factory=list)
    #: accepted, and then an error
    failed: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.answered += other.answered
        self.states.update(other.states)
        self.cut += other.cut
        self.failed += other.failed
        self.seconds += other.seconds


@contextmanager
def busy(number: int) -> Iterator[None]:
    """So many processes that do nothing but turn."""
    loop = [sys.executable, "-I", "-c", "while True: pass"]
    loops = [subprocess.Popen(loop) for _ in range(number)]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
            process.wait()


def ask(stack: RunningStack, statements: int, seed: int, sessions: int = 1,
        loops: int = 2) -> Outcome:
    """So many statements that are answered, by some sessions at once, beside busy loops."""
    outcome, worlds = Outcome(), made_world(stack, sessions, seed)
    begin = (stack.layout.log / "engine.log").stat().st_size
    failures: list[BaseException] = []
    lock = threading.Lock()

    def work(connection: Connection, number: int, author: Author) -> None:
        try:
            with connection:
                connection.execute("SET privid.reuse = off; SET privid.epsilon = 1")
                while outcome.answered < statements and not failures:
                    text = author.calm(f"{seed} {number}").text
                    number += sessions
                    part = _asked(connection, text)
                    with lock:
                        outcome.add(part)
        except BaseException as error:
            failures.append(error)

    try:
        with worlds[0].connect("b") as connection:
            author = Author(read_calls(connection), [])
        threads = [threading.Thread(target=work, args=(world.connect("b"), world.number, author))
                   for world in worlds]
        with busy(loops):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        outcome.cut = cut(stack, begin)
    finally:
        drop_world(worlds)
    if failures:
        raise failures[0]
    return outcome


def _asked(connection: Connection, text: str) -> Outcome:
    begun = time.monotonic()
    try:
        connection.execute(text.encode())
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        bad = error.sqlstate in ("PV004", "PV010", "XX000")
        return Outcome(states=Counter((error.sqlstate,)),
                       failed=[f"{error}\n  {text}"] if bad else [])
    seconds = time.monotonic() - begun
    return Outcome(1, Counter(("00000",)), seconds=[seconds])


def cut(stack: RunningStack, begin: int) -> list[str]:
    """What the engine's log says of releases that were cut, from a place on, with statements."""
    found = []
    with (stack.layout.log / "engine.log").open("rb") as file:
        file.seek(begin)
        for line in file:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and told.get("event") in CUT:
                rows = stack.run("SELECT query FROM privid.releases WHERE id = %s",
                                 told.get("release"), user="privid")
                found.append(f"{line.decode().strip()}\n  {rows[0][0] if rows else 'unknown'}")
    return found


def report(outcome: Outcome) -> str:
    seconds = sorted(outcome.seconds) or [0.0]
    refused = outcome.states.total() - outcome.answered
    return (f"{outcome.answered} statements answered, {refused} refused, {len(outcome.cut)} cut, "
            f"{len(outcome.failed)} failed; half within {seconds[len(seconds) // 2]:.3f} s, "
            f"the longest {seconds[-1]:.3f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--statements", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=2)
    options = parser.parse_args()
    total, seed = Outcome(), options.seed
    with own_stack() as stack:
        while total.answered < options.statements:
            wanted = min(JOB, options.statements - total.answered)
            total.add(ask(stack, wanted, seed, options.sessions))
            seed += 1
            print(report(total), flush=True)
    for text in [*total.cut[:5], *total.failed[:5]]:
        print(f"FOUND: {text}")
    return 1 if total.cut or total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
