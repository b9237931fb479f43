"""What the runner asks of the rooms beside it; lanes on other machines would fit here too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from privid.sandbox.executable import Kind
from privid.sandbox.run import RunResult

__all__ = ["Harvested", "LaneLike", "Reader"]


class LaneLike(Protocol):
    """Runs one program at a time, from `begin` to `end` of the monotonic clock (privid.sandbox.Lane)."""

    def run(self, executable: Path, kind: Kind, chunk_dir: Path, begin: float, end: float) -> RunResult: ...

    def cancel(self) -> None: ...

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
