"""What is under way: a job is one table's chunks that must run, a slot is one of them on the timetable."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from privid.model import Table
from privid.sandbox.hands import Stop
from privid.sandbox.program import Program

from .cancel import Cancelled
from .effort import NO_EFFORT, Effort
from .frame_space import Held
from .kept import Cell, Cells
from .seams import Reader
from .timetable import NANO, Place

__all__ = ["COLD", "NEVER", "WARM", "Job", "Margins", "Slot", "State"]

#: later than any moment of the monotonic clock
NEVER = 1 << 62


class State(Enum):
    """Of a slot; only the first three are under way."""

    WAITING = "waiting"  # its frames are not decoded yet
    READY = "ready"
    RUNNING = "running"  # handed to its lane
    DONE = "done"  # its rows are in the chunk cache, and the moment has come at which they are in any case
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(eq=False, slots=True)
class Slot:
    """One chunk, or one region of it, to run. The runner's lock guards everything but `finished`."""

    key: bytes
    chunk: int
    region: int
    place: Place
    cell: Cell
    job: Job
    users: set[Job]  # the jobs that want its rows: a slot is shared with later releases over the same table
    state: State = State.WAITING
    frames: Path | None = None
    error: BaseException | None = None
    stop: Stop | None = None  # while a lane has it
    lates: int = 0  # how often its lane was not ready for it in time
    kept: bool = False  # its rows are in the chunk cache already, which shows only when the slot is over
    earliest: int = 0  # when its frames are there, or given up, if its decoder begins in time; of the monotonic clock
    cost: int = 0  # what it counts among those that wait for its lane (sharing.py)
    undecoded: bool = False  # decoding it took too long: it runs without frames, and what that says counts for nothing
    finished: threading.Event = field(default_factory=threading.Event)

    @property
    def role(self) -> str:
        return self.job.role

    @property
    def flow(self) -> str:
        return self.job.ident

    @property
    def length(self) -> int:
        return self.place.pitch

    @property
    def over(self) -> bool:
        return self.state in (State.DONE, State.FAILED, State.CANCELLED)

    def wait(self, timeout: float | None = None) -> None:
        """Until the rows are in the chunk cache; TimeoutError if that takes too long."""
        if not self.finished.wait(timeout):
            raise TimeoutError
        if self.error is not None:
            raise self.error
        if self.state is State.CANCELLED:
            raise Cancelled


@dataclass(frozen=True)
class Margins:
    """Nanoseconds before a slot: from the first on its run may be set up, at the second it must have been handed to its lane."""

    setup: int
    handover: int


#: A slot is handed to its lane so long before it begins, while the slot before it runs: a sandbox must be set up, or one that is there
#: given a chunk; and later than at the second moment it is not handed over any more
COLD, WARM = Margins(NANO // 4, NANO // 20), Margins(NANO // 25, NANO // 500)


@dataclass(eq=False)
class Job:
    """One table's chunks for one release."""

    ident: str
    table: Table
    program: Program
    folder: Path  # in the scratch: the program and the decoded chunks
    cells: Cells  # for the rows of own slots
    role: str = ""  # who logged in and asks: lanes are shared out among these
    space: Held | None = None  # for decoded frames and the program
    content: bytes = field(default=b"", repr=False)  # of the program, until it is installed
    reading: int = 0  # nanoseconds that reading one output takes at most
    effort: Effort = NO_EFFORT  # what decoding may take
    head: int = 0  # nanoseconds from the start of its decoder to its first slot at least
    started: int | None = None  # when its decoder had been started, of the monotonic clock
    whole: int = -1  # the chunk whose frames were last decoded, where they are cut for a mask or a region
    refused: int = -1  # the chunk whose frames took too long
    reached: int | None = None  # one past the last frame that was asked for
    earliest: int = 0  # when its first slot can begin, in nanoseconds of the monotonic clock
    own: list[Slot] = field(default_factory=list)  # in order of their frames
    wanted: dict[bytes, Slot] = field(default_factory=dict)  # own ones, and those shared with earlier jobs
    kept: dict[bytes, int] = field(default_factory=dict)  # where the rows of all others are
    left: int = 0  # own slots that are not over
    ends: int = 0  # what it holds is not given back before, in nanoseconds of the monotonic clock; NEVER once it failed, until dropped
    dropped: bool = False  # who asked for it waits no more
    settles: int = 0  # the moment for which that is planned
    held: int = 0  # own slots whose frames are in memory
    decoding: bool = True
    reader: Reader | None = None
    outcomes: dict[str, int] = field(default_factory=dict)  # of own slots that ran

    def address(self, key: bytes) -> int:
        """Where the rows of a run are, or will be."""
        slot = self.wanted.get(key)
        return self.kept[key] if slot is None else slot.cell.address

    def wait(self, key: bytes) -> None:
        """Until this chunk's rows are in the cache, where they may have been all along."""
        slot = self.wanted.get(key)
        if slot is not None:
            slot.wait()

    def wait_all(self, until: int | None = None) -> None:
        """Until all rows are in the cache; TimeoutError at that moment of the monotonic clock, in nanoseconds."""
        for slot in self.wanted.values():
            slot.wait(None if until is None else max(0, until - time.monotonic_ns()) / NANO)

    @property
    def end(self) -> int | None:
        """When the last slot ends by the timetable; None when nothing had to run."""
        return _latest(slot.place for slot in self.wanted.values())


def _latest(places: Iterable[Place]) -> int | None:
    return max((place.end for place in places), default=None)
