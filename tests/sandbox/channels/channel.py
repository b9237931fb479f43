"""One way in which a program might tell another something. This file and the families beside it also run inside the sandbox."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["CHUNKS", "FACTS", "KEPT", "TABLES", "Channel", "call", "libc"]

#: One program after another in one lane, and two programs at once in two lanes.
CHUNKS, TABLES = "chunks", "tables"
#: Whatever a sender does, it does until the end of its slot.
KEPT: list[object] = []
#: What the test tells both sides; nothing in it depends on the bit.
FACTS: dict[str, Any] = {}

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number: int, *arguments: Any) -> int:
    """A system call by its number on x86-64."""
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


class Channel(NamedTuple):
    """`send` is told the bit; `sense` gives what the other side feels, and must give the same whatever the bit was."""

    name: str
    send: Callable[[int], object]
    sense: Callable[[Any], object]
    #: the protections without which the bit comes through
    opened_by: tuple[str, ...]
    #: where it is shown open
    across: tuple[str, ...] = (TABLES,)
    #: what the receiver looks at before the sender begins; handed to `sense`
    before: Callable[[], Any] = lambda: None
    #: whether the same is shown of warm starts, where the first of `opened_by` is all that can be taken away
    warm: bool = True
