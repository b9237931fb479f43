"""Runs inside the sandbox: imports a module before any frame exists, then forks children that each wait for a chunk of their own.

Self-contained but for the launcher beside it. Nothing here is trusted: the module runs in the same process. What must hold of a child (no
descriptor, no capability, the filter, namespaces of its own) is enforced by the zygote's filter or verified by the lane from outside.
Usage: zygote.py CHUNK_DIRECTORY MODULE_FILE CHILDREN CLONE_FLAGS
"""

# ruff: noqa: PTH108, PTH123 (the fewer objects are made in a child, the sooner its program begins)

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path("/usr/lib/privid")
#: Made by the lane in a child's own /tmp; opened and unlinked before the module's code runs.
OUTPUT, ERRORS = "/tmp/.output", "/tmp/.errors"
#: Seconds that a child sleeps at most between looks for its chunk, until it is frozen; and never longer than a quarter of what it has
#: waited already, so that its sleep is over when it is thawed, and it looks at once.
_PATIENCE = 0.2
#: The number of clone, and where it wants to be told the address of the thread's own number: the order of its arguments differs.
_CLONE, _CHILD_TID = {"x86_64": (56, 3), "aarch64": (220, 4)}.get(platform.machine(), (0, 0))
_PR_GET_TID_ADDRESS = 40


def main(arguments: list[str]) -> None:
    directory, file = Path(arguments[0]), Path(arguments[1])
    children, flags = int(arguments[2]), int(arguments[3])
    launcher = _load("launcher", HERE / "launcher.py")
    block = (HERE / "filter").read_bytes()
    libc = ctypes.CDLL(None, use_errno=True)
    sys.argv = [str(HERE / "launcher.py"), str(directory), str(file)]
    with open(os.devnull, "w", encoding="ascii") as nothing:  # all that a run needs is loaded once
        launcher.write_rows([{"frames": launcher.load_chunk(HERE / "rehearsal").frames.sum()}], nothing)
    before = _chance()
    process = launcher.load_process(file)
    after = _chance()
    gc.collect()
    gc.freeze()
    # An ordinary fork first: it leaves the module's threads behind and gives libraries their chance to prepare for that.
    mother = os.fork()
    if mother:
        os.waitpid(mother, 0)
        os._exit(1)
    seeded = [one != other for one, other in zip(before, after, strict=True)]
    if seeded[0]:
        random.setstate(after[0])  # Python gives every child another seed
    facts = str(directory / "chunk.json")
    fork, part = _forker(libc, flags), _parter(libc, block)
    os.chdir("/")
    os.closerange(0, 1 << 16)
    for _ in range(children):
        if fork() == 0:
            part()
            _wait(facts)
            _reseed(seeded)
            _run(launcher, process, directory)
    while True:
        time.sleep(3600)


# What follows is done by each child before it is frozen. A page that it touches is a fault and a copy, which is most of what a child costs:
# so all that can be made once is made by its mother.

def _forker(libc: Any, flags: int) -> Callable[[], int]:
    """os.fork into new namespaces: one system call instead of a fork, unshare, and a fork again. In a process of one thread nothing must be
    done around it but to tell the C library in the child its new number, which clone does when it is given the address."""
    address = ctypes.c_void_p()
    if libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) != 0:
        os._exit(1)
    arguments = [ctypes.c_ulong(flags), *(ctypes.c_void_p() for _ in range(4))]
    arguments[_CHILD_TID] = address
    call, number = ctypes.pythonapi.syscall, ctypes.c_long(_CLONE)  # which, unlike libc's, keeps the interpreter's lock

    def fork() -> int:
        child = call(number, *arguments)
        if child < 0:
            os._exit(1)
        return int(child)

    return fork


def _parter(libc: Any, block: bytes) -> Callable[[], None]:
    """Gives up what only a zygote needs."""
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    program = Program(len(block) // 8, block)
    reference = ctypes.byref(program)

    def part() -> None:
        os.setsid()  # or a signal to its process group would reach the other children
        libc.capset(header, nothing)
        libc.prctl(22, 2, reference, 0, 0)

    return part


def _wait(facts: str) -> None:
    """To be frozen, given a chunk, and thawed."""
    begun = time.monotonic()
    while not os.access(facts, os.F_OK):
        time.sleep(min(_PATIENCE, 0.002 + (time.monotonic() - begun) / 4))


def _reseed(seeded: list[bool]) -> None:
    """Fresh randomness for each child; but a module that has seeded a generator keeps its sequence, as it would in a run of its own."""
    if not seeded[0]:
        random.seed()
    if not seeded[1]:  # as np.random.seed() would, with less to compute
        np.random.set_state(("MT19937", np.frombuffer(os.urandom(4 * 624), np.uint32), 624, 0, 0.0))


def _load(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _chance() -> list[Any]:
    """The state of the generators that a module may use without making its own."""
    state: Any = np.random.get_state(legacy=True)
    return [random.getstate(), (state[0], state[1].tobytes(), *state[2:])]


def _run(launcher: Any, process: Any, directory: Path) -> None:
    os.chdir("/tmp")
    os.open("/dev/null", os.O_RDONLY)
    for path in (OUTPUT, ERRORS):
        os.open(path, os.O_WRONLY | os.O_APPEND)
        os.unlink(path)
    try:
        launcher.work(process, directory)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
