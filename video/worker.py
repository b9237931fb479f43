"""The decoder process: python -m privid.video.worker SOCKET USER. Confined before it sees any video; serves one parent.

    parent                                                   worker
    {"op": "probe", "name", "fps"} + video            ->     {"facts": {...}}
    {"op": "read", "first", "count", "keep"} + output ->     {"need": frame}         no file of that frame is open
    {"op": "file", "name", "first", "frames", ...} + video   {"need": frame} | {"done": count} | {"overspent": frames written}
    any                                               ->     {"error": {...}}        as privid.errors writes it
Signs of progress, {"progress": 1}, may come before any answer.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import av.logging
import numpy as np
from numpy.typing import NDArray

from privid.errors import PrividError, VideoUnreadable

from .confine import confine
from .facts import find_facts
from .process import MAX_MESSAGE
from .source import shown
from .stream import FrameReader

__all__ = ["main"]

#: a command that has been without progress for so long ends the process even if the parent is gone
_SILENCE = 120


class Parent:
    """The other end of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._told = 0.0

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        data, descriptors, _, _ = socket.recv_fds(self._socket, MAX_MESSAGE, 2)
        if not data:
            raise SystemExit(0)
        return json.loads(data), descriptors

    def send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode())

    def progress(self) -> None:
        now = time.monotonic()
        if now - self._told > 1:
            self._told = now
            signal.setitimer(signal.ITIMER_REAL, _SILENCE)
            self.send({"progress": 1})


class _Unwritten(Exception):
    """The output is full or gone: no fault of the video."""


class Overspent(Exception):
    """Reading takes more processor time than it may."""


class Reader:
    """Reads that may cross from file to file, with the frames that the next read will want again. One that takes more processor time than
    it may is given up between two frames; the next goes on from there."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._kept: deque[tuple[int, NDArray[np.uint8]]] = deque()
        self._open: tuple[FrameReader, int, int, int] | None = None  # reader, descriptor, first frame, one past the last
        self._until: int | None = None  # this process's clock of processor time, in nanoseconds, at which reading is given up

    def read(self, first: int, count: int, keep: int, output: int, offset: int, time_limit: int | None) -> int:
        """Writes frames first … first + count - 1 into the output, and keeps the last ones. How many were written."""
        self._until = None if time_limit is None else time.process_time_ns() + time_limit
        written = first

        def put(picture: NDArray[np.uint8]) -> None:
            nonlocal written
            at, rest = offset + (written - first) * picture.nbytes, picture.data.cast("B")
            while rest:
                try:
                    done = os.pwrite(output, rest, at)
                except OSError as error:
                    raise _Unwritten(error.strerror) from None
                at, rest = at + done, rest[done:]
            written += 1
            if keep:
                fresh.append((written - 1, picture))
            if written < first + count:
                self._check()

        fresh: deque[tuple[int, NDArray[np.uint8]]] = deque(maxlen=keep or None)
        with contextlib.suppress(Overspent):
            for number, picture in self._kept:
                if number == written < first + count:
                    put(picture)
            while written < first + count:
                reader, begin, end = self._file(written)
                for picture in reader.pictures(written - begin, min(first + count, end) - written):
                    put(picture)
        self._kept = fresh
        return written - first

    def _check(self) -> None:
        if self._until is not None and time.process_time_ns() > self._until:
            raise Overspent

    def _file(self, frame: int) -> tuple[FrameReader, int, int]:
        if self._open is None or not self._open[2] <= frame < self._open[3]:
            self.close()
            begun = time.process_time_ns()
            signal.setitimer(signal.ITIMER_REAL, 0)  # the parent may have to read the whole file first
            self._parent.send({"need": frame})
            told, (fd,) = self._parent.receive()
            signal.setitimer(signal.ITIMER_REAL, _SILENCE)
            reader = FrameReader(fd, told["name"], Fraction(told["fps"]), told["width"], told["height"], self._parent.progress, self._check)
            self._open = reader, fd, told["first"], told["first"] + told["frames"]
            if self._until is not None:
                self._until += time.process_time_ns() - begun  # to open a file is no part of what its pictures take
        return self._open[0], self._open[2], self._open[3]

    def close(self) -> None:
        if self._open is not None:
            self._open[0].close()
            os.close(self._open[1])
            self._open = None


def serve(parent: Parent) -> None:
    """Answers until the parent closes."""
    reader = Reader(parent)
    while True:
        signal.setitimer(signal.ITIMER_REAL, 0)
        message, (fd,) = parent.receive()
        signal.setitimer(signal.ITIMER_REAL, _SILENCE)
        answer = _guarded(lambda: _answer(message, fd, reader, parent), str(message.get("name", "")))  # noqa: B023 (called at once)
        os.close(fd)
        parent.send(answer)


def _answer(message: dict[str, Any], fd: int, reader: Reader, parent: Parent) -> dict[str, Any]:
    if message["op"] == "probe":
        given = None if message["fps"] is None else Fraction(message["fps"])
        return {"facts": find_facts(fd, message["name"], given, parent.progress).as_json()}
    done = reader.read(message["first"], message["count"], message["keep"], fd, message["offset"], message["time"])
    return {"done" if done == message["count"] else "overspent": done}


def _guarded(work: Callable[[], dict[str, Any]], name: str) -> dict[str, Any]:
    try:
        return work()
    except PrividError as error:
        return {"error": error.as_message()}
    except _Unwritten as error:
        return {"failed": str(error)}
    except Exception as error:  # whatever a hostile file brings about is an answer, not a crash
        what = f'video file "{shown(name)}" cannot be read' if name else "could not read the video"
        return {"error": VideoUnreadable(what, detail=f"{type(error).__name__}: {error}.",
                                         hint="The file is damaged or hostile; remove it from the camera's source.").as_message()}


def main() -> None:
    """Gives up all rights, says so, serves."""
    parent = Parent(socket.socket(fileno=int(sys.argv[1])))
    av.logging.set_level(None)
    for module in pkgutil.walk_packages(av.__path__, "av."):  # PyAV imports parts of itself on first use, which is too late
        if module.name not in ("av.__main__", "av.datasets"):
            importlib.import_module(module.name)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the engine's log is not for a process that reads hostile files
    try:
        confine(int(sys.argv[2]) if sys.argv[2] else None)
    except Exception as error:
        parent.send({"refused": f"{type(error).__name__}: {error}"[:400]})
        raise SystemExit(1) from None
    parent.send({"ready": True})
    serve(parent)


if __name__ == "__main__":
    main()
