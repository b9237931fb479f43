"""Masks share one account with the camera's own length: the counterexamples of calculus.md 7.4, through the real ledger.

What an event loses is computed by the adversary's definition; the ledger is asked only what it accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from privid.errors import BudgetExhausted
from privid.ledger import Claim, Ledger, Use
from privid.ledger.recordings import Recording
from privid.ledger.steps import Step, shares
from privid.model import Camera, Grid, Key, Plan, Span, Table
from tests.calculus.builders import analyse, count, request, select, table
from tests.ledger.postgres import Database, camera, record

LONG, SHORT, SIZE = 100, 10, 10
CAMPUS = camera(frames=300, r=LONG)
#: an unmasked release and one behind a mask that leaves 10 of 100 frames: frames read by each
CASES = {"margin checked only": ((20, 120), (0, 10)), "own margin debited": ((0, 60), (80, 90))}


def claim(span: Span, r: int) -> Claim:
    grid = Grid(span[0], (span[1] - span[0]) // SIZE, SIZE, SIZE)
    return Claim(CAMPUS, [span], Fraction(1), [Use.of(grid, [(0, grid.count)], r, 1, LONG)])


def loss(claims: Sequence[Claim], q: int) -> Fraction:
    """Of an event in [q, q + 100) that is visible behind the mask for 10 frames, wherever in it that does most."""
    lost = Fraction(0)
    for one in claims:
        use = one.uses[0]
        spans = [use.grid.frames(j) for j in range(use.grid.count)]
        met = max(sum(1 for lo, hi in spans if lo < p + use.r and p < hi) for p in range(q, q + LONG - use.r + 1))
        lost += one.epsilon * met / use.most
    return lost


def accepted(database: Database, claims: Sequence[Claim]) -> list[Claim]:
    passed = []
    for one in claims:
        try:
            database.ledger.charge([one], record())
            passed.append(one)
        except BudgetExhausted:
            pass
    return passed


def margin_of_its_own(self: Ledger, camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
    return shares(uses, recording.shift, uses[0].r) or []


def no_margin(self: Ledger, camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
    return [(lo, hi, Fraction(1)) for lo, hi in recording.spans(spans)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("turned", [False, True], ids=["mask last", "mask first"])
def test_a_mask_and_the_whole_picture_are_never_overdrawn_together(database: Database, case: str, turned: bool) -> None:
    whole, masked = CASES[case]
    claims = [claim(whole, LONG), claim(masked, SHORT)]
    passed = accepted(database, claims[::-1] if turned else claims)
    assert len(passed) == 1
    assert max(loss(passed, q) for q in range(-LONG, 300)) == 1


@pytest.mark.parametrize(("case", "weak"), [("margin checked only", no_margin), ("own margin debited", margin_of_its_own)], ids=CASES)
def test_with_a_weaker_rule_both_would_pass_and_an_event_lose_more(database: Database, case: str, weak: object,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    whole, masked = CASES[case]
    monkeypatch.setattr(Ledger, "_steps", weak)
    passed = accepted(database, [claim(whole, LONG), claim(masked, SHORT)])
    assert len(passed) == 2
    assert max(loss(passed, q) for q in range(-LONG, 300)) >= Fraction(3, 2)


def nothing(expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
    raise AssertionError("nothing is to be evaluated")


def plan(**options: Any) -> Plan:
    return analyse(request(select([count()])), [table(chunks=100, size=1, r=6, max_rows=1, k=2, **options)], Fraction(1), nothing)


def test_pieces_behind_a_mask_are_those_of_one_appearance() -> None:
    """K = 2 appearances, 2 visible pieces, both in appearance 1; another release, unmasked, reads appearance 2."""
    frames, pieces = 2, 2
    other = plan().outputs[0]
    lost_by_appearance_2 = other.sensitivity / other.scale
    right = plan(mask_r=frames, pieces=pieces).outputs[0]
    assert pieces * frames / right.scale + lost_by_appearance_2 == 1
    # the masked video's own policy (rho_M, K_M = 2) in the place of (rho_M, pieces): noise as if each appearance had one piece
    weak = plan(mask_r=frames, pieces=1).outputs[0]
    assert pieces * frames / weak.scale + lost_by_appearance_2 == Fraction(3, 2)


def test_a_mask_costs_a_segment_that_shows_little_behind_it_as_much_as_one_that_shows_all(database: Database) -> None:
    """The ledger does not know where in an appearance the visible piece is, so it takes the worst place."""
    assert accepted(database, [claim((100, 110), SHORT)])
    assert database.ledger.remaining(CAMPUS, [(50, 60)], [Use.of(Grid(50, 1, SIZE, SIZE), [(0, 1)], SHORT, 1, LONG)]) == 0
    assert database.ledger.remaining(CAMPUS, [(209, 219)], [Use.of(Grid(209, 1, SIZE, SIZE), [(0, 1)], SHORT, 1, LONG)]) == 1
