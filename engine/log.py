"""Structured log: one JSON object per line, never with data.

What may stand in a line: names of classes and code places, identifiers, sizes and durations that are public.
What may not: rows, answers, literals of a query, frames, and messages of exceptions (they quote values).
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
import traceback
from typing import TextIO

__all__ = ["Log", "places"]

Field = str | int | float | bool | list[str] | None


def places(error: BaseException) -> list[str]:
    """Where an exception came from, innermost last, without its message."""
    found = [f"{frame.filename.rsplit('/', 2)[-2]}/{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
             if "/" in frame.filename else frame.name
             for frame in traceback.extract_tb(error.__traceback__)]
    return found[-12:]


class Log:
    """Writes lines to a stream; safe from several threads; a stream that is gone is ignored."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._lock = threading.Lock()

    def write(self, event: str, /, **fields: Field) -> None:
        moment = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03d}Z"
        line = json.dumps({"at": stamp, "event": event, **fields}, ensure_ascii=True)
        with self._lock:
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                pass  # nobody reads the log any more: not a reason to stop serving

    def failure(self, event: str, error: BaseException, **fields: Field) -> str:
        """Log an exception without its message; the identifier returned is what the client is shown."""
        ident = secrets.token_hex(4)
        causes = [type(error).__name__]
        cause = error.__cause__ or error.__context__
        while cause is not None and len(causes) < 5:
            causes.append(type(cause).__name__)
            cause = cause.__cause__ or cause.__context__
        self.write(event, id=ident, error=causes[0], causes=causes[1:], places=places(error), **fields)
        return ident
