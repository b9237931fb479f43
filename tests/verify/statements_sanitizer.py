"""Fifty thousand random statements on a library built with the undefined-behaviour sanitizer.

No crash, no XX000, nothing undefined. The library is built beside the checkout's own, in a copy of
the package that the stack of this search is started from, so that every PostgreSQL that is started
here loads it. What the sanitizer sees goes to the servers' logs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.conftest import REPOSITORY, RunningStack, run_privid
from tests.guard import guarded

from .statements_scenario import Author, Scenario
from .statements_sides import Run, Side
from .statements_workers import work_in_worlds
from .statements_world import World

__all__ = ["Outcome", "build", "main", "search"]

JOB = 10_000
_FLAGS = "-fsanitize=undefined -fno-omit-frame-pointer -Wno-error"
#: of the sanitizer, or of a postmaster that lost a child to something else than a kill
_COMPLAINT = re.compile(r"(\w+\.[ch]:\d+:\d+: )?runtime error: .*|"
                        r"was terminated by signal (?!9\b).*")
_PG_CONFIG = os.environ.get("PG_CONFIG", "/usr/lib/postgresql/15/bin/pg_config")


@dataclass
class Outcome:
    statements: int = 0
    states: Counter[str] = field(default_factory=Counter)
    #: an example for each internal error or lost server, and how often the sanitizer said what
    faults: dict[str, str] = field(default_factory=dict)
    undefined: Counter[str] = field(default_factory=Counter)

    def add(self, scenario: Scenario, run: Run) -> None:
        self.statements += sum(step.asks or step.claims for step in scenario.steps)
        for seen in run:
            self.states[seen.state] += 1
            lost = seen.state == "lost" and not scenario.ends_sessions
            if seen.state == "XX000" or lost:
                self.faults.setdefault(str(seen.shown[:4]), scenario.text)


def build(target: Path) -> Path:
    """A package with a library of its own: the directory to put on PYTHONPATH."""
    package = target / "privid"
    package.mkdir(parents=True)
    for file in (REPOSITORY / "core").iterdir():
        if file.is_file():
            shutil.copyfile(file, package / file.name)
    for room in REPOSITORY.iterdir():
        if (room / "__init__.py").exists() and room.name not in ("core", "tests", "fdw"):
            (package / room.name).symlink_to(room)
    built = shutil.ignore_patterns("*.o", "*.so", "__pycache__")
    shutil.copytree(REPOSITORY / "fdw", package / "fdw", ignore=built)
    shutil.copytree(REPOSITORY / "sql", package / "fdw" / "sql")
    subprocess.run(["make", "-s", "-C", str(package / "fdw"), f"PG_CONFIG={_PG_CONFIG}",
                    f"COPT={_FLAGS}"], check=True, capture_output=True)
    return target


@contextmanager
def sanitized_stack(folder: Path) -> Iterator[RunningStack]:
    environment = {**os.environ, "PYTHONPATH": str(build(folder / "package"))}
    try:
        run_privid("up", "--data", folder / "stack", env=environment)
        library = next((folder / "stack" / "lib").rglob("privid.so"))
        assert b"__ubsan_" in library.read_bytes(), "the stack has a library without the sanitizer"
        yield RunningStack(folder / "stack")
    finally:
        run_privid("down", "--data", folder / "stack", check=False)


def search(stack: RunningStack, statements: int, seed: int, workers: int = 4) -> Outcome:
    """Scenarios as the pairs have them, on the side where hostile things are seen."""
    outcome, lock = Outcome(), threading.Lock()

    def work(world: World, author: Author, over: Callable[[], bool]) -> None:
        racer, number = replace(author, racing=True), world.number
        with closing(Side(world, "b")) as side:
            while outcome.statements < statements and not over():
                scenario = (racer if number % 5 == 0 else author).write(f"{seed} {number}")
                number += workers
                run = side.run(scenario, number % 1_000_000)
                with lock:
                    outcome.add(scenario, run)

    work_in_worlds(stack, workers, seed, None, work)
    outcome.undefined = complaints(stack.data)
    return outcome


def complaints(directory: Path) -> Counter[str]:
    """What any log below has of the sanitizer and of crashes, by the place in the source."""
    found: Counter[str] = Counter()
    for file in directory.rglob("*.log*"):
        for line in file.read_text(errors="replace").splitlines():
            if match := _COMPLAINT.search(line):
                found[match[0]] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--statements", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    total, seed, begun = Outcome(), options.seed, time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="privid-verify-"))
    folder.chmod(0o755)
    with guarded(folder, ["true"]), sanitized_stack(folder) as stack:
        while total.statements < options.statements:
            part = search(stack, min(JOB, options.statements - total.statements), seed)
            seed += 1
            total.statements += part.statements
            total.states.update(part.states)
            total.faults = {**part.faults, **total.faults}
            total.undefined = part.undefined  # the logs are read from their beginning
            rate = total.statements / (time.monotonic() - begun)
            print(f"{total.statements:>6} statements, {len(total.faults)} kinds of faults, "
                  f"{sum(total.undefined.values())} complaints, {rate:.0f} a second", flush=True)
    print(", ".join(f"{state} {n}" for state, n in total.states.most_common(12)))
    for fault, text in total.faults.items():
        print(f"FAULT: {fault}\n{text}")
    for text, number in total.undefined.most_common(20):
        print(f"UNDEFINED, {number} times: {text}")
    return 1 if total.faults or total.undefined else 0


if __name__ == "__main__":
    sys.exit(main())
