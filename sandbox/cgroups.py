"""Control groups: one per run, bounding memory and processes of everything in the sandbox together."""

# ruff: noqa: PTH102, PTH106 (made and removed for every chunk; plain calls are faster)

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Group", "Hierarchy", "find_hierarchy", "read_whole"]

_MOUNT = Path("/sys/fs/cgroup")
_NAME = "privid"


@dataclass(frozen=True)
class Group:
    """The directories of one run's group, one per hierarchy."""

    directories: tuple[Path, ...]
    #: where the group can be frozen and killed at one stroke; one of `directories`, or None where the kernel cannot do it
    stroke: Path | None = None

    def freeze(self) -> None:
        assert self.stroke is not None
        _write(f"{self.stroke}/cgroup.freeze", "1")

    def frozen(self) -> bool:
        assert self.stroke is not None
        return b"frozen 1" in read_whole(f"{self.stroke}/cgroup.events")

    def kill(self) -> None:
        """Everything in it, at once, frozen or not."""
        if self.stroke is not None:
            with contextlib.suppress(FileNotFoundError):
                _write(f"{self.stroke}/cgroup.kill", "1")

    def open_stroke(self, stack: contextlib.ExitStack) -> tuple[int, int]:
        """Descriptors of the file that kills and of the list of tasks."""
        opened = []
        for name, mode in (("cgroup.kill", os.O_WRONLY), ("cgroup.threads", os.O_RDONLY)):
            opened.append(os.open(f"{self.stroke}/{name}", mode | os.O_CLOEXEC))
            stack.callback(os.close, opened[-1])
        return opened[0], opened[1]

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
        for directory in self.directories:
            for name in ("memory.peak", "memory.max_usage_in_bytes"):
                with contextlib.suppress(OSError, ValueError):
                    return int(read_whole(f"{directory}/{name}"))
        return None

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


@dataclass(frozen=True)
class Hierarchy:
    """Where this engine makes its groups: version 2, or version 1's memory and pids controllers."""

    version: int
    parents: tuple[Path, ...]
    stroke: Path | None = None  # the parent of groups that can be frozen and killed: version 2's own hierarchy

    #: files of a group, by its parent, that this kernel does not have
    _absent: set[tuple[Path, str]] = field(default_factory=set, compare=False, repr=False)

    def create(self, name: str, *, memory: int, processes: int) -> Group:
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
        return Group(directories, stroke)

    def _all(self) -> set[Path]:
        return {*self.parents, *(() if self.stroke is None else (self.stroke,))}

    def leave(self) -> None:
        """Remove the engine's own directories, unless another engine still uses them."""
        for parent in self._all():
            with contextlib.suppress(OSError):
                parent.rmdir()

    def sweep(self) -> None:
        """Remove groups that an engine which was killed left behind; a name starts with its engine's process id."""
        for parent in self._all():
            for directory in parent.iterdir() if parent.is_dir() else ():
                owner = directory.name.partition("-")[0]
                if directory.is_dir() and owner.isdigit() and not Path(f"/proc/{owner}").exists():
                    with contextlib.suppress(OSError):
                        if (directory / "cgroup.kill").exists():
                            (directory / "cgroup.kill").write_text("1")
                        directory.rmdir()


def _make(directory: Path) -> None:
    try:
        os.mkdir(directory)
    except (FileNotFoundError, FileExistsError):  # the parent went with another engine; or one that had our number left it behind
        directory.mkdir(parents=True, exist_ok=True)


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
    if not controllers.exists() or not {"memory", "pids"} <= set(controllers.read_text().split()):
        return None
    parent = _MOUNT / _NAME
    try:
        (_MOUNT / "cgroup.subtree_control").write_text("+memory +pids")
        parent.mkdir(exist_ok=True)
        (parent / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError:
        return None
    return Hierarchy(2, (parent,), parent if (parent / "cgroup.kill").exists() else None)


def _version_1() -> Hierarchy | None:
    """Below the engine's own groups, so that a limit set on the engine holds for its sandboxes too."""
    own = {controller: path for _, controllers, path in (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
           for controller in controllers.split(",")}
    parents = []
    for controller in ("memory", "pids"):
        mount = _MOUNT / controller
        if controller not in own or not mount.is_dir():
            return None
        below = mount / own[controller].lstrip("/")
        parent = (below if below.is_dir() else mount) / _NAME
        try:
            parent.mkdir(exist_ok=True)
        except OSError:
            return None
        parents.append(parent)
    return Hierarchy(1, tuple(parents), _unified())


def _unified() -> Path | None:
    """Version 2's hierarchy beside those of version 1, which has no controllers then but can freeze and kill."""
    parent = _MOUNT / "unified" / _NAME
    try:
        parent.mkdir(exist_ok=True)
    except OSError:
        return None
    return parent if (parent / "cgroup.kill").exists() and (parent / "cgroup.freeze").exists() else None
