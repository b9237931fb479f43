"""Things of the kernel that hang on a file which both can open, though neither can write it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import threading
import time
from pathlib import Path

from .channel import TABLES, Channel, call, libc

#: A file that every program on the machine can open, whoever it belongs to; and one that two tables over the same footage have in common.
EVERYWHERE, FRAMES = "/dev/null", "/chunk/frames.npy"
_OFD_SETLK, _OFD_GETLK, _GETLK, _SETLK = 37, 36, 5, 6


def flock(bit: int) -> None:
    if bit:
        fcntl.flock(os.open(EVERYWHERE, os.O_RDONLY), fcntl.LOCK_EX)


def feel_flock(_: object) -> str:
    with Path(EVERYWHERE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "held"
    return "free"


def _wanted(kind: int) -> bytes:
    return struct.pack("hhqqi4x", kind, 0, 0, 0, 0)


def lock(command: int, bit: int) -> None:
    if bit:
        fcntl.fcntl(os.open(EVERYWHERE, os.O_RDONLY), command, _wanted(fcntl.F_RDLCK))


def feel_lock(command: int) -> str:
    with Path(EVERYWHERE).open("rb") as file:  # to ask needs no right to write
        answer = fcntl.fcntl(file, command, _wanted(fcntl.F_WRLCK))
    return "free" if struct.unpack("h", answer[:2])[0] == fcntl.F_UNLCK else "held"


def watch() -> int:
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    if descriptor < 0 or libc.inotify_add_watch(descriptor, FRAMES.encode(), 0x30) < 0:  # IN_OPEN, IN_CLOSE_NOWRITE
        raise OSError(ctypes.get_errno(), "refused")
    return int(descriptor)


def open_often(bit: int) -> None:
    for _ in range(20 * bit):
        Path(FRAMES).open("rb").close()


def see_events(descriptor: int) -> str:
    try:
        return "many" if len(os.read(descriptor, 4096)) > 20 * 16 else "few"  # the sender's own start is a few
    except BlockingIOError:
        return "few"


def _word() -> int:
    """A page of a file that both map, privately and only for reading. The kernel finds who waits there by the file."""
    libc.mmap.restype = ctypes.c_void_p
    descriptor = os.open(FRAMES, os.O_RDONLY)
    return int(libc.mmap(None, ctypes.c_size_t(4096), 1, 1, descriptor, ctypes.c_long(0)))


def wait_on_futex(bit: int) -> None:
    if bit:
        address = _word()
        value = ctypes.c_int.from_address(address).value
        thread = threading.Thread(target=lambda: libc.syscall(202, ctypes.c_void_p(address), 0, value, None, None, 0), daemon=True)
        thread.start()
        time.sleep(0.02)


def wake_futex(_: object) -> int:
    return call(202, ctypes.c_void_p(_word()), 1, 1, None, None, 0)


CHANNELS = (
    Channel("flock", flock, feel_flock, ("filter",)),
    Channel("POSIX lock", lambda bit: lock(_SETLK, bit), lambda _: feel_lock(_GETLK), ("filter",)),
    Channel("lock of an open file", lambda bit: lock(_OFD_SETLK, bit), lambda _: feel_lock(_OFD_GETLK), ("filter",)),
    Channel("inotify", open_often, see_events, ("filter",), before=watch),
    Channel("shared futex", wait_on_futex, wake_futex, ("filter",), (TABLES,)),
)
