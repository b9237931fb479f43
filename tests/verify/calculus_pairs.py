"""A million neighbouring pairs against the claims of the calculus.

Work is done in jobs of a fixed seed each. Finished jobs are kept in build/verify, so that a run that was interrupted goes on where it
was; a change of the calculus or of the verification begins anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .calculus_search import Searcher, Tally
from .calculus_stand import Stand, own_postgres

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
JOB = 10_000


def fingerprint() -> str:
    """Of everything that the outcome depends on."""
    digest = hashlib.sha256()
    for pattern in ("calculus/**/*.py", "core/*.py", "fdw/*.c", "tests/verify/calculus_*.py"):
        for file in sorted(ROOT.glob(pattern)):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def work(seeds: Any, done: Any) -> None:
    """One process: a PostgreSQL of its own, and one job after another."""
    with own_postgres() as layout:
        stand = Stand(layout)
        try:
            while (seed := seeds.get()) is not None:
                done.put((seed, kept_of(Searcher(stand, seed).run(JOB))))
        finally:
            stand.close()


def kept_of(tally: Tally) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, dict) else value for name, value in vars(tally).items()}


def as_tally(kept: dict[str, Any]) -> Tally:
    tally = Tally(kept["pairs"], Counter(kept["drawn"]), Counter(kept["accepted"]), Counter(kept["refusals"]), Counter(kept["failures"]),
                  kept["examples"], findings=kept["findings"])
    tally.tightest.update(kept["tightest"])
    return tally


def jobs(wanted: list[int], processes: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each job's outcome, as it is done."""
    context = multiprocessing.get_context("spawn")
    seeds, done = context.Queue(), context.Queue()
    for seed in [*wanted, *[None] * processes]:
        seeds.put(seed)
    workers = [context.Process(target=work, args=(seeds, done)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for _ in wanted:
        while True:
            try:
                yield done.get(timeout=5)
                break
            except Exception:
                if any(worker.exitcode not in (None, 0) for worker in workers):
                    raise RuntimeError("a process of the verification failed") from None
    for worker in workers:
        worker.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    file = ROOT / "build" / "verify" / f"calculus_pairs.{options.seed}.{fingerprint()}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = {item["seed"]: item for item in map(json.loads, file.read_text().splitlines())} if file.exists() else {}
    seeds = [options.seed * 1_000_000 + i for i in range(-(-options.pairs // JOB))]
    total, begun = Tally(), time.monotonic()
    for seed in seeds:
        if seed in kept:
            total.add(as_tally(kept[seed]))
    with file.open("a") as log:
        for seed, found in jobs([s for s in seeds if s not in kept], options.processes):
            log.write(json.dumps({"seed": seed, **found}) + "\n")
            log.flush()
            total.add(as_tally(found))
            print(f"{total.pairs:>9} pairs, {total.accepted['all']} statements, {len(total.findings)} violations, "
                  f"{time.monotonic() - begun:.0f} s", flush=True)
    print(total.report())
    for finding in total.findings[:20]:
        print(f"\nVIOLATION: {finding}")
    return 1 if total.findings or total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
