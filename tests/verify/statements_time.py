"""Heavy work on rows of an event, 200 runs a side: neither time nor any view tells of it.

What can be looked at (views, functions and tables of the catalog, views of privid) is looked at in
parts, each of them at 50 Hz during runs of its own. A difference is believed when a second series
shows it too.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from tests.clean_room.clock import Clock
from tests.clean_room.comparing import Difference, compare_runs, compare_times, describe
from tests.clean_room.watching import PERIOD, Sight, Watcher, batches, sights
from tests.conftest import RunningStack, run_privid, write_video


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=200, help="runs a side whose time is taken")
    parser.add_argument(
        "--watched", type=int, default=30, help="runs a side during which each part is looked at"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="privid-time-"))
    directory.chmod(0o755)
    try:
        stack = RunningStack(directory / "stack")
        stack.up()
        try:
            found = examine(stack, options.pairs, options.watched, options.seed)
        finally:
            run_privid("down", "--data", stack.data)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for difference in found:
        print(
            f"  {difference.feature}: p = {difference.p:.2g}; a: {difference.a}; b: {difference.b}"
        )
    if found:
        raise SystemExit("what the rows are can be told from outside")


def examine(stack: RunningStack, pairs: int, watched: int, seed: int) -> list[Difference]:
    """All differences that two series show."""
    with Clock.make(stack, write_video, seed) as clock, stack.connect() as connection:
        found = compare(clock, pairs)
        watcher = Watcher(connection)
        everything = sights(connection, tables=True)
        parts = batches(watcher, everything, 0.6 * PERIOD)
        begun, compared = time.monotonic(), 0
        for part in parts:
            differences, count = look(clock, watcher, part, watched)
            found += differences
            compared += count
    print(
        f"{len(everything)} things to look at in {len(parts)} parts, {watched} runs a side each, "
        f"in {time.monotonic() - begun:.0f} s: {compared} features that vary were compared"
    )
    return found


def compare(clock: Clock, pairs: int) -> list[Difference]:
    found: list[Difference] = []
    for _ in range(2):
        taken = clock.times(pairs, seconds=0, least=pairs)
        print(f"time of the statement: a {describe(taken['a'])}; b {describe(taken['b'])}")
        found = compare_times(taken["a"], taken["b"])
        if not found:
            break
    return found


def look(
    clock: Clock, watcher: Watcher, part: list[Sight], pairs: int
) -> tuple[list[Difference], int]:
    seen = clock.watched(watcher, part, part, pairs)
    found, compared = compare_runs(seen["a"], seen["b"])
    if found:
        suspects = {difference.feature for difference in found}
        seen = clock.watched(watcher, part, part, pairs)
        found = [
            difference
            for difference in compare_runs(seen["a"], seen["b"])[0]
            if difference.feature in suspects
        ]
    return found, compared


if __name__ == "__main__":
    main()
