"""A hundred thousand pairs of random statements, on two videos that differ in one event.

Nothing but noise may differ in what a client sees. Work is done in jobs of a seed each, in a world
of its own; in a part of the pairs the second session acts while the statement runs. The shortest
findings of each kind are printed with all their steps.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from math import erfc, sqrt
from pathlib import Path

from tests.conftest import RunningStack, run_privid

from .statements_pairs import Finding, Floor, Pairs, Tally
from .statements_scenario import FLAVOURS, Author
from .statements_workers import work_in_worlds
from .statements_world import World

__all__ = ["biased", "fuzz", "main", "own_stack", "report"]

JOB = 2_000
#: of the pairs, how many have a second session that acts while the statement runs
RACING = 0.2
#: a bias of time that chance does not explain
BIASED = 1e-6


def fuzz(stack: RunningStack, pairs: int, seed: int, *, workers: int = 4,
         flavour: str | None = None, enough: int | None = None) -> Tally:
    """One job; it ends early when there are enough findings."""
    floor, several = Floor(), list[Pairs]()

    def enough_found() -> bool:
        found = sum(len(comparing.tally.findings) for comparing in several)
        return enough is not None and found >= enough

    def work(world: World, author: Author, over: Callable[[], bool]) -> None:
        racer, comparing = replace(author, racing=True), Pairs(world, floor)
        several.append(comparing)
        with closing(comparing):
            for number in range(world.number, pairs, workers):
                if over() or enough_found():
                    break
                rng = random.Random(f"order {seed} {number}")
                chosen = racer if rng.random() < RACING else author
                comparing.compare(chosen.write(f"{seed} {number}"), rng)

    work_in_worlds(stack, workers, seed, flavour, work)
    total = Tally()
    for comparing in several:
        total.add(comparing.tally)
    return total


def biased(slower: list[float]) -> float:
    """The probability of such a bias if none of the sides is slower: a sign test."""
    signs = [value > 0 for value in slower if abs(value) > 0.0005]
    if len(signs) < 100:
        return 1.0
    return erfc(abs(sum(signs) - len(signs) / 2) / sqrt(len(signs) / 4) / sqrt(2))


def report(tally: Tally) -> str:
    states = ", ".join(f"{state} {n}" for state, n in tally.states.most_common(12))
    forms = ", ".join(f"{form} {n}" for form, n in tally.forms.most_common())
    kinds = Counter(finding.kind for finding in tally.findings)
    return (f"{tally.pairs} pairs in {tally.runs} runs of both sides; {tally.values} with values "
            f"compared, {tally.raced} differences that were races; "
            f"bias of time p = {biased(tally.slower):.3g}\n"
            f"  forms: {forms}\n  outcomes: {states}\n  findings: {dict(kinds) or 'none'}")


def examples(findings: list[Finding], each: int) -> Iterator[Finding]:
    """The shortest of each kind."""
    for kind in sorted({finding.kind for finding in findings}):
        several = [finding for finding in findings if finding.kind == kind]
        yield from sorted(several, key=lambda finding: len(finding.scenario.text))[:each]


@contextmanager
def own_stack() -> Iterator[RunningStack]:
    """A stack for a search alone."""
    folder = Path(tempfile.mkdtemp(prefix="privid-verify-"))
    folder.chmod(0o755)
    try:
        run_privid("up", "--data", folder / "stack")
        yield RunningStack(folder / "stack")
    finally:
        run_privid("down", "--data", folder / "stack", check=False)
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--flavour", choices=FLAVOURS, help="what all scenarios are about")
    parser.add_argument("--show", type=int, default=3, help="findings of each kind to print")
    options = parser.parse_args()
    total, seed, begun = Tally(), options.seed, time.monotonic()
    with own_stack() as stack:
        while total.pairs < options.pairs:
            total.add(fuzz(stack, min(JOB, options.pairs - total.pairs), seed,
                           workers=options.workers, flavour=options.flavour))
            seed += 1
            rate = total.pairs / (time.monotonic() - begun)
            print(f"{total.pairs:>7} pairs, {len(total.findings)} findings, {rate:.1f} pairs a "
                  f"second", flush=True)
    print(report(total))
    for finding in examples(total.findings, options.show):
        print(f"FOUND: {finding.report}")
    for text, number in total.internal.most_common(options.show):
        print(f"internal error of the engine, {number} times: {text}")
    return 1 if total.findings or biased(total.slower) < BIASED else 0


if __name__ == "__main__":
    sys.exit(main())
