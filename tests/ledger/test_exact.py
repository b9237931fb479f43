"""The exact rule: a linear release costs a segment in proportion to the chunks that the segment meets."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privid.errors import BudgetExhausted
from privid.ledger import Claim, Use
from privid.ledger import steps as steps_module
from privid.ledger.steps import shares
from privid.model import Camera, Grid, Span
from tests.ledger.postgres import Database, camera, record

HALF = Fraction(1, 2)


def spans_of(grid: Grid, chunks: list[Span]) -> list[Span]:
    return [grid.frames(j) for lo, hi in chunks for j in range(lo, hi)]


def charge(database: Database, footage: Camera, epsilon: Fraction, grid: Grid, *chunks: Span) -> int:
    runs = list(chunks or [(0, grid.count)])
    return database.ledger.charge([Claim(footage, spans_of(grid, runs), epsilon, [Use.of(grid, runs, footage.r)])], record())


def met(use: Use, q: int) -> int:
    """The definition: chunks that have a frame in common with [q, q + r)."""
    return sum(1 for lo, hi in use.chunks for j in range(lo, hi) if use.grid.frames(j)[0] < q + use.r and use.grid.frames(j)[1] > q)


GRIDS = st.builds(Grid, st.integers(0, 5), st.integers(1, 15), st.integers(1, 6), st.integers(1, 8))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(grid=GRIDS, r=st.integers(1, 9), longer=st.sampled_from([0, 0, 1, 5]), chosen=st.sets(st.integers(0, 14), min_size=1),
       most_pieces=st.sampled_from([10_000, 10, 4]))
def test_the_shares_equal_their_definition_and_are_never_less(monkeypatch: pytest.MonkeyPatch, grid: Grid, r: int, longer: int,
                                                              chosen: set[int], most_pieces: int) -> None:
    runs = [(j, j + 1) for j in sorted(chosen) if j < grid.count] or [(0, 1)]
    use = Use.of(grid, runs, r)
    positions = range(-30, 160)
    assert use.most == max(met(use, q) for q in positions)
    with monkeypatch.context() as patched:
        patched.setattr(steps_module, "MAX_PIECES", most_pieces)
        found = shares([use], 0, r + longer)
    assert found is not None or most_pieces < 10_000
    for q in positions if found is not None else ():
        expected = Fraction(max(met(use, p) for p in range(q, q + longer + 1)), use.most)
        share = next((share for lo, hi, share in found or [] if lo <= q < hi), Fraction(0))
        assert share == expected if most_pieces == 10_000 else expected <= share <= 1


@settings(max_examples=150, deadline=None, derandomize=True)
@given(grid=GRIDS, r=st.integers(1, 4), pieces=st.integers(1, 3), visible=st.integers(1, 8), whole=st.integers(1, 7),
       longer=st.sampled_from([0, 0, 2]), chosen=st.sets(st.integers(0, 14), min_size=1))
def test_pieces_are_charged_no_less_than_they_meet_and_no_more_than_the_whole_segment_does(
        grid: Grid, r: int, pieces: int, visible: int, whole: int, longer: int, chosen: set[int]) -> None:
    runs = [(j, j + 1) for j in sorted(chosen) if j < grid.count] or [(0, 1)]
    use, all_of_it = Use.of(grid, runs, r, pieces, whole, visible), Use.of(grid, runs, whole)
    found = shares([use], 0, whole + longer)
    assert found is not None
    events, chunks = _events(r, pieces, visible, whole), _chunks_by_frame(use)
    for q in range(-20, 140):
        event = max(len(set().union(*(chunks.get(p + f, set()) for f in frames))) for frames in events for p in range(q, q + longer + 1))
        segment = max(met(all_of_it, p) for p in range(q, q + longer + 1))
        share = next((share for lo, hi, share in found if lo <= q < hi), Fraction(0))
        assert Fraction(event, use.most) <= share <= Fraction(min(segment, use.most), use.most)


def _events(r: int, pieces: int, visible: int, whole: int) -> list[set[int]]:
    """Every set of frames within a segment in which an event can be visible, but those that are part of another."""
    found = list[set[int]]()
    for bits in range((1 << whole) - 1, 0, -1):
        runs = [len(run) for run in f"{bits:b}".split("0") if run]
        frames = {f for f in range(whole) if bits >> f & 1}
        if len(runs) <= pieces and max(runs) <= r and sum(runs) <= visible and not any(frames <= other for other in found):
            found.append(frames)
    return found


def _chunks_by_frame(use: Use) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for j in (j for lo, hi in use.chunks for j in range(lo, hi)):
        for frame in range(*use.grid.frames(j)):
            found.setdefault(frame, set()).add(j)
    return found


def test_two_neighbouring_windows_share_the_segments_between_them(database: Database) -> None:
    campus = camera(r=4)
    charge(database, campus, Fraction(1), Grid(0, 4, 5, 5))
    charge(database, campus, Fraction(1), Grid(20, 4, 5, 5))  # the simple rule would refuse: a segment can meet both
    assert database.steps(database.ledger.register(campus))[-1] == (40, 0)
    assert database.rows("SELECT max(spent) FROM privid.ledger_levels") == [(1,)]


def test_a_release_whose_chunks_are_not_told_is_charged_in_full(database: Database) -> None:
    campus = camera(r=4)
    charge(database, campus, Fraction(1), Grid(0, 4, 5, 5))
    with pytest.raises(BudgetExhausted):
        database.ledger.charge([Claim(campus, [(20, 40)], Fraction(1))], record())


def test_the_sequence_that_overdraws_the_published_rule_is_refused_by_the_exact_rule_too(database: Database) -> None:
    campus = camera(r=4)
    charge(database, campus, HALF, Grid(0, 1, 5, 5))
    charge(database, campus, HALF, Grid(5, 4, 2, 2))
    with pytest.raises(BudgetExhausted) as refused:
        charge(database, campus, HALF, Grid(0, 2, 5, 5))
    assert "epsilon 0.5 requested, 0." in refused.value.message


def test_what_remains_for_a_linear_release_can_be_spent_and_not_more(database: Database) -> None:
    campus, first, second = camera(r=4), Grid(0, 4, 5, 5), Grid(17, 4, 5, 5)
    charge(database, campus, Fraction("0.7"), first)
    use = Use.of(second, [(0, 4)], campus.r)
    left = database.ledger.remaining(campus, [(17, 37)], [use])
    assert Fraction("0.3") < left < 1
    with pytest.raises(BudgetExhausted):
        charge(database, campus, left + Fraction(1, 10**20), second)
    charge(database, campus, left, second)
    assert database.ledger.remaining(campus, [(17, 37)], [use]) == 0


def test_several_tables_of_one_camera_cost_the_greatest_of_their_shares(database: Database) -> None:
    campus = camera(r=2)
    one, other = Use.of(Grid(0, 1, 10, 10), [(0, 1)], 2), Use.of(Grid(0, 4, 10, 10), [(0, 4)], 2)
    database.ledger.charge([Claim(campus, [(0, 10), (0, 40)], HALF, [one, other])], record())
    steps = database.steps(database.ledger.register(campus))
    assert steps[0] == (-1, HALF)  # all the chunks of the one, half of what a segment can meet of the other
    assert (10, Fraction(1, 4)) in steps


def test_a_longer_segment_declared_later_is_charged_for_earlier_linear_releases(database: Database) -> None:
    short, grid = camera("short", r=2), Grid(10, 3, 5, 10)
    charge(database, short, HALF, grid)
    recording = database.ledger.register(camera("long", r=8))
    late = database.steps(recording)
    database.clear()
    database.ledger.register(camera("long", r=8))
    charge(database, short, HALF, grid)
    assert database.steps(recording) == late


def test_pieces_behind_a_mask_count_together_up_to_all_chunks(database: Database) -> None:
    use = replace(Use.of(Grid(0, 3, 5, 5), [(0, 3)], 2), pieces=2, most=3)
    found = shares([use], 0, 20)
    assert found is not None and max(share for *_, share in found) == 1
    assert found[0] == (-19, -14, Fraction(2, 3))


def test_a_window_of_ten_years_costs_a_handful_of_steps(database: Database) -> None:
    frames = 10 * 365 * 86400 * 30
    decade = camera(frames=frames, r=1470, fps=Fraction(30))
    grid = Grid(0, frames // 150, 150, 150)
    database.ledger.charge([Claim(decade, [(0, grid.count * 150)], HALF, [Use.of(grid, [(0, grid.count)], decade.r)])], record())
    assert len(database.steps(database.ledger.register(decade))) < 50
    assert database.ledger.remaining(decade, [(frames // 2, frames // 2 + 150)]) == HALF
