"""The step function of what is spent: where a release is charged, what is spent there, and the debit (PROOF.md)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from operator import itemgetter
from typing import LiteralString, cast

from psycopg import sql

from privid.model import Span

from .blocks import BEGIN, END, Block, Item, Part, add, exactly, highest_in, jumps_as_parts, unopened
from .pool import Connection

__all__ = ["Account", "Debit", "Peak", "Stored", "merged", "positions"]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same frames as disjoint ascending spans that do not touch.

    >>> merged([(5, 9), (0, 3), (3, 4), (6, 7)])
    [(0, 4), (5, 9)]
    """
    result: list[Span] = []
    for lo, hi in sorted(spans):
        if result and lo <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], hi))
        else:
            result.append((lo, hi))
    return result


def positions(spans: Iterable[Span], r_star: int) -> list[Span]:
    """Where a segment of r_star frames can begin and still meet the spans: each grows by r_star - 1 to the left.

    >>> positions([(10, 20), (22, 30)], 3)
    [(8, 30)]
    """
    return merged((lo - r_star + 1, hi) for lo, hi in spans) if r_star else []


#: positions [lo, hi) and what is charged there, as the text of a numeric
Debit = tuple[int, int, str]


@dataclass(frozen=True)
class Peak:
    """Where least remains: what is spent there, and the debit that is to be charged there."""

    spent: Decimal
    debit: int  # its number
    charge: Decimal
    place: Item | None  # the jump, or the block, by which it is reached; None where the debit begins

    @property
    def amount(self) -> Fraction:
        return Fraction(self.spent)

    @property
    def after(self) -> Fraction:
        return Fraction(self.spent) + Fraction(self.charge)


class Account:
    """A step function of its own: what is spent of a recording, or under one share of it."""

    def __init__(self, root: Block) -> None:
        self._root = root

    @classmethod
    def imagined(cls, debits: Iterable[Debit]) -> Account:
        """One that exists nowhere but here, with these debits."""
        return cls(Block(1, BEGIN, END, jumps_as_parts(_jumps(debits))))

    def peak(self, debits: Sequence[Debit], limit: Fraction | None = None) -> Peak | None:
        """Where the debits (disjoint, ascending) would leave least; with a limit, where the least multiple of them would reach it. None
        without debits."""
        found = [Peak(level, number, Decimal(debit[2]), place) for number, (debit, (level, place)) in
                 enumerate(zip(debits, highest_in(self._root, [debit[:2] for debit in debits]), strict=True))]
        if limit is None:
            with exactly():
                return max(found, default=None, key=lambda one: one.spent + one.charge)
        return min(found, default=None, key=lambda one: (limit - one.amount) / Fraction(one.charge))


#: table of the jumps, table of the blocks, column of the account
_TABLES = {"ledger": (sql.Identifier("privid", "ledger"), sql.Identifier("privid", "ledger_blocks"), sql.Identifier("recording")),
           "share": (sql.Identifier("privid", "share_ledger"), sql.Identifier("privid", "share_blocks"), sql.Identifier("share"))}

# All that a few edges open, from the root down, in one go. A jump has no peak of its own here.
_OPEN = """
    WITH RECURSIVE opened(height, lo, hi) AS (
        SELECT coalesce((SELECT max(h.height) FROM {blocks} h WHERE h.{key} = %(account)s), 0) + 1, %(begin)s::int8, %(end)s::int8
        UNION
        SELECT o.height - 1, own.first,
               coalesce((SELECT n.first FROM {blocks} n WHERE n.{key} = %(account)s AND n.height = o.height - 1 AND n.first > own.first
                         ORDER BY n.first LIMIT 1), %(end)s)
        FROM opened o CROSS JOIN unnest(%(edges)s::int8[]) edge(frame)
        CROSS JOIN LATERAL (SELECT b.first FROM {blocks} b
                            WHERE b.{key} = %(account)s AND b.height = o.height - 1 AND b.first <= edge.frame
                            ORDER BY b.first DESC LIMIT 1) own
        WHERE o.height > 1 AND edge.frame >= o.lo AND edge.frame < o.hi
    )
    SELECT o.height, o.lo, o.hi, part.first, part.total, part.peak
    FROM opened o LEFT JOIN LATERAL (
        SELECT b.first, b.total, b.peak FROM {blocks} b
        WHERE b.{key} = %(account)s AND b.height = o.height - 1 AND b.first >= o.lo AND b.first < o.hi
        UNION ALL
        SELECT l.frame, l.jump, NULL FROM {jumps} l WHERE o.height = 1 AND l.{key} = %(account)s AND l.frame >= o.lo AND l.frame < o.hi
        OFFSET 0) part ON true
"""
#: more edges than this are looked for height by height: most of them will lie in the same blocks
_FEW = 16
_TOP = """
    SELECT b.height, b.first, b.total, b.peak FROM {blocks} b
    WHERE b.{key} = %(account)s AND b.height = (SELECT max(h.height) FROM {blocks} h WHERE h.{key} = %(account)s)
"""
# In the next two, OFFSET 0 keeps the planner from turning the lookups round: each span finds its rows by the key, whatever the
# table's statistics say.
_BLOCKS = """
    SELECT found.first, found.total, found.peak FROM unnest(%(lo)s::int8[], %(hi)s::int8[]) span(lo, hi)
    CROSS JOIN LATERAL (SELECT b.first, b.total, b.peak FROM {blocks} b
                        WHERE b.{key} = %(account)s AND b.height = %(height)s AND b.first >= span.lo AND b.first < span.hi OFFSET 0) found
"""
_JUMPS = """
    SELECT found.frame, found.jump FROM unnest(%(lo)s::int8[], %(hi)s::int8[]) span(lo, hi)
    CROSS JOIN LATERAL (SELECT l.frame, l.jump FROM {jumps} l
                        WHERE l.{key} = %(account)s AND l.frame >= span.lo AND l.frame < span.hi OFFSET 0) found
"""
_ADD = """
    INSERT INTO {jumps} AS l ({key}, frame, jump)
    SELECT %(account)s, j.frame, j.jump FROM unnest(%(frames)s::int8[], %(jumps)s::numeric[]) j(frame, jump)
    ON CONFLICT ({key}, frame) DO UPDATE SET jump = l.jump + excluded.jump
"""
_EVEN = "DELETE FROM {jumps} WHERE {key} = %(account)s AND frame = ANY (%(frames)s) AND jump = 0"
_STORE = """
    INSERT INTO {blocks} ({key}, height, first, total, peak)
    SELECT %(account)s, b.height, b.first, b.total, b.peak
    FROM unnest(%(heights)s::int4[], %(firsts)s::int8[], %(totals)s::numeric[], %(peaks)s::numeric[]) b(height, first, total, peak)
    ON CONFLICT ({key}, height, first) DO UPDATE SET total = excluded.total, peak = excluded.peak
"""
# One statement for both tables, because every round trip counts; neither looks at the other
_ADD_AND_STORE = f"WITH added AS ({_ADD}) {_STORE}"
_NEXT = "SELECT min(l.frame) FROM {jumps} l WHERE l.{key} = %(account)s AND l.frame > %(frame)s"
_NEXT_BLOCK = "SELECT min(b.first) FROM {blocks} b WHERE b.{key} = %(account)s AND b.height = %(height)s AND b.first > %(first)s"


class Stored(Account):
    """An account in the database, opened where the given debits begin and end. What it tells holds as long as the caller holds the
    recording's row lock or works in one snapshot."""

    def __init__(self, conn: Connection, number: int, debits: Iterable[Debit], *, table: str = "ledger") -> None:
        self._conn, self._number, self._table = conn, number, table
        edges = sorted({edge for lo, hi, _ in debits for edge in (lo, hi)})
        super().__init__(self._open(edges) if len(edges) <= _FEW else self._descend(edges))

    def _open(self, edges: list[int]) -> Block:
        rows = cast("list[tuple[int, int, int, int | None, Decimal, Decimal | None]]",
                    self._execute(_OPEN, edges=edges, begin=BEGIN, end=END))
        opened: dict[tuple[int, int], Block] = {}
        for height, lo, hi, first, total, peak in rows:
            block = opened.get((height, lo))
            if block is None:
                block = opened[height, lo] = Block(height, lo, hi)
            if first is not None:
                block.parts.append((first, total, peak if height > 1 else total))
        for block in opened.values():
            block.parts.sort(key=itemgetter(0))
        for (height, _), block in opened.items():
            for part in block.parts if height > 1 else ():
                if (height - 1, part[0]) in opened:
                    block.inner[part[0]] = opened[height - 1, part[0]]
        return opened[max(opened)[0], BEGIN]

    def _descend(self, edges: list[int]) -> Block:
        rows = cast("list[tuple[int, int, Decimal, Decimal | None]]", self._execute(_TOP))
        root = Block(rows[0][0] + 1 if rows else 1, BEGIN, END, sorted(row[1:] for row in rows))
        opened = [root]
        while opened and opened[0].height > 1:
            opened = [part for block in opened for part in unopened(block, edges)]
            self._fill(opened)
        if root.height == 1:
            self._fill(opened)
        return root

    def debit(self, debits: Iterable[Debit]) -> None:
        """Adds charges between the edges it was opened for. The caller holds the recording's row lock and has checked the limit.
        To be called once: then the account is another."""
        jumps = _jumps(debits)
        if not jumps:
            return
        rows, even = add(self._root, jumps)
        self._execute(_ADD_AND_STORE if rows else _ADD, frames=[frame for frame, _ in jumps], jumps=[jump for _, jump in jumps],
                      heights=[height for height, _ in rows], firsts=[part[0] for _, part in rows],
                      totals=[part[1] for _, part in rows], peaks=[part[2] for _, part in rows])
        if even:
            self._execute(_EVEN, frames=even)
        del self._root

    def stretch(self, peak: Peak, debits: Sequence[Debit]) -> Span:
        """The first positions of the debit at which so much is spent."""
        lo, hi, _ = debits[peak.debit]
        first = lo if peak.place is None else self._reached(peak.place)
        following = cast("list[tuple[int | None]]", self._execute(_NEXT, frame=first))[0][0]
        return first, hi if following is None else min(hi, following)

    def _reached(self, place: Item) -> int:
        """The first frame at which the highest level of a block is reached."""
        first, _, highest, height = place
        while height:
            below = Block(height, first, self._end(height, first))
            self._fill([below])
            with exactly():
                level = Decimal(0)
                for part in below.parts:
                    if part[2] is not None and level + part[2] == highest:
                        first, highest = part[0], part[2]
                        break
                    level += part[1]
            height -= 1
        return first

    def _end(self, height: int, first: int) -> int:
        """Where the next block begins."""
        end = cast("list[tuple[int | None]]", self._execute(_NEXT_BLOCK, height=height, first=first))[0][0]
        return END if end is None else end

    def _fill(self, blocks: Sequence[Block]) -> None:
        """Reads the parts of opened blocks, which are all of one height."""
        if not blocks:
            return
        spans = {"lo": [block.first for block in blocks], "hi": [block.next for block in blocks]}
        if blocks[0].height == 1:
            parts = jumps_as_parts(cast("list[tuple[int, Decimal]]", self._execute(_JUMPS, **spans)))
        else:
            parts = sorted(cast("list[Part]", self._execute(_BLOCKS, height=blocks[0].height - 1, **spans)))
        done = 0
        for block in blocks:
            stop = bisect_left(parts, block.next, lo=done, key=itemgetter(0))
            block.parts, done = parts[done:stop], stop

    def _execute(self, statement: LiteralString, **values: object) -> list[tuple[object, ...]]:
        cursor = self._conn.execute(_about(statement, self._table), {"account": self._number, **values})
        return cursor.fetchall() if cursor.description else []


@cache
def _about(statement: LiteralString, table: str) -> sql.Composed:
    """A statement about the tables of one kind of accounts."""
    jumps, blocks, key = _TABLES[table]
    return sql.SQL(statement).format(jumps=jumps, blocks=blocks, key=key)


def _jumps(debits: Iterable[Debit]) -> list[tuple[int, Decimal]]:
    """Debits, which may overlap, as what they add to the step function."""
    jumps: dict[int, Decimal] = {}
    zero = Decimal(0)
    with exactly():
        for lo, hi, charge in debits:
            amount = Decimal(charge)
            jumps[lo] = jumps.get(lo, zero) + amount
            jumps[hi] = jumps.get(hi, zero) - amount
    return sorted((frame, jump) for frame, jump in jumps.items() if jump)
