"""One table, and an executable that is exchanged between runs: all but the rows is the same on both
sides.

With two tables of two cameras, their numbers in the catalog would tell the sides apart, rightly.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import RunningStack

from .comparing import Run
from .pair import HEAVY, SIDES, Connection
from .watching import PERIOD, Sight, Watcher

__all__ = ["Clock"]

#: the same length for both sides; on side a every row is about the event
PROGRAM = """#!/usr/bin/python3
import json
event = {event:<5}
for i in range(4):
    plate = "X" if event else "none"
    print(json.dumps({{"plate": plate, "v": i, "flag": event, "note": "a" * 1000}}))
"""
COLUMNS = (
    "chunk timestamptz, plate text DEFAULT 'none', v float8 DEFAULT 0, flag boolean DEFAULT false, "
    "note text DEFAULT ''"
)


@dataclass
class Clock:
    """A session that asks about either side, and one that exchanges the executable."""

    asking: Connection
    changing: Connection
    chance: random.Random

    @classmethod
    @contextmanager
    def make(
        cls, stack: RunningStack, write_video: Callable[..., Path], seed: int = 1
    ) -> Iterator[Clock]:
        write_video(stack.videos / "clock.mp4", [10] * 20)
        stack.executable("clock", PROGRAM.format(event="False"))
        for name, policy in (("few", {"rho": "1s", "epsilon": "1000000"}), ("few_open", {})):
            stack.camera(f"clock_{name}", "clock.mp4", quantum="5ms", **policy)
            stack.table(
                name,
                f"clock_{name}",
                "clock",
                columns=COLUMNS,
                end="2026-03-01 06:00:02+00",
                timeout="400ms",
                max_rows="4",
            )
        with stack.connect() as asking, stack.connect() as changing:
            clock = cls(asking, changing, random.Random(seed))
            asking.execute("SET privid.reuse = off")
            for _ in range(2):  # chunks run, caches are warm
                for side in SIDES:
                    clock.take(side)
                    clock.ask()
            yield clock

    def take(self, side: str) -> None:
        """From now on the table speaks of this side."""
        content = PROGRAM.format(event=str(side == "a")).encode()
        self.changing.execute("SELECT privid.upload('clock', %s)", (content,))

    def ask(self) -> float:
        """How long the statement takes."""
        begun = time.monotonic()
        self.asking.execute(HEAVY.encode()).fetchall()
        return time.monotonic() - begun

    def exact(self) -> int:
        """The same about a camera that protects nothing."""
        rows = self.asking.execute(HEAVY.replace("few", "few_open").encode()).fetchall()
        return int(rows[0][0])

    def ask_and_flush(self) -> None:
        """What PostgreSQL has counted meanwhile is there for all to see, not in the next run."""
        self.ask()
        self.asking.execute("SELECT pg_stat_force_next_flush()")

    def order(self) -> list[str]:
        """Both sides, in an order that chance decides."""
        return self.chance.sample(SIDES, 2)

    def times(self, pairs: int, seconds: float, least: int = 0) -> dict[str, list[float]]:
        """Times of each side, in alternation: so many pairs, or what fits, but not too few."""
        taken: dict[str, list[float]] = {side: [] for side in SIDES}
        end = time.monotonic() + seconds
        while len(taken["a"]) < pairs and (time.monotonic() < end or len(taken["a"]) < least):
            for side in self.order():
                self.take(side)
                taken[side].append(self.ask())
        return taken

    def looks(self) -> int:
        """How many looks a run wants: as many as the longest of a few takes, and two."""
        taken = self.times(pairs=3, seconds=0, least=3)
        return math.ceil(max(*taken["a"], *taken["b"]) / PERIOD) + 2

    def watched(
        self, watcher: Watcher, everything: list[Sight], often: list[Sight], pairs: int
    ) -> dict[str, list[Run]]:
        """What a second session sees during runs of each side, in alternation."""
        seen: dict[str, list[Run]] = {side: [] for side in SIDES}
        looks = self.looks()
        for _ in range(pairs):
            for side in self.order():
                self.take(side)
                seen[side].append(watcher.during(self.ask_and_flush, everything, often, looks))
        return seen
