"""The seconds that EXPLAIN announces beside those that a release takes: one table and several, cold and warm, a program that imports long,
alone and beside another job."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.spine import Connection, connect, elapsed, make_table, plan_of, run, running_stack
from privid.cli.stack import Stack

MEAN = "def process(chunk):\n    yield {'v': float(chunk.frames.mean())}\n"
#: what takes three seconds to import
SLOW = "import time\ntime.sleep(3)\n" + MEAN
#: what another job runs meanwhile, in slots of its own
SLOT, OTHER_SLOT = 0.3, 0.2
NUMBERS = itertools.count()


def main() -> None:
    """Each line: what, seconds announced, seconds taken, and the ratio of the two."""
    with running_stack() as stack:
        for beside in (False, True):
            where = "beside another job" if beside else "alone"
            for what, tables in (("a table, cold", [("cold", MEAN)]), ("a table, warm", [("bare", MEAN)]),
                                 ("a table, warm, whose import takes 3 s, which nobody knows yet", [("bare", f"{SLOW}# {where}\n")]),
                                 ("the same, known", [("bare", f"{SLOW}# {where}\n")]),
                                 ("two tables, one warm and one cold", [("bare", MEAN), ("cold", MEAN)]),
                                 ("three tables, warm, two programs", [("bare", MEAN), ("bare", f"{SLOW}# {where}\n"), ("bare", MEAN)])):
                announced, real = measured(stack, tables, beside)
                print(f"{what}, {where}: {announced:.1f} s announced, {real:.1f} s taken, ratio {real / announced:.2f}", flush=True)


def measured(stack: Stack, tables: list[tuple[str, str]], beside: bool) -> tuple[float, float]:
    """What EXPLAIN says of a release over fresh chunks of these tables, and how long it then takes."""
    statement = " UNION ALL ".join(f"SELECT v FROM {fresh(stack, camera, content, SLOT)}" for camera, content in tables)
    statement = f"SELECT count(*) FROM ({statement}) u"
    other = threading.Thread(target=run, args=(stack, "analyst", f"SELECT count(*) FROM {fresh(stack, 'cold', MEAN, OTHER_SLOT)}"))
    with connect(stack, "analyst") as analyst:
        if beside:
            other.start()
            time.sleep(1)  # its slots are in the timetable by then
        announced = seconds_of(analyst, statement)
        real = elapsed(analyst, statement)
        if beside:
            other.join()
    return announced, real


def fresh(stack: Stack, camera: str, content: str, slot: float) -> str:
    """A table whose chunks nobody has run: its slots are longer than those of all tables before it."""
    number = next(NUMBERS)
    name = f"fresh_{number}"
    make_table(stack, name, name, content, slot + number / 1000, 1, camera)
    return name


def seconds_of(connection: Connection, statement: str) -> float:
    return float(plan_of(connection, statement)["Seconds"])


if __name__ == "__main__":
    main()
