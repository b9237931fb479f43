"""Footage is known by content: no name, order of registration or new policy gives budget back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest

from privid.errors import BudgetExhausted, InvalidValue
from privid.ledger import Claim
from privid.model import Camera, Span
from tests.ledger.postgres import Database, camera, record, video_file

HALF = Fraction(1, 2)


def charge(database: Database, footage: Camera, epsilon: Fraction, *spans: Span) -> int:
    return database.ledger.charge([Claim(footage, spans, epsilon)], record())


def test_another_name_for_the_same_footage_has_the_same_budget(database: Database) -> None:
    charge(database, camera("campus"), HALF, (0, 100))
    assert database.ledger.register(camera("renamed")) == database.ledger.register(camera("campus"))
    assert database.ledger.remaining(camera("renamed"), [(0, 100)]) == HALF


def test_dropping_and_creating_a_server_again_keeps_the_budget(database: Database) -> None:
    campus = camera()
    database.create_server(campus)
    charge(database, campus, HALF, (0, 100))
    before = database.rows("SELECT frames::text, remaining FROM privid.budget ORDER BY 1")
    database.rows("ALTER SERVER campus RENAME TO other", user="olga")
    database.rows("DROP SERVER other", user="olga")
    assert database.rows("SELECT * FROM privid.budget") == []
    database.create_server(campus)
    assert database.rows("SELECT frames::text, remaining FROM privid.budget ORDER BY 1") == before
    assert database.ledger.remaining(campus, [(0, 100)]) == HALF


def test_a_re_encoded_file_in_the_place_of_another_has_no_fresh_budget(database: Database) -> None:
    charge(database, camera(files="a"), HALF, (0, 50))
    assert database.ledger.remaining(camera(files="b"), [(0, 50)]) == HALF
    assert database.ledger.remaining(camera(files="b"), [(53, 100)]) == 1
    charge(database, camera(files="b"), Fraction(1, 4), (0, 50))
    assert database.ledger.remaining(camera(files="a"), [(0, 50)]) == Fraction(1, 4)  # nor has the old one when it comes back
    assert [row[0] for row in database.rows("SELECT event FROM privid.history WHERE camera = 'campus' ORDER BY id")][:2] == [
        "footage registered", "footage replaced"]


def test_a_file_replaced_under_its_path_has_no_fresh_budget_under_another_name(database: Database) -> None:
    charge(database, camera("campus", files="a"), HALF, (0, 50))
    other = camera("other", files="b")
    moved = replace(other.footage.files[0], path="a.mp4")
    other = replace(other, footage=replace(other.footage, files=(moved,)))
    assert database.ledger.remaining(other, [(0, 50)]) == HALF
    later = replace(other, name="later", starts=other.starts + timedelta(days=1))
    later = replace(later, footage=replace(later.footage, files=(replace(moved, sha256="0" * 64),)))
    assert database.ledger.remaining(later, [(0, 50)]) == 1  # filmed a day later


def test_replaced_footage_lies_where_its_time_says(database: Database) -> None:
    charge(database, camera(files="a", r=1), HALF, (20, 30))
    later = replace(camera(files="b", r=1), starts=camera().starts + timedelta(seconds=1))  # ten frames
    assert database.ledger.remaining(later, [(10, 20)]) == HALF
    assert database.ledger.remaining(later, [(0, 10), (20, 100)]) == 1


def test_replaced_footage_between_two_frames_is_charged_for_both(database: Database) -> None:
    charge(database, camera(files="a", r=3), HALF, (20, 30))
    between = replace(camera(files="b", r=3), starts=camera().starts + timedelta(milliseconds=50))
    assert database.ledger.charged_frames(between, [(40, 41)]) == 4
    assert database.ledger.remaining(between, [(32, 33)]) == HALF  # a segment of three frames and a bit meets both
    assert database.ledger.remaining(between, [(33, 34)]) == 1


def test_replaced_footage_of_another_frame_rate_is_refused(database: Database) -> None:
    database.ledger.register(camera(files="a"))
    with pytest.raises(InvalidValue, match="12 frames per second, but what it replaces has 10") as refused:
        database.ledger.register(camera(files="b", fps=Fraction(12)))
    assert refused.value.hint


def test_files_added_later_extend_the_recording(database: Database) -> None:
    charge(database, camera(files="a"), HALF, (90, 100))
    longer = camera(files="ab")
    assert database.ledger.register(longer) == database.ledger.register(camera(files="a"))
    assert database.ledger.remaining(longer, [(103, 200)]) == 1
    assert database.ledger.remaining(longer, [(99, 200)]) == HALF


def test_a_camera_that_lost_its_first_files_keeps_its_place_on_the_timeline(database: Database) -> None:
    charge(database, camera(files="abc", r=1), HALF, (150, 160))
    later = camera("later", files="bc", r=1)
    assert database.ledger.remaining(later, [(50, 60)]) == HALF
    assert database.ledger.remaining(later, [(0, 50), (60, 200)]) == 1


def test_older_footage_that_comes_later_lies_before_the_first_frame(database: Database) -> None:
    charge(database, camera(files="b", r=1), HALF, (0, 10))
    both = camera(files="ab", r=1)
    assert database.ledger.remaining(both, [(100, 110)]) == HALF
    assert database.ledger.remaining(both, [(0, 100)]) == 1


def test_footage_of_two_recordings_cannot_be_mixed(database: Database) -> None:
    database.ledger.register(camera("north", files="a"))
    database.ledger.register(camera("south", files="b"))
    with pytest.raises(InvalidValue, match="mixes footage of two recordings") as refused:
        database.ledger.register(camera("both", files="ab"))
    assert "a.mp4" in (refused.value.detail or "") and refused.value.hint


@pytest.mark.parametrize("files", ["ba", "ac"])
def test_files_in_another_order_or_with_one_left_out_are_refused(database: Database, files: str) -> None:
    database.ledger.register(camera(files="abc"))
    with pytest.raises(InvalidValue, match="do not lie as they did"):
        database.ledger.register(camera("again", files=files))


def test_another_file_in_the_place_of_one_of_several_shares_its_budget(database: Database) -> None:
    charge(database, camera(files="ab", r=1), HALF, (150, 160))
    again = camera("again", files="ax", r=1)
    assert database.ledger.remaining(again, [(150, 160)]) == HALF
    charge(database, again, HALF, (150, 155))
    assert database.ledger.remaining(camera(files="ab", r=1), [(150, 155)]) == 0


def test_the_same_file_twice_in_one_camera_is_refused(database: Database) -> None:
    with pytest.raises(InvalidValue, match="same footage twice"):
        database.ledger.register(camera(files="aa"))


def test_a_known_file_with_another_number_of_frames_is_refused(database: Database) -> None:
    database.ledger.register(camera(files="a"))
    cut = camera("again", files="a")
    cut = replace(cut, footage=replace(cut.footage, files=(video_file("a", 0, 99),)))
    with pytest.raises(InvalidValue, match="has 99 frames, but had 100"):
        database.ledger.register(cut)


def test_a_refused_registration_leaves_nothing_behind(database: Database) -> None:
    database.ledger.register(camera(files="ab"))
    before = database.rows("SELECT * FROM privid.recording_files ORDER BY 1")
    with pytest.raises(InvalidValue):
        database.ledger.register(camera("again", files="bxa"))
    assert database.rows("SELECT * FROM privid.recording_files ORDER BY 1") == before
    assert database.rows("SELECT camera FROM privid.footage") == [("campus",)]


def test_a_longer_segment_declared_later_widens_what_was_charged_before(database: Database) -> None:
    short, long = camera("short", r=2), camera("long", r=10)
    charge(database, short, HALF, (20, 30), (50, 60))
    charge(database, short, HALF, (40, 45))
    recording = database.ledger.register(long)
    assert database.steps(recording) == [(11, HALF), (30, Fraction(0)), (31, HALF), (41, Fraction(1)), (45, HALF), (60, Fraction(0))]
    assert database.ledger.charged_frames(short, [(20, 30)]) == 19
    database.ledger.register(camera("short", r=1))
    assert database.ledger.charged_frames(short, [(20, 30)]) == 19  # the longest segment ever declared stays


def test_raising_and_lowering_epsilon_applies_to_later_releases(database: Database) -> None:
    charge(database, camera(epsilon="1"), HALF, (0, 10))
    assert database.ledger.remaining(camera(epsilon="2"), [(0, 10)]) == Fraction(3, 2)
    with pytest.raises(BudgetExhausted):
        charge(database, camera(epsilon="0.4"), Fraction(1, 10), (0, 10))
    assert database.ledger.remaining(camera(epsilon="0.4"), [(0, 10)]) == 0
