"""Blocks of steps: a long window is charged as a few blocks, and the ledger is the same function as without them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import pytest

from privid.ledger import Claim, blocks
from privid.ledger.account import Debit, debit, peak
from privid.model import Span
from tests.ledger.postgres import Database, camera, record

LAST = 120


def pieces(chosen: random.Random) -> list[Debit]:
    """Disjoint ascending spans, some touching, with charges of their own."""
    edges = sorted(chosen.sample(range(LAST), 2 * chosen.randint(1, 5)))
    spans: list[Span] = list(pairwise(edges)) if chosen.random() < 0.4 else list(zip(edges[::2], edges[1::2], strict=True))
    if chosen.random() < 0.3:
        spans = [(0, LAST)]
    return [(lo, hi, str(chosen.randint(1, 9))) for lo, hi in spans]


def highest(levels: Sequence[int], debits: Sequence[Debit]) -> int:
    return max(levels[q] + int(charge) for lo, hi, charge in debits for q in range(lo, hi))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_debits_and_checks_over_blocks_equal_those_over_single_positions(database: Database, size: int,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SIZE", size)
    chosen, levels = random.Random(size), [0] * LAST
    recording = database.ledger.register(camera())
    for _ in range(60):
        debits = pieces(chosen)
        with database.ledger.pool.transaction() as conn:
            found = peak(conn, recording, debits)
            assert found is not None and found.after == highest(levels, debits)
            assert levels[found.first] == found.spent and any(lo <= found.first < hi for lo, hi, _ in debits)
            assert len({levels[q] for q in range(found.first, found.next)}) == 1
            limited = peak(conn, recording, debits, limit="10000")
            assert limited is not None
            least = min(Fraction(10000 - levels[q], int(charge)) for lo, hi, charge in debits for q in range(lo, hi))
            assert (10000 - limited.amount) / Fraction(limited.charge) == least
            debit(conn, recording, debits)
        for lo, hi, charge in debits:
            for q in range(lo, hi):
                levels[q] += int(charge)
    expected = [(q, level) for q, level in enumerate([*levels, 0]) if level != ([0, *levels][q])]
    assert database.steps(recording) == expected
    sizes = [row[0] for row in database.rows("""
        SELECT (SELECT count(*) FROM privid.ledger l WHERE l.frame >= b.first AND l.frame < b.next)
        FROM (SELECT first, lead(first, 1, 1000) OVER (ORDER BY first) AS next FROM privid.ledger_blocks) b""")]
    assert len(sizes) > 5 and max(sizes) <= 2 * size + 10
    assert database.rows("""SELECT FROM privid.ledger_blocks b JOIN privid.ledger l USING (recording) WHERE l.frame >= b.first
                            AND l.frame < coalesce((SELECT min(n.first) FROM privid.ledger_blocks n WHERE n.first > b.first), 1000)
                            GROUP BY b.first, b.peak HAVING max(l.spent) > b.peak""") == []


def test_a_window_over_ten_thousand_steps_is_charged_by_a_few_writes(database: Database) -> None:
    long = camera(frames=1_000_000, r=1, epsilon="1000")
    recording = database.ledger.register(long)
    database.rows("INSERT INTO privid.ledger SELECT %s, n * 50, 1 + n %% 2 FROM generate_series(0, 9999) n", recording)
    for _ in range(3):
        database.ledger.charge([Claim(long, [(0, 900_000)], Fraction(1))], record())
    assert database.ledger.remaining(long, [(0, 400_000)]) == 1000 - 5
    assert database.rows("SELECT max(spent) FROM privid.ledger") == [(5,)]  # the first charge came before there were blocks: it made them
    assert database.rows("SELECT max(added), count(*) FROM privid.ledger_blocks") == [(2, 10)]
