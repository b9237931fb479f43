"""Blocks of jumps: a window of any length is charged by a few writes, and the ledger is the same function as without them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest

from privid.errors import BudgetExhausted
from privid.ledger import Claim, blocks
from privid.ledger.account import Account, Debit, Stored
from privid.model import Camera, Span
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


#: key of an account, its jumps, its blocks
TABLES = {"ledger": ("recording", "ledger", "ledger_blocks"), "share": ("share", "share_ledger", "share_blocks")}


def check_blocks(database: Database, table: str, size: int) -> int:
    """Every height covers all frames in blocks of few parts, and each says what the jumps in it say. How many heights there are."""
    key, jumps, stored = TABLES[table]
    heights = [row[0] for row in database.rows(f"SELECT DISTINCT height FROM privid.{stored} ORDER BY 1")]
    parts = [frame for (frame,) in database.rows(f"SELECT frame FROM privid.{jumps} ORDER BY frame")]
    for height in heights:
        found = database.rows(f"SELECT first, total, peak FROM privid.{stored} WHERE height = %s ORDER BY first", height)
        assert found[0][0] == blocks.BEGIN
        for (first, total, peak), (stop, *_) in pairwise([*found, (blocks.END, 0, 0)]):
            inside = [jump for (jump,) in database.rows(
                f"SELECT jump FROM privid.{jumps} WHERE frame >= %s AND frame < %s ORDER BY frame", first, stop)]
            assert total == sum(inside)
            assert peak == max((sum(inside[:n + 1]) for n in range(len(inside))), default=None)
            assert len([part for part in parts if first <= part < stop]) <= 2 * size
        assert height == 1 or {first for first, *_ in found} <= set(parts)
        parts = [first for first, *_ in found]
    assert len(parts) <= 2 * size and database.rows(f"SELECT FROM privid.{jumps} WHERE jump = 0") == []
    assert database.rows(f"SELECT DISTINCT {key} FROM privid.{stored}") == [(1,)]
    return len(heights)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("size", "heights"), [(2, 3), (3, 2), (5, 2)])
def test_debits_and_checks_over_blocks_equal_those_over_single_positions(database: Database, table: str, size: int, heights: int,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SIZE", size)
    chosen, levels, past = random.Random(size), [0] * LAST, list[Debit]()
    number = database.ledger.register(camera())
    database.rows("INSERT INTO privid.share_accounts (recording, role) VALUES (%s, 'ana')", number)
    for _ in range(60):
        debits = pieces(chosen)
        with database.ledger.pool.transaction() as conn:
            account = Stored(conn, number, debits, table=table)
            found, imagined = account.peak(debits), Account.imagined(past).peak(debits)
            assert found is not None and found.after == highest(levels, debits)
            assert imagined is not None and (imagined.spent, imagined.debit) == (found.spent, found.debit)
            lo, hi, charge = debits[found.debit]
            first, following = account.stretch(found, debits)
            assert lo <= first < following <= hi and {levels[q] for q in range(first, following)} == {found.spent}
            assert following == hi or levels[following] != found.spent
            assert all(levels[q] < found.spent for q in range(lo, first)) and str(found.charge) == charge
            limited = account.peak(debits, Fraction(10_000))
            assert limited is not None
            least = min(Fraction(10_000 - levels[q], int(charge)) for lo, hi, charge in debits for q in range(lo, hi))
            assert (10_000 - limited.amount) / Fraction(limited.charge) == least
            account.debit(debits)
        past += debits
        for lo, hi, charge in debits:
            for q in range(lo, hi):
                levels[q] += int(charge)
    expected = [(q, level) for q, level in enumerate([*levels, 0]) if level != ([0, *levels][q])]
    key, jumps, _ = TABLES[table]
    stored = f"SELECT frame, sum(jump) OVER (ORDER BY frame) FROM privid.{jumps} WHERE {key} = %s ORDER BY frame"
    assert database.rows(stored, number) == expected
    assert check_blocks(database, table, size) >= heights


def test_jumps_that_cancel_each_other_leave_no_row_and_an_empty_block_says_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SIZE", 2)
    number = database.ledger.register(camera())
    with database.ledger.pool.transaction() as conn:
        for wanted in ([(10, 20, "1"), (30, 40, "1"), (50, 60, "1")], [(20, 30, "1"), (40, 50, "1")]):
            Stored(conn, number, wanted).debit(wanted)
    assert database.steps(number) == [(10, 1), (60, 0)]
    assert database.rows("SELECT count(*) FROM privid.ledger_blocks WHERE height = 1 AND peak IS NULL AND total = 0") == [(1,)]
    check_blocks(database, "ledger", 2)
    assert database.ledger.remaining(replace(camera(r=1), epsilon=Fraction(3)), [(12, 58)]) == 2


def test_sums_of_amounts_with_many_digits_are_exact(database: Database) -> None:
    number, small, large = database.ledger.register(camera()), "1e-30", "12345678901234567890123456789"
    for charge in (small, large, small):
        with database.ledger.pool.transaction() as conn:
            Stored(conn, number, [(0, 10, charge)]).debit([(0, 10, charge)])
    with database.ledger.pool.snapshot() as conn:
        found = Stored(conn, number, [(5, 6, "1")]).peak([(5, 6, "1")])
    assert found is not None and found.amount == Fraction(large) + 2 * Fraction(small)
    assert database.rows("SELECT sum(jump) FROM privid.ledger") == [(0,)]


def many_steps(database: Database, count: int) -> tuple[Camera, int]:
    """A camera with a ledger of so many steps, of 1 and 2 by turns every ten frames, and what a release by hand has made blocks of it."""
    long = camera(frames=10 * count, r=1, epsilon="1000")
    recording = database.ledger.register(long)
    database.rows("INSERT INTO privid.ledger SELECT %s, n * 10, CASE n WHEN 0 THEN 1 ELSE 2 * (n %% 2) - 1 END "
                  "FROM generate_series(0, %s) n", recording, count - 1)
    database.ledger.charge([Claim(long, [(0, 10 * count)], Fraction(1))], record())
    return long, recording


@pytest.mark.parametrize("span", [(5, 8), (123, 40_001), (0, 200_000)], ids=["a step", "a fifth of the steps", "all of them"])
def test_a_charge_writes_as_few_rows_whatever_the_window(database: Database, span: Span) -> None:
    long, _ = many_steps(database, 20_000)
    assert database.rows("SELECT height, count(*) FROM privid.ledger_blocks GROUP BY 1 ORDER BY 1") == [(1, 625), (2, 19)]
    with database.connect() as conn:
        before = conn.execute("SELECT txid_current()").fetchone()
    assert before is not None
    database.ledger.charge([Claim(long, [span], Fraction(1))], record())
    written = [database.rows(f"SELECT count(*) FROM privid.{table} WHERE xmin::text::int8 > %s", before[0])[0][0]
               for table in ("ledger", "ledger_blocks")]
    assert written[0] <= 2 and written[1] <= 4
    assert database.ledger.remaining(long, [span]) == 1000 - 3 - (1 if span[1] - span[0] > 10 else 0)
    assert database.ledger.remaining(long, [(0, 200_000)]) == 1000 - 4 + (1 if span[1] - span[0] < 10 else 0)


def test_a_refusal_tells_the_place_inside_blocks_that_were_not_opened(database: Database) -> None:
    long, _ = many_steps(database, 20_000)
    database.ledger.charge([Claim(long, [(123_456, 123_460)], Fraction(900))], record())
    with pytest.raises(BudgetExhausted) as refused:
        database.ledger.charge([Claim(long, [(3, 199_999)], Fraction(100))], record())
    assert "epsilon 100 requested, 97 remaining" in refused.value.message
    moments = [long.moment(frame).isoformat(sep=" ", timespec="milliseconds") for frame in (123_456, 123_460)]
    assert " and ".join(moments) in (refused.value.detail or "")


def test_a_share_over_many_steps_is_charged_by_as_few_writes(database: Database) -> None:
    long, recording = many_steps(database, 5_000)
    database.create_server(long)
    database.rows("SELECT privid.grant_budget('campus', 'ana', 500)", user="olga")
    database.rows("INSERT INTO privid.share_accounts (recording, role) VALUES (%s, 'ana')", recording)
    database.rows("INSERT INTO privid.share_ledger SELECT 1, n * 10, CASE n WHEN 0 THEN 1 ELSE 2 * (n %% 2) - 1 END "
                  "FROM generate_series(0, %s) n", 4_999)
    for _ in range(3):
        database.ledger.charge([Claim(long, [(0, 50_000)], Fraction(1))], record())
    assert database.rows("SELECT count(*) FROM privid.share_blocks WHERE height = 1") == [(156,)]
    assert database.rows("SELECT jump FROM privid.share_ledger WHERE frame IN (0, 50000) ORDER BY frame") == [(4,), (-3,)]
    assert database.ledger.remaining(long, [(7_000, 33_000)], role="ana") == 500 - 5
    assert database.rows("SELECT spent, remaining FROM privid.shares") == [(5, 495)]


def test_an_account_that_is_only_asked_about_does_not_come_to_be(database: Database) -> None:
    one = camera(r=1)
    database.create_server(one)
    database.ledger.charge([Claim(one, [(0, 10)], Fraction(1, 4))], record())
    database.rows("SELECT privid.grant_budget('campus', 'ana', 0.5)", user="olga")
    assert database.ledger.remaining(one, [(5, 20)], role="ana") == Fraction(1, 4)
    assert database.rows("SELECT FROM privid.share_accounts") == []


def test_a_reader_in_the_middle_of_charges_sees_the_ledger_as_it_was_at_one_moment(database: Database) -> None:
    long, recording = many_steps(database, 20_000)
    wanted = [(50_000, 150_000, "1")]
    with database.ledger.pool.snapshot() as conn:
        before = Stored(conn, recording, wanted).peak(wanted)
        database.ledger.charge([Claim(long, [(0, 100_000)], Fraction(7))], record())
        after = Stored(conn, recording, wanted).peak(wanted)
        assert before is not None and after is not None and before.spent == after.spent == Decimal(3)
    assert database.ledger.remaining(long, [(50_000, 150_000)]) == 1000 - 10
