"""Statements with the same identity have the same exact answers: one question in many words, over random rows, in the room itself."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction

import psycopg
import pytest

from privid.engine import identity
from privid.model import Plan
from privid.udf import noise
from tests.algebra.misnomers import MISNOMERS, Misnomer

from .calculus_claims import Claim
from .calculus_stand import NotOneRelease, Stand, own_postgres
from .calculus_words import Question, Words
from .calculus_world import Pair, fresh_pair

__all__ = ["Identities", "main", "sought"]

WORLDS = 12


@dataclass
class Found:
    compared: int = 0  # pairs of statements with one identity and other words
    questions: int = 0
    #: words that mean the same: how many there were, and how many of them had the identity of the first
    alike: int = 0
    shared: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


class Identities:
    """A search."""

    def __init__(self, stand: Stand, seed: int) -> None:
        self.stand, self.rng = stand, random.Random(seed)
        self.words, self.found = Words(self.rng), Found()
        stand.engine.room.rehearses = False

    def run(self, compared: int, seconds: float = float("inf")) -> Found:
        begun = time.monotonic()
        while self.found.compared < compared and not self.found.findings and time.monotonic() - begun < seconds:
            self.ask(self.words.question())
        return self.found

    def ask(self, question: Question) -> None:
        by_identity: dict[str, dict[str, Claim]] = {}
        self.found.questions += 1
        first = None
        for slip in (0.0, 0.0, 0.0, 0.05, 0.1, 0.1, 0.3, 0.3):
            self.words.slip = slip
            statement = self.words.statement(question)
            claim = self.claim(statement)
            if claim is None:
                continue
            key = identity.reuse_key(claim.plan, [])
            by_identity.setdefault(key, {}).setdefault(claim.inner.query, claim)
            first = first or key
            if slip == 0.0:
                self.found.alike += 1
                self.found.shared += key == first
        for claims in by_identity.values():
            if len(claims) > 1:
                self.compare(list(claims.values()))

    def claim(self, statement: str) -> Claim | None:
        try:
            return self.stand.explain(statement)
        except NotOneRelease:
            return None
        except psycopg.Error as error:
            self.found.refusals[str(error).splitlines()[0][:80]] += 1
            return None

    def compare(self, claims: list[Claim]) -> None:
        """Answers of all of them over the same rows."""
        tables = sorted({table.name for claim in claims for table in claim.tables})
        worlds = [fresh_pair(self.rng, tables, self.rng.choice((0.0, 0.5))) for _ in range(WORLDS)]
        first, *others = [answers(self.stand, claim, worlds) for claim in claims]
        for claim, other in zip(claims[1:], others, strict=True):
            self.found.compared += 1
            for one, two in zip(first, other, strict=True):
                if one != two:
                    self.found.findings.append(f"{claims[0].request['query']}\n{claim.request['query']}\nanswer {one}\nand {two}")
                    return


def answers(stand: Stand, claim: Claim, worlds: list[Pair]) -> list[object]:
    """What is collected in each world, by key; of an argmax the winner."""
    plan = claim.plan
    raw = [answer for pair in stand.inner.answers(claim, worlds) for answer in pair]
    if plan.argmax is not None:
        return [noise.answer(exact(plan), [[*key, *values] for key, values in answer.items()])[0] for answer in raw]
    keys = set(plan.keys)
    return [{key: values for key, values in answer.items() if key in keys} for answer in raw]


def exact(plan: Plan) -> Plan:
    return replace(plan, outputs=tuple(replace(output, scale=Fraction(0)) for output in plan.outputs))


def sought(stand: Stand, misnomer: Misnomer, compared: int, seed: int, seconds: float = float("inf")) -> Found:
    """The search with this fault until it finds something."""
    with pytest.MonkeyPatch.context() as patch:
        misnomer.make(patch)
        return Identities(stand, seed).run(compared, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compared", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=5_000, help="pairs within which each faulty version must be found")
    options = parser.parse_args()
    begun, missed = time.monotonic(), 0
    with own_postgres() as layout:
        stand = Stand(layout)
        try:
            search = Identities(stand, options.seed)
            found = search.run(options.compared)
            print(f"{found.compared} pairs of {found.questions} questions, {len(found.findings)} with other answers; "
                  f"{100 * found.shared / max(found.alike, 1):.0f} % of words that mean the same are one release, "
                  f"{time.monotonic() - begun:.0f} s", flush=True)
            for finding in found.findings:
                print(f"\nVIOLATION: {finding}")
            for misnomer in MISNOMERS:
                faulty = sought(stand, misnomer, options.mutants, options.seed)
                missed += not faulty.findings
                print(f"{faulty.compared:>8}  {'' if faulty.findings else 'NOT FOUND  '}{misnomer.name}", flush=True)
        finally:
            stand.close()
    return 1 if found.findings or missed else 0


if __name__ == "__main__":
    sys.exit(main())
