"""What a linear release costs at each position: a share in proportion to the chunks that a segment beginning there meets (PROOF.md)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from privid.model import Grid, Span
from privid.pieces import Pieces, View, most_met

from .account import positions

__all__ = ["MAX_PIECES", "Step", "Use", "difference", "evenly", "logged_steps", "shares", "uses_as_json"]

#: A charge of more pieces than this is rounded up to one of fewer: the ledger must not grow with the number of chunks, and a charge of so
#: many takes a few tenths of a second.
MAX_PIECES = 1_000

#: positions [lo, hi) and the share of the epsilon that is charged there
Step = tuple[int, int, Fraction]


@dataclass(frozen=True)
class Use:
    """The chunks of one table that a release runs, as far as its cost depends on them."""

    grid: Grid
    chunks: tuple[Span, ...]  # disjoint, ascending
    r: int  # frames of the longest piece of an event that the table shows
    most: int  # chunks (or runs, where a chunk has several) that the noise was made for: no event meets more of them
    pieces: int = 1  # visible pieces of one event: more than one behind a mask
    #: further bounds that hold within every segment: frames of a piece, and how often what it meets counts
    caps: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, grid: Grid, chunks: Sequence[Span], r: int, pieces: int = 1, whole: int | None = None, visible: int | None = None) -> Use:
        """Of a table that shows one event in `pieces` of `r` frames, `visible` frames in all, all within `whole` frames.

        >>> Use.of(Grid(0, 200, 10, 10), [(0, 2), (3, 5), (100, 103)], 25).most
        3
        >>> [Use.of(Grid(0, 200, 10, 10), [(0, 200)], 5, pieces, 25).most for pieces in (1, 2, 3)]
        [2, 4, 4]
        >>> Use.of(Grid(0, 200, 1, 1), [(0, 200)], 24, 11, 237, 26).most
        26
        """
        if whole is None:
            return cls.seen(grid, chunks, [View(Pieces.promised(r, pieces, visible, pieces * r), 1)])
        return cls.seen(grid, chunks, [View(Pieces.promised(r, pieces, visible, whole), 1), View(Pieces.whole(whole), 1)])

    @classmethod
    def seen(cls, grid: Grid, chunks: Sequence[Span], views: Sequence[View]) -> Use:
        """Of a table for which all these views hold, with the least `most` that noise can be made for: if the noise was made for more, the
        charge is more than it need be."""
        def reach(r: int) -> int:
            return _most(grid, chunks, r)

        most = min(view.times * most_met(view.pieces, grid.size, grid.step, reach) for view in views)
        (r, pieces), *caps = [(view.pieces.r, view.times * view.pieces.count) for view in views]
        # what is met by the whole segment is never less than what one piece of it meets
        return cls(grid, tuple(chunks), r, most, pieces, tuple(cap for cap in caps if cap[0] < r or cap[1] < pieces))


def _most(grid: Grid, chunks: Sequence[Span], r: int) -> int:
    """The most of these chunks that a run of r frames meets."""
    m, runs, most, last, inside = _neighbours(grid, r), list(chunks), 0, 0, 0
    for first, (lo, _) in enumerate(runs):  # the most among m neighbours is found where a run begins
        last = max(last, first)
        while last < len(runs) and runs[last][0] < lo + m:
            inside += runs[last][1] - runs[last][0]
            last += 1
        most = max(most, inside - max(0, runs[last - 1][1] - lo - m))
        inside -= runs[first][1] - runs[first][0]
    return most


def evenly(positions: Iterable[Span]) -> list[Step]:
    """The simple rule: the whole epsilon everywhere."""
    return [(lo, hi, Fraction(1)) for lo, hi in positions]


def shares(uses: Sequence[Use], shift: int, r_star: int, at_most: int | None = None) -> list[Step] | None:
    """The exact rule for a release over these tables of one camera; None where it would have too many pieces.

    With several tables it is the greatest of their shares: whatever the weights with which they enter a linear release, no segment
    changes more than that share of the whole.

    >>> shares([Use(Grid(0, 2, 5, 5), ((0, 2),), 4, 2)], 0, 4)
    [(-3, 2, Fraction(1, 2)), (2, 5, Fraction(1, 1)), (5, 10, Fraction(1, 2))]
    """
    found: list[list[Step]] = []
    at_most = MAX_PIECES if at_most is None else at_most
    for use in uses:
        met = _met_within(use, shift, r_star, at_most)
        if met is None:
            return None
        found.append(_joined((lo, hi, Fraction(n, use.most)) for lo, hi, n in met))
    steps = found[0] if len(found) == 1 else _upper([piece for steps in found for piece in steps])
    return steps if len(steps) <= at_most else None


def logged_steps(read: Sequence[Span], uses: Sequence[dict[str, Any]] | None, shift: int, r_star: int) -> list[Step]:
    """The same for a release of the past: `read` on the recording's timeline, `uses` as the log has them."""
    exact = shares(_uses_from_json(uses), shift, r_star) if uses else None
    return exact if exact is not None else evenly(positions(read, r_star))


def difference(new: Sequence[Step], old: Sequence[Step]) -> list[Step]:
    """Where and by how much the new steps are above the old ones.

    >>> difference([(0, 10, Fraction(1))], [(4, 20, Fraction(1, 2))])
    [(0, 4, Fraction(1, 1)), (4, 10, Fraction(1, 2))]
    """
    jumps: dict[int, Fraction] = {}
    for sign, steps in ((1, new), (-1, old)):
        for lo, hi, share in steps:
            jumps[lo] = jumps.get(lo, Fraction(0)) + sign * share
            jumps[hi] = jumps.get(hi, Fraction(0)) - sign * share
    level, result = Fraction(0), []
    for lo, hi in pairwise(sorted(jumps)):
        level += jumps[lo]
        if level > 0:
            result.append((lo, hi, level))
    return _joined(result)


def _neighbours(grid: Grid, r: int) -> int:
    """How many neighbouring chunks a piece of r frames meets at most."""
    return -(-(r + grid.size - 1) // grid.step)


def _met_within(use: Use, shift: int, r_star: int, at_most: int) -> list[tuple[int, int, int]] | None:
    """What an event meets whose longest segment begins at a position: the least that the bounds of the table allow."""
    least: list[tuple[int, int, int]] | None = None
    for r, times in ((use.r, use.pieces), *use.caps):
        met = _met(use, r, at_most)
        if met is None:
            continue
        met = _greatest_within([(lo + shift, hi + shift, n) for lo, hi, n in met], r_star - r)
        met = _joined((lo, hi, min(n * times, use.most)) for lo, hi, n in met)
        lower = met if least is None else _lower(least, met)
        if least is None or len(lower) <= at_most:
            least = lower
    return least


def _met(use: Use, r: int, at_most: int) -> list[tuple[int, int, int]] | None:
    """How many chunks a piece of r frames meets, by its first frame. Where chunks are many, what lies between the ramps at both ends of a
    run is taken as if every piece met as many as any does."""
    grid = use.grid
    count = sum(hi - lo for lo, hi in use.chunks)
    m = _neighbours(grid, r)
    ramp = None if 2 * count <= at_most else m
    if ramp is not None and 2 * sum(min(hi - lo, m) for lo, hi in use.chunks) > at_most:
        return None
    jumps: dict[int, int] = {}
    for lo, hi in use.chunks:
        length = hi - lo if ramp is None else min(hi - lo, ramp)
        for j in range(length):
            begins, ends = grid.frames(lo + j)[0] - r + 1, grid.frames(hi - length + j)[1]
            jumps[begins] = jumps.get(begins, 0) + 1
            jumps[ends] = jumps.get(ends, 0) - 1
    level, steps = 0, []
    places = sorted(jumps)
    for place, following in pairwise(places):
        level += jumps[place]
        if level:
            steps.append((place, following, level if ramp is None else min(level, m)))
    return steps


def _greatest_within(steps: list[tuple[int, int, int]], further: int) -> list[tuple[int, int, int]]:
    """The most over a position and the `further` ones after it: the piece may lie anywhere in the longest segment."""
    return steps if not further else _upper([(lo - further, hi, n) for lo, hi, n in steps])


def _upper(pieces: list[Any]) -> list[Any]:
    """The greatest value at each position of pieces that overlap."""
    edges = sorted({edge for lo, hi, _ in pieces for edge in (lo, hi)})
    waiting = sorted(pieces, key=lambda piece: piece[0])
    heap: list[tuple[Any, int]] = []
    result, n = [], 0
    for lo, hi in pairwise(edges):
        while n < len(waiting) and waiting[n][0] <= lo:
            heapq.heappush(heap, (-waiting[n][2], waiting[n][1]))
            n += 1
        while heap and heap[0][1] <= lo:
            heapq.heappop(heap)
        if heap:
            result.append((lo, hi, -heap[0][0]))
    return _joined(result)


def _lower(one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The lesser of two at each position, where both have one: nothing is met where either says so.

    >>> _lower([(0, 4, 3), (4, 9, 2)], [(2, 5, 1), (5, 20, 7)])
    [(2, 5, 1), (5, 9, 2)]
    """
    result, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        (lo, hi, n), (start, stop, m) = one[i], other[j]
        if max(lo, start) < min(hi, stop):
            result.append((max(lo, start), min(hi, stop), min(n, m)))
        i, j = (i + 1, j) if hi <= stop else (i, j + 1)
    return _joined(result)


def _joined(steps: Iterable[Any]) -> list[Any]:
    """Neighbours of the same value as one."""
    result: list[Any] = []
    for lo, hi, value in steps:
        if result and result[-1][1] == lo and result[-1][2] == value:
            result[-1] = (result[-1][0], hi, value)
        else:
            result.append((lo, hi, value))
    return result


def uses_as_json(uses: Sequence[Use]) -> list[dict[str, Any]]:
    """As the log keeps them, for the day on which a longer segment is declared."""
    return [{"first": u.grid.first, "count": u.grid.count, "size": u.grid.size, "step": u.grid.step, "chunks": [list(c) for c in u.chunks],
             "r": u.r, "most": u.most, "pieces": u.pieces, **({"caps": [list(c) for c in u.caps]} if u.caps else {})} for u in uses]


def _uses_from_json(kept: Sequence[dict[str, Any]]) -> list[Use]:
    return [Use(Grid(u["first"], u["count"], u["size"], u["step"]), tuple((lo, hi) for lo, hi in u["chunks"]), u["r"], u["most"],
                u["pieces"], tuple((r, times) for r, times in u.get("caps", ()))) for u in kept]
