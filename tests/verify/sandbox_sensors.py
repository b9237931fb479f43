"""Every sensor against every way of sending, 400 pairs each: chunk to chunk, table to table, analyst to analyst, cold and warm. What tells
must tell again to count. Then the same on a build without the protections that once were missing, which must be found out."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from tests.sandbox.channels.channel import CHUNKS, TABLES
from tests.sandbox.channels.stage import ANALYSTS
from tests.sandbox.conftest import trials
from tests.sandbox.sweep import Sweep, judged
from tests.sandbox.test_sensors import FEW, SENDERS
from tests.sandbox.weaker import weaker

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
#: each way by itself, and all of them at once
WAYS: list[Sequence[str]] = [SENDERS, *((name,) for name in SENDERS), ("go slowly",)]


def main() -> None:
    leaks, tests = list[str](), 6 * len(WAYS)
    with trials() as make:
        one, other = make(0), make(1)
        for placement in (CHUNKS, TABLES, ANALYSTS):
            sweep = Sweep(one, None if placement == CHUNKS else other, placement)
            for warm in (True, False):
                for names in WAYS:
                    begun = time.monotonic()
                    found = judged(sweep.pairs(PAIRS, names, warm=warm, fresh=warm), tests)
                    if found:
                        again = judged(sweep.pairs(PAIRS, names, warm=warm, fresh=warm, seed=2), tests)
                        found = {name: p for name, p in found.items() if name in again}
                    where = f"{placement}, {'warm' if warm else 'cold'}, {' '.join(names)}"
                    print(f"{where}: {PAIRS} pairs in {time.monotonic() - begun:.0f} s, {len(found)} sensors tell", flush=True)
                    leaks += [f"{where}: {name} (p = {p:.2g})" for name, p in found.items()]
        with weaker("no place to write", "devices of mappings", "fixed limits", "no real-time signals"):
            found = judged(Sweep(one).pairs(max(FEW, PAIRS // 10), ("queue", "read"), warm=True, fresh=True))
        print("weaker:", ", ".join(f"{name} (p = {p:.2g})" for name, p in found.items()))
        if missed := {"faults on a hole", "signals that wait", "ends that wait"} - set(found):
            raise SystemExit(f"not found on a weaker build: {', '.join(sorted(missed))}")
    if leaks:
        raise SystemExit("\n".join(leaks))


if __name__ == "__main__":
    main()
