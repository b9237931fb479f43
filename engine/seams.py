"""What the runner asks of the rooms beside it; lanes on other machines would fit here too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["Harvested", "LaneLike", "Reader", "Result"]


class Result(Protocol):
    """What came out of one run (privid.sandbox.RunResult)."""

    @property
    def stdout(self) -> bytes: ...


class LaneLike(Protocol):
    """Runs one program at a time, from `begin` to `end` of the monotonic clock (privid.sandbox.Lane)."""

    def run(self, executable: Path, kind: str, chunk: Path, begin: float, end: float) -> Result: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


class Reader(Protocol):
    """Reads runs of frames in ascending order (privid.video.Decoder)."""

    def read(self, first: int, count: int, into: Path) -> object: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Harvested:
    """A chunk's rows as they are kept."""

    rows: int
    body: bytes
    weight: int  # the most that any output could take; a public number
    outcome: str
