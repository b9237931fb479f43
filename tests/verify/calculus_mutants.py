"""Whether the search discovers: each fault that the calculus once had, and each weakened rule, without a hint.

One search is made for all of them. It draws statements as it does for the calculus as it is; every statement is judged by each faulty
version too, and what changes is compared with what that version claims. Which statements are drawn does not depend on where versions
differ. How many neighbours are looked at does: most where some version claims otherwise or alone accepts, near to what it claims, as would
be followed if it were in force; few where all claim the same, for there none can be found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privid.errors import PrividError
from privid.udf import noise
from tests.algebra.mutants import MUTANTS, Mutant
from tests.algebra.weaknesses import WEAKNESSES

from .calculus_claims import Claim
from .calculus_discover import Discovery, Rows
from .calculus_grammar import Query
from .calculus_mechanisms import Answer, Part
from .calculus_paths import Way
from .calculus_search import Finding
from .calculus_stand import Stand, own_postgres
from .calculus_versions import Version, beside, made
from .calculus_world import TABLES, Pair

__all__ = ["ALL", "Hunt", "main"]

#: pairs of a statement of which all versions claim the same; and rounds without coming nearer, of one of which some claim otherwise: when
#: most versions are found already, what is left is worth more
_FIRST_IF_ALIKE, _ROUNDS_IF_OTHERWISE, _ROUNDS_IF_FEW = 6, 4, 8
#: statements of which a version claims otherwise that are enough
_MANY = 25

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
        #: of the statement that is looked at: how near what the calculus itself claims
        self._nearest = 0.0
        self._beside = set[str](), set[str]()
        self._changes: dict[Any, tuple[Answer, Answer, Fraction]] = {}
        self._shown: dict[Any, tuple[Answer, Rows]] = {}
        self.standing = {mutant.name: Standing() for mutant in mutants}

    def claim(self, query: Query) -> Claim | None:
        self._claims = self.claims(query)
        return self._right or next((claim for _, claim in self._claims), None)

    def claims(self, query: Query, every: bool = False) -> list[tuple[Mutant, Claim]]:
        """What faulty versions claim otherwise. `every`: all are put in place, also those that answer the same."""
        self.stand.engine.room.answering()
        self._right = super().claim(query)
        self._refused, bodies, found = self._right is None, list(self.candidates()), list[tuple[Mutant, Claim]]()
        asked = list(self.open) if every else self._asked(query)
        right = self._right or (self._judged(bodies) if asked else None)  # of a level that is not the statement's only release
        for mutant in asked:
            if self._versions[mutant.name].claims_alike and not every:
                other = right
            else:
                with made(mutant):
                    other = self._judged(bodies)
            if other is not None and (self._elsewhere(mutant, query) or right is None or _differ(right, other)):
                self.standing[mutant.name].otherwise += 1
                found.append((mutant, other))
        return found

    def explained(self, query: Query) -> Claim:
        """Every version is asked beside the calculus, in the one judgement that there is."""
        with beside([version for version in self._open_versions if version.comparable]) as self._beside:
            return super().explained(query)

    @property
    def _open_versions(self) -> list[Version]:
        return [self._versions[mutant.name] for mutant in self.open]

    def _elsewhere(self, mutant: Mutant, query: Query) -> bool:
        """Whether this version does something else after the judgement."""
        return mutant.everywhere or (self._versions[mutant.name].changes_rows and any(TABLES[table].bounded for table in query.tables))

    def _asked(self, query: Query) -> list[Mutant]:
        """Versions that may claim otherwise of this statement, or do something else."""
        versions = self._open_versions
        asked, other = self._beside
        answered = Way(code={answers.__code__ for answers in self.stand.engine.room.answering()}).places()
        for version in versions:
            if not version.comparable and not version.claims_alike and (version.places is None or version.places & answered or
                                                                        any("calculus" in place for place in version.places)):
                asked.add(version.mutant.name)
                other.add(version.mutant.name)
        for name in asked:
            self.standing[name].asked += 1
        return [version.mutant for version in versions if version.mutant.name in other or self._elsewhere(version.mutant, query)]

    def look(self, query: Query, claim: Claim, seldom: bool) -> tuple[Finding | None, float]:
        """Where no version claims otherwise, none can be found, and little is looked at: what is seldom, and some of the rest."""
        self._nearest = 0.0
        if not self._claims and not seldom and self.rng.random() < 0.7:
            return None, 0.0
        return super().look(query, claim, seldom)

    def rounds(self, seldom: bool) -> int:
        """More for a version that was missed before, but for one that claims otherwise of many statements: there the next is worth more."""
        counts = [self.standing[mutant.name].otherwise for mutant, _ in self._claims]
        if len(self.open) < len(self.caught) / 2:
            return max((2 if count > 4 * _MANY and self.rng.random() < 0.8 else _ROUNDS_IF_FEW for count in counts), default=0)
        return max((2 if count > _MANY else min(count, _ROUNDS_IF_OTHERWISE) for count in counts), default=0)

    @property
    def first(self) -> int:
        return super().first if self._claims else _FIRST_IF_ALIKE

    def enough(self, ratio: float) -> bool:
        """What has come as near as the calculus allows will mostly not go beyond what another version does."""
        return not self._claims or (not self._refused and super().enough(self._nearest))

    def _judged(self, bodies: Sequence[dict[str, Any]]) -> Claim | None:
        """What the calculus, or the version that is in its place, claims of the outermost level that it accepts."""
        for body in bodies:
            try:
                return Claim(body, self.stand.engine.judge.claimed(body), {})
            except PrividError:
                continue
            except Exception:  # a version may be so wrong that it contradicts itself
                return None
        return None

    def rated(self, query: Query, claim: Claim, pairs: Sequence[Pair]) -> list[tuple[Finding | None, float]]:
        """For the calculus as it is, and for every other version: a pair is as near as it is to any claim. What is found where only a
        faulty version claims something is that version's."""
        self._changes.clear()
        self._shown.clear()
        answers = self.both(query, claim, pairs)
        right = self.compared(query, claim, pairs, answers)
        ratios, known = [ratio for _, ratio in right], {claim.inner.query: answers}
        self._nearest = max(self._nearest, *ratios)
        for mutant, other in list(self._claims):
            version, standing = self._versions[mutant.name], self.standing[mutant.name]
            with made(mutant) if version.changes_rows or mutant.everywhere else nullcontext():
                if version.changes_rows:
                    found = self.both(query, other, pairs)
                elif other.inner.query in known and all(o.public is None for o in other.plan.outputs):
                    found = known[other.inner.query]
                else:
                    found = known[other.inner.query] = self.both(query, other, pairs)
                rated = self.compared(query, other, pairs, found)
            finding = next((finding for finding, _ in rated if finding is not None), None)
            if finding is not None:
                self._catch(mutant, other, finding)
                continue
            ratios = [max(one, ratio) for one, (_, ratio) in zip(ratios, rated, strict=True)]
            nearest = max((ratio for _, ratio in rated), default=0.0)
            if nearest > standing.nearest:
                standing.nearest, standing.statement = nearest, query.claimed
        return [(None if self._refused else finding, ratio) for (finding, _), ratio in zip(right, ratios, strict=True)]

    def unsettled(self, query: Query, claim: Claim) -> Finding | None:
        """The same of every other version."""
        for mutant, other in list(self._claims):
            with made(mutant) if self._versions[mutant.name].changes_rows or mutant.everywhere else nullcontext():
                finding = super().unsettled(query, other)
            if finding is not None:
                self._catch(mutant, other, finding)
        return None if self._refused else super().unsettled(query, claim)

    def _catch(self, mutant: Mutant, claim: Claim, finding: Finding) -> None:
        self._claims.remove((mutant, claim))
        self.open.remove(mutant)
        self.caught[mutant.name] = Caught(self.tally.pairs, time.monotonic() - self.begun, str(finding))

    def changed(self, one: Answer, other: Answer, part: Part) -> Fraction:
        """Once for all versions that measure the same."""
        key = (id(one), id(other), part.measure)
        if key not in self._changes:
            self._changes[key] = one, other, super().changed(one, other, part)  # the answers too: so nothing else has their ids
        return self._changes[key][2]

    def shown(self, claim: Claim, answer: Answer) -> Rows:
        """Once for all versions that show the same of it, in the same way."""
        plan = claim.plan
        key = (id(answer), plan.keys, tuple(bool(o.scale or any(o.scales)) for o in plan.outputs), noise.answer)
        if key not in self._shown:
            self._shown[key] = answer, super().shown(claim, answer)
        return self._shown[key][1]

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
