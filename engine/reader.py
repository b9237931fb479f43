"""The reader: a process of its own that has what programs printed turned into rows and keeps them, so that nothing else waits for it.

The engine hands over a descriptor and hears a word when all is done; it moves no byte of what was printed or kept. Nor does this process
look into what was printed: another, which can do nothing else, parses it (parser.py), and of its block every value is checked here
(checked.py), because a parser that was taken over says anything. For each output each of the two takes the same processor time, whatever
was printed, evenly over the time that is set aside for it (pace.py).
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from privid.model import Column
from privid.room.priority import QUICK, set_priority
from privid.sandbox.rows import default_row

from .kept import CELL_HEAD, Entry, write_cell
from .pace import Pace
from .parser import Task
from .parsing import Parsing
from .rows import encode_columns

__all__ = ["DONE", "FAILED", "Output", "hand_over", "main"]

#: an output has been read: into rows; into defaults, because of what it was or was not
DONE, FAILED = b"!", b"?"
_HEAD = struct.Struct("<Q")


@dataclass(frozen=True)
class Output:
    """What is to be read. With it come a descriptor of the segment in which rows are kept, and one of what was printed, if the run went
    well."""

    offset: int  # of the cell in its segment
    room: int  # bytes of the cell
    columns: Sequence[Column]
    max_rows: int
    size: int  # bytes that were printed
    parsing: int  # nanoseconds of processor time for it, whatever was printed
    keeping: int  # and those for all else
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


def read(parsing: Parsing, output: Output, segment: int, printed: int | None) -> bool:
    """One output; true if its run failed."""
    pace = Pace(output.keeping, output.span)
    try:
        found = parsing.parse(Task(output.columns, output.max_rows, output.parsing, output.span), printed, output.size, pace)
        if found is None or CELL_HEAD + len(found.body) > output.room:
            # as if the program had crashed, where the parser of its output did
            found = Entry(1, encode_columns(output.columns, [default_row(output.columns)]), True)
        write_cell(segment, output.offset, output.room, found, pace.pause)
    finally:
        for descriptor in (segment, printed):
            if descriptor is not None:
                os.close(descriptor)
    pace.finish()
    return found.failed


def main() -> None:
    """Until the engine closes its end, or dies."""
    parser = argparse.ArgumentParser(prog="python -m privid.engine.reader", description="Reads the output of programs for an engine.")
    parser.add_argument("--control", type=int, required=True)
    options = parser.parse_args()
    control = socket.socket(fileno=options.control)
    gc.disable()  # nothing here has cycles
    set_priority(0, QUICK)  # where it may: a busy machine would make it late
    parsing = Parsing()
    with suppress(OSError):
        control.sendall(DONE)  # it is there
        while (found := take_over(control)) is not None:
            control.sendall(FAILED if read(parsing, *found) else DONE)
    parsing.close()


if __name__ == "__main__":
    main()
