"""Looks for releases that the ledger accepts one by one though one event loses more than epsilon by all of them.

What an event loses is computed here from what it is: a segment of r frames meets x of the chunks of a release whose noise was made for m̂ of
them, so it loses epsilon · x / m̂ by it, and all of these can add up. Behind a mask only a few shorter pieces of the segment are visible,
perhaps fewer frames in all than these pieces could have; the event may have them wherever they do most. Nothing of the ledger enters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

from privid.errors import BudgetExhausted
from privid.ledger import Claim, ReleaseRecord, Use
from privid.model import Camera, Grid
from tests.ledger.postgres import camera, record, video_file

__all__ = ["Query", "R", "search"]

R, FRAMES = 4, 80
Charge = Callable[[Sequence[Claim], ReleaseRecord], int]


@dataclass(frozen=True)
class Query:
    """COUNT over a table: chunks of some size from a first frame on, a stride between them, perhaps behind a mask."""

    first: int
    count: int
    size: int
    step: int
    epsilon: Fraction
    mask: tuple[int, int, int] | None = None  # frames of a visible piece, how many pieces one event has, and the frames of all of them

    @property
    def grid(self) -> Grid:
        return Grid(self.first, self.count, self.size, self.step)

    @cache  # noqa: B019 (queries are few and small)
    def chunks(self, q: int, r: int) -> frozenset[int]:
        """Chunks of which a segment [q, q + r) has a frame."""
        spans = ((j, *self.grid.frames(j)) for j in range(self.count))
        return frozenset(j for j, lo, hi in spans if lo < q + r and q < hi)

    def met(self, q: int, r: int) -> int:
        """Chunks in which an event in the segment [q, q + r) can be visible."""
        if self.mask is None:
            return len(self.chunks(q, r))
        piece, pieces, visible = self.mask
        return max((len(frozenset().union(*(self.chunks(p, length) for p, length in some)))
                    for some in _shown(q, r, piece, pieces, visible)), default=0)

    @cache  # noqa: B019 (queries are few and small)
    def noise(self, r: int) -> int:
        """Chunks that the noise was made for (calculus/rules/base_table.md, mask.md), by the definition."""
        def most(length: int) -> int:
            return max(len(self.chunks(p, length)) for p in range(-length, FRAMES + length))
        if self.mask is None:
            return most(r)
        piece, pieces, visible = self.mask
        parted = (some for some in product(range(piece + 1), repeat=pieces) if sum(some) <= visible)
        return min(max(sum(most(length) for length in some if length) for some in parted), most(r))

    def loss(self, q: int, r: int) -> Fraction:
        return self.epsilon * self.met(q, r) / self.noise(r)

    @property
    def use(self) -> Use:
        """What the ledger is told."""
        piece, pieces, visible = self.mask or (R, 1, R)
        return Use.of(self.grid, [(0, self.count)], piece, pieces, R, visible)


@cache
def _shown(q: int, r: int, piece: int, pieces: int, visible: int) -> list[tuple[tuple[int, int], ...]]:
    """Ways to be visible within [q, q + r): first frame and length of each piece."""
    runs = [(p, length) for length in range(1, piece + 1) for p in range(q, q + r - length + 1)]
    found = [some for number in range(1, pieces + 1) for some in combinations_with_replacement(runs, number)]
    return [some for some in found if sum(length for _, length in some) <= visible]


#: no mask, and masks that leave pieces of an event that together are shorter or as long as it
MASKS = (None, None, (1, 1, 1), (2, 1, 2), (1, 2, 2), (2, 2, 4), (3, 2, 6), (2, 2, 3), (3, 2, 3), (2, 3, 3), (1, 3, 3))


def _query(chosen: random.Random, masks: bool) -> Query:
    size = chosen.randint(1, 6)
    step = max(1, size + chosen.choice([0, 0, 0, 1, 3, -1]))
    count = chosen.randint(1, 6)
    first = chosen.randint(0, max(0, min(16, FRAMES - count * step - size)))
    epsilon = Fraction(1, chosen.choice([1, 2, 2, 3, 4]))
    return Query(first, count, size, step, epsilon, chosen.choice(MASKS) if masks else None)


def _varied(queries: list[Query], chosen: random.Random, masks: bool) -> list[Query]:
    changed = list(queries)
    what = chosen.randrange(4)
    if what == 0 and len(changed) < 9:
        changed.insert(chosen.randrange(len(changed) + 1), _query(chosen, masks))
    elif what == 1 and len(changed) > 1:
        del changed[chosen.randrange(len(changed))]
    elif what == 2:
        changed[chosen.randrange(len(changed))] = _query(chosen, masks)
    else:
        chosen.shuffle(changed)
    return changed


def search(charge: Charge, *, rounds: int, climbs: int, seed: int, linear: bool, mark: str, masks: bool = False) -> Fraction:
    """The greatest loss, in units of the camera's epsilon, over random sequences and those reached by climbing from them."""
    chosen, best, number = random.Random(seed), Fraction(0), 0

    def tried(queries: Sequence[Query]) -> Fraction:
        nonlocal number
        number += 1
        fresh = _fresh(f"{mark}-{number}")
        accepted = []
        for query in queries:
            spans = [query.grid.frames(j) for j in range(query.count)]
            uses = [query.use] if linear else []
            try:
                charge([Claim(fresh, spans, query.epsilon, uses)], record())
                accepted.append(query)
            except BudgetExhausted:
                pass
        return max(sum((query.loss(q, R) for query in accepted), Fraction(0)) for q in range(-R, FRAMES + R))

    for _ in range(rounds):
        queries = [_query(chosen, masks) for _ in range(chosen.randint(3, 8))]
        found = tried(queries)
        for _ in range(climbs):
            other = _varied(queries, chosen, masks)
            loss = tried(other)
            if loss >= found:
                queries, found = other, loss
        best = max(best, found)
    return best


def _fresh(mark: str) -> Camera:
    """The same camera over footage that nobody has asked about."""
    made = camera(mark, frames=FRAMES, r=R)
    file = video_file(mark, 0, FRAMES)
    return Camera(made.name, made.owner, made.starts, made.rho, made.k, made.epsilon, made.quantum,
                  type(made.footage)((file,), made.footage.fps, 64, 48))
