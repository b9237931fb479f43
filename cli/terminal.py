"""What the commands say: failures with a hint, and a progress bar on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["CommandFailed", "Progress", "progress"]


class CommandFailed(Exception):
    """A command that cannot go on: one line why, and what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Progress:
    """A bar on standard error, drawn only when that is a terminal; silent otherwise."""

    def __init__(self, total: float) -> None:
        self._total = max(total, 1e-9)
        self._done = 0.0
        self._label = ""
        self._shown = sys.stderr.isatty()
        self._drawn_at = 0.0

    def step(self, label: str, amount: float = 1.0) -> None:
        """Begins the next step; what came before it is done."""
        self._label = label
        self._draw(force=True)
        self._done = min(self._done + amount, self._total)

    def reach(self, done: float, label: str | None = None) -> None:
        """Sets how much is done, for work that counts by itself."""
        self._done = min(done, self._total)
        self._label = self._label if label is None else label
        self._draw(force=False)

    def _draw(self, force: bool) -> None:
        now = time.monotonic()
        if not self._shown or (not force and now - self._drawn_at < 0.1):
            return
        self._drawn_at = now
        width = max(10, min(40, shutil.get_terminal_size().columns - 45))
        filled = int(width * self._done / self._total)
        sys.stderr.write(f"\r\x1b[K[{'#' * filled}{'.' * (width - filled)}] {100 * self._done / self._total:3.0f} % {self._label}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Removes the bar, so that ordinary lines can follow."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def progress(total: float) -> Iterator[Progress]:
    """A bar that is gone afterwards, whatever happened."""
    bar = Progress(total)
    try:
        yield bar
    finally:
        bar.clear()
