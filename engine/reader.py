"""The reader: a process of its own that turns what programs printed into rows and keeps them, so that nothing else waits while it does.

The engine hands over a descriptor and hears a word when all is done; it moves no byte of what was printed or kept. For each output the
reader takes the same processor time, whatever was printed, evenly over the time that is set aside for it (pace.py).
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from privid.model import Column
from privid.room.priority import QUICK, set_priority
from privid.sandbox.rows import Row, default_row, output_limit, read_rows

from .kept import Entry, write_cell
from .pace import Overspent, Pace
from .rows import encode_columns

__all__ = ["DONE", "FAILED", "Output", "hand_over", "main"]

#: an output has been read: into rows; into defaults, because of what it was or was not
DONE, FAILED = b"!", b"?"
_HEAD = struct.Struct("<Q")
_BLOCK = 256 * 1024
#: rows that are let go at once
_LET_GO = 1000


@dataclass(frozen=True)
class Output:
    """What is to be read. With it come a descriptor of the segment in which rows are kept, and one of what was printed, if the run went
    well."""

    offset: int  # of the cell in its segment
    room: int  # bytes of the cell
    columns: Sequence[Column]
    max_rows: int
    size: int  # bytes that were printed
    busy: int  # nanoseconds of processor time, whatever was printed
    span: int  # nanoseconds over which they are spread


def hand_over(sock: socket.socket, output: Output, segment: int, printed: int | None) -> None:
    body = pickle.dumps(output, pickle.HIGHEST_PROTOCOL)
    socket.send_fds(sock, [_HEAD.pack(len(body))], [segment] if printed is None else [segment, printed])
    sock.sendall(body)


def take_over(sock: socket.socket) -> tuple[Output, int, int | None] | None:
    """None at the end."""
    head, descriptors, _, _ = socket.recv_fds(sock, _HEAD.size, 2)
    if len(head) < _HEAD.size:
        return None
    body, length = bytearray(), _HEAD.unpack(head)[0]
    while len(body) < length:
        if not (piece := sock.recv(length - len(body))):
            return None
        body += piece
    return pickle.loads(body), descriptors[0], descriptors[1] if len(descriptors) > 1 else None


def read(output: Output, segment: int, printed: int | None) -> bool:
    """One output; true if its run failed."""
    pace = Pace(output.busy, output.span)
    columns = output.columns
    try:
        rows, failed = _rows(output, printed, pace)
        body = encode_columns(columns, rows, pace.check)
    except Overspent:
        # it takes longer than any that was ever measured: a row of defaults, as if the program had taken too long itself
        rows, failed = [default_row(columns)], True
        body = encode_columns(columns, rows, pace.pause)
    try:
        write_cell(segment, output.offset, output.room, Entry(len(rows), body, failed), pace.pause)
    finally:
        os.close(segment)
    while rows:
        del rows[-_LET_GO:]
        pace.pause()
    pace.finish()
    return failed


def _rows(output: Output, printed: int | None, pace: Pace) -> tuple[list[Row], bool]:
    """The rows of a run, and whether it failed: which the system says, whatever was printed."""
    if printed is None:
        return [default_row(output.columns)], True
    stdout = _content(printed, min(output.size, output_limit(output.columns, output.max_rows)), pace.check)
    return read_rows(stdout, output.columns, output.max_rows, pace.check)


def _content(fd: int, limit: int, pause: Callable[[], None]) -> bytes:
    """The beginning of a file, which is closed."""
    pieces, found = list[bytes](), 0
    try:
        while found < limit and (piece := os.pread(fd, min(_BLOCK, limit - found), found)):
            pieces.append(piece)
            found += len(piece)
            pause()
    finally:
        os.close(fd)
    return b"".join(pieces)


def main() -> None:
    """Until the engine closes its end, or dies."""
    parser = argparse.ArgumentParser(prog="python -m privid.engine.reader", description="Reads the output of programs for an engine.")
    parser.add_argument("--control", type=int, required=True)
    options = parser.parse_args()
    control = socket.socket(fileno=options.control)
    gc.disable()  # what is read has no cycles, and looking for them takes longer the deeper it is nested
    set_priority(0, QUICK)  # where it may: a busy machine would make it late
    with suppress(OSError):
        control.sendall(DONE)  # it is there
        while (found := take_over(control)) is not None:
            control.sendall(FAILED if read(*found) else DONE)


if __name__ == "__main__":
    main()
