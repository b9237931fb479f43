"""A process that charges without end and tells each answer once it is safe: python -m tests.ledger.charger CONNINFO SEED"""

from __future__ import annotations

import os
import random
import sys
import time
from fractions import Fraction

from privid.errors import EngineUnavailable
from privid.ledger import Claim, Ledger, Use
from privid.model import Grid
from tests.ledger.postgres import camera, record

#: what all of them read; a hundred frames of it at a time
CAMPUS = camera(frames=10_000, r=20, epsilon="1000000")
MILLI = Fraction(1, 1000)


def main() -> None:
    chosen = random.Random(sys.argv[2])
    ledger, parent = Ledger(sys.argv[1], 2), os.getppid()
    while True:
        first = chosen.randrange(9_900)
        grid = Grid(first, 10, 10, 10)
        uses = [Use.of(grid, [(0, 10)], CAMPUS.r)] if chosen.random() < 0.5 else []
        try:
            release = ledger.charge([Claim(CAMPUS, [(first, first + 100)], MILLI, uses)], record())
            ledger.answered(release, [[str(release)]], 0.1)
        except EngineUnavailable:
            if os.getppid() != parent:  # whoever wanted the answers is gone
                return
            time.sleep(0.02)
            continue
        print(release, flush=True)


if __name__ == "__main__":
    main()
