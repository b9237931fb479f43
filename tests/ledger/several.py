"""Looks for releases over several cameras that the ledger accepts one by one though an event of one camera loses more than its epsilon.

Statements are counts over tables of two cameras with policies of their own. The calculus makes the noise and says what each camera is
charged, the engine makes claims of it, the ledger decides. What an event loses is computed from what it is: a segment meets some chunks of
its own camera, each of which may have all its rows or none, so it loses that many rows over the noise scale, for each of its K segments.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from privid.engine.claims import claims_of
from privid.errors import BudgetExhausted
from privid.ledger import Ledger
from privid.model import Camera, Grid, Key, Plan, Span, Table
from tests.calculus import builders
from tests.ledger.postgres import camera, record, video_file

__all__ = ["Part", "Statement", "search"]

FRAMES = 80
#: frames of a segment and number of segments
POLICIES = {"east": (4, 1), "west": (7, 2)}


@dataclass(frozen=True)
class Part:
    """One table of a statement."""

    camera: str
    grid: Grid
    rows: int

    def changed(self, q: int) -> int:
        """Rows that a segment which begins at frame q can change."""
        r = POLICIES[self.camera][0]
        return self.rows * sum(1 for j in range(self.grid.count) if self.grid.frames(j)[0] < q + r and q < self.grid.frames(j)[1])


@dataclass(frozen=True)
class Statement:
    parts: tuple[Part, ...]
    epsilon: Fraction


def _statement(chosen: random.Random) -> Statement:
    parts = []
    for _ in range(chosen.choice((1, 2, 2, 2, 3))):
        size, count = chosen.randint(1, 6), chosen.randint(1, 6)
        step = max(1, size + chosen.choice((0, 0, 1, 3, -1)))
        first = chosen.randint(0, min(16, FRAMES - count * step - size))
        parts.append(Part(chosen.choice(sorted(POLICIES)), Grid(first, count, size, step), chosen.choice((1, 1, 2, 20))))
    return Statement(tuple(parts), Fraction(1, chosen.choice((1, 1, 2, 3, 4, 7))))


def _nothing(expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
    raise AssertionError("these statements have no trusted expressions")


def _plan(statement: Statement, cameras: dict[str, Camera]) -> Plan:
    tables = [replace(builders.table(index=i, max_rows=part.rows), camera=cameras[part.camera], grid=part.grid)
              for i, part in enumerate(statement.parts)]
    sides = [builders.rows(builders.col("plate"), source=builders.scan(i)) for i in range(len(tables))]
    select = builders.select([builders.count()], source=builders.subquery(builders.union_all(*sides, types=["text"])))
    return builders.analyse(builders.request(select), tables, statement.epsilon, _nothing)


def _varied(statements: list[Statement], chosen: random.Random) -> list[Statement]:
    changed = list(statements)
    what = chosen.randrange(3)
    if what == 0 and len(changed) < 9:
        changed.insert(chosen.randrange(len(changed) + 1), _statement(chosen))
    elif what == 1:
        changed[chosen.randrange(len(changed))] = _statement(chosen)
    else:
        chosen.shuffle(changed)
    return changed


def search(ledger: Ledger, *, rounds: int, climbs: int, seed: int, linear: bool, mark: str, weaken: Fraction = Fraction(1)) -> Fraction:
    """The greatest loss of an event of either camera, in units of its epsilon. `weaken`: the part of its cost that a camera is charged."""
    chosen, best, number = random.Random(seed), Fraction(0), 0

    def tried(statements: Sequence[Statement]) -> Fraction:
        nonlocal number
        number += 1
        cameras = {name: _fresh(f"{mark}-{name}-{number}", *policy) for name, policy in POLICIES.items()}
        lost: dict[tuple[str, int], Fraction] = {}
        for statement in statements:
            plan = replace(_plan(statement, cameras), linear=linear)
            plan = replace(plan, costs=tuple(replace(cost, epsilon=cost.epsilon * weaken) for cost in plan.costs))
            try:
                ledger.charge(claims_of(plan), record())
            except BudgetExhausted:
                continue
            for name, (r, k) in POLICIES.items():
                for q in range(-r, FRAMES + r):
                    changed = sum(part.changed(q) for part in statement.parts if part.camera == name)
                    lost[name, q] = lost.get((name, q), Fraction(0)) + k * changed / plan.outputs[0].scale
        return max(lost.values(), default=Fraction(0))

    for _ in range(rounds):
        statements = [_statement(chosen) for _ in range(chosen.randint(3, 8))]
        found = tried(statements)
        for _ in range(climbs):
            other = _varied(statements, chosen)
            loss = tried(other)
            if loss >= found:
                statements, found = other, loss
        best = max(best, found)
    return best


def _fresh(name: str, r: int, k: int) -> Camera:
    """A camera over footage that nobody has asked about."""
    made = camera(name, frames=FRAMES, r=r, k=k)
    return replace(made, footage=replace(made.footage, files=(video_file(name, 0, FRAMES),)))
