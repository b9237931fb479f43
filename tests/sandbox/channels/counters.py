"""Numbers that the whole machine shares: memory, processes, inodes, mounts."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from .channel import CHUNKS, FACTS, Channel, call

_STEP = 16 << 20


def _sway(bit: int, descriptor: int) -> None:
    """Take memory and give it back, again and again: others, who use it too, do not do that."""
    if bit and os.fork() == 0:
        while True:
            os.posix_fallocate(descriptor, 0, _STEP)
            time.sleep(0.004)
            os.ftruncate(descriptor, 0)
            time.sleep(0.004)


def sway_tmp(bit: int) -> None:
    """Once, though two channels look at it."""
    large = f"/tmp/large-{FACTS['key']}"
    if not Path(large).exists():
        _sway(bit, os.open(large, os.O_RDWR | os.O_CREAT))


def sway_errors(bit: int) -> None:
    """The file behind standard error is the only one outside /tmp that a program can make larger."""
    _sway(bit, 2)


def _sways(measure: Callable[[], int]) -> bool:
    """Whether what is measured goes up and down by half such a step or more, several times."""
    turns, direction, last, deadline = 0, 0, measure(), time.monotonic() + FACTS["window"]
    while turns < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
        change = measure() - last
        if abs(change) > _STEP // 2:
            turns += (change > 0) != (direction > 0)
            direction, last = change, last + change
    return turns >= 3


class _Info(ctypes.Structure):
    _fields_ = (("uptime", ctypes.c_long), ("loads", ctypes.c_ulong * 3), ("total", ctypes.c_ulong), ("free", ctypes.c_ulong),
                ("shared", ctypes.c_ulong), ("rest", ctypes.c_char * 400))


def shared_memory() -> int:
    info = _Info()
    call(99, ctypes.byref(info))
    return int(info.shared)


def meminfo() -> int:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["Shmem"].split()[0]) << 10


def free_space() -> int:
    facts = os.statvfs("/")
    return facts.f_bfree * facts.f_bsize


def make_inodes(number: int, bit: int) -> None:
    """Create and close many of a kind whose numbers are counted for the whole machine."""
    ends = (ctypes.c_int * 2)()
    for _ in range(8000 * bit):
        if number == 293:
            call(number, ends, 0)
            os.close(ends[0])
            os.close(ends[1])
        else:
            os.close(call(number, b"x", 0))


def make_files(bit: int) -> None:
    for number in range(2000 * bit):
        os.close(os.open(f"/tmp/made-{FACTS['key']}-{number}", os.O_WRONLY | os.O_CREAT))


def inode(number: int) -> int:
    """The highest number that is given out: each processor has a thousand in advance."""
    ends, highest = (ctypes.c_int * 2)(), 0
    for _ in range(1100):
        if number == 293:
            call(number, ends, 0)
            found = list(ends)
        else:
            found = [call(number, b"x", 0)]
        highest = max(highest, os.fstat(found[0]).st_ino)
        for descriptor in found:
            os.close(descriptor)
    return highest


def use_numbers(bit: int) -> None:
    """A thread takes a number, as a process does, and is made faster."""
    for _ in range(80 * bit):
        (thread := threading.Thread(target=lambda: None)).start()
        thread.join()


def next_pid() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


def have_threads(bit: int) -> None:
    for _ in range(40 * bit):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def processes_near() -> int:
    """Numbers to which a signal could be sent, ours or not."""
    found = 0
    for pid in range(max(2, os.getpid() - 100), os.getpid() + 1500):
        try:
            os.kill(pid, 0)
            found += 1
        except ProcessLookupError:
            continue
        except PermissionError:
            found += 1
    return found


CHANNELS = (
    Channel("inodes of pipes", lambda bit: make_inodes(293, bit), lambda before: inode(293) - before > 4000, ("filter",),
            before=lambda: inode(293)),
    Channel("inodes of memfds", lambda bit: make_inodes(319, bit), lambda before: inode(319) - before > 4000, ("filter",),
            before=lambda: inode(319)),
    Channel("process numbers", use_numbers, lambda before: next_pid() - before > 60, ("pid",), before=next_pid),
    Channel("signals", have_threads, lambda before: processes_near() - before > 20, ("pid",), before=processes_near),
    Channel("memory in use (sysinfo)", sway_tmp, lambda _: _sways(shared_memory), ("filter",)),
    Channel("memory in use (/proc)", sway_tmp, lambda _: _sways(meminfo), ("proc",), warm=False),
    Channel("free space (statfs)", sway_errors, lambda _: _sways(free_space), ("filter", "outputs"), warm=False),
    Channel("numbers of the outputs", make_files, lambda _: any(os.fstat(fd).st_ino - FACTS["inode"] > 1000 for fd in (1, 2)),
            ("outputs", "tmp"), (CHUNKS,), warm=False),
)
