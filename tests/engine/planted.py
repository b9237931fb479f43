"""A parser with a fault in it, as if somebody had taken it over with a hostile output: whatever it reads, it tries to reach what is not
its own, and says what it reached as the word of its one row. Protections can be taken away from it, by tests alone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from privid.engine import parser
from privid.sandbox import confine

__all__ = ["LAYERS", "PROBES", "Targets", "command", "main"]

_libc = ctypes.CDLL(None, use_errno=True)
_seen = list[bytes]()


class Targets(NamedTuple):
    """What there is to reach."""

    public: str  # a file that anybody may read
    private: str  # one that the engine may read
    writable: str  # a directory in which anybody may make files
    path: str  # sockets that somebody listens on, by path,
    abstract: str  # by name,
    port: int  # and by port
    engine: int  # a process


def _connect(family: int, address: object) -> bool:
    with closing(socket.socket(family, socket.SOCK_STREAM)) as sock:
        sock.connect(address)  # type: ignore[arg-type]
        return True


def _open(path: str, flags: int = os.O_RDONLY) -> bool:
    os.close(os.open(path, flags, 0o600))
    return True


def _list(directory: Path) -> bool:
    return any(directory.iterdir())


def _signal(pid: int) -> bool:
    os.kill(pid, 0)
    return True


def _fork() -> bool:
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def _trace() -> bool:
    attach, detach = 0x4206, 17  # PTRACE_SEIZE: does not stop it
    if _libc.ptrace(attach, os.getppid(), 0, 0):
        return False
    _libc.ptrace(detach, os.getppid(), 0, 0)
    return True


def _allocate() -> bool:
    with mmap.mmap(-1, 3 << 30):
        return True


#: how each thing is reached, and the layers of which each alone is enough to stop it
PROBES: Mapping[str, tuple[Callable[[Targets], bool], frozenset[str]]] = {
    "file of anybody": (lambda t: _open(t.public), frozenset({"calls", "files"})),
    "file of the engine": (lambda t: _open(t.private), frozenset({"calls", "files", "user"})),
    "new file": (lambda t: _open(f"{t.writable}/new-{os.urandom(4).hex()}", os.O_CREAT | os.O_WRONLY), frozenset({"calls", "files"})),
    "names of files": (lambda t: _list(Path(t.public).parent), frozenset({"calls", "files"})),
    "other processes": (lambda t: _list(Path(f"/proc/{t.engine}")), frozenset({"calls", "files"})),
    "socket of the engine": (lambda t: _connect(socket.AF_UNIX, t.path), frozenset({"calls", "files"})),
    "socket without a file": (lambda t: _connect(socket.AF_UNIX, t.abstract), frozenset({"calls", "namespaces"})),
    "network": (lambda t: _connect(socket.AF_INET, ("127.0.0.1", t.port)), frozenset({"calls", "namespaces"})),
    "signal to the engine": (lambda t: _signal(t.engine), frozenset({"calls", "namespaces", "user"})),
    "signal to its maker": (lambda t: _signal(os.getppid()), frozenset({"calls"})),
    "memory of its maker": (lambda t: _trace(), frozenset({"calls", "user"})),
    "process of its own": (lambda t: _fork(), frozenset({"calls"})),
    "endless memory": (lambda t: _allocate(), frozenset({"limits"})),
    "another descriptor": (lambda t: _others(), frozenset({"closing"})),
    "the output before": (lambda t: len(_seen) > 1, frozenset({"children"})),
}
#: layers as steps of confine, and what the parser does besides
_STEPS: Mapping[str, Sequence[Callable[[Any], None]]] = {
    "namespaces": [confine.enter_namespaces], "files": [confine.leave_files], "limits": [confine.set_limits],
    "user": [confine.change_user], "calls": [confine.refuse_calls]}
LAYERS = (*_STEPS, "closing", "children")


def _others() -> bool:
    """Whether there is a descriptor beside the standard ones, the socket and what was printed."""
    found = 0
    for fd in range(3, 64):
        with suppress(OSError):
            os.get_inheritable(fd)
            found += 1
    return found > 2


def _succeeds(probe: Callable[[Targets], bool], targets: Targets) -> bool:
    try:
        return probe(targets)
    except (OSError, MemoryError):
        return False


def _plant(targets: Targets, kept: Collection[str]) -> None:
    def read_rows(stdout: bytes, columns: Sequence[Any], *_: object) -> tuple[list[tuple[str, ...]], bool]:
        _seen.append(stdout)
        return [(",".join(name for name, (probe, _) in PROBES.items() if _succeeds(probe, targets)),)], False

    weak: Any = parser
    weak.read_rows = read_rows
    vars(confine)["STEPS"] = tuple(step for step in confine.STEPS if any(step in _STEPS[layer] for layer in kept if layer in _STEPS))
    if "calls" not in kept:
        weak.load_filter = lambda calls: None
    if "closing" not in kept:
        serve = parser.serve
        weak.serve = lambda control, calls: (os.dup(control.fileno()), serve(control, calls))[1]  # one that no child closes
    if "children" not in kept:
        weak._in_child = _by_itself


def _by_itself(control: socket.socket, calls: bytes, patience: int, task: parser.Task, descriptors: Sequence[int], size: int) -> None:
    parser.answer(descriptors[0], task, descriptors[1], size)
    for fd in descriptors:
        os.close(fd)


def command(targets: Targets, kept: Collection[str]) -> str:
    """What Python runs."""
    return f"from tests.engine.planted import main; main({pickle.dumps((targets, sorted(kept)))!r})"


def main(told: bytes) -> None:
    _plant(*pickle.loads(told))
    parser.main()
