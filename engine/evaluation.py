"""The engine's side of the evaluator: tasks go there, and come back at a public moment.

When an inner query ends depends on rows, and whatever in this process followed from it could be seen: in how long others wait, in when
a release is marked, in whose turn is next. So this process does not know it. The evaluator (evaluator.py), a process of its own, tells
when a computation begins, and its rows exactly when the allowance, less the margin for noise, is over.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from privid.errors import EngineUnavailable
from privid.model import Key
from privid.sandbox.confine import complaints

from .blocks import Blocks
from .cancel import Cancel, Cancelled
from .log import Log
from .memory import STEADY
from .timetable import NANO

if TYPE_CHECKING:
    from privid.room.room import Room  # not for the evaluator, which has this module too

__all__ = ["COMMAND", "Begun", "Changed", "Done", "Evaluation", "Evaluations", "Suspected", "Task", "Withdraw", "Withdrawn", "receive",
           "send"]

#: what starts the evaluator; its arguments follow
COMMAND = [sys.executable, "-P", "-m", "privid.engine.evaluator"]
#: seconds after the moment at which rows are said, after which they are given up; or the margin, which knows how many there can be
_PATIENCE = 1.0
#: seconds before a dead evaluator is replaced, the second time and later
_PAUSE = 0.5

_LENGTH = struct.Struct("<Q")


# What is said. Both ends are this program: plain values of our own classes, nothing that anybody else has written.

@dataclass(frozen=True)
class Task:
    """The inner query of one release."""

    ident: int
    handle: str  # under which the room asks for blocks
    statements: Sequence[str]  # that make its objects
    publics: Sequence[tuple[str, Sequence[Key]]]
    query: str
    settings: Mapping[str, str]
    blocks: Mapping[int, Blocks] = field(repr=False)  # by the table's number
    allowance: int  # nanoseconds
    margin: int  # of them for noise
    slow: bool
    #: bytes that it can need at most; less than twice that and it is not tried
    files: int = 0
    memory: int = 0
    #: bytes of disk and memory that were free while nothing was computed
    free: tuple[int, int] = (0, 0)
    #: no row of a video takes part: it takes as long as it takes, and its rows are handed over when they are there
    public: bool = False


@dataclass(frozen=True)
class Withdraw:
    """Nobody wants it any more; of no effect once it has begun."""

    ident: int


@dataclass(frozen=True)
class Changed:
    """The room's server that runs now; 0 for none."""

    number: int
    name: str


@dataclass(frozen=True)
class Begun:
    """A computation has a session and a lane; its allowance counts from here, in nanoseconds of the monotonic clock."""

    ident: int
    begin: int
    fits: bool = True  # False: there is not enough disk or memory for it, as anybody could see before it began


@dataclass(frozen=True)
class Withdrawn:
    ident: int


@dataclass(frozen=True)
class Done:
    """Said when the time is over, whatever happened: rows, or what went wrong, in words of ours."""

    ident: int
    rows: list[Key] | None
    failure: str | None = None
    sqlstate: str | None = None


@dataclass(frozen=True)
class Suspected:
    """A session with the room's server of this number has failed."""

    number: int


def send(sock: socket.socket, message: object) -> None:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    sock.sendall(_LENGTH.pack(len(body)))
    sock.sendall(body)


def receive(sock: socket.socket) -> object | None:
    """None at the end."""
    head = _read(sock, _LENGTH.size)
    if head is None:
        return None
    body = _read(sock, _LENGTH.unpack(head)[0])
    return None if body is None else pickle.loads(body)


def _read(sock: socket.socket, length: int) -> bytearray | None:
    content = bytearray()
    while len(content) < length:
        piece = sock.recv(min(length - len(content), 1 << 20))
        if not piece:
            return None
        content += piece
    return content


class Evaluation:
    """One task that is under way."""

    def __init__(self, task: Task, withdraw: Callable[[int], None]) -> None:
        self.task = task
        self.begun: Future[Begun | None] = Future()  # None: withdrawn
        self.done: Future[Done] = Future()
        self._withdraw = withdraw

    def wait_begun(self, cancel: Cancel) -> Begun:
        """When it began. Until then nobody but the queue knows of it, and it can be withdrawn at any moment; after that it keeps its lane
        until its time is over, whoever still wants to know."""
        with cancel.calling(lambda: self._withdraw(self.task.ident)):
            begun = self.begun.result()
        if begun is None:
            raise Cancelled
        return begun

    def result(self, begun: Begun) -> Done:
        """At the moment at which the time is over, and not before; what is public, when it is there."""
        until = begun.begin + self.task.allowance - self.task.margin
        try:
            done = self.done.result(max(0, until - time.monotonic_ns()) / NANO + max(_PATIENCE, self.task.margin / NANO))
        except TimeoutError:
            done = Done(self.task.ident, None, "TimeoutError")
        while not self.task.public and (left := until - time.monotonic_ns()) > 0:
            time.sleep(left / NANO)
        return done


def _known(begun: Future[Begun | None]) -> Begun | None:
    return begun.result() if begun.done() else None


class Evaluations:
    """The evaluator as the engine has it: started, told, replaced when it has died, and ended. Used by many threads."""

    def __init__(self, room: Room, chunks: Path, log: Log) -> None:
        self._room, self._chunks, self._log = room, chunks, log
        self._listener = room.listen()
        self._idents = count(1)
        self._sending = threading.Lock()  # of the socket, and of which process it leads to
        self._lock = threading.Lock()  # of what is running; whoever listens never waits for anybody who sends
        self._running: dict[int, Evaluation] = {}
        self._busy_until = 0.0
        self._changed = Changed(0, "")
        self._closing = False
        self._sock, self._process = self._start()
        self._thread = threading.Thread(target=self._listen, name="evaluator", daemon=True)
        self._thread.start()
        room.observe(self._room_changed)

    def check(self) -> None:
        """Refuses what could not be computed, before it is charged."""
        self._room.check()
        if self._process.poll() is not None:
            raise EngineUnavailable("the engine's evaluator is being replaced", hint="Try again.")

    def busy_until(self) -> float:
        """When something was last computed, in seconds of the monotonic clock; it may be later than now."""
        return self._busy_until

    def slow_wait(self) -> int:
        """Nanoseconds until the lane of slow computations has done what it has been given."""
        now = time.monotonic_ns()
        with self._lock:
            slow = [(one.task.allowance, one.begun) for one in self._running.values() if one.task.slow]
        return sum(allowance if (begun := _known(future)) is None else max(0, begun.begin + allowance - now) for allowance, future in slow)

    def submit(self, task: Callable[[int], Task]) -> Evaluation:
        """Queue a task, which is made for its number."""
        evaluation = Evaluation(task(next(self._idents)), self._withdraw)
        with self._sending:
            if self._closing:
                raise Cancelled
            with self._lock:
                self._running[evaluation.task.ident] = evaluation
            self._say(evaluation.task)
        return evaluation

    def close(self) -> None:
        with self._sending:
            self._closing = True
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # at its end the evaluator ends
        self._thread.join()
        self._listener.close()

    # The process

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        fds = (theirs.fileno(), self._listener.fileno())
        cores = max(1, len(os.sched_getaffinity(0)))  # those that are left beside the lanes of programs
        arguments = ["--control", fds[0], "--listener", fds[1], "--room", self._room.directory, "--uid", self._room.uid,
                     "--connections", self._room.connections, "--chunks", self._chunks, "--lanes", cores]
        try:
            process = subprocess.Popen([*COMMAND, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=complaints(), pass_fds=fds, cwd="/", env=os.environ | STEADY, start_new_session=True)
        finally:
            theirs.close()
        return ours, process

    def _listen(self) -> None:
        """The thread that hears it, and replaces it."""
        while True:
            while (message := self._next()) is not None:
                self._hear(message)
            self._sock.close()
            status = self._process.wait()
            with self._lock:
                if self._closing:
                    lost, self._running = list(self._running.values()), {}
                else:
                    lost = [one for one in self._running.values() if one.begun.done()]
            for one in lost:
                self._lose(one)
            if self._closing:
                return
            self._log.write("evaluator ended", status=status)
            time.sleep(_PAUSE)
            self._replace()

    def _next(self) -> object | None:
        try:
            return receive(self._sock)
        except OSError:
            return None

    def _hear(self, message: object) -> None:
        match message:
            case Begun(ident):
                one = self._running[ident]
                self._busy_until = max(self._busy_until, (message.begin + one.task.allowance) / NANO)
                one.begun.set_result(message)
            case Withdrawn(ident):
                self._forget(ident).begun.set_result(None)
            case Done(ident):
                self._forget(ident).done.set_result(message)
            case Suspected(number):
                self._room.suspect(number)

    def _forget(self, ident: int) -> Evaluation:
        with self._lock:
            return self._running.pop(ident)

    def _lose(self, one: Evaluation) -> None:
        with self._lock:
            self._running.pop(one.task.ident, None)
        if not one.begun.done():
            one.begun.set_result(None)
        one.done.set_result(Done(one.task.ident, None, "EvaluatorLost"))

    def _replace(self) -> None:
        """A new one, which is told the room and gets what had not begun."""
        with self._sending:
            if self._closing:
                return
            self._sock, self._process = self._start()
            with self._lock:
                waiting = [one.task for one in self._running.values()]
            for message in (self._changed, *waiting):
                self._say(message)

    # Saying

    def _room_changed(self, number: int, name: str) -> None:
        with self._sending:
            self._changed = Changed(number, name)
            self._say(self._changed)

    def _withdraw(self, ident: int) -> None:
        with self._sending:
            self._say(Withdraw(ident))

    def _say(self, message: object) -> None:
        """If it does not hear this, it is being replaced, and its successor is told."""
        with suppress(OSError):
            send(self._sock, message)
