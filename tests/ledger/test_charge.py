"""Charges: where they fall, how they add up, when they are refused."""

from __future__ import annotations

import doctest
from fractions import Fraction
from types import ModuleType

import pytest

from privid.errors import BudgetExhausted, InvalidValue, WindowInvalid
from privid.ledger import Claim, account, amounts, steps
from privid.model import Camera, Span
from tests.ledger.postgres import Database, camera, record

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def charge(database: Database, footage: Camera, epsilon: Fraction, *spans: Span) -> int:
    return database.ledger.charge([Claim(footage, spans, epsilon)], record())


def test_the_margin_of_r_minus_one_frames_to_the_left_is_debited(database: Database) -> None:
    campus = camera(r=4)
    charge(database, campus, HALF, (10, 20))
    assert database.steps(database.ledger.register(campus)) == [(7, HALF), (20, Fraction(0))]
    assert database.ledger.charged_frames(campus, [(10, 20)]) == 13
    assert database.ledger.remaining(campus, [(20, 21)]) == HALF  # a segment from frame 17 on meets both
    assert database.ledger.remaining(campus, [(23, 100)]) == 1
    assert database.ledger.remaining(campus, [(0, 7)]) == 1


def test_the_margin_of_the_first_frame_lies_before_the_recording(database: Database) -> None:
    campus = camera(r=4)
    charge(database, campus, HALF, (0, 1))
    assert database.steps(database.ledger.register(campus)) == [(-3, HALF), (1, Fraction(0))]


def test_neighbouring_equal_levels_merge(database: Database) -> None:
    campus = camera(r=1)
    recording = database.ledger.register(campus)
    for lo in range(0, 100, 10):
        charge(database, campus, HALF, (lo, lo + 10))
    assert database.steps(recording) == [(0, HALF), (100, Fraction(0))]
    charge(database, campus, HALF, (0, 50), (50, 100))
    assert database.steps(recording) == [(0, Fraction(1)), (100, Fraction(0))]


def test_spans_closer_than_a_segment_are_charged_once_between_them(database: Database) -> None:
    campus = camera(r=4)
    charge(database, campus, Fraction(1), (10, 20), (22, 30))
    assert database.steps(database.ledger.register(campus)) == [(7, Fraction(1)), (30, Fraction(0))]


def test_the_last_bit_of_epsilon_can_be_spent_but_not_more(database: Database) -> None:
    campus = camera(epsilon="0.3")
    for _ in range(3):
        charge(database, campus, Fraction("0.1"), (0, 10))  # 0.1 + 0.1 + 0.1 > 0.3 in floating point
    assert database.ledger.remaining(campus, [(0, 10)]) == 0
    with pytest.raises(BudgetExhausted):
        charge(database, campus, Fraction(1, 10**29), (0, 10))


def test_numbers_without_a_decimal_form_are_rounded_against_the_spender(database: Database) -> None:
    campus = camera(epsilon="1")
    charge(database, campus, THIRD, (0, 10))
    charge(database, campus, THIRD, (0, 10))
    left = database.ledger.remaining(campus, [(0, 10)])
    assert 0 <= THIRD - left <= Fraction(2, 10**30)
    with pytest.raises(BudgetExhausted):
        charge(database, campus, THIRD, (0, 10))
    charge(database, campus, left, (0, 10))
    assert database.ledger.remaining(campus, [(0, 10)]) == 0


def test_a_refusal_tells_what_was_requested_what_remains_and_where_and_changes_nothing(database: Database) -> None:
    campus = camera(r=4)
    recording = database.ledger.register(campus)
    charge(database, campus, Fraction("0.75"), (40, 50))
    before = database.steps(recording)
    with pytest.raises(BudgetExhausted) as refused:
        charge(database, campus, HALF, (0, 100))
    assert "epsilon 0.5 requested, 0.25 remaining" in refused.value.message and '"campus"' in refused.value.message
    assert "between 2026-03-01 06:00:03.700+00:00 and 2026-03-01 06:00:05.000+00:00" in (refused.value.detail or "")
    assert "0.25" in (refused.value.hint or "")
    assert database.steps(recording) == before
    assert database.rows("SELECT count(*) FROM privid.release_log") == [(1,)]
    assert database.rows("SELECT count(*) FROM privid.release_charges") == [(1,)]


def test_several_claims_are_charged_together_or_not_at_all(database: Database) -> None:
    north, south = camera("north", files="a"), camera("south", files="b")
    charge(database, south, HALF, (0, 10))
    with pytest.raises(BudgetExhausted):
        database.ledger.charge([Claim(north, [(0, 10)], Fraction(1)), Claim(south, [(0, 10)], Fraction(1))], record())
    assert database.ledger.remaining(north, [(0, 100)]) == 1
    database.ledger.charge([Claim(south, [(0, 10)], HALF), Claim(north, [(0, 10)], HALF)], record())
    assert database.ledger.remaining(north, [(0, 10)]) == HALF
    assert database.ledger.remaining(south, [(0, 10)]) == 0


def test_two_claims_on_the_same_footage_add_up(database: Database) -> None:
    north, again = camera("north"), camera("again")
    with pytest.raises(BudgetExhausted):
        database.ledger.charge([Claim(north, [(0, 10)], Fraction("0.6")), Claim(again, [(5, 20)], Fraction("0.6"))], record())
    database.ledger.charge([Claim(north, [(0, 10)], HALF), Claim(again, [(5, 20)], HALF)], record())
    assert database.ledger.remaining(north, [(6, 7)]) == 0


@pytest.mark.parametrize("harmless", [camera(r=0), camera(k=0)], ids=["rho 0", "k 0"])
def test_what_protects_nothing_is_logged_and_not_charged(database: Database, harmless: Camera) -> None:
    for _ in range(3):
        release = charge(database, harmless, Fraction(0), (0, 100))
    assert database.ledger.remaining(harmless, [(0, 100)]) == 1
    assert database.ledger.charged_frames(harmless, [(0, 100)]) == 0
    assert database.rows("SELECT count(*) FROM privid.ledger") == [(0,)]
    assert database.rows("SELECT camera, charge FROM privid.release_charges WHERE release = %s", release) == [("campus", 0)]


def test_an_epsilon_that_is_not_positive_is_refused(database: Database) -> None:
    for epsilon in (Fraction(0), Fraction(-1)):
        with pytest.raises(InvalidValue):
            charge(database, camera(), epsilon, (0, 10))


def test_frames_outside_the_recording_are_refused(database: Database) -> None:
    for span in ((-1, 5), (90, 101), (5, 5)):
        with pytest.raises(WindowInvalid):
            charge(database, camera(), HALF, span)


def test_a_camera_with_another_k_spends_in_proportion_to_what_one_segment_loses(database: Database) -> None:
    one, three = camera("one", k=1), camera("three", k=3)
    charge(database, one, HALF, (0, 10))  # a segment may lose 1/2; K = 3 and epsilon 1 promise 1/3
    assert database.ledger.remaining(three, [(0, 10)]) == 0
    with pytest.raises(BudgetExhausted):
        charge(database, three, Fraction(1, 10**6), (0, 10))
    charge(database, three, Fraction("0.75"), (50, 60))  # a segment loses 1/4
    assert database.ledger.remaining(one, [(50, 60)]) == Fraction("0.75")
    assert abs(database.ledger.remaining(three, [(50, 60)]) - Fraction("0.25")) < Fraction(1, 10**28)


def test_a_claim_of_twenty_thousand_pieces_is_charged(database: Database) -> None:
    long = camera(frames=1_000_000, r=2)
    spans = [(lo, lo + 1) for lo in range(0, 1_000_000, 50)]
    charge(database, long, HALF, *spans)
    assert database.ledger.remaining(long, [(25, 30)]) == 1
    assert database.ledger.remaining(long, [(25, 60)]) == HALF
    assert database.rows("SELECT count(*) FROM privid.ledger") == [(2 * len(spans),)]


@pytest.mark.parametrize("module", [account, amounts, steps], ids=lambda module: str(module.__name__))
def test_the_examples_in_the_docstrings_hold(module: ModuleType) -> None:
    tried = doctest.testmod(module)
    assert tried.attempted and not tried.failed
