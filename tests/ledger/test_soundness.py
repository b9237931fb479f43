"""The ledger against its definition, position by position, and against the sequences that broke the published rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privid.errors import BudgetExhausted
from privid.ledger import Claim, Ledger, blocks
from privid.ledger import ledger as ledger_module
from privid.ledger.account import Debit, Stored, positions
from privid.ledger.recordings import Recording
from privid.ledger.steps import Step, Use, evenly
from privid.model import Camera, Span
from tests.ledger.postgres import Database, camera, record, video_file

HALF = Fraction(1, 2)
FRAMES = 12  # of each file


def accepted(database: Database, queries: Sequence[tuple[Camera, Span, Fraction]]) -> list[bool]:
    """Which of the releases, one after the other, are charged."""
    answers = []
    for footage, span, epsilon in queries:
        try:
            database.ledger.charge([Claim(footage, [span], epsilon)], record())
            answers.append(True)
        except BudgetExhausted:
            answers.append(False)
    return answers


CAMPUS = camera(r=4)
#: calculus.md 7.3, case A, moved by four frames: an event in frames 4 to 7 would lose 1.083 epsilon
CASE_A = [(CAMPUS, (0, 5), HALF), (CAMPUS, (5, 13), HALF), (CAMPUS, (0, 10), HALF)]
#: calculus.md 7.4: two cameras over one footage with segments of 100 and 10 frames; 1.70 and 1.50 epsilon
OPEN, MASKED = camera("open", frames=200, r=100), camera("masked", frames=200, r=10)
MASKS = {"margin checked only": [(OPEN, (20, 120), Fraction(1)), (MASKED, (0, 10), Fraction(1))],
         "own margin debited": [(OPEN, (0, 60), Fraction(1)), (MASKED, (80, 90), Fraction(1))]}


class WithoutMargin(Stored):
    """The published rule: the margin is checked but not debited."""

    def debit(self, debits: Iterable[Debit]) -> None:
        super().debit([(lo + CAMPUS.r - 1, hi, charge) for lo, hi, charge in debits])


def with_own_margin(self: Ledger, camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
    """Each camera with its own longest segment in place of the recording's."""
    return evenly(positions(recording.spans(spans), camera.r))


def with_no_margin(self: Ledger, camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
    return evenly(recording.spans(spans))


def test_the_sequence_that_overdraws_the_published_rule_is_refused(database: Database) -> None:
    assert accepted(database, CASE_A) == [True, True, False]


def test_without_the_margins_debit_that_sequence_would_be_accepted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "Stored", WithoutMargin)
    assert accepted(database, CASE_A) == [True, True, True]


@pytest.mark.parametrize("case", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("late", [False, True], ids=["both known before", "the second seen last"])
def test_two_lengths_over_one_footage_share_the_longer_margin(database: Database, case: list[tuple[Camera, Span, Fraction]],
                                                              late: bool) -> None:
    queries = case[::-1] if late else case
    if not late:
        database.ledger.register(MASKED)
    assert accepted(database, queries) == [True, False]


@pytest.mark.parametrize("case", MASKS.values(), ids=MASKS)
def test_with_margins_of_their_own_the_two_would_be_accepted(database: Database, case: list[tuple[Camera, Span, Fraction]],
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    if case is MASKS["margin checked only"]:
        monkeypatch.setattr(Ledger, "_steps", with_no_margin)
    else:
        monkeypatch.setattr(Ledger, "_steps", with_own_margin)
    assert accepted(database, case) == [True, True]


class Definition:
    """calculus.md 7.1, spelled out for every position and every release: no ranges, no rounding, no database."""

    def __init__(self) -> None:
        self.r_star = 0
        self.past: list[tuple[set[int], Fraction]] = []  # frames read, what one segment may lose

    def meets(self, q: int, read: set[int]) -> bool:
        return any(frame in read for frame in range(q, q + self.r_star))

    def level(self, q: int) -> Fraction:
        return sum((loss for read, loss in self.past if self.meets(q, read)), Fraction(0))

    def charge(self, footage: Camera, read: set[int], epsilon: Fraction) -> bool:
        self.r_star = max(self.r_star, footage.r)
        if not footage.r:
            return True
        loss, limit = epsilon / footage.k, footage.epsilon / footage.k
        if any(self.level(q) + loss > limit for q in range(-60, 60) if self.meets(q, read)):
            return False
        self.past.append((read, loss))
        return True


#: over files a, b, c in all possible places, with policies that differ in length, K and epsilon
CAMERAS = st.builds(lambda files, r, k, epsilon: camera(f"{files}{r}", files=files, frames=FRAMES, r=r, k=k, epsilon=epsilon),
                    st.sampled_from(["abc", "ab", "bc", "b"]), st.integers(0, 9), st.sampled_from([1, 2, 4]), st.sampled_from(["1", "2"]))
SPANS = st.lists(st.tuples(st.integers(0, 3 * FRAMES - 1), st.integers(1, 9)), min_size=1, max_size=3)
RELEASES = st.lists(st.tuples(CAMERAS, SPANS, st.sampled_from([Fraction(1, 4), HALF, Fraction(3, 8)])), min_size=1, max_size=9)
numbers: Iterator[int] = itertools.count()


@pytest.fixture(params=[32, 2, 3], ids=["no blocks", "blocks of two", "blocks of three"])
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SIZE", request.param)


@pytest.mark.usefixtures("block_size")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(releases=RELEASES)
def test_the_ledger_equals_its_definition_at_every_position(database: Database,
                                                            releases: list[tuple[Camera, list[Span], Fraction]]) -> None:
    mark, definition = f"{next(numbers)}-", Definition()

    def own(footage: Camera) -> Camera:
        """The same camera over footage that no other example has seen."""
        files = tuple(video_file(mark + file.path[0], file.first_frame, file.frames) for file in footage.footage.files)
        return replace(footage, name=mark + footage.name, footage=replace(footage.footage, files=files))

    first = own(camera("first", files="abc", frames=FRAMES, r=0, k=2))
    recording = database.ledger.register(first)
    for footage, pieces, epsilon in releases:
        spans = [(lo, min(lo + length, footage.footage.frames)) for lo, length in pieces if lo < footage.footage.frames]
        shift = FRAMES * "abc".index(footage.footage.files[0].path[0])
        read = {frame + shift for lo, hi in spans for frame in range(lo, hi)}
        if spans:
            expected = definition.charge(footage, read, epsilon)
            try:
                database.ledger.charge([Claim(own(footage), spans, epsilon)], record())
                assert expected, "charged, but the definition refuses"
            except BudgetExhausted:
                assert not expected, "refused, but the definition accepts"
    steps = database.steps(recording)
    levels = [(q, 2 * definition.level(q)) for q in range(-60, 60)]
    jumps = [(q, level) for (_, before), (q, level) in itertools.pairwise(levels) if level != before]
    assert steps == jumps
