"""What a run can look at, and what another could do to be felt. Runs inside the sandbox, beside channel.py and before.py."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import mmap
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .before import _NUMBER, end_children, go_away_slowly, kill, page_is_copied, read_hole
from .channel import KEPT, call, libc

__all__ = ["SENDERS", "SENSORS", "TIMED", "sense"]

_PAGE = 4096
_FILES = ("/", "/tmp", "/dev", "/chunk", "/chunk/frames.npy", "/chunk/chunk.json", "/dev/null", "/dev/zero", "/dev/urandom", "/usr/lib",
          0, 1, 2)
_USAGE = ("ru_utime", "ru_stime", "ru_maxrss", "ru_ixrss", "ru_idrss", "ru_isrss", "ru_minflt", "ru_majflt", "ru_nswap", "ru_inblock",
          "ru_oublock", "ru_msgsnd", "ru_msgrcv", "ru_nsignals", "ru_nvcsw", "ru_nivcsw")
#: What all programs feel of whatever else the machine does, as docs/sandbox.md says: how long things take, and where they ran.
TIMED = {"usage: ru_utime", "usage: ru_stime", "usage: ru_nvcsw", "usage: ru_nivcsw", "core", "time of a call", "time of a page",
         "clock of it"}


def _usage(name: str) -> float:
    return float(getattr(resource.getrusage(resource.RUSAGE_SELF), name))


def _stat(file: str | int) -> os.stat_result:
    return os.fstat(file) if isinstance(file, int) else os.stat(file)  # noqa: PTH116


def _fact(file: str | int, name: str) -> int:
    return int(getattr(_stat(file), name))


def _limit(number: int) -> str:
    return str(resource.getrlimit(number))


def _timer(number: int) -> str:
    return str(signal.getitimer(number))


def _since(file: str | int) -> int:
    """When it was changed, as seen from the chunk's own files, which are stamped when the slot begins."""
    return _stat(file).st_mtime_ns - os.stat("/chunk/frames.npy").st_mtime_ns  # noqa: PTH116


def _made() -> os.stat_result:
    path = f"/tmp/felt-{len(KEPT)}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    KEPT.append(descriptor)
    return os.fstat(descriptor)


def _child() -> int:
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def _free_descriptor() -> int:
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def _descriptors() -> str:
    found = []
    for number in range(64):
        with contextlib.suppress(OSError):
            os.fstat(number)
            found.append(number)
    return str(found)


def _faults(action: Callable[[], object]) -> float:
    before = _usage("ru_minflt")
    action()
    return _usage("ru_minflt") - before


def _fresh(pages: int) -> None:
    with mmap.mmap(-1, pages * _PAGE) as memory:
        for place in range(0, pages * _PAGE, _PAGE):
            memory[place] = 1


def _read_frames() -> None:
    with Path("/chunk/frames.npy").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE) as memory:
        for place in range(0, len(memory), _PAGE):
            _ = memory[place]


def _address() -> int:
    libc.mmap.restype = ctypes.c_void_p
    return int(libc.mmap(None, ctypes.c_size_t(_PAGE), 3, 0x22, -1, ctypes.c_long(0)))


def _waiting() -> int:
    """Signals that wait after as many were sent as may."""
    kill(1)
    found = 0
    while signal.sigtimedwait({_NUMBER}, 0):
        found += 1
    return found


def _duration(action: Callable[[], object]) -> int:
    begun = time.perf_counter_ns()
    action()
    return time.perf_counter_ns() - begun


def _queue_ends() -> int:
    end_children(1)
    found = 0
    while signal.sigtimedwait({_NUMBER}, 0):
        found += 1
    return found


def _most_memory() -> int:
    """How much is to be had at once, in steps."""
    size = 1 << 34
    while size > _PAGE:
        with contextlib.suppress(OSError, ValueError), mmap.mmap(-1, size):
            return size
        size //= 2
    return size


def _names(place: str) -> str:
    return hashlib.sha256(repr(sorted(os.listdir(place))).encode()).hexdigest()[:12]  # noqa: PTH208


SENSORS: dict[str, Callable[[], object]] = {
    **{f"usage: {name}": partial(_usage, name) for name in _USAGE},
    **{f"limit {number}": partial(_limit, number) for number in range(16)},
    **{f"number of {file}": partial(_fact, file, "st_ino") for file in _FILES},
    **{f"device of {file}": partial(_fact, file, "st_dev") for file in _FILES},
    **{f"links of {file}": partial(_fact, file, "st_nlink") for file in _FILES},
    **{f"blocks of {file}": partial(_fact, file, "st_blocks") for file in _FILES},
    **{f"age of {file}": partial(_since, file) for file in ("/tmp", "/chunk", "/chunk/chunk.json", "/dev/null", 1, 2)},
    **{f"names in {place}": partial(_names, place)
       for place in ("/", "/tmp", "/dev", "/chunk", "/app", "/proc", "/sys", "/run")},
    **{f"timer {number}": partial(_timer, number) for number in range(3)},
    "number of a new file": lambda: _made().st_ino, "device of a new file": lambda: _made().st_dev,
    "process": os.getpid, "parent": os.getppid, "session": lambda: os.getsid(0), "group": lambda: os.getpgid(0), "child": _child,
    "users": lambda: str((os.getresuid(), os.getresgid(), os.getgroups())), "mask": lambda: os.umask(0o022),
    "free descriptor": _free_descriptor, "descriptors": _descriptors, "cores": lambda: str(sorted(os.sched_getaffinity(0))),
    "core": lambda: call(309, ctypes.byref(core := ctypes.c_uint()), None, None) or core.value,
    "names of the machine": lambda: str(os.uname()), "environment": lambda: str(sorted(os.environ.items())), "place": os.getcwd,
    "pending": lambda: str(sorted(map(int, signal.sigpending()))), "blocked": lambda: str(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "signals that wait": _waiting, "ends that wait": _queue_ends,
    "faults on a hole": lambda: _faults(lambda: read_hole(1)), "faults on fresh pages": lambda: _faults(lambda: _fresh(64)),
    "faults on frames": lambda: _faults(_read_frames), "pages that are copied": lambda: page_is_copied(None),
    "distance of mappings": lambda: _address() - _address(), "page of the stack": lambda: ctypes.addressof(ctypes.c_int()) % 16,
    "most memory": _most_memory, "load": lambda: str(os.getloadavg()), "free space": lambda: str(os.statvfs("/tmp")),
    "memory of the machine": lambda: call(99, ctypes.create_string_buffer(512)), "modules": lambda: len(sys.modules),
    "pipe": lambda: str(os.pipe()), "memfd": lambda: call(319, b"x", 0), "socket": lambda: socket.socket().fileno(),
    "queue of messages": lambda: call(68, 1, 0o1600), "shared memory": lambda: call(29, 1, 4096, 0o1600),
    "key ring": lambda: call(250, 0, -3, 0), "written": lambda: os.posix_fallocate(_made_file(), 0, 1 << 20),
    "priority": lambda: os.getpriority(os.PRIO_PROCESS, 0), "watch": lambda: call(253),
    "time of a call": lambda: _duration(os.getppid), "time of a page": lambda: _duration(lambda: _fresh(4)),
    "clock of it": time.process_time_ns,
}


def _made_file() -> int:
    _made()
    return int(str(KEPT[-1]))


def sense() -> dict[str, object]:
    """Of each what it says, or why it does not."""
    found: dict[str, object] = {}
    for name, look in SENSORS.items():
        try:
            found[name] = look()
        except Exception as error:
            found[name] = f"refused: {type(error).__name__} {getattr(error, 'errno', '')}"
    return found


def _fork() -> None:
    for _ in range(10):
        if not os.fork():
            time.sleep(10)
            os._exit(0)


def _queue() -> None:
    kill(1)
    end_children(1)
    signal.setitimer(signal.ITIMER_VIRTUAL, 100)


def _write() -> None:
    for number in range(200):
        Path(f"/tmp/sent-{number}").write_bytes(b"x" * _PAGE)
    for place in ("/", "/chunk", "/app", "/dev", "/usr/lib/privid", "/dev/shm", "/run"):
        with contextlib.suppress(OSError):
            Path(f"{place}/sent").write_bytes(b"x")


def _allocate() -> None:
    KEPT.append(bytearray(24 << 20))


def _map() -> None:
    for _ in range(300):
        KEPT.append(mmap.mmap(-1, 2 * _PAGE))
    with Path("/chunk/frames.npy").open("rb") as file:
        KEPT.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)[:])


def _read() -> None:
    with contextlib.suppress(PermissionError):
        read_hole(1)
    for place in ("/usr/lib", "/usr/bin", "/dev", "/chunk", "/app"):
        for name in os.listdir(place)[:50]:  # noqa: PTH208
            with contextlib.suppress(OSError), open(f"{place}/{name}/absent", "rb"):  # noqa: PTH123
                pass
            with contextlib.suppress(OSError), open(f"{place}/{name}", "rb") as file:  # noqa: PTH123
                if place != "/dev":
                    file.read(1 << 16)


def _print() -> None:
    for descriptor in (1, 2):
        os.write(descriptor, b"x" * 50_000 + b"\n")


#: what a sender does if its bit is 1
SENDERS: dict[str, Callable[[], None]] = {
    "queue": _queue, "read": _read, "fork": _fork, "print": _print, "map": _map, "allocate": _allocate, "write": _write,
    "go slowly": lambda: go_away_slowly(1)}
