"""The board: which slots wait for which lane, which run, and what the timetable says. One lock guards it all.

Methods with a leading "the caller holds the lock" do no waiting and no input or output, for lanes need the lock in time.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import islice

from privid.sandbox.intermission import SLICE
from privid.sandbox.run import RunResult

from .jobs import Job, Margins, Slot, State
from .log import Log
from .reading import Unread
from .sharing import Prospect, Sharing
from .timetable import NANO, Place, Timetable

__all__ = ["Board", "Queue"]

#: A lane that is not ready is not asked again before so many nanoseconds have passed.
_PATIENCE = NANO // 20
#: Others have their turns for so many nanoseconds at least while a program is imported, as long as an import goes on at a time.
_TURN = int(SLICE * NANO)
#: So many slips, none of them longer ago than so many nanoseconds, are worth a warning.
_OFTEN, _RECENTLY = 20, 600 * NANO
#: Keys of slots that are remembered when they are over.
_RECENT = 4096
#: To move slots takes time, the more the more there are; so many times that pass before they could be moved again.
_RESPITE = 20


@dataclass(frozen=True)
class Queue:
    """What waits for a lane at some moment."""

    sharing: Sharing
    waiting: list[Slot]
    running: list[Slot]
    taken: int  # when the slot that runs ends
    free_at: int

    def apart(self, earliest: int) -> tuple[list[Slot], list[Slot]]:
        """Slots that begin before a job can, and those that it takes turns with."""
        return ([slot for slot in self.waiting if slot.place.begin < earliest],
                [slot for slot in self.waiting if slot.place.begin >= earliest])

    def free(self, earliest: int) -> int:
        """When those turns begin."""
        first, rest = self.apart(earliest)
        return max([earliest, self.taken, *(slot.place.end for slot in first)] if rest else [earliest, self.free_at])

    def prospect(self, role: str, earliest: int) -> Prospect:
        """What a job of a role that came now could expect. Lanes need the lock in time: this needs none."""
        first, rest = self.apart(earliest)
        return self.sharing.prospect(role, rest, [*self.waiting, *self.running], first, self.free(earliest))


class Board:
    """State shared by the runner's threads."""

    def __init__(self, lanes: int, ready: Callable[[int, Slot], bool], margins: Callable[[int, Slot], Margins], log: Log,
                 importing: Callable[[int, Slot], bool] = lambda lane, slot: False) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.timetable = Timetable(lanes)
        self.under_way: dict[bytes, Slot] = {}
        self.finished = 0  # slots that have left under_way
        self.recent: deque[bytes] = deque(maxlen=_RECENT)  # keys of the last of them
        self.busy_until = 0.0  # when the last has, in seconds of the monotonic clock
        self.running: list[list[Slot]] = [[] for _ in range(lanes)]  # handed to their lane: one runs, the next is prepared
        self.stopped = False
        #: for the harvest thread: a slot and what came out of it
        self.harvest: queue.SimpleQueue[tuple[Slot, RunResult] | None] = queue.SimpleQueue()
        #: for the closing thread: a slot whose rows are kept and the moment at which that shows, or 0 and a slot whose frames can go
        self.closing: queue.SimpleQueue[tuple[int, Slot] | None] = queue.SimpleQueue()
        self._queues: list[deque[Slot]] = [deque() for _ in range(lanes)]
        self._sharing = [Sharing() for _ in range(lanes)]
        self.unread = Unread()
        self._lane_ready, self._margins, self._importing = ready, margins, importing
        self._log = log
        self._slips: deque[int] = deque(maxlen=_OFTEN)  # when slots slipped, in nanoseconds of the monotonic clock
        self._moving = [0] * lanes  # nanoseconds that it took the last time
        self._passed = [0] * lanes  # when the last slot of a job that has failed, of those whose turn came, ends
        self.moves = 0  # how often a slot came to be earlier than it was to be

    def slips_often(self) -> bool:
        """Whether the machine is too busy for what the timetable promises."""
        return len(self._slips) == _OFTEN and time.monotonic_ns() - self._slips[0] < _RECENTLY

    # The caller holds the lock

    def reserve(self, job: Job, todo: Sequence[Slot], pitch: int, earliest: int) -> None:
        """Give a job its slots: shared ones where the same chunk is under way, the others at new places."""
        job.earliest = earliest
        for slot in todo:
            shared = self.under_way.get(slot.key)
            job.wanted[slot.key] = shared or slot
            if shared is not None:
                shared.users.add(job)
            else:
                job.own.append(slot)
                self.under_way[slot.key] = slot
        for slot, moment in _decoded(job.own, earliest):
            slot.earliest = moment
        before = [self.queue(lane) for lane in range(len(self._queues))]
        turns = [partial(one.prospect(job.role, earliest).begin, pitch) if one.waiting else None for one in before]
        places = self.timetable.reserve([slot.earliest for slot in job.own], pitch, turns)
        last = [earliest for _ in before]
        for slot, place in zip(job.own, places, strict=True):
            slot.place, slot.cost = place, max(pitch, slot.earliest - last[place.lane])
            last[place.lane] = slot.earliest
            self._queues[place.lane].append(slot)
        self.unread.add(job.own)
        for lane in {place.lane for place in places}:
            self._share(lane, job, before[lane])
        job.left = len(job.own)
        self.changed.notify_all()

    def ended_since(self, finished: int, keys: Set[bytes]) -> list[bytes]:
        """Those of the keys whose slots may have ended since so many had."""
        new = self.finished - finished
        return list(keys) if new > len(self.recent) else [key for key in islice(reversed(self.recent), new) if key in keys]

    def _share(self, lane: int, job: Job, before: Queue) -> None:
        """Let a new job take turns with those that wait already. A slot stays in its lane, and a job's slots in their order."""
        first, rest = before.apart(job.earliest)
        self._sharing[lane].enter(job.role, job.ident, [*before.waiting, *before.running], first)
        if not rest:
            return
        own = list(self._queues[lane])[len(before.waiting):]
        shared = []
        for slot, begin in self._sharing[lane].after(first).in_order([*rest, *own], before.free(job.earliest)):
            slot.place = Place(lane, begin, slot.place.pitch)
            shared.append(slot)
        self._queues[lane] = deque((*first, *shared))
        self.timetable.free_at[lane] = shared[-1].place.end

    def queue(self, lane: int) -> Queue:
        """What waits there now."""
        return Queue(self._sharing[lane].after(()), list(self._queues[lane]), list(self.running[lane]), self._taken(lane),
                     self.timetable.free_at[lane])

    def _taken(self, lane: int) -> int:
        """When the slot that runs there ends, or goes by."""
        return max([self._passed[lane], *(slot.place.end for slot in self.running[lane])])

    def close(self, slot: Slot, state: State) -> None:
        """A slot is over: done, failed or given up."""
        slot.state = state
        slot.job.left -= 1
        self.finished += 1
        self.recent.append(slot.key)
        if self.under_way.get(slot.key) is slot:
            del self.under_way[slot.key]
            self.busy_until = time.monotonic()
        self.closing.put((0, slot))  # which removes its frames, if it has any
        slot.finished.set()

    def give_up(self, slots: Sequence[Slot]) -> bool:
        """Nobody wants these any more, nor those of failed jobs that nobody waits for: no lane takes them, and nobody shares them. Whoever
        gives them up closes them; their lanes are free from the last slot that is left. True if any lane has less to do."""
        gone = set(slots)
        for slot in slots:
            if self.under_way.get(slot.key) is slot:
                del self.under_way[slot.key]
        if slots:
            self.busy_until = time.monotonic()
        waited = sum(map(len, self._queues))
        self._queues = [deque(slot for slot in waiting if slot not in gone and (slot.users or not slot.over)) for waiting in self._queues]
        self.unread.drop(slots)
        for lane, waiting in enumerate(self._queues):
            # what runs keeps its lane until its time is over: a program must not decide whether a cancel frees it
            self.timetable.release(lane, [*(slot.place for slot in waiting), Place(lane, self._taken(lane) - 1, 1)])
        self.changed.notify_all()
        return bool(slots) or sum(map(len, self._queues)) < waited

    def move_up(self) -> None:
        """Slots that wait take the place of those that were given up, in their order, each when its frames can be there; what runs, also if
        it was given up, keeps its time. Nobody's slot comes later."""
        now = time.monotonic_ns()
        every, decoded = {slot for waiting in self._queues for slot in waiting}, dict[Slot, int]()
        for job in {slot.job for slot in every}:  # what a decoder is at depends on what it has seen: it may be at any, and have done none
            decoded.update(_decoded((slot for slot in job.own if slot in every), now + job.effort.most + job.head))
        for lane, waiting in enumerate(self._queues):
            moment = max(now, self._taken(lane))
            for slot in waiting:
                begin = max(moment, min(slot.place.begin, max(slot.earliest, decoded[slot])))
                if begin < slot.place.begin:
                    slot.place = Place(lane, begin, slot.place.pitch)
                    self.moves += 1
                moment = slot.place.end
            if waiting:
                self.timetable.free_at[lane] = moment
        self.changed.notify_all()

    def put_back(self, slot: Slot) -> None:
        """A slot that did not have its turn has it again, with all that come after it."""
        slot.state = State.READY
        waiting = self._queues[slot.place.lane]
        self._sharing[slot.place.lane].charge(slot, -slot.cost)
        waiting.appendleft(slot)
        if any(later.place.begin < slot.place.begin for later in waiting):
            self._queues[slot.place.lane] = deque(sorted(waiting, key=lambda later: later.place.begin))
        self.changed.notify_all()

    def _slip(self, lane: int, slot: Slot, now: int) -> None:
        wait = self._margins(lane, slot).handover + (0 if self._lane_ready(lane, slot) else _PATIENCE)
        running = [other.place.end - 1 for other in self.running[lane] if other is not slot]
        free = max([now + wait + _RESPITE * self._moving[lane], self._decoded_from(slot.job, now), self._passed[lane] - 1, *running])
        reason = "lane not ready" if slot.state is State.READY else "frames not decoded"
        slots = (free - slot.place.begin) // slot.place.pitch + 1
        by = slots * slot.place.pitch
        if self._importing(lane, slot):
            self._sharing[lane].charge(slot, by)
        for waiting in self._queues[lane]:
            waiting.place = Place(lane, waiting.place.begin + by, waiting.place.pitch)
        self._moving[lane] = time.monotonic_ns() - now
        self.timetable.slip(lane, by)
        self._slips.append(now)
        self._log.write("slots slipped", job=slot.job.ident, lane=lane, slots=slots, reason=reason)

    @staticmethod
    def _decoded_from(job: Job, now: int) -> int:
        """Where slots of a job can begin, by the start of its decoder, which knows nothing of any picture yet."""
        return (now if job.started is None else job.started) + job.head

    def _defer(self, lane: int, slot: Slot, now: int) -> bool:
        """A program whose turn it is is still being imported: slots of others come first, in their order and at their time, for as long as
        an import goes on at a time, or as the slot that is put off. False if there are none. How long an import takes, no frame decides."""
        waiting, jobs = self._queues[lane], dict[Job, bool]()
        for one in waiting:
            if one.job not in jobs:
                jobs[one.job] = self._importing(lane, one)
        if not jobs[slot.job] or all(jobs.values()):
            return False
        first, left = dict[Slot, None](), max(_TURN, slot.place.pitch)
        for one in waiting:
            if left > 0 and not jobs[one.job]:
                first[one] = None
                left -= one.place.pitch
        order = [*first, *(one for one in waiting if one not in first)]
        moment = max(now, self._taken(lane))
        for one in order:
            one.place = Place(lane, max(moment, one.place.begin), one.place.pitch)
            moment = one.place.end
        self._queues[lane] = deque(order)
        self._sharing[lane].charge(slot, sum(one.place.pitch for one in first))  # it is imported meanwhile, and owed nothing for that
        self.timetable.free_at[lane] = max(moment, self.timetable.free_at[lane])
        self._log.write("slots deferred", job=slot.job.ident, lane=lane, slots=len(first), reason="program being imported")
        return True

    def _take(self, lane: int) -> None:
        """The turn of the lane's next slot has come."""
        self._sharing[lane].give(self._queues[lane].popleft())

    # Waiting

    def next(self, lane: int) -> Slot | None:
        """The lane's next slot, at the moment when its sandbox is to be set up; None when the runner stops."""
        with self.lock:
            while not self.stopped:
                if not self._queues[lane]:
                    self.changed.wait()
                    continue
                slot = self._queues[lane][0]
                now = time.monotonic_ns()
                margins = self._margins(lane, slot)
                setup, latest = slot.place.begin - margins.setup, slot.place.begin - margins.handover
                if slot.over and now >= setup:  # of a job that has failed: its time goes by as if it had not
                    self._take(lane)
                    self._passed[lane] = slot.place.end
                elif slot.over:
                    self.changed.wait((setup - now) / NANO + 0.0001)
                elif now > latest:
                    if not self._defer(lane, slot, now):
                        self._slip(lane, slot, now)
                elif slot.state is State.READY and now >= setup and self._lane_ready(lane, slot):
                    self._take(lane)
                    slot.state = State.RUNNING
                    self.running[lane].append(slot)
                    self.unread.hand(slot)
                    return slot
                else:
                    # for its time, or beyond that for its lane or its frames
                    self.changed.wait(((setup if now < setup else latest) - now) / NANO + 0.0001)
            return None

    def may_decode(self, slot: Slot, ahead: int, lead: int) -> bool:
        """Wait until a chunk is near enough to its slot to be decoded; False when it has been given up."""
        with self.lock:
            while slot.state is State.WAITING:
                early = slot.place.begin - ahead * slot.place.pitch - lead - time.monotonic_ns()
                room = slot.job.held < ahead
                if room and early <= 0:
                    return True
                self.changed.wait(early / NANO + 0.001 if room else None)
            return False


def _decoded(slots: Iterable[Slot], first: int) -> Iterator[tuple[Slot, int]]:
    """When the frames of a job's slots are there, or given up, if those of the first are at that moment."""
    before, moment = None, first
    for slot in slots:
        moment += 0 if before is None else slot.job.effort.after(before, slot.chunk)
        before = slot.chunk
        yield slot, moment
