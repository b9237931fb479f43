"""A step function as a tree of blocks, so that a charge over a million steps touches a handful of rows (PROOF.md).

An account is kept as its **jumps**: at which frame it rises or falls, and by how much. The level at a frame is the sum of the jumps up
to it, so a debit over any window changes two of them. A **block** is a run of neighbouring jumps, or of neighbouring blocks of one height
less; it knows the sum of the jumps in it and the highest level in it, counted from the level before it. Blocks of one height lie side by
side and cover every position. Whoever wants the highest level of a window opens the blocks in which the window begins and ends, and asks
the others.

Here is the arithmetic alone; account.py reads and writes the rows.
"""

from __future__ import annotations

import decimal
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from operator import itemgetter

__all__ = ["BEGIN", "END", "SIZE", "Block", "Item", "Part", "Row", "add", "contents", "exactly", "highest_in", "jumps_as_parts", "unopened"]

#: before and beyond any frame
BEGIN, END = -(2**62), 2**62
#: parts of a new block, at least two; it is divided when it has more than twice as many
SIZE = 32

#: first frame, sum, and the highest level counted from the level before: of a block, or of a jump. An empty block has no highest level.
Part = tuple[int, Decimal, Decimal | None]
#: the same with its height: 0 is a jump
Item = tuple[int, Decimal, Decimal | None, int]
#: height and part, as a block is stored
Row = tuple[int, Part]

_ZERO = Decimal(0)
_FIRST = itemgetter(0)
_EXACT = decimal.Context(prec=200_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN,
                         traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow, decimal.Underflow])


def exactly() -> AbstractContextManager[decimal.Context]:
    """Sums of numerics are exact within it: what would have to be rounded raises."""
    return decimal.localcontext(_EXACT)


@dataclass
class Block:
    """An opened block. Parts that are opened themselves are in `inner`, by their first frame."""

    height: int
    first: int
    next: int
    parts: list[Part] = field(default_factory=list)
    inner: dict[int, Block] = field(default_factory=dict)


def jumps_as_parts(jumps: Iterable[tuple[int, Decimal]]) -> list[Part]:
    return [(frame, jump, jump) for frame, jump in sorted(jumps)]


def unopened(block: Block, edges: Sequence[int]) -> list[Block]:
    """The parts in which the edges (ascending) lie, yet to be filled; they belong to the block from now on."""
    firsts = list(map(_FIRST, block.parts))
    inside = edges[bisect_left(edges, block.first):bisect_left(edges, block.next)]
    for n in sorted({bisect_right(firsts, edge) - 1 for edge in inside}):
        stop = firsts[n + 1] if n + 1 < len(firsts) else block.next
        block.inner[firsts[n]] = Block(block.height - 1, firsts[n], stop)
    return list(block.inner.values())


def contents(block: Block) -> Iterator[Item]:
    """Jumps and unopened blocks, ascending: together the whole of it."""
    for part in block.parts:
        opened = block.inner.get(part[0])
        if opened is None:
            yield (*part, block.height - 1)
        else:
            yield from contents(opened)


def highest_in(root: Block, windows: Sequence[tuple[int, int]]) -> list[tuple[Decimal, Item | None]]:
    """The highest level of each window (ascending, disjoint), and by which jump or in which block it is first reached: None for the level
    that the window begins with. The blocks that hold a window's edges must be opened."""
    found: list[tuple[Decimal, Item | None]] = []
    rest = contents(root)
    item = next(rest, None)
    with exactly():
        level = _ZERO
        for lo, hi in windows:
            while item is not None and item[0] <= lo:
                level += item[1]
                item = next(rest, None)
            best, place = level, None
            while item is not None and item[0] < hi:
                if item[2] is not None and level + item[2] > best:
                    best, place = level + item[2], item
                level += item[1]
                item = next(rest, None)
            found.append((best, place))
    return found


def add(root: Block, jumps: Sequence[tuple[int, Decimal]]) -> tuple[list[Row], list[int]]:
    """Adds jumps (ascending) to an opened tree; what has to be stored of its blocks, and where there is no jump any more. The tree is
    used up."""
    changed: list[Row] = []
    even: list[int] = []
    with exactly():
        parts, height = _added(root, jumps, changed, even), root.height
        while len(parts) > 2 * SIZE:  # the root itself is not stored: it gets a height more
            parts = _stored(height, BEGIN, parts, changed)
            height += 1
    return changed, even


def _added(block: Block, jumps: Sequence[tuple[int, Decimal]], changed: list[Row], even: list[int]) -> list[Part]:
    """The block's parts with the jumps."""
    if block.height == 1:
        by_frame = {part[0]: part[1] for part in block.parts}
        for frame, jump in jumps:
            by_frame[frame] = by_frame.get(frame, _ZERO) + jump
            if not by_frame[frame]:
                del by_frame[frame]
                even.append(frame)
        return jumps_as_parts(by_frame.items())
    parts: list[Part] = []
    done = 0
    for part in block.parts:
        opened = block.inner.get(part[0])
        if opened is None:
            parts.append(part)
        else:
            stop = bisect_left(jumps, opened.next, key=_FIRST)
            parts += _stored(opened.height, opened.first, _added(opened, jumps[done:stop], changed, even), changed)
            done = stop
    assert done == len(jumps), "a jump lies in a block that was not opened"
    return parts


def _stored(height: int, first: int, parts: list[Part], changed: list[Row]) -> list[Part]:
    """A block of these parts, or several when they have become too many. No level changes by a division."""
    runs = max(1, len(parts) // SIZE) if len(parts) > 2 * SIZE else 1
    borders = [len(parts) * n // runs for n in range(runs + 1)]
    blocks = [_measured(parts[lo][0] if lo else first, parts[lo:hi]) for lo, hi in pairwise(borders)]
    changed += ((height, block) for block in blocks)
    return blocks


def _measured(first: int, parts: Sequence[Part]) -> Part:
    total, peak = _ZERO, None
    for _, sum_, highest in parts:
        if highest is not None and (peak is None or total + highest > peak):
            peak = total + highest
        total += sum_
    return first, total, peak
