"""Control groups: one per run, bounding memory and processes of everything in the sandbox together, and its share of the processors.

A scheduler that shares by group shares level by level: what weighs nothing in a group that weighs something still gets all of that. So the
groups of runs are in no group of their own, but beside what the engine competes with.
"""

# ruff: noqa: PTH102, PTH106 (made and removed for every chunk; plain calls are faster)

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["LITTLE", "ZYGOTE", "Group", "Hierarchy", "Remains", "find_hierarchy", "read_whole"]

_MOUNT = Path("/sys/fs/cgroup")
_PREFIX = "privid-"
#: How the name of a group ends in which modules are imported.
ZYGOTE = "-zygote"
#: What is left of a run weighs little, however many processes it is: a third of an ordinary process, a thirtieth of the room or of a
#: program in its slot. Less would not do: it must go away about as fast as it can be made anew, also where every core is wanted.
LITTLE = 5
#: What a group or a session weighs, by the file that says so: like processes of these nice values.
_LITTLE = {"cpu.shares": "335", "cpu.weight.nice": "5", "autogroup": "5"}
_MUCH = {"cpu.shares": b"9548", "cpu.weight.nice": b"-10"}
_USED = ("memory.current", "memory.usage_in_bytes")


@dataclass(frozen=True)
class Group:
    """The directories of one run's group, one per hierarchy."""

    directories: tuple[Path, ...]
    #: where the group can be frozen and killed at one stroke; one of `directories`, or None where the kernel cannot do it
    stroke: Path | None = None
    #: the file that says what the group weighs against everything else on a processor
    weight: Path | None = None

    def freeze(self) -> None:
        assert self.stroke is not None
        _write(f"{self.stroke}/cgroup.freeze", "1")

    def thaw(self) -> None:
        assert self.stroke is not None
        _write(f"{self.stroke}/cgroup.freeze", "0")

    def frozen(self) -> bool:
        assert self.stroke is not None
        return b"frozen 1" in read_whole(f"{self.stroke}/cgroup.events")

    def kill(self) -> None:
        """Everything in it, at once, frozen or not; its end weighs little."""
        with contextlib.suppress(FileNotFoundError):
            if self.weight is not None:
                _write(str(self.weight), _LITTLE[self.weight.name])
        with contextlib.suppress(FileNotFoundError):
            if self.stroke is not None:
                _write(f"{self.stroke}/cgroup.kill", "1")

    def open_stroke(self, stack: contextlib.ExitStack, pid: int) -> tuple[int, int, int]:
        """Descriptors of the file that kills, of the list of tasks, and of the file that says what they weigh: the group's own, which is
        made that of a program in its slot, or that of the session of process `pid` where groups have none."""
        opened = []
        weight = self.weight or Path(f"/proc/{pid}/autogroup")
        if not weight.exists():
            weight = Path(os.devnull)
        kill, tasks = (Path(f"{self.stroke}/{name}") for name in ("cgroup.kill", "cgroup.threads"))
        for path, mode in ((kill, os.O_WRONLY), (tasks, os.O_RDONLY), (weight, os.O_WRONLY)):
            opened.append(os.open(path, mode | os.O_CLOEXEC))
            stack.callback(os.close, opened[-1])
        if weight.name in _MUCH:
            os.write(opened[2], _MUCH[weight.name])
        return opened[0], opened[1], opened[2]

    def add(self, pid: int) -> None:
        for directory in self.directories:
            _write(f"{directory}/cgroup.procs", str(pid))

    def harbour(self, pid: int) -> None:
        """Have it killed with the group, without the group's limits where these are elsewhere."""
        with contextlib.suppress(OSError):  # it has ended already
            _write(f"{self.stroke}/cgroup.procs", str(pid))

    def processes(self) -> set[int]:
        found: set[int] = set()
        for directory in self.directories:
            with contextlib.suppress(FileNotFoundError):
                found.update(int(line) for line in read_whole(f"{directory}/cgroup.procs").split())
        return found

    def crowd(self) -> set[int]:
        """Its processes by the one hierarchy that freezes and kills; a cheap look."""
        return {int(line) for line in read_whole(f"{self.stroke}/cgroup.procs").split()}

    def peak(self) -> int | None:
        """The most bytes of memory that were in use at a time, or None where the kernel does not record it."""
        return _first_number(self.directories, "memory.peak", "memory.max_usage_in_bytes")

    def used(self) -> int:
        """Bytes of memory in use; 0 when the group is gone."""
        return _first_number(self.directories, *_USED) or 0

    def remove(self, patience: float) -> bool:
        """Remove the group; it can go only when the kernel has buried the last process in it."""
        deadline = time.monotonic() + patience
        left = list(self.directories)
        while left:
            for directory in list(left):
                try:
                    os.rmdir(directory)
                except FileNotFoundError:
                    pass
                except OSError:
                    continue
                left.remove(directory)
            if left:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.01)
        return True


class Remains:
    """What runs that are over still hold, for threads of one lane."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups = list[Group]()

    def add(self, group: Group) -> None:
        with self._lock:
            self._groups.append(group)

    def used(self) -> int:
        """Bytes of memory."""
        with self._lock:
            held = [(group, used) for group in self._groups if (used := group.used())]
            self._groups = [group for group, _ in held]
            return sum(used for _, used in held)


@dataclass(frozen=True)
class Hierarchy:
    """Where this engine makes its groups: version 2, or version 1's memory and pids controllers, and cpu where there is one."""

    version: int
    parents: tuple[Path, ...]
    stroke: Path | None = None  # the parent of groups that can be frozen and killed: version 2's own hierarchy
    weight: Path | None = None  # the parent of groups that have a weight, one of `parents`

    #: files of a group, by its parent, that this kernel does not have
    _absent: set[tuple[Path, str]] = field(default_factory=set, compare=False, repr=False)

    def create(self, name: str, *, memory: int, processes: int) -> Group:
        name = _PREFIX + name
        directories = tuple(parent / name for parent in self.parents)
        limits = ({"memory.max": memory, "memory.swap.max": 0, "memory.oom.group": 1, "pids.max": processes} if self.version == 2 else
                  {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory, "pids.max": processes})
        for parent, directory in zip(self.parents, directories, strict=True):
            _make(directory)
            for file, value in limits.items():
                # swap and group kill are not compiled into every kernel; the limits themselves were tried by find_hierarchy
                if (parent, file) not in self._absent:
                    try:
                        _write(f"{directory}/{file}", str(value))
                    except FileNotFoundError:
                        if directory.is_dir():
                            self._absent.add((parent, file))
        stroke = None if self.stroke is None else self.stroke / name
        if stroke is not None and stroke not in directories:
            _make(stroke)
            directories += (stroke,)
        return Group(directories, stroke, None if self.weight is None else self.weight / name / self._weighs)

    @property
    def _weighs(self) -> str:
        return "cpu.weight.nice" if self.version == 2 else "cpu.shares"

    @property
    def little(self) -> str:
        """What makes a group that was opened for its stroke weigh little."""
        return _LITTLE["autogroup" if self.weight is None else self._weighs]

    def prefix(self, name: str) -> Path:
        """What the paths begin with by which groups of such names are killed."""
        assert self.stroke is not None
        return self.stroke / (_PREFIX + name)

    def used(self) -> int:
        """Bytes of memory in use by all runs, and by what they have left behind, of all engines here; zygotes do not count, for
        they see no frame."""
        return sum(_first_number([directory], *_USED) or 0 for parent in self.parents if _has_memory(parent)
                   for directory in parent.glob(f"{_PREFIX}*-*") if not directory.name.endswith(ZYGOTE))

    def sweep(self) -> None:
        """Remove groups that an engine which was killed left behind; a name has its engine's process id."""
        for parent in {*self.parents, *(() if self.stroke is None else (self.stroke,))}:
            for directory in parent.glob(f"{_PREFIX}*-*"):
                owner = directory.name.split("-")[1]
                if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                    with contextlib.suppress(OSError):
                        if (directory / "cgroup.kill").exists():
                            (directory / "cgroup.kill").write_text("1")
                        directory.rmdir()


def _has_memory(parent: Path) -> bool:
    """Whether memory is counted in this hierarchy."""
    return (parent / "cgroup.controllers").exists() or (parent / "memory.limit_in_bytes").exists()


def _first_number(directories: Iterable[Path], *names: str) -> int | None:
    for directory in directories:
        for name in names:
            with contextlib.suppress(OSError, ValueError):
                return int(read_whole(f"{directory}/{name}"))
    return None


def _make(directory: Path) -> None:
    with contextlib.suppress(FileExistsError):  # one that had our number left it behind
        os.mkdir(directory, 0o700)  # what it uses follows from what its program saw


def _write(file: str, text: str) -> None:
    """Without the objects around a file, for several of these are written for every chunk."""
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_whole(file: str) -> bytes:
    """A file of a file system that the kernel makes up, which must be read to its end."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(fd, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def find_hierarchy() -> Hierarchy | None:
    """The hierarchy to use, or None when this user or this machine has none (then limits are per process only)."""
    if os.geteuid() != 0:
        return None
    for candidate in (_version_2(), _version_1()):
        if candidate is not None:
            try:
                probe = candidate.create(f"{os.getpid()}-probe", memory=1 << 30, processes=16)
                bounded = any((d / "pids.max").exists() for d in probe.directories)
                probe.remove(0)
            except OSError:
                continue
            if bounded:
                return candidate
    return None


def _version_2() -> Hierarchy | None:
    controllers = _MOUNT / "cgroup.controllers"
    if not controllers.exists() or not {"memory", "pids"} <= (there := set(controllers.read_text().split())):
        return None
    wanted = "+memory +pids +cpu" if "cpu" in there else "+memory +pids"
    try:
        (_MOUNT / "cgroup.subtree_control").write_text(wanted)
        kills, weighs = _has(_MOUNT, "cgroup.kill", "cpu.weight.nice")
    except OSError:
        return None
    return Hierarchy(2, (_MOUNT,), _MOUNT if kills else None, _MOUNT if weighs else None)


def _version_1() -> Hierarchy | None:
    """Below the engine's own groups, so that a limit set on the engine holds for its sandboxes too."""
    own = {controller: path for _, controllers, path in (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
           for controller in controllers.split(",")}
    parents = {}
    for controller in ("memory", "pids", "cpu"):
        mount = _MOUNT / controller
        if controller in own and mount.is_dir():
            below = mount / own[controller].lstrip("/")
            parents[controller] = below if below.is_dir() else mount
    if not {"memory", "pids"} <= set(parents):
        return None
    weight = parents.get("cpu")
    if weight is not None and not os.access(weight, os.W_OK):
        del parents["cpu"]
        weight = None
    return Hierarchy(1, tuple(parents.values()), _unified(), weight)


def _unified() -> Path | None:
    """Version 2's hierarchy beside those of version 1, which has no controllers then but can freeze and kill."""
    parent = _MOUNT / "unified"
    try:
        return parent if all(_has(parent, "cgroup.kill", "cgroup.freeze")) else None
    except OSError:
        return None


def _has(parent: Path, *names: str) -> list[bool]:
    """Whether a group made there has these files."""
    probe = parent / f"{_PREFIX}{os.getpid()}-look-{threading.get_ident()}"
    probe.mkdir(exist_ok=True)
    found = [(probe / name).exists() for name in names]
    probe.rmdir()
    return found
