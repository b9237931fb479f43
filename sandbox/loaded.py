"""Which filters of system calls a frozen child has, seen from outside.

The second filter of a child is put on by code that the module may have changed. The kernel shows which filters a process has to who traces
it, with root's rights and without a filter of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence

from .syscalls import trace
from .verify import Refused

__all__ = ["can_look", "check_filters"]

_SEIZE, _INTERRUPT, _DETACH, _GET_FILTER = 0x4206, 0x4207, 17, 0x420C
_ANY_KIND = 0x40000000  # __WALL
_INSTRUCTION = 8
#: Seconds in which a frozen process stops for who traces it, unless it has died.
_PATIENCE, _GLANCE = 5.0, 0.0005


def can_look() -> bool:
    """Whether the kernel would show them to this process."""
    with open("/proc/self/status", "rb") as file:  # noqa: PTH123
        return os.geteuid() == 0 and b"\nSeccomp:\t0\n" in file.read()


def check_filters(pids: Iterable[int], wanted: Sequence[bytes]) -> None:
    """Each has these and no others; raises Refused. They are frozen, before and afterwards, but for the moment in which they stop."""
    with _stopped(list(pids)) as stopped:
        for pid in stopped:
            if sorted(_filters(pid, len(wanted) + 1)) != sorted(wanted):
                raise Refused("its system call filters are others")


@contextlib.contextmanager
def _stopped(pids: Sequence[int]) -> Iterator[Sequence[int]]:
    """All at once, for each must come to a processor to stop. None of them runs an instruction of its own: it is frozen again."""
    traced = []
    try:
        for pid in pids:
            trace(_SEIZE, pid)
            traced.append(pid)
            trace(_INTERRUPT, pid)
        deadline = time.monotonic() + _PATIENCE
        for pid in pids:
            while os.waitpid(pid, os.WNOHANG | _ANY_KIND)[0] == 0:
                if time.monotonic() > deadline:
                    raise Refused("it does not stop")
                time.sleep(_GLANCE)
        yield pids
    finally:
        for pid in traced:
            with contextlib.suppress(OSError):
                trace(_DETACH, pid)


def _filters(pid: int, most: int) -> list[bytes]:
    """As they were given to the kernel; not more than so many."""
    found = []
    for number in range(most):
        try:
            room = ctypes.create_string_buffer(_INSTRUCTION * trace(_GET_FILTER, pid, number))
        except OSError as error:
            if error.errno == errno.ENOENT:
                break
            raise
        trace(_GET_FILTER, pid, number, room)
        found.append(room.raw)
    return found
