"""Many sessions race for overlapping windows; afterwards there must be an order in which they could have come one by one."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from privid.errors import BudgetExhausted
from privid.ledger import Claim, Use
from privid.ledger.costs import debits
from privid.ledger.steps import evenly, shares
from privid.model import Grid
from tests.ledger.postgres import Database, camera, record

__all__ = ["Attempt", "check", "race"]

FRAMES = 400
CAMPUS = camera(frames=FRAMES, r=7, epsilon="1")


@dataclass(frozen=True)
class Attempt:
    """A release that was tried: its number when it was accepted, and what it adds at each position (from -r + 1 on)."""

    release: int | None
    adds: Sequence[tuple[int, int, Fraction]]


def race(database: Database, sessions: int, each: int, seed: int) -> list[Attempt]:
    attempts: list[Attempt] = []
    troubles: list[BaseException] = []
    start = threading.Barrier(sessions)

    def run(me: int) -> None:
        chosen, ledger = random.Random(f"{seed} {me}"), database.open_ledger(1)
        try:
            start.wait()
            for _ in range(each):
                attempts.append(_attempt(chosen, ledger.charge))
        except BaseException as trouble:  # told in the caller's thread
            troubles.append(trouble)
        finally:
            ledger.close()

    database.ledger.register(CAMPUS)
    threads = [threading.Thread(target=run, args=(me,)) for me in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not troubles, troubles[0]
    return attempts


def _attempt(chosen: random.Random, charge: object) -> Attempt:
    size, count = chosen.randint(1, 9), chosen.randint(1, 6)
    grid = Grid(chosen.randrange(FRAMES - 60), count, size, size + chosen.choice([0, 0, 1]))
    epsilon = Fraction(chosen.choice([1, 5, 20, 60, 200]), 1000)
    spans = [grid.frames(j) for j in range(count)]
    uses = [Use.of(grid, [(0, count)], CAMPUS.r)] if chosen.random() < 0.7 else []
    exact = shares(uses, 0, CAMPUS.r) if uses else evenly([(spans[0][0] - CAMPUS.r + 1, spans[-1][1])])
    assert exact is not None and callable(charge)
    adds = [(lo, hi, Fraction(amount)) for lo, hi, amount in debits(exact, epsilon)]
    try:
        return Attempt(charge([Claim(CAMPUS, spans, epsilon, uses)], record()), adds)
    except BudgetExhausted:
        return Attempt(None, adds)


def check(attempts: Sequence[Attempt]) -> tuple[int, int]:
    """Accepted ones fit in the order of their numbers, which is that of the lock; refused ones do not fit at the end. As what is spent only
    grows, a refused one then has a place in that order where it does not fit. How many were accepted and refused."""
    levels = [Fraction(0)] * (FRAMES + CAMPUS.r)

    def fits(attempt: Attempt) -> bool:
        return all(levels[q + CAMPUS.r] + amount <= 1 for lo, hi, amount in attempt.adds for q in range(lo, hi))

    accepted = sorted((attempt for attempt in attempts if attempt.release is not None), key=lambda attempt: attempt.release or 0)
    for attempt in accepted:
        assert fits(attempt), f"release {attempt.release} overdraws"
        for lo, hi, amount in attempt.adds:
            for q in range(lo, hi):
                levels[q + CAMPUS.r] += amount
    refused = [attempt for attempt in attempts if attempt.release is None]
    assert not any(fits(attempt) for attempt in refused), "refused, though it fits even at the end"
    return len(accepted), len(refused)
