"""What an import prepares for chunks that come later: in a warm start, all of them have it."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import signal
from pathlib import Path

from .channel import Channel, call, libc

_PAGE, _SIZE = 4096, 256 * 4096
#: Wherever a program could think that it can write.
_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev", "/chunk", "/app", "/app/files", "/", "/usr/lib/privid")
_NUMBER, _MOST = 40, 24
_HUGE, _LOW, _MUCH = 2 << 20, 0x10000000, 384 << 20
_CLONE, _WALL, _HUGE_PAGES = 56, 0x40000000, 14


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def make_hole() -> mmap.mmap | None:
    """A file without pages and without a name, mapped privately and only for reading."""
    for place in _PLACES:
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{place}/hole", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            Path(f"{place}/hole").unlink()
            os.ftruncate(descriptor, _SIZE)
            found = mmap.mmap(descriptor, _SIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
            os.close(descriptor)
            return found
    return None


def read_hole(bit: int) -> None:
    """A page that is read is made, for everybody who has the file."""
    if _hole is None:
        raise PermissionError
    for place in range(0, bit * _SIZE, _PAGE):
        _ = _hole[place]


def hole_is_filled(_: object) -> bool:
    """The kernel maps pages that are there with their neighbours: fewer faults."""
    before = _faults()
    read_hole(1)
    return _faults() - before < _SIZE // _PAGE // 2


def kill(bit: int) -> None:
    for _ in range(bit * _MOST):
        os.kill(os.getpid(), _NUMBER)


def end_children(bit: int) -> None:
    """The signal by which a child tells its end is any that its parent wants."""
    for _ in range(bit * _MOST):
        child = call(_CLONE, ctypes.c_long(_NUMBER), None, None, None, None)
        if child == 0:
            libc._exit(0)
        os.waitid(os.P_PID, child, os.WEXITED | _WALL)


def some_are_lost() -> bool:
    """Whether fewer signals wait than were sent."""
    found = 0
    while signal.sigtimedwait({_NUMBER}, 0):
        found += 1
    return found < _MOST


def feel_signals(_: object) -> bool:
    kill(1)
    return some_are_lost()


def feel_ends(_: object) -> bool:
    end_children(1)
    return some_are_lost()


def _memory(place: int | None, size: int) -> int:
    libc.mmap.restype = ctypes.c_void_p
    return int(libc.mmap(ctypes.c_void_p(place), ctypes.c_size_t(size), 3, 0x22, -1, ctypes.c_long(0)))


def make_huge_page() -> int:
    start = (_memory(None, 2 * _HUGE) + _HUGE - 1) // _HUGE * _HUGE
    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(_HUGE), _HUGE_PAGES)
    ctypes.memset(start, 1, _HUGE)
    return start


def go_away_slowly(bit: int) -> None:
    """What lies below the huge page goes away before it."""
    if bit:
        ctypes.memset(_memory(_LOW, _MUCH), 1, _MUCH)


def page_is_copied(_: object) -> bool:
    """If nobody else has it any more, it is taken over as a whole."""
    before = _faults()
    for place in range(0, _HUGE, _PAGE):
        ctypes.memset(_page + place, 2, 1)
    return _faults() - before > _HUGE // _PAGE // 4


_hole = make_hole()
_page = make_huge_page()
signal.pthread_sigmask(signal.SIG_BLOCK, {_NUMBER})
with contextlib.suppress(OSError, ValueError):  # for all siblings together
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (_MOST, resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]))

#: Shown open in test_before_the_fork.py: by protections of which each is enough.
CHANNELS = (
    Channel("holes of a file", read_hole, hole_is_filled, ("no place to write", "devices of mappings"), ()),
    Channel("pending signals", kill, feel_signals, ("no real-time signals", "fixed limits"), ()),
    Channel("signals of children's ends", end_children, feel_ends, ("no real-time signals", "fixed limits"), ()),
    Channel("pages that are copied", go_away_slowly, page_is_copied, ("a witness", "no huge pages"), ()),
)
