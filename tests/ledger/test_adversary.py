"""Races and adversaries against the real ledger, in small (tests/verify/ledger_races.py and ledger_adversary.py: in large)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from privid.ledger import Ledger, Use
from privid.ledger.recordings import Recording
from privid.ledger.steps import Step, evenly, shares
from privid.model import Camera, Span
from tests.ledger import several
from tests.ledger.adversary import Query, R, search
from tests.ledger.postgres import Database
from tests.ledger.racing import check, race


def test_sessions_that_race_could_have_come_one_by_one_and_none_overdraws(database: Database) -> None:
    accepted, refused = check(race(database, sessions=32, each=20, seed=1))
    assert accepted > 100 and refused > 100


@pytest.mark.parametrize("masks", [False, True], ids=["one view", "several masks"])
@pytest.mark.parametrize("linear", [True, False], ids=["exact rule", "simple rule"])
def test_no_sequence_is_accepted_by_which_an_event_loses_more_than_epsilon(database: Database, linear: bool, masks: bool) -> None:
    rounds = 3 if masks else 5
    assert Fraction(9, 10) < search(database.ledger.charge, rounds=rounds, climbs=8, seed=3, linear=linear, mark="sound", masks=masks) <= 1


@pytest.mark.parametrize("linear", [True, False], ids=["exact rule", "simple rule"])
def test_releases_over_several_cameras_cost_no_event_more_than_the_epsilon_of_its_camera(database: Database, linear: bool) -> None:
    assert Fraction(9, 10) < several.search(database.ledger, rounds=5, climbs=8, seed=3, linear=linear, mark="several") <= 1


def test_with_a_part_of_its_cost_charged_to_each_camera_the_same_search_finds_one(database: Database) -> None:
    assert several.search(database.ledger, rounds=5, climbs=8, seed=3, linear=True, mark="part", weaken=Fraction(9, 10)) > 1


def without_margin(self: Ledger, camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
    return evenly(recording.spans(spans))


def with_the_masks_own_length(self: Ledger, camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
    """Each release with the longest piece of its own mask in the place of the common segment."""
    found = shares([replace(use, caps=()) for use in uses], recording.shift, uses[0].r)
    assert found is not None
    return found


def test_with_lengths_of_their_own_masks_are_overdrawn(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "_steps", with_the_masks_own_length)
    assert search(database.ledger.charge, rounds=4, climbs=8, seed=3, linear=True, mark="weak", masks=True) > 1


def with_one_piece_of_each(self: Ledger, camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
    """Each release charged where a segment meets it, as if the segment had one piece."""
    return shares([replace(use, pieces=1, caps=()) for use in uses], recording.shift, recording.r_star) or []


def test_with_one_of_several_pieces_charged_masks_are_overdrawn(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "_steps", with_one_piece_of_each)
    assert search(database.ledger.charge, rounds=3, climbs=8, seed=3, linear=True, mark="weak", masks=True) > 1


def for_one_piece(self: Query, r: int) -> int:
    """Noise by the paper's reading: the visible time as if it were one piece."""
    length = r if self.mask is None else min(self.mask[2], r)
    return max(len(self.chunks(p, length)) for p in range(-length, 90))


def test_with_noise_for_the_visible_time_as_one_piece_an_event_loses_more(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Query, "noise", for_one_piece)
    monkeypatch.setattr(Query, "use", property(lambda self: Use.of(self.grid, [(0, self.count)], self.mask[2] if self.mask else R, 1, R)))
    assert search(database.ledger.charge, rounds=3, climbs=8, seed=3, linear=True, mark="weak", masks=True) > 1


def test_with_the_margin_left_out_the_same_search_finds_one(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "_steps", without_margin)
    assert search(database.ledger.charge, rounds=5, climbs=8, seed=3, linear=False, mark="weak") > 1
