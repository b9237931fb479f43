"""The search among statements finds what it is for: a stack that has a fault on purpose is caught.

The stack is a real one; its engine is started with a part of it exchanged (tests/clean_room/faults.py).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.clean_room.faults import faulty_engine
from tests.conftest import RunningStack, run_privid
from tests.guard import guarded

from .statements_fuzz import fuzz
from .statements_pairs import Tally

__all__ = ["FAULTS", "Fault", "faulty_stack", "main", "provoke"]


@dataclass(frozen=True)
class Fault:
    """What is wrong, what scenarios dwell on it, and as what it must be found."""

    name: str
    flavour: str | None
    kinds: tuple[str, ...]


FAULTS = (
    Fault("errors", None, ("error", "notice", "shape")),
    Fault("deadline", "time", ("time",)),
    Fault("order", "order", ("shape",)),
    Fault("uniqueness", "public rows", ("value",)),
)


@contextmanager
def faulty_stack(fault: Fault) -> Iterator[RunningStack]:
    """A stack with the fault."""
    folder = Path(tempfile.mkdtemp(prefix="privid-fault-"))
    folder.chmod(0o755)
    data = folder / "stack"
    with guarded(folder, [sys.executable, "-m", "privid.cli.main", "down", "--data", str(data)]):
        run_privid("up", "--data", data)
        stack = RunningStack(data)
        with faulty_engine(stack.layout, fault.name):
            yield stack


def provoke(stack: RunningStack, fault: Fault, pairs: int, seed: int) -> Tally:
    """The search until it finds something of the right kind; each seed has another world."""
    total = Tally()
    while total.pairs < pairs:
        part = fuzz(stack, min(150, pairs - total.pairs), seed, flavour=fault.flavour, enough=1)
        seed += 1
        total.add(part)
        if any(finding.kind in fault.kinds for finding in part.findings):
            break
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", choices=[fault.name for fault in FAULTS], help="this one alone")
    options = parser.parse_args()
    missed = 0
    for fault in FAULTS:
        if options.fault not in (None, fault.name):
            continue
        with faulty_stack(fault) as stack:
            tally = provoke(stack, fault, options.pairs, options.seed)
        found = [finding for finding in tally.findings if finding.kind in fault.kinds]
        missed += not found
        print(f"{fault.name}: {tally.pairs} pairs, " + (found[0].report if found else "NOT FOUND"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
