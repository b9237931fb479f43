"""Roles that wait for a lane have equal parts of it, whatever they have asked for, in whatever order and how often."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from privid.engine.sharing import Sharing, soonest


@dataclass(frozen=True)
class Piece:
    """A slot."""

    role: str
    flow: str
    length: int
    earliest: int = 0
    gap: int = 0  # after the slot before it

    @property
    def cost(self) -> int:
        return max(self.length, self.gap)


#: of each role, its jobs as lengths of a slot and numbers of slots
ROLES = st.dictionaries(st.sampled_from("abcd"), st.lists(st.tuples(st.integers(1, 50), st.integers(1, 12)), min_size=1, max_size=3),
                        min_size=2)


class Lane:
    """Slots that wait, and what they are given."""

    def __init__(self) -> None:
        self.sharing, self.waiting, self.running, self.now = Sharing(), list[Piece](), list[Piece](), 0
        self.given = list[tuple[Piece, int]]()

    def ask(self, role: str, flow: str, length: int, count: int) -> list[Piece]:
        pieces = [Piece(role, flow, length) for _ in range(count)]
        self.sharing.enter(role, flow, [*self.waiting, *self.running])
        self.waiting += pieces
        self.waiting = [piece for piece, _ in self.sharing.in_order(self.waiting, self.now)]
        return pieces

    def take(self) -> Piece:
        piece = self.waiting.pop(0)
        self.sharing.give(piece)
        self.given.append((piece, self.now))
        self.running = [piece]
        self.now += piece.length
        return piece


@given(ROLES)
def test_roles_that_wait_have_had_the_same_but_for_a_slot(roles: dict[str, list[tuple[int, int]]]) -> None:
    lane = Lane()
    for role, jobs in roles.items():
        for number, (length, count) in enumerate(jobs):
            lane.ask(role, f"{role} {number}", length, count)
    had, longest = Counter[str](), max(length for jobs in roles.values() for length, _ in jobs)
    while lane.waiting:
        piece = lane.take()
        had[piece.role] += piece.length
        waiting = [had[one] for one in {piece.role for piece in lane.waiting}]
        assert max(waiting, default=0) - min(waiting, default=0) <= longest
    for role, jobs in roles.items():
        assert had[role] == sum(length * count for length, count in jobs)


@given(ROLES, st.integers(0, 30), st.integers(1, 50))
def test_who_comes_waits_for_the_slot_under_way_and_no_role_has_more_than_its_own_slot_meanwhile(
        roles: dict[str, list[tuple[int, int]]], taken: int, length: int) -> None:
    lane = Lane()
    for role, jobs in roles.items():
        for number, (each, count) in enumerate(jobs):
            lane.ask(role, f"{role} {number}", each, count)
    for _ in range(min(taken, len(lane.waiting))):
        lane.take()
    arrived = lane.now  # when the slot under way is over
    (piece,) = lane.ask("new", "new", length, 1)
    while lane.take() is not piece:
        pass
    assert lane.given[-1][1] - arrived <= length * len(roles)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=60), st.integers(1, 30))
def test_a_role_that_comes_again_and_again_has_no_more_than_one_that_waits(asked: list[tuple[int, int, int]], length: int) -> None:
    lane = Lane()
    lane.ask("waits", "waits", length, 200)
    had = Counter[str]()
    for number, (each, count, turns) in enumerate(asked):
        lane.ask("comes", f"job {number}", each, count)
        for _ in range(turns + 1):
            piece = lane.take()
            had[piece.role] += piece.length
        assert had["comes"] - had["waits"] <= max(length, *(one for one, _, _ in asked))


@given(st.integers(1, 100), st.lists(st.integers(1, 20), min_size=1, max_size=100))
def test_new_jobs_of_a_role_hold_up_none_of_its_own_for_ever(length: int, later: list[int]) -> None:
    lane = Lane()
    lane.ask("a", "first", later[0], 2)
    (long,) = lane.ask("a", "long", length, 1)
    had = 0
    for number, each in enumerate(later):
        lane.ask("a", f"job {number}", each, 1)
        if lane.take() is long:
            return
        had += each
    assert had <= 4 * (length + max(later))  # three others wait at a time, and the one that is taken


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 20), st.lists(st.integers(0, 100), min_size=1, max_size=8)), min_size=1,
                max_size=6), st.integers(0, 100))
def test_a_lane_waits_for_nobody_while_another_can_begin_and_a_jobs_slots_keep_their_order(
        jobs: list[tuple[str, int, list[int]]], moment: int) -> None:
    sharing, waiting = Sharing(), list[Piece]()
    for number, (role, length, gaps) in enumerate(jobs):
        sharing.enter(role, str(number), waiting)
        earliest = 0
        for gap in gaps:
            earliest += gap
            waiting.append(Piece(role, str(number), length, earliest, gap))
    found = list(sharing.in_order(waiting, moment))
    assert Counter(piece for piece, _ in found) == Counter(waiting)
    orders = defaultdict[str, list[int]](list)
    for piece, begin in found:
        assert begin >= max(moment, piece.earliest)
        orders[piece.flow].append(piece.earliest)
    assert all(order == sorted(order) for order in orders.values())
    left = [piece.earliest for piece, _ in found]
    free = moment
    for number, (piece, begin) in enumerate(found):
        assert begin == max(free, min(left[number:]))
        free = begin + piece.length
    assert all(one[1] + one[0].length <= other[1] for one, other in pairwise(found))


def test_who_waited_for_his_own_frames_is_owed_nothing() -> None:
    """A job whose slots could begin one by one, and then all at once."""
    sharing = Sharing()
    slow = [*(Piece("slow", "slow", 1, 100 * n, 100) for n in range(100)), *(Piece("slow", "slow", 1, 9_900) for _ in range(5_000))]
    sharing.enter("slow", "slow", [])
    sharing.enter("other", "other", slow)
    found = [piece.role for piece, begin in sharing.in_order([*slow, *(Piece("other", "other", 1) for _ in range(20_000))], 0)
             if begin >= 9_900]
    assert found[:1000].count("other") > 300


@given(ROLES, st.sampled_from("abcde"), st.integers(1, 60), st.integers(1, 20))
def test_a_prospect_is_what_happens(roles: dict[str, list[tuple[int, int]]], role: str, length: int, count: int) -> None:
    lane = Lane()
    for one, jobs in roles.items():
        for number, (each, slots) in enumerate(jobs):
            lane.ask(one, f"{one} {number}", each, slots)
    lane.take()
    prospect = lane.sharing.prospect(role, lane.waiting, [*lane.waiting, *lane.running], [], lane.now)
    lane.ask(role, "new", length, count)
    end = max(begin + piece.length for piece, begin in lane.sharing.in_order(lane.waiting, lane.now) if piece.flow == "new")
    ties = sum(each for jobs in roles.values() for each, _ in jobs)  # of equals, one may come first or the other
    assert end <= prospect.end(length * count) <= end + ties
    assert prospect.done_by(prospect.end(length * count), 1.0) >= length * count
    assert soonest([prospect], length * count) <= prospect.end(length * count)


def test_two_lanes_of_which_one_has_more_to_do_share_what_is_new() -> None:
    busy, free = Lane(), Lane()
    busy.ask("a", "a", 10, 1_000)
    both = [lane.sharing.prospect("b", lane.waiting, lane.waiting, [], 0) for lane in (busy, free)]
    assert abs(soonest(both, 900) - 600) < 20


def test_many_slots_are_put_in_order_soon() -> None:
    sharing, waiting = Sharing(), list[Piece]()
    for number in range(40):
        sharing.enter(f"role {number % 5}", str(number), waiting)
        waiting += [Piece(f"role {number % 5}", str(number), 10) for _ in range(2_500)]
    began = time.process_time()
    assert len(list(sharing.in_order(waiting, 0))) == 100_000
    assert time.process_time() - began < 3
