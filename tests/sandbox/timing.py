"""Start times of slots after programs that mean well and ill, and whether they tell which."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from privid.sandbox.executable import install
from privid.sandbox.hands import HANDS
from privid.sandbox.lane import Lane, Late, Program, RunResult

from .conftest import Trial

#: What a chunk may do to be felt by the next: nothing, hold the processor, pile up processes, memory, files, output.
IDLE = "def process(chunk):\n    import time\n    yield {'t': time.monotonic()}\n"
HOSTILE = {
    "spins": "def process(chunk):\n    while True: pass\n",
    "forks": "import os\ndef process(chunk):\n    while True:\n        try: os.fork()\n        except OSError: pass\n",
    "hoards": "def process(chunk):\n    kept = []\n    while True: kept.append(bytearray(1 << 20))\n",
    "litters": "def process(chunk):\n    for n in range(1 << 30): open(f'/tmp/{n}', 'w').close()\n",
    "floods": "import sys\ndef process(chunk):\n    for _ in range(150): yield {'x': 'y' * 100000}\n",
}


@dataclass(frozen=True)
class Start:
    """How late a slot of the idle program began, by the lane's clock and by the program's own, and what ran before it."""

    after: str
    late: float
    felt: float | None


def shuffled(pairs: int, seed: int) -> list[str]:
    """What runs before each slot that is measured: the idle program in half of them, a hostile one in the others."""
    chance = random.Random(seed)
    order = [name for _ in range(pairs // 2) for name in ("idle", chance.choice(list(HOSTILE)))]
    chance.shuffle(order)
    return order


def stock(trial: Trial, program: Program) -> int:
    """Children that are ready."""
    assert trial.lane._nurse is not None
    ward = trial.lane._nurse._wards.get(program)
    return ward.ready if ward is not None else 0


def measure(trial: Trial, programs: dict[str, Program], order: Sequence[str], slot: float, guard: float) -> list[Start]:
    """Pairs of slots on a fixed timetable: something, then the idle program. As the engine does it: while a slot runs, the next is handed
    over; a slot that is not ready in time, and its pair, are done again later."""
    pitch = slot + guard
    todo = [(name, programs[name]) for name in order]
    found: list[Start] = []
    begin = time.monotonic() + 0.2
    with ThreadPoolExecutor(HANDS, initializer=hasten) as hands:
        def run(program: Program, at: float) -> Future[RunResult]:
            return hands.submit(Lane.run, trial.lane, program, trial.chunk, at, at + slot)

        while todo:
            name, program = todo.pop(0)
            patience = time.monotonic() + 20
            while not (stock(trial, program) and stock(trial, programs["idle"]) >= 1 + (name == "idle")):
                if time.monotonic() > patience:  # a program that the nurse has given up is started cold from then on
                    return found
                time.sleep(0.01)
            begin = max(begin, time.monotonic() + 0.01)
            before, measured = run(program, begin), run(programs["idle"], begin + pitch)
            try:
                before.result()
                result = measured.result()
            except Late:
                for one in (before, measured):
                    one.exception()
                todo.append((name, program))
                for lost in (program, programs["idle"]):
                    trial.lane.announce(lost, 1, pitch)
            else:
                told = result.stdout.partition(b'"t": ')[2].rstrip(b"}\n")
                late = result.started - begin - pitch
                found.append(Start("idle" if name == "idle" else "hostile", late, float(told) - begin - pitch if told else None))
            begin += 2 * pitch
    return found


def announce(trial: Trial, order: Sequence[str], pitch: float) -> dict[str, Program]:
    """Every program of the order, made ready."""
    made = {}
    for name, content in {"idle": IDLE, **HOSTILE}.items():
        path = trial.scratch / f"timing-{name}"
        path.unlink(missing_ok=True)
        made[name] = Program(path, install(content.encode(), name, path))
        if slots := order.count(name) + (len(order) if name == "idle" else 0):
            trial.lane.announce(made[name], slots, pitch)
    while not all(trial.lane.ready(program) for program in made.values()):
        time.sleep(0.05)
    return made


def hasten() -> None:
    """As a lane's thread in the engine: before everything else on this machine."""
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))


def p_value(values: Sequence[float], marks: Sequence[bool], rounds: int = 2000, seed: int = 1) -> float:
    """Permutation test: how often chance alone gives medians as far apart as those of the marked and the unmarked values."""
    def apart(chosen: Sequence[bool]) -> float:
        one = [v for v, m in zip(values, chosen, strict=True) if m]
        other = [v for v, m in zip(values, chosen, strict=True) if not m]
        return abs(statistics.median(one) - statistics.median(other))

    chance, mixed, real = random.Random(seed), list(marks), apart(marks)
    extreme = 0
    for _ in range(rounds):
        chance.shuffle(mixed)
        extreme += apart(mixed) >= real
    return (extreme + 1) / (rounds + 1)
