"""Whether the search discovers: each fault that the calculus once had, and each weakened rule, without a hint.

One search is made for all of them. It draws statements and neighbours as it does for the calculus as it is; every statement is judged by
each faulty version too, and what changes is compared with what that version claims. Nothing in the statements and neighbours that are
drawn depends on where versions differ, but that what a faulty version alone accepts is looked at too, as it would be if it were in force.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from privid.errors import PrividError
from tests.algebra.mutants import MUTANTS, Mutant
from tests.algebra.weaknesses import WEAKNESSES

from .calculus_claims import Claim
from .calculus_discover import Discovery
from .calculus_grammar import Query
from .calculus_mechanisms import Answer, parts
from .calculus_paths import Way
from .calculus_search import Finding, costs_of
from .calculus_stand import Stand, own_postgres
from .calculus_versions import Version, differing, made
from .calculus_world import CAMERAS, TABLES, Pair

__all__ = ["ALL", "Hunt", "main"]

ALL: Sequence[Mutant] = (*MUTANTS, *(Mutant(f"{w.rule}: {w.mistake}", w.make, rows=w.rows) for w in WEAKNESSES))


@dataclass(frozen=True)
class Caught:
    pairs: int
    seconds: float
    finding: str


@dataclass
class Standing:
    """Why a version may not be found yet: its code is seldom asked, it claims the same, or no neighbours come near what it allows."""

    asked: int = 0
    otherwise: int = 0
    nearest: float = 0.0
    statement: str = ""

    def __str__(self) -> str:
        return f"asked {self.asked}, claimed otherwise {self.otherwise}, nearest {self.nearest:.2f}: {self.statement}"


class Hunt(Discovery):
    """A search with several faulty versions beside the calculus."""

    def __init__(self, stand: Stand, seed: int, mutants: Sequence[Mutant]) -> None:
        super().__init__(stand, seed)
        self.open = list(mutants)
        self.caught: dict[str, Caught] = {}
        self.begun = time.monotonic()
        self._claims: list[tuple[Mutant, Claim]] = []
        self._versions = {mutant.name: Version(mutant) for mutant in mutants}
        self._right: Claim | None = None
        self._refused = False
        self.standing = {mutant.name: Standing() for mutant in mutants}

    def claim(self, query: Query) -> Claim | None:
        self._claims = self.claims(query)
        return self._right or next((claim for _, claim in self._claims), None)

    def claims(self, query: Query, every: bool = False) -> list[tuple[Mutant, Claim]]:
        """What faulty versions claim otherwise. `every`: all are put in place, also those that answer the same."""
        self.stand.engine.room.answering()
        self._right = super().claim(query)
        self._refused, bodies, found = self._right is None, list(self.candidates()), list[tuple[Mutant, Claim]]()
        right = self._right or self._judged(bodies)  # of a level that is not the statement's only release
        for mutant in self.open if every else self._asked(query):
            with made(mutant):
                other = self._judged(bodies)
            if other is not None and (self._elsewhere(mutant, query) or right is None or _differ(right, other)):
                self.standing[mutant.name].otherwise += 1
                found.append((mutant, other))
        return found

    def _elsewhere(self, mutant: Mutant, query: Query) -> bool:
        """Whether this version does something else after the judgement."""
        return mutant.everywhere or (self._versions[mutant.name].reads and any(TABLES[table].bounded for table in query.tables))

    def _asked(self, query: Query) -> list[Mutant]:
        """Versions that may claim otherwise of this statement, or do something else."""
        called = self.way.places() | Way(code={answers.__code__ for answers in self.stand.engine.room.answering()}).places()
        versions = [self._versions[mutant.name] for mutant in self.open]
        met = [v for v in versions if v.places is None or v.places & called]
        for version in met:
            self.standing[version.mutant.name].asked += 1
        other = differing([v for v in met if v.comparable], self._again)
        return [v.mutant for v in versions
                if self._elsewhere(v.mutant, query) or v.mutant.name in other or (v in met and not v.comparable)]

    def look(self, query: Query, claim: Claim, rounds: int) -> tuple[Finding | None, float]:
        """Where only a faulty version claims something, what is found is that version's."""
        finding, nearest = super().look(query, claim, rounds)
        return None if self._refused else finding, nearest

    def enough(self, ratio: float) -> bool:
        return not self._refused and super().enough(ratio)

    def _judged(self, bodies: Sequence[dict[str, Any]]) -> Claim | None:
        """What the calculus, or the version that is in its place, claims of the outermost level that it accepts."""
        for body in bodies:
            try:
                return Claim(body, self.stand.engine.judge.judge(body), {})
            except PrividError:
                continue
            except Exception:  # a version may be so wrong that it contradicts itself
                return None
        return None

    def both(self, query: Query, claim: Claim, pairs: Sequence[Pair]) -> list[tuple[Answer, Answer]]:
        """For the calculus as it is; and, on the way, for every other version."""
        answers = super().both(query, claim, pairs)
        known = {claim.inner.query: answers}
        for mutant, other in list(self._claims):
            if self._versions[mutant.name].reads:
                with made(mutant):
                    found = super().both(query, other, pairs)
            elif other.inner.query in known and all(o.public is None for o in other.plan.outputs):
                found = known[other.inner.query]
            else:
                found = known[other.inner.query] = super().both(query, other, pairs)
            finding = self._compared(mutant, query, other, pairs, found)
            if finding is not None:
                self._claims.remove((mutant, other))
                self.open.remove(mutant)
                self.caught[mutant.name] = Caught(self.tally.pairs, time.monotonic() - self.begun, finding)
        return answers

    def _compared(self, mutant: Mutant, query: Query, claim: Claim, pairs: Sequence[Pair],
                  answers: Sequence[tuple[Answer, Answer]]) -> str | None:
        noisy, costs = parts(claim.plan), {camera: costs_of(claim.plan, camera) for camera in CAMERAS}
        standing = self.standing[mutant.name]
        with made(mutant):
            for pair, (one, other) in zip(pairs, answers, strict=True):
                finding: Finding | None
                finding, ratio = self._judge(query, claim, pair, one, other, noisy, costs[pair.camera])
                if finding is not None:
                    return str(finding)
                if ratio > standing.nearest:
                    standing.nearest, standing.statement = ratio, query.claimed
        return None

    def hunt(self, pairs: int, seconds: float = float("inf")) -> None:
        """Until all are caught, or so many pairs were compared, or so long."""
        while self.open and self.tally.pairs < pairs and time.monotonic() - self.begun < seconds:
            self.run(100)


def _differ(one: Claim, other: Claim) -> bool:
    def said(claim: Claim) -> Any:
        plan = claim.plan
        return plan.outputs, plan.keys, plan.epsilon, plan.columns, plan.argmax, plan.costs, plan.linear, plan.uses, claim.inner.query

    return bool(said(one) != said(other))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--only", default="", help="those whose names have one of these in them, separated by |")
    parser.add_argument("--show", action="store_true", help="what was found")
    options = parser.parse_args()
    mutants = [mutant for mutant in ALL if any(part in mutant.name for part in options.only.split("|"))]
    missed, table = 0, dict[str, list[str]]((mutant.name, []) for mutant in mutants)
    with own_postgres() as layout:
        stand = Stand(layout)
        try:
            for seed in range(options.first, options.first + options.seeds):
                hunt = Hunt(stand, seed, mutants)
                told = 0
                with suppress(KeyboardInterrupt):
                    while hunt.open and hunt.tally.pairs < options.pairs:
                        hunt.run(500)
                        for name, caught in list(hunt.caught.items())[told:]:
                            print(f"seed {seed} {caught.pairs:>8} {caught.seconds:>6.0f} s  {name}", flush=True)
                            if options.show:
                                print(caught.finding, flush=True)
                        told = len(hunt.caught)
                        if hunt.tally.findings:
                            break
                for mutant in hunt.open:
                    print(f"seed {seed} {hunt.tally.pairs:>8} NOT FOUND  {mutant.name} ({hunt.standing[mutant.name]})", flush=True)
                for finding in hunt.tally.findings:
                    print(f"VIOLATION without a fault: {finding}", flush=True)
                missed += len(hunt.open) + len(hunt.tally.findings)
                for name, row in table.items():
                    row.append(str(hunt.caught[name].pairs) if name in hunt.caught else f"> {hunt.tally.pairs}")
        finally:
            stand.close()
    print(f"{'pairs until it was found, by seed':<80}" + "".join(f"{options.first + i:>10}" for i in range(options.seeds)))
    for name, row in sorted(table.items(), key=lambda item: (sum(">" in cell for cell in item[1]), item[0])):
        print(f"{name:<80}" + "".join(f"{cell:>10}" for cell in row))
    print(f"{missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
