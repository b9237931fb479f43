"""The step function of what is spent: where a release is charged, what is spent there, and the debit (PROOF.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from psycopg.rows import class_row

from privid.model import Span

from .pool import Connection

__all__ = ["Peak", "debit", "merged", "outside", "peak", "positions"]


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


def outside(spans: Sequence[Span], holes: Sequence[Span]) -> list[Span]:
    """What of the spans lies in none of the holes; both disjoint and ascending.

    >>> outside([(0, 10)], [(2, 3), (5, 20)])
    [(0, 2), (3, 5)]
    """
    result: list[Span] = []
    for lo, hi in spans:
        for start, stop in holes:
            if stop <= lo or start >= hi:
                continue
            if start > lo:
                result.append((lo, start))
            lo = stop
        if lo < hi:
            result.append((lo, hi))
    return result


@dataclass(frozen=True)
class Peak:
    """The most that is spent anywhere in some spans, and the first stretch of them where it is."""

    spent: Decimal
    first: int
    next: int

    @property
    def amount(self) -> Fraction:
        return Fraction(self.spent)


_PEAK = """
    SELECT step.spent, step.first,
           least(span.hi, (SELECT n.frame FROM privid.ledger n WHERE n.recording = %(recording)s AND n.frame > step.first
                           ORDER BY n.frame LIMIT 1)) AS next
    FROM unnest(%(lo)s::int8[], %(hi)s::int8[]) span(lo, hi)
    CROSS JOIN LATERAL (
        (SELECT span.lo AS first, l.spent FROM privid.ledger l
         WHERE l.recording = %(recording)s AND l.frame <= span.lo ORDER BY l.frame DESC LIMIT 1)
        UNION ALL
        SELECT l.frame, l.spent FROM privid.ledger l
        WHERE l.recording = %(recording)s AND l.frame > span.lo AND l.frame < span.hi
    ) step
    ORDER BY step.spent DESC, step.first
    LIMIT 1
"""


def peak(conn: Connection, recording: int, spans: Sequence[Span]) -> Peak | None:
    """The most spent in the spans; None when the ledger has no step there."""
    with conn.cursor(row_factory=class_row(Peak)) as cursor:
        return cursor.execute(_PEAK, {"recording": recording, "lo": [lo for lo, _ in spans], "hi": [hi for _, hi in spans]}).fetchone()


# Sorted by what was looked up, so that all is looked up before the first row goes in: the lookups would trip over the new rows.
_SPLIT = """
    INSERT INTO privid.ledger (recording, frame, spent)
    SELECT %(recording)s, level.frame, level.spent
    FROM (SELECT edge.frame,
                 coalesce((SELECT l.spent FROM privid.ledger l WHERE l.recording = %(recording)s AND l.frame <= edge.frame
                           ORDER BY l.frame DESC LIMIT 1), 0) AS spent
          FROM unnest(%(edges)s::int8[]) edge(frame)) level
    ORDER BY level.spent, level.frame
    ON CONFLICT DO NOTHING
"""
# In the next two, OFFSET 0 keeps the planner from turning the lookups round: each span finds its steps by the key, whatever the
# table's statistics say. The rows found cannot move meanwhile, because the recording is locked.
_RAISE = """
    UPDATE privid.ledger SET spent = spent + %(charge)s::numeric
    WHERE ctid = ANY (ARRAY(
        SELECT step.ctid FROM unnest(%(lo)s::int8[], %(hi)s::int8[]) span(lo, hi)
        CROSS JOIN LATERAL (SELECT l.ctid FROM privid.ledger l
                            WHERE l.recording = %(recording)s AND l.frame >= span.lo AND l.frame < span.hi OFFSET 0) step))
"""
# Steps inside a span rose alike and still differ from each other; only at the edges can two neighbours have become equal.
_MERGE = """
    DELETE FROM privid.ledger
    WHERE ctid = ANY (ARRAY(
        SELECT step.ctid FROM unnest(%(edges)s::int8[]) edge(frame)
        CROSS JOIN LATERAL (SELECT l.ctid, l.spent FROM privid.ledger l
                            WHERE l.recording = %(recording)s AND l.frame = edge.frame OFFSET 0) step
        WHERE step.spent = coalesce((SELECT p.spent FROM privid.ledger p WHERE p.recording = %(recording)s AND p.frame < edge.frame
                                     ORDER BY p.frame DESC LIMIT 1), 0)))
"""


def debit(conn: Connection, recording: int, spans: Sequence[Span], charge: str) -> None:
    """Adds a charge over disjoint, not touching spans. The caller holds the recording's row lock and has checked the limit."""
    if not spans:
        return
    values = {"recording": recording, "charge": charge, "lo": [lo for lo, _ in spans], "hi": [hi for _, hi in spans],
              "edges": [edge for span in spans for edge in span]}
    for statement in (_SPLIT, _RAISE, _MERGE):
        conn.execute(statement, values)
