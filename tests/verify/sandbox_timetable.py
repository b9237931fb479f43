"""2,000 slots, hostile and idle mixed, warm, in a core of their own: when a slot begins does not tell what the slot before it did."""

from __future__ import annotations

import os
import statistics
import sys

from privid.sandbox.lane import SHORT_GUARD
from privid.sandbox.run import Limits
from tests.sandbox.conftest import trials
from tests.sandbox.timing import announce, measure, p_value, shuffled

PAIRS, SLOT = int(sys.argv[1]) // 2 if len(sys.argv) > 1 else 1000, 0.02


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    own = frozenset({cores[-1]}) if len(cores) > 1 else None
    with trials() as make:
        trial = make(0, Limits(memory=256 << 20, processes=24), own)
        if own:
            os.sched_setaffinity(0, set(cores) - own)
        order = shuffled(PAIRS, seed=11)
        programs = announce(trial, order, SLOT + SHORT_GUARD)
        found = measure(trial, programs, order, SLOT, SHORT_GUARD)
    marks = [start.after == "hostile" for start in found]
    for name, values in (("by the lane's clock", [start.late for start in found]),
                         ("by the program's own", [start.felt if start.felt is not None else SLOT for start in found])):
        idle = statistics.median(v for v, m in zip(values, marks, strict=True) if not m)
        hostile = statistics.median(v for v, m in zip(values, marks, strict=True) if m)
        p = p_value(values, marks)
        print(f"{len(found)} slots, {name}: median {1e6 * idle:.0f} us after idle, {1e6 * hostile:.0f} us after hostile, p = {p:.4f}")
        if name == "by the lane's clock" and p <= 0.001:
            raise SystemExit("the start of a slot tells what the slot before it did")


if __name__ == "__main__":
    main()
