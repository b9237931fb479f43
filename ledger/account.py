"""The step function of what is spent: where a release is charged, what is spent there, and the debit (PROOF.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from psycopg.rows import class_row

from privid.model import Span

from .pool import Connection

__all__ = ["Debit", "Peak", "debit", "merged", "peak", "positions"]


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
        FROM unnest(%(lo)s::int8[], %(hi)s::int8[], %(charge)s::numeric[]) span(lo, hi, charge)
        CROSS JOIN LATERAL (
            SELECT span.lo AS first, coalesce((SELECT l.spent FROM {table} l WHERE l.{key} = %(account)s AND l.frame <= span.lo
                                               ORDER BY l.frame DESC LIMIT 1), 0) AS spent
            UNION ALL
            SELECT l.frame, l.spent FROM {table} l
            WHERE l.{key} = %(account)s AND l.frame > span.lo AND l.frame < span.hi
        ) found
        ORDER BY {order}, found.first
        LIMIT 1
    ) step
"""
_BY_CHARGE = "found.spent + span.charge DESC"
#: by the greatest multiple of the charge that is still possible
_BY_MULTIPLE = "(%(limit)s::numeric - found.spent) / span.charge"


def peak(conn: Connection, account: int, debits: Sequence[Debit], *, table: str = "ledger", limit: str | None = None) -> Peak | None:
    """Where the debits would leave least; with a limit, where the least multiple of them would reach it. None without debits."""
    name, key = _TABLES[table]
    statement = _PEAK.format(table=name, key=key, order=_BY_CHARGE if limit is None else _BY_MULTIPLE)
    with conn.cursor(row_factory=class_row(Peak)) as cursor:
        return cursor.execute(statement.encode(), {"account": account, "limit": limit, **_arrays(debits)}).fetchone()


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
                                     ORDER BY p.frame DESC LIMIT 1), 0)))
"""


def debit(conn: Connection, account: int, debits: Sequence[Debit], *, table: str = "ledger") -> None:
    """Adds charges over disjoint ascending spans. The caller holds the recording's row lock and has checked the limit."""
    if not debits:
        return
    name, key = _TABLES[table]
    edges = sorted({edge for lo, hi, _ in debits for edge in (lo, hi)})
    values = {"account": account, "edges": edges, **_arrays(debits)}
    for statement in (_SPLIT, _RAISE, _MERGE):
        conn.execute(statement.format(table=name, key=key).encode(), values)


def _arrays(debits: Sequence[Debit]) -> dict[str, object]:
    return {"lo": [lo for lo, _, _ in debits], "hi": [hi for _, hi, _ in debits], "charge": [charge for _, _, charge in debits]}
