"""Whether the search discovers: each fault that the calculus once had, and each weakened rule, without a hint."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import pytest

from tests.algebra.mutants import MUTANTS, Mutant
from tests.algebra.weaknesses import WEAKNESSES

from .calculus_discover import Discovery
from .calculus_stand import Stand, own_postgres

__all__ = ["ALL", "main", "sought"]

ALL: Sequence[Mutant] = (*MUTANTS, *(Mutant(f"{w.rule}: {w.mistake}", w.make) for w in WEAKNESSES))


def sought(stand: Stand, mutant: Mutant, pairs: int, seed: int, seconds: float = float("inf")) -> tuple[int, str | None]:
    """The search with this fault until it finds something, and how many pairs that took."""
    begun = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        mutant.make(patch)
        search = Discovery(stand, seed)
        while search.tally.pairs < pairs and not search.tally.findings and time.monotonic() - begun < seconds:
            search.run(500)
    return search.tally.pairs, search.tally.findings[0] if search.tally.findings else None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="those whose name has this in it")
    parser.add_argument("--show", action="store_true", help="what was found")
    options = parser.parse_args()
    missed = 0
    with own_postgres() as layout:
        stand = Stand(layout)
        try:
            for mutant in ALL:
                if options.only in mutant.name:
                    pairs, finding = sought(stand, mutant, options.pairs, options.seed)
                    missed += finding is None
                    print(f"{pairs:>8}  {'' if finding else 'NOT FOUND  '}{mutant.name}", flush=True)
                    if options.show and finding:
                        print(finding, flush=True)
        finally:
            stand.close()
    print(f"{missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
