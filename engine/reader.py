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
from pathlib import Path

from privid.model import Column
from privid.room.priority import QUICK, set_priority
from privid.sandbox.rows import default_row

from .kept import Entry, Keeper
from .pace import Pace
from .parser import Task
from .parsing import Parsing
from .rows import encode_columns

__all__ = ["DONE", "Output", "hand_over", "main"]

DONE = b"!"
_HEAD = struct.Struct("<Q")


@dataclass(frozen=True)
class Output:
    """What is to be read; a descriptor with what was printed comes with it, if the run went well."""

    key: bytes  # under which rows are kept
    columns: Sequence[Column]
    max_rows: int
    size: int  # bytes that were printed
    gone: Sequence[bytes]  # keys whose rows are dropped
    parsing: int  # nanoseconds of processor time for it, whatever was printed
    keeping: int  # and those for all else
    span: int  # nanoseconds over which they are spread


def hand_over(sock: socket.socket, output: Output, printed: int | None) -> None:
    body = pickle.dumps(output, pickle.HIGHEST_PROTOCOL)
    socket.send_fds(sock, [_HEAD.pack(len(body))], [] if printed is None else [printed])
    sock.sendall(body)


def take_over(sock: socket.socket) -> tuple[Output, int | None] | None:
    """None at the end."""
    head, descriptors, _, _ = socket.recv_fds(sock, _HEAD.size, 1)
    if len(head) < _HEAD.size:
        return None
    body, length = bytearray(), _HEAD.unpack(head)[0]
    while len(body) < length:
        if not (piece := sock.recv(length - len(body))):
            return None
        body += piece
    return pickle.loads(body), descriptors[0] if descriptors else None


def read(keeper: Keeper, parsing: Parsing, output: Output, printed: int | None) -> None:
    """One output."""
    pace = Pace(output.keeping, output.span)
    try:
        found = parsing.parse(Task(output.columns, output.max_rows, output.parsing, output.span), printed, output.size, pace)
    finally:
        if printed is not None:
            os.close(printed)
    rows, body = found or _default(output.columns)
    keeper.put(output.key, rows, body, pace.pause)
    keeper.drop(output.gone)
    pace.finish()


def _default(columns: Sequence[Column]) -> Entry:
    """As if the program had crashed, where the parser of its output did."""
    return 1, encode_columns(columns, [default_row(columns)])


def main() -> None:
    """Until the engine closes its end, or dies."""
    parser = argparse.ArgumentParser(prog="python -m privid.engine.reader", description="Reads the output of programs for an engine.")
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--rows", type=Path, required=True)
    options = parser.parse_args()
    control, keeper = socket.socket(fileno=options.control), Keeper(options.rows)
    gc.disable()  # nothing here has cycles
    set_priority(0, QUICK)  # where it may: a busy machine would make it late
    parsing = Parsing()
    with suppress(OSError):
        control.sendall(DONE)  # it is there
        while (found := take_over(control)) is not None:
            read(keeper, parsing, *found)
            control.sendall(DONE)
    parsing.close()


if __name__ == "__main__":
    main()
