"""Arithmetic of the public timetable."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from privid.engine.allowances import SLOW_FACTOR, allowance_of
from privid.engine.timetable import Place, Timetable, nanoseconds


def test_slot_i_begins_at_start_plus_i_pitches_exactly() -> None:
    pitch = nanoseconds(Fraction(1, 3))
    places = Timetable(1).reserve([1_000] * 10_000, pitch)
    assert [place.begin for place in places] == [1_000 + i * pitch for i in range(10_000)]
    assert places[-1].end == 1_000 + 10_000 * pitch


@given(st.lists(st.tuples(st.lists(st.integers(0, 100), max_size=20).map(sorted), st.integers(1, 50)), max_size=8), st.integers(1, 4))
def test_slots_of_one_lane_never_overlap_and_chunks_begin_in_order(jobs: list[tuple[list[int], int]], lanes: int) -> None:
    table = Timetable(lanes)
    used: dict[int, list[Place]] = {}
    for earliest, pitch in jobs:
        places = table.reserve(earliest, pitch)
        assert [p.begin for p in places] == sorted(p.begin for p in places)
        assert all(p.begin >= moment for p, moment in zip(places, earliest, strict=True))
        for place in places:
            used.setdefault(place.lane, []).append(place)
    for places in used.values():
        assert all(a.end <= b.begin for a, b in pairwise(places))


def test_placement_is_a_function_of_counts_and_times_alone() -> None:
    assert Timetable(3).reserve([3] * 50, 7) == Timetable(3).reserve([3] * 50, 7)


def test_a_cancel_frees_a_lane_up_to_the_last_slot_that_is_left() -> None:
    table = Timetable(1)
    first = table.reserve([0] * 2, 10)
    table.reserve([0] * 5, 10)
    table.release(0, first)
    assert table.reserve([0], 10)[0].begin == 20


@given(st.fractions(0, 100), st.fractions(0, 10))
def test_an_allowance_is_the_worst_case_and_a_quantum_at_least(worst: Fraction, quantum: Fraction) -> None:
    found = allowance_of(worst, quantum)
    assert found >= quantum and found >= worst
    assert found in (quantum, worst, SLOW_FACTOR * worst)
