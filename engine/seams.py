"""What the runner asks of the rooms beside it; lanes on other machines would fit here too."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from privid.sandbox.hands import Stop
from privid.sandbox.program import Program
from privid.sandbox.run import RunResult

__all__ = ["LaneLike", "Reader"]


class LaneLike(Protocol):
    """The seam between the timetable and whatever runs a chunk (privid.sandbox.Lane here, a worker on another machine elsewhere).

    A chunk depends on nothing but its program and its directory, and its slot is fixed beforehand; so an implementation may ship both
    to another machine, as a task of a cluster, as long as it keeps these promises: a run begins at `begin` and is over at `end` (of
    this machine's monotonic clock) whatever the program does, nothing passes from one run to another, and what is not the program's
    fault raises SandboxFailed. Where shipping takes time, `ready` says no until the next chunk can begin: the timetable then moves by
    whole slots.
    """

    @property
    def warm(self) -> bool:
        """Whether modules are started warm."""

    @property
    def guard(self) -> float:
        """Seconds that the timetable must leave between two slots."""

    def announce(self, program: Program, slots: int, pitch: float) -> None:
        """So many slots of this program will come, one every `pitch` seconds at most."""

    def ready(self, program: Program) -> bool:
        """Whether a slot of this program could begin now."""

    def is_importing(self, program: Program) -> bool:
        """Whether slots of this program wait for its own import."""

    def is_cold(self, program: Program) -> bool:
        """Whether runs of a program that could be started warm are not."""

    def import_time(self, program: Program) -> float | None:
        """Seconds that importing this program took last, while no slot ran; None if that was not done."""

    def run(self, program: Program, chunk_dir: Path, begin: float, end: float, stop: Stop | None) -> RunResult:
        """One slot. Called before it begins, by up to HANDS threads: one whose slot runs, others whose slots come next. Raises Late when
        the slot had begun before all was ready. `stop`, once set, ends it."""

    def dismiss(self, program: Program) -> None:
        """No more slots of this program will come."""

    def close(self) -> None:
        """End everything and leave nothing behind."""


class Reader(Protocol):
    """Reads runs of frames in ascending order (privid.video.Decoder)."""

    def start(self) -> int:
        """Starts its process, and tells the number of that."""

    def read(self, first: int, count: int, into: Path, time_limit: int | None = None) -> object:
        """Raises video.Overspent if that takes more processor time than the limit, in nanoseconds."""

    def close(self) -> None: ...
