"""What keeps this machine from running programs at all: known before anything is charged for what cannot be answered."""

from __future__ import annotations

from collections.abc import Callable

from privid.errors import SandboxFailed
from privid.sandbox.capabilities import Finding, obstacle

from .log import Log

__all__ = ["Obstacle"]


class Obstacle:
    """Looked for when the engine starts; one that was found is looked for again whenever a release asks, since it may be mended."""

    def __init__(self, log: Log, find: Callable[[], Finding | None] = obstacle) -> None:
        self._find = find
        self._found = find()
        if self._found is not None:
            log.write("sandbox cannot be made", what=self._found.name, found=self._found.found, remedy=self._found.remedy)

    def check(self) -> None:
        """Refuses what would need a sandbox."""
        if self._found is not None:
            self._found = self._find()
        if self._found is not None:
            raise SandboxFailed("the engine cannot make a sandbox on this machine", detail="Nothing was charged.",
                                hint="The operator finds the remedy with privid doctor.")
