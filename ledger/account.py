"""The step function of what is spent: where a release is charged, what is spent there, and the debit (PROOF.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from psycopg.rows import class_row

from privid.model import Span

from .blocks import Coarse, Fine, Parts, grow, parts, raise_blocks
from .pool import Connection

__all__ = ["Debit", "Peak", "cut_up", "debit", "merged", "peak", "positions"]


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
    """Where least remains: what is spent and what is to be charged there, and the first stretch of such positions."""

    spent: Decimal
    charge: Decimal
    first: int
    next: int

    @property
    def amount(self) -> Fraction:
        return Fraction(self.spent)

    @property
    def after(self) -> Fraction:
        return Fraction(self.spent) + Fraction(self.charge)


#: An account is a step function of its own: the recording's, or what one share of it has consumed.
_TABLES = {"ledger": ("privid.ledger", "recording"), "share": ("privid.share_ledger", "share")}

_PEAK = """
    SELECT step.spent, step.charge, step.first,
           least(step.hi, (SELECT n.frame FROM {table} n WHERE n.{key} = %(account)s AND n.frame > step.first
                           ORDER BY n.frame LIMIT 1)) AS next
    FROM (
        SELECT found.spent, span.charge, found.first, span.hi
        FROM unnest(%(lo)s::int8[], %(hi)s::int8[], %(charge)s::numeric[], %(added)s::numeric[]) span(lo, hi, charge, added)
        CROSS JOIN LATERAL (
            SELECT span.lo AS first, span.added + coalesce((SELECT l.spent FROM {table} l WHERE l.{key} = %(account)s AND l.frame <= span.lo
                                                            ORDER BY l.frame DESC LIMIT 1), 0) AS spent
            UNION ALL
            SELECT l.frame, span.added + l.spent FROM {table} l
            WHERE l.{key} = %(account)s AND l.frame > span.lo AND l.frame < span.hi
        ) found
        ORDER BY {order}, found.first
        LIMIT 1
    ) step
"""
_BY_CHARGE = "found.spent + span.charge DESC"
#: by the greatest multiple of the charge that is still possible
_BY_MULTIPLE = "(%(limit)s::numeric - found.spent) / span.charge"


# The block that reaches highest, and in it the first step that does
_PEAK_OF_BLOCKS = """
    SELECT block.spent, block.charge, top.frame AS first,
           least(block.hi, (SELECT n.frame FROM privid.ledger n WHERE n.recording = %(account)s AND n.frame > top.frame
                            ORDER BY n.frame LIMIT 1)) AS next
    FROM (
        SELECT found.first, found.spent, span.charge, span.hi
        FROM unnest(%(lo)s::int8[], %(hi)s::int8[], %(charge)s::numeric[]) span(lo, hi, charge)
        CROSS JOIN LATERAL (SELECT b.first, b.added + b.peak AS spent FROM privid.ledger_blocks b
                            WHERE b.recording = %(account)s AND b.first >= span.lo AND b.first < span.hi OFFSET 0) found
        ORDER BY {order}, found.first
        LIMIT 1
    ) block
    CROSS JOIN LATERAL (
        SELECT l.frame FROM privid.ledger l
        WHERE l.recording = %(account)s AND l.frame >= block.first
          AND l.frame < coalesce((SELECT b.first FROM privid.ledger_blocks b WHERE b.recording = %(account)s AND b.first > block.first
                                  ORDER BY b.first LIMIT 1), block.hi)
        ORDER BY l.spent DESC, l.frame
        LIMIT 1
    ) top
"""


def peak(conn: Connection, account: int, debits: Sequence[Debit], *, table: str = "ledger", limit: str | None = None,
         cut: Parts | None = None) -> Peak | None:
    """Where the debits would leave least; with a limit, where the least multiple of them would reach it. None without debits."""
    name, key = _TABLES[table]
    fine, coarse = cut or cut_up(conn, account, debits, table)
    order = _BY_CHARGE if limit is None else _BY_MULTIPLE
    found: list[Peak | None] = []
    with conn.cursor(row_factory=class_row(Peak)) as cursor:
        if fine:
            values = {"account": account, "limit": limit, "added": [part.added for part in fine], **_arrays(fine)}
            found.append(cursor.execute(_PEAK.format(table=name, key=key, order=order).encode(), values).fetchone())
        if coarse:
            values = {"account": account, "limit": limit, **_arrays(coarse)}
            found.append(cursor.execute(_PEAK_OF_BLOCKS.format(order=order).encode(), values).fetchone())
    most = None if limit is None else Fraction(limit)
    return min((one for one in found if one is not None), default=None,
               key=lambda one: (-one.after if most is None else (most - one.amount) / Fraction(one.charge), one.first))


# Sorted by what was looked up, so that all is looked up before the first row goes in: the lookups would trip over the new rows.
_SPLIT = """
    INSERT INTO {table} ({key}, frame, spent)
    SELECT %(account)s, level.frame, level.spent
    FROM (SELECT edge.frame,
                 coalesce((SELECT l.spent FROM {table} l WHERE l.{key} = %(account)s AND l.frame <= edge.frame
                           ORDER BY l.frame DESC LIMIT 1), 0) AS spent
          FROM unnest(%(edges)s::int8[]) edge(frame)) level
    ORDER BY level.spent, level.frame
    ON CONFLICT DO NOTHING
"""
# In the next two, OFFSET 0 keeps the planner from turning the lookups round: each span finds its steps by the key, whatever the
# table's statistics say. The rows found cannot move meanwhile, because the recording is locked.
_RAISE = """
    UPDATE {table} l SET spent = l.spent + step.charge
    FROM (SELECT found.frame, span.charge FROM unnest(%(lo)s::int8[], %(hi)s::int8[], %(charge)s::numeric[]) span(lo, hi, charge)
          CROSS JOIN LATERAL (SELECT s.frame FROM {table} s
                              WHERE s.{key} = %(account)s AND s.frame >= span.lo AND s.frame < span.hi OFFSET 0) found
          OFFSET 0) step
    WHERE l.{key} = %(account)s AND l.frame = step.frame
"""
# Steps inside a span rose alike and still differ from each other; only at the edges can two neighbours have become equal.
_MERGE = """
    DELETE FROM {table}
    WHERE ctid = ANY (ARRAY(
        SELECT step.ctid FROM unnest(%(edges)s::int8[]) edge(frame)
        CROSS JOIN LATERAL (SELECT l.ctid, l.spent FROM {table} l
                            WHERE l.{key} = %(account)s AND l.frame = edge.frame OFFSET 0) step
        WHERE step.spent = coalesce((SELECT p.spent FROM {table} p WHERE p.{key} = %(account)s AND p.frame < edge.frame
                                     ORDER BY p.frame DESC LIMIT 1), 0)
          AND edge.frame <> ALL (%(kept)s::int8[])))
"""


def debit(conn: Connection, account: int, debits: Sequence[Debit], *, table: str = "ledger", cut: Parts | None = None) -> None:
    """Adds charges over disjoint ascending spans. The caller holds the recording's row lock and has checked the limit."""
    if not debits:
        return
    name, key = _TABLES[table]
    fine, coarse = cut or cut_up(conn, account, debits, table)
    edges = sorted({edge for lo, hi, _ in debits for edge in (lo, hi)})
    blocks = coarse or any(part.block is not None for part in fine)
    kept = conn.execute("SELECT first FROM privid.ledger_blocks WHERE recording = %s AND first = ANY (%s)",
                        (account, edges)).fetchall() if table == "ledger" and blocks else []
    values = {"account": account, "edges": edges, "kept": [row[0] for row in kept], **_arrays(fine)}
    for statement in (_SPLIT, _RAISE):
        conn.execute(statement.format(table=name, key=key).encode(), values)
    if blocks:
        raise_blocks(conn, account, fine, coarse)
    conn.execute(_MERGE.format(table=name, key=key).encode(), values)
    if table == "ledger":
        grow(conn, account, [part.block for part in fine])


def cut_up(conn: Connection, account: int, debits: Sequence[Debit], table: str = "ledger") -> Parts:
    """Debits as what is charged to steps and what to whole blocks; holds as long as the account is locked."""
    return parts(conn, account, debits) if table == "ledger" else ([Fine(*debit) for debit in debits], [])


def _arrays(spans: Sequence[Fine] | Sequence[Coarse]) -> dict[str, object]:
    return {"lo": [s.lo for s in spans], "hi": [s.hi for s in spans], "charge": [s.charge for s in spans]}
