"""What the commands say: failures with a hint, a progress bar on a terminal, and nothing that acts on the terminal by itself."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

__all__ = ["CommandFailed", "Progress", "harmless_output", "printable", "progress"]

#: what a terminal obeys rather than shows, what turns the direction of writing, and what no encoding has; but the ends of lines and tabs
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""A text in which names from elsewhere may stand, with what would act on a terminal written out.

    >>> print(printable("street\x1b[2J"))
    street\x1b[2J
    """
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class _Harmless:
    """A stream that shows whatever is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def draw(self, text: str) -> None:
        """Writes what shall act on the terminal: our own words, and names that are written out already."""
        self._stream.write(text)

    def write(self, text: str) -> int:
        self._stream.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def harmless_output() -> Iterator[None]:
    """Names of tables, cameras, files and programs, and what programs say, are other people's: printed, they act on no terminal."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Harmless(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


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
        _draw(f"\r\x1b[K[{'#' * filled}{'.' * (width - filled)}] {100 * self._done / self._total:3.0f} % {printable(self._label)}")

    def clear(self) -> None:
        """Removes the bar, so that ordinary lines can follow."""
        if self._shown:
            _draw("\r\x1b[K")


def _draw(text: str) -> None:
    getattr(sys.stderr, "draw", sys.stderr.write)(text)
    sys.stderr.flush()


@contextmanager
def progress(total: float) -> Iterator[Progress]:
    """A bar that is gone afterwards, whatever happened."""
    bar = Progress(total)
    try:
        yield bar
    finally:
        bar.clear()
