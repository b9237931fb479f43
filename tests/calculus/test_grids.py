"""Cells of a grid: no rectangle that moves at a bounded speed shows in more of them within a chunk than is claimed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import Any

import pytest

from privid.calculus.rules import regions
from privid.model import Cells, Region, Regions, Table, TableUse

from .builders import analyse, count, request, select, table
from .test_views import evaluate

Bound = Callable[[Cells, int, Fraction, int, int], int]


def seen(cells: Cells, frames: int, fps: Fraction, rng: random.Random) -> int:
    """Cells in which a rectangle is seen that moves as far as it may, straight on or to and fro, from a random place on."""
    step = cells.speed / fps
    place = [Fraction(rng.randint(0, 40 * cells.cell[axis]), 10) for axis in (0, 1)]
    way = [rng.choice((-1, 1)) for _ in place]
    found = set()
    for _ in range(frames):
        corner = [floor(at) for at in place]
        across, down = (range((corner[axis]) // cells.cell[axis], (corner[axis] + cells.size[axis] - 1) // cells.cell[axis] + 1)
                        for axis in (0, 1))
        found |= {(x, y) for x in across for y in down}
        way = [-one if rng.random() < 0.1 else one for one in way]
        place = [at + one * step * Fraction(rng.choice((10, 10, 10, 7)), 10) for at, one in zip(place, way, strict=True)]
    return len(found)


def boxed(cells: Cells, frames: int, fps: Fraction, rng: random.Random) -> int:
    """All cells of the box around where it was: what a program that keeps the trail could be shown of it."""
    step = cells.speed / fps * (frames - 1)
    total = 1
    for axis in (0, 1):
        at = Fraction(rng.randint(0, 40 * cells.cell[axis]), 10)
        first, last = floor(at) // cells.cell[axis], (floor(at + step) + cells.size[axis] - 1) // cells.cell[axis]
        total *= last - first + 1
    return total


def search(bound: Bound, rounds: int = 3000) -> tuple[int, list[Any]]:
    rng, attained, wrong = random.Random(8), 0, []
    for _ in range(rounds):
        cells = Cells((rng.randint(1, 12), rng.randint(1, 12)), (rng.randint(1, 15), rng.randint(1, 15)), Fraction(rng.randint(0, 60), 4))
        frames, fps = rng.randint(1, 12), Fraction(rng.choice((1, 5, 10)))
        found = max(seen(cells, frames, fps, rng), *(boxed(cells, frames, fps, rng) for _ in range(5)))
        claim = bound(cells, frames, fps, 10**6, 10**6)
        attained += found == claim
        if found > claim:
            wrong.append((cells, frames, fps, found, claim))
    return attained, wrong


def test_no_moving_rectangle_shows_in_more_cells_than_is_claimed() -> None:
    attained, wrong = search(Cells.met)
    assert not wrong, wrong[:3]
    assert attained > 300


@pytest.mark.parametrize("mutant", [
    lambda cells, frames, *rest: replace(cells, speed=Fraction(0)).met(frames, *rest),  # as if it stood still
    lambda cells, frames, *rest: cells.met(max(frames - 1, 1), *rest),  # a frame less
    lambda cells, frames, *rest: replace(cells, size=(1, 1)).met(frames, *rest),  # a point
], ids=["stands still", "a frame less", "a point"])
def test_a_bound_with_a_mistake_is_caught(mutant: Bound) -> None:
    assert search(mutant)[1]


def on_grid(size: int, cells: Cells, pitch: int = 100, columns: int = 4, apart: bool = True) -> Table:
    """A table of chunks of so many frames, 10 a second, over squares: `columns` of them in each of four rows."""
    parts = tuple(Region(f"r{y}c{x}", tuple((float(pitch * (x + right)), float(pitch * (y + down))) for right, down in CORNERS))
                  for y in range(4) for x in range(columns))
    return replace(table(size=size, max_rows=1, r=30, chunks=100), regions=Regions("grid", "soft", 16, parts, apart, cells=cells))


CORNERS = ((0, 0), (1, 0), (1, 1), (0, 1))
PEOPLE = Cells((100, 100), (30, 60), Fraction(40))


@pytest.mark.parametrize(("size", "factor"), [(1, 4), (10, 4), (12, 6), (21, 9), (400, 16)])
def test_soft_borders_work_with_chunks_longer_than_a_frame(size: int, factor: int) -> None:
    one = on_grid(size, PEOPLE)
    assert regions.factor(TableUse(one, ((0, 100),))) == factor
    plan = analyse(request(select([count()])), [one], Fraction(1), evaluate)
    assert plan.outputs[0].sensitivity == factor * (1 + -(-29 // size))


def test_a_grid_of_one_column_is_crossed_along_it_only() -> None:
    assert regions.factor(TableUse(on_grid(21, PEOPLE, columns=1), ((0, 100),))) == 3


@pytest.mark.parametrize("one", [on_grid(10, PEOPLE, pitch=50), on_grid(10, PEOPLE, pitch=110), on_grid(10, PEOPLE, apart=False)],
                         ids=["two in a cell", "across cells", "shared pixels"])
def test_regions_that_are_not_cells_of_the_grid_keep_the_bound_of_any(one: Table) -> None:
    assert regions.factor(TableUse(one, ((0, 100),))) == 16
