"""The reader: a process of its own that turns what programs printed into rows, so that nothing else waits while it does."""

from __future__ import annotations

import argparse
import gc
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

from privid.model import Column
from privid.room.priority import QUICK, set_priority
from privid.sandbox.rows import default_row, parse_rows

from .evaluation import receive, send
from .rows import encode_columns

__all__ = ["Output", "main"]


#: columns, rows at most, and what was printed; None if the run went wrong
Output: TypeAlias = tuple[Sequence[Column], int, bytes | None]


def main() -> None:
    """Until the engine closes its end, or dies."""
    parser = argparse.ArgumentParser(prog="python -m privid.engine.reader", description="Reads the output of programs for an engine.")
    parser.add_argument("--control", type=int, required=True)
    control = socket.socket(fileno=parser.parse_args().control)
    gc.disable()  # what is read has no cycles, and looking for them takes longer the deeper it is nested
    set_priority(0, QUICK)  # where it may: a busy machine would make it late
    with suppress(OSError):
        send(control, None)  # it is there
        while isinstance(output := receive(control), tuple):
            columns, max_rows, stdout = output
            rows = [default_row(columns)] if stdout is None else parse_rows(stdout, columns, max_rows)
            send(control, (len(rows), encode_columns(columns, rows)))


if __name__ == "__main__":
    main()
