"""Steps of a recording in blocks, so that a charge over a long window need not touch each of a million steps.

A block is a run of neighbouring steps. What is charged over all of it is added to the block as a whole; its steps keep what was charged
over parts of it. The level of a step is its own amount and what was added to its block. The first step of a block is never removed. Steps
before the first block are in none; a recording of few steps has no blocks at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from .pool import Connection

__all__ = ["SIZE", "Coarse", "Fine", "Parts", "grow", "parts", "raise_blocks"]

#: beyond any frame
_END = 2**62
#: steps of a new block; it is divided when it has more than twice as many
SIZE = 1024


@dataclass(frozen=True)
class Fine:
    """A part of a debit that lies in one block, and is charged to its steps."""

    lo: int
    hi: int
    charge: str
    block: int | None = None  # its first frame; None before the first block
    added: str = "0"


@dataclass(frozen=True)
class Coarse:
    """A part of a debit that consists of whole blocks."""

    lo: int
    hi: int
    charge: str


Parts = tuple[list[Fine], list[Coarse]]

# All blocks that the debits may meet: for many debits in a short window
_NEAR = """
    SELECT b.first, b.added::text FROM privid.ledger_blocks b
    WHERE b.recording = %(account)s AND b.first < %(last)s
      AND b.first >= coalesce((SELECT o.first FROM privid.ledger_blocks o WHERE o.recording = %(account)s AND o.first <= %(lo)s
                               ORDER BY o.first DESC LIMIT 1), %(lo)s)
    ORDER BY b.first
"""
# Those that matter to a single debit: where it begins, the next, and where it ends
_THREE = """
    (SELECT b.first, b.added::text FROM privid.ledger_blocks b WHERE b.recording = %(account)s AND b.first <= %(lo)s
     ORDER BY b.first DESC LIMIT 1)
    UNION
    (SELECT b.first, b.added::text FROM privid.ledger_blocks b WHERE b.recording = %(account)s AND b.first > %(lo)s AND b.first < %(last)s
     ORDER BY b.first LIMIT 1)
    UNION
    (SELECT b.first, b.added::text FROM privid.ledger_blocks b WHERE b.recording = %(account)s AND b.first > %(lo)s AND b.first < %(last)s
     ORDER BY b.first DESC LIMIT 1)
    ORDER BY 1
"""


def parts(conn: Connection, account: int, debits: Sequence[tuple[int, int, str]]) -> Parts:
    """Debits, disjoint and ascending, cut at the borders of blocks."""
    if not debits:
        return [], []
    values = {"account": account, "lo": debits[0][0], "last": debits[-1][1]}
    borders = cast("list[tuple[int, str]]", conn.execute(_THREE if len(debits) == 1 else _NEAR, values).fetchall())
    firsts = [first for first, _ in borders]
    fine: list[Fine] = []
    coarse: list[Coarse] = []
    for lo, hi, charge in debits:
        own, last = bisect_right(firsts, lo) - 1, bisect_left(firsts, hi) - 1  # the blocks of its first and of its last position
        start = own
        if own < 0 or firsts[own] != lo:
            start = own + 1
            stop = hi if start > last else firsts[start]
            fine.append(Fine(lo, stop, charge, *borders[own]) if own >= 0 else Fine(lo, stop, charge))
        if start <= last:
            if start < last:
                coarse.append(Coarse(firsts[start], firsts[last], charge))
            fine.append(Fine(firsts[last], hi, charge, *borders[last]))
    return fine, coarse


def raise_blocks(conn: Connection, account: int, fine: Sequence[Fine], coarse: Sequence[Coarse]) -> None:
    """Adds to whole blocks, and notes where the steps of a block now reach higher than any before. The steps have been raised already."""
    if coarse:
        conn.execute("""
            UPDATE privid.ledger_blocks b SET added = b.added + span.charge
            FROM (SELECT found.first, s.charge FROM unnest(%(lo)s::int8[], %(hi)s::int8[], %(charge)s::numeric[]) s(lo, hi, charge)
                  CROSS JOIN LATERAL (SELECT x.first FROM privid.ledger_blocks x
                                      WHERE x.recording = %(account)s AND x.first >= s.lo AND x.first < s.hi OFFSET 0) found
                  OFFSET 0) span
            WHERE b.recording = %(account)s AND b.first = span.first""",
            {"account": account, "lo": [c.lo for c in coarse], "hi": [c.hi for c in coarse], "charge": [c.charge for c in coarse]})
    inside = [part for part in fine if part.block is not None]
    if inside:
        conn.execute("""
            UPDATE privid.ledger_blocks b SET peak = greatest(b.peak, top.spent)
            FROM (SELECT s.block, max(found.spent) AS spent FROM unnest(%(lo)s::int8[], %(hi)s::int8[], %(block)s::int8[]) s(lo, hi, block)
                  CROSS JOIN LATERAL (SELECT max(l.spent) AS spent FROM privid.ledger l
                                      WHERE l.recording = %(account)s AND l.frame >= s.lo AND l.frame < s.hi OFFSET 0) found
                  GROUP BY s.block OFFSET 0) top
            WHERE b.recording = %(account)s AND b.first = top.block""",
            {"account": account, "lo": [p.lo for p in inside], "hi": [p.hi for p in inside], "block": [p.block for p in inside]})


def grow(conn: Connection, account: int, touched: Iterable[int | None]) -> None:
    """Divides those of the blocks that have become too long (a recording without blocks is one such block)."""
    for block in list(dict.fromkeys(touched))[:64]:
        bounds = {"account": account, "lo": _low(block), "end": _END, "size": SIZE, "limit": 2 * SIZE + 1}
        if conn.execute(_COUNT, bounds).fetchone() == (2 * SIZE + 1,):
            conn.execute(_DIVIDE, bounds)


_BOUNDS = """
    l.recording = %(account)s AND l.frame >= %(lo)s
    AND l.frame < coalesce((SELECT b.first FROM privid.ledger_blocks b WHERE b.recording = %(account)s AND b.first > %(lo)s
                            ORDER BY b.first LIMIT 1), %(end)s)"""
_COUNT = f"SELECT count(*) FROM (SELECT FROM privid.ledger l WHERE {_BOUNDS} LIMIT %(limit)s) counted".encode()
_DIVIDE = f"""
    INSERT INTO privid.ledger_blocks AS b (recording, first, added, peak)
    SELECT %(account)s, min(s.frame),
           coalesce((SELECT o.added FROM privid.ledger_blocks o WHERE o.recording = %(account)s AND o.first = %(lo)s), 0), max(s.spent)
    FROM (SELECT l.frame, l.spent, (row_number() OVER (ORDER BY l.frame) - 1) / %(size)s AS n FROM privid.ledger l WHERE {_BOUNDS}) s
    GROUP BY s.n
    ON CONFLICT (recording, first) DO UPDATE SET peak = excluded.peak
""".encode()


def _low(block: int | None) -> int:
    return -_END if block is None else block
