"""A program as lanes know it: an installed file, how it is run, and what it finds around itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .executable import Kind
from .runtime import DEFAULT_RUNTIME

__all__ = ["Program"]


@dataclass(frozen=True)
class Program:
    """Equal programs are interchangeable: a lane that has one ready may use it for the other."""

    path: Path  # readable by lanes, and executable unless it is a module
    kind: Kind
    runtime: str = DEFAULT_RUNTIME
    files: Path | None = None  # directory of attached files, shown at /app/files
    warm: bool = True  # may be started warm, where the machine can and the program is a module
