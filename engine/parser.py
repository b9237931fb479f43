"""The parser: the one place where what programs printed is taken apart, in a process that can do nothing else.

Whatever a fault in Python's JSON, or in ours, would let somebody do, it can be done to the rows of the same run only. The process gives up
all rights (sandbox/confine.py) and makes one child for each output, which is handed two descriptors, says its rows to one of them and is
gone. No child has seen another output, and the process that makes them sees none.

    keeper (parsing.py)                              parser                         child
    its rights [filter], the child's [filter]   ->   gives all up
    Wish + socket [+ what was printed] [Task]   ->   forks                     ->   closes all else, reads, says a Block to the socket
    that it is gone                             <-   waits for the child's end, until the output must have been read

It has few modules on purpose: a child is as quick as its parent is small, and threading alone would cost as much as the rest.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from privid.model import Column
from privid.room.priority import QUICK, set_priority
from privid.sandbox.confine import NOBODY, Confinement, confine
from privid.sandbox.rows import Row, default_row, output_limit, parse_rows, read_rows
from privid.sandbox.syscalls import load_filter

from .pace import Overspent, Pace
from .rows import encode_columns

__all__ = ["BLOCK", "ENDED", "MEMORY", "READY", "RIGHTS", "WISH", "Task", "exactly", "main"]

READY = b"!"
RIGHTS = struct.Struct("<iII")  # user, or -1; bytes of the two filters, which follow
WISH = struct.Struct("<QqI")  # bytes that were printed; nanoseconds until the child has to have ended; bytes of the task, 0: as before
BLOCK = struct.Struct("<?II")  # whether the run failed, rows, and bytes of their columns, which follow
ENDED = b"."
_PIECE = 256 * 1024
#: rows that are let go at once
_LET_GO = 1000
_REHEARSALS = 20
#: bytes of memory: three times what the longest output takes that is nested as deep as it can be
MEMORY = 1 << 30


class Task(NamedTuple):
    """What a child is told of the output that comes with it: the same for all of a table."""

    columns: Sequence[Column]
    max_rows: int
    busy: int  # nanoseconds of processor time that it takes
    span: int  # nanoseconds over which they are spread


def answer(hearer: int, task: Task, printed: int | None, size: int) -> None:
    """All that a child does."""
    pace = Pace(task.busy, task.span)
    try:
        rows, failed = _rows(task, printed, size, pace)
        body = encode_columns(task.columns, rows, pace.check)
    except (Overspent, MemoryError):
        # it takes longer than any that was ever measured: a row of defaults, as if the program had taken too long itself
        rows, failed = [default_row(task.columns)], True
        body = encode_columns(task.columns, rows, pace.pause)
    head = BLOCK.pack(failed, len(rows), len(body))
    while rows:
        del rows[-_LET_GO:]
        pace.pause()
    said = 0
    while said < len(head) + len(body):
        said += os.write(hearer, head + body[:_PIECE] if not said else body[said - len(head):said - len(head) + _PIECE])
        pace.pause()
    pace.finish()


def _rows(task: Task, printed: int | None, size: int, pace: Pace) -> tuple[list[Row], bool]:
    """The rows of a run, and whether it failed: which the system says, whatever was printed."""
    if printed is None:
        return [default_row(task.columns)], True
    stdout = _content(printed, min(size, output_limit(task.columns, task.max_rows)), pace.check)
    return read_rows(stdout, task.columns, task.max_rows, pace.check)


def _content(fd: int, limit: int, pause: Callable[[], None]) -> bytes:
    """The beginning of a file."""
    pieces, found = list[bytes](), 0
    while found < limit and (piece := os.pread(fd, min(_PIECE, limit - found), found)):
        pieces.append(piece)
        found += len(piece)
        pause()
    return b"".join(pieces)


def exactly(sock: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        if not (piece := sock.recv(length - len(found))):
            raise EOFError
        found += piece
    return bytes(found)


def serve(control: socket.socket, calls: bytes) -> None:
    """Until the keeper closes its end, or dies. `calls`: those of a child."""
    task: Task | None = None
    while True:
        wish, descriptors, _, _ = socket.recv_fds(control, WISH.size, 2)
        size, patience, length = WISH.unpack(wish)
        if length:
            task = pickle.loads(exactly(control, length))
            _rehearse(task)
        assert task is not None
        _in_child(control, calls, patience, task, descriptors, size)
        control.sendall(ENDED)


def _rehearse(task: Task) -> None:
    """What is done for the first time takes longer, and each child would do it for the first time."""
    for _ in range(_REHEARSALS):
        pace = Pace(task.busy, task.span)
        rows = parse_rows(b'{"": [1, 0.5, true, null, "\\u00e9"]}\n-\n', task.columns, task.max_rows, pace.check)
        encode_columns(task.columns, rows, pace.check)


def _in_child(control: socket.socket, calls: bytes, patience: int, task: Task, descriptors: Sequence[int], size: int) -> None:
    """One output, from the beginning of its child to the end."""
    if not (child := os.fork()):
        _be_child(control, calls, task, descriptors, size)
    for fd in descriptors:
        os.close(fd)
    _wait(child, patience)


def _be_child(control: socket.socket, calls: bytes, task: Task, descriptors: Sequence[int], size: int) -> None:
    """Does not return, whatever happens."""
    try:
        control.close()
        load_filter(calls)
        answer(descriptors[0], task, descriptors[1] if len(descriptors) > 1 else None, size)
    finally:
        os._exit(0)


def _wait(child: int, patience: int) -> None:
    """Until it has ended, which it does now if it has not within so many nanoseconds."""
    end, poll = os.pidfd_open(child), select.poll()
    poll.register(end, select.POLLIN)
    if not poll.poll(patience / 1e6):
        signal.pidfd_send_signal(end, signal.SIGKILL)
    os.close(end)
    os.waitpid(child, 0)


def main() -> None:
    """With the number of the socket as its argument."""
    set_priority(0, QUICK)  # while it may
    control = socket.socket(fileno=int(sys.argv[1]))
    uid, *lengths = RIGHTS.unpack(exactly(control, RIGHTS.size))
    own, calls = (exactly(control, length) for length in lengths)
    nothing = os.open(os.devnull, os.O_RDWR)
    confine(Confinement(own, MEMORY, NOBODY if uid < 0 else uid, descriptors=16, processes=None if uid < 0 else 2, own_pids=True))
    os.dup2(nothing, 2)  # the engine's log is not for a process that reads hostile bytes
    os.close(nothing)
    gc.disable()  # what is read has no cycles, and looking for them takes longer the deeper it is nested
    gc.freeze()
    with suppress(OSError, EOFError, struct.error):
        control.sendall(READY)
        serve(control, calls)
