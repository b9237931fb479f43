"""Whose turn it is in a lane: the roles that wait for it have equal parts of its time, and so have the jobs of a role.

Fair queueing: each role has a clock, which says what it has had of the lane. A slot is over at a certain time of its role's clock, and
what is over first comes first. Whoever comes begins where the one is that has had least of those who are there, not at zero; and who has
gone keeps what it has had, so that coming anew puts nobody before others. The clocks of those who wait differ by a slot at most, and
who comes waits for the slot that is under way, and for as much time of each other role as its own first slot takes.

All that decides is who asked, when, and how long slots are. Times are in nanoseconds; nothing here waits or reads a clock of the machine.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol, TypeVar

__all__ = ["Prospect", "Sharing", "Waiting", "soonest"]

#: Steps in which a moment is searched for.
_STEPS = 30


class Waiting(Protocol):
    """A slot that waits for the lane, or has it."""

    @property
    def role(self) -> str:
        """For whom it runs."""

    @property
    def flow(self) -> str:
        """Its job, whose slots keep their order."""

    @property
    def length(self) -> int: ...

    @property
    def cost(self) -> int:
        """What it counts: its length, or as long as it could not begin after the one before it. Who waits for his own frames is owed
        nothing for that."""

    @property
    def earliest(self) -> int:
        """It cannot begin before, and no later slot of its job can."""


W = TypeVar("W", bound=Waiting)


class Sharing:
    """One lane's clocks."""

    def __init__(self) -> None:
        self._roles: dict[str, int] = {}
        self._flows: dict[str, int] = {}  # of the jobs of a role, among themselves
        self._newest: dict[str, int] = {}  # of each role: where its next job begins, which is where the last slot of any was over
        self._turns: dict[str, int] = {}  # the number of the last turn of each role: of equals, who has had none for longest comes first
        self._turn = 0

    def after(self, slots: Iterable[Waiting]) -> Sharing:
        """The clocks when these have had their turns."""
        found = Sharing()
        found._roles, found._flows, found._newest = dict(self._roles), dict(self._flows), dict(self._newest)
        found._turns, found._turn = dict(self._turns), self._turn
        for slot in slots:
            found.give(slot)
        return found

    def enter(self, role: str, flow: str, there: Iterable[Waiting], first: Sequence[Waiting] = ()) -> None:
        """A job comes. `there`: what waits or runs; `first`: those of them that come first in any case."""
        there = list(there)
        roles, flows = {slot.role for slot in there}, {slot.flow for slot in there}
        if not roles:  # nobody is owed anything
            self._roles.clear()
            self._newest.clear()
        after = self.after(first)
        least = min((after._roles.get(one, 0) for one in roles), default=0)
        if role not in roles:
            self._roles[role] = max(self._roles.get(role, 0), least)
        roles.add(role)
        self._roles = {one: had for one, had in self._roles.items() if one in roles or had > least}
        self._turns = {one: turn for one, turn in self._turns.items() if one in self._roles}
        self._newest = {one: had for one, had in self._newest.items() if one in roles}
        self._flows = {one: had for one, had in self._flows.items() if one in flows}
        self._flows[flow] = after._newest.get(role, 0)

    def give(self, slot: Waiting) -> None:
        """It has its turn."""
        self.charge(slot, slot.cost)
        self._newest[slot.role] = max(self._newest.get(slot.role, 0), self._flows[slot.flow])
        self._turn += 1
        self._turns[slot.role] = self._turn

    def charge(self, slot: Waiting, time: int) -> None:
        """So much was taken for this slot's job, or given back."""
        self._roles[slot.role] = self._roles.get(slot.role, 0) + time
        self._flows[slot.flow] = self._flows.get(slot.flow, 0) + time

    def in_order(self, waiting: Sequence[W], moment: int) -> Iterator[tuple[W, int]]:
        """The slots by turns and when each begins, the first at that moment or when it can. A job's slots are given in their order. Nobody
        waits for what cannot begin yet."""
        coming = sorted((slot.earliest, over, turn, number, slot) for over, turn, number, slot in self._over(waiting))
        ready: list[tuple[int, int, int, W]] = []
        next_, count = 0, len(coming)
        while next_ < count or ready:
            if not ready:
                moment = max(moment, coming[next_][0])
            while next_ < count and coming[next_][0] <= moment:
                heapq.heappush(ready, coming[next_][1:])
                next_ += 1
            slot = heapq.heappop(ready)[3]
            yield slot, moment
            moment += slot.length

    def _over(self, waiting: Sequence[W]) -> Iterator[tuple[int, int, int, W]]:
        """For each slot: when it is over by its role's clock, and what decides among equals."""
        flows, roles = dict[str, int](), dict[str, list[tuple[int, int, W]]]()
        own = dict[str, list[tuple[int, int, W]]]()  # of a job's role
        for number, slot in enumerate(waiting):
            flow = slot.flow
            if flow not in flows:
                flows[flow], own[flow] = self._flows.get(flow, 0), roles.setdefault(slot.role, [])
            flows[flow] = over = flows[flow] + slot.cost
            own[flow].append((over, number, slot))
        for role, slots in roles.items():
            had, turn = self._roles.get(role, 0), self._turns.get(role, 0)
            slots.sort()
            for _, number, slot in slots:
                had += slot.cost
                yield had, turn, number, slot

    def prospect(self, role: str, waiting: Sequence[Waiting], there: Iterable[Waiting], first: Sequence[Waiting], free: int) -> Prospect:
        """What a job of that role that came now could expect. `waiting`: what it takes turns with; the lane is free at that moment."""
        ahead = self.after(())
        ahead.enter(role, "", there, first)
        return Prospect(ahead.after(first), role, waiting, free)


class Prospect:
    """When a lane would have given a new job of a role so much time."""

    def __init__(self, sharing: Sharing, role: str, waiting: Sequence[Waiting], free: int) -> None:
        self._free = free
        self._role, self._flow = sharing._roles.get(role, 0), sharing._flows.get("", 0)
        others = sorted((over, slot.length) for over, _, _, slot in sharing._over([slot for slot in waiting if slot.role != role]))
        self._others, self._others_length = [over for over, _ in others], _sums(length for _, length in others)
        flows, own = dict[str, int](), list[tuple[int, int, int]]()
        for slot in waiting:
            if slot.role == role:
                flows[slot.flow] = flows.get(slot.flow, sharing._flows.get(slot.flow, 0)) + slot.cost
                own.append((flows[slot.flow], slot.cost, slot.length))
        own.sort()
        self._own, self._own_cost, self._own_length = [over for over, _, _ in own], _sums(c for _, c, _ in own), _sums(n for _, _, n in own)

    def end(self, work: int, longest: int | None = None) -> int:
        """When so much work is done; `longest`: of the longest, if it is that of several new jobs of the role."""
        own = bisect_right(self._own, self._flow + (work if longest is None else longest))
        others = bisect_right(self._others, self._role + work + self._own_cost[own])
        return self._free + work + self._own_length[own] + self._others_length[others]

    def begin(self, pitch: int, had: int) -> int:
        """When the next slot of that length begins, after so much."""
        return self.end(had + pitch) - pitch

    def done_by(self, moment: int, longest: float) -> int:
        """How much work is done by then, of which the longest job has that part."""
        least, most = 0, max(0, moment - self._free)
        for _ in range(_STEPS):
            work = (least + most + 1) // 2
            if self.end(work, int(work * longest)) <= moment:
                least = work
            else:
                most = work - 1
        return least


def soonest(prospects: Sequence[Prospect], work: int, longest: float = 1.0) -> int:
    """When lanes together have done so much work, of which the longest job has that part, each lane as much as it can by then."""
    least, most = min(one.end(0) for one in prospects), min(one.end(work, int(work * longest)) for one in prospects)
    for _ in range(_STEPS):
        moment = (least + most) // 2
        if sum(one.done_by(moment, longest) for one in prospects) >= work:
            most = moment
        else:
            least = moment
    return most


def _sums(values: Iterable[int]) -> list[int]:
    return list(accumulate(values, initial=0))
