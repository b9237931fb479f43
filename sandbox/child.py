"""One frozen child of a brood: what it gets before its run, and what is taken away after it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from . import syscalls
from .cgroups import Group
from .chunk import CHUNK_FILE, FRAMES_FILE
from .places import pinned
from .run import Limits
from .sweeper import Sweeper
from .verify import Seen

__all__ = ["Child"]

_OUTPUTS = (".output", ".errors")
_DATA_FLAGS = syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV


@dataclass(eq=False)
class Child:
    """One frozen child and the lane's ends of everything it has."""

    seen: Seen
    group: Group
    box: Path  # what it finds at /chunk
    sweeper: Sweeper
    tmpfs: int = -1
    output: int = -1
    errors: int = -1
    swept: int = 0  # the number by which the sweeper knows its /tmp
    spent: bool = False  # killed
    gone: bool = False  # buried

    def furnish(self, limits: Limits, uid: int, gid: int, opened: contextlib.ExitStack) -> tuple[int, int]:
        """Make its /tmp, its output and the place where the chunk will be; what is to be mounted at /chunk, and its namespace."""
        self.box.mkdir(mode=0o755)
        self.box.chmod(0o755)
        size = {"size": str(limits.tmpfs), "nr_inodes": str(limits.inodes), "mode": "0755", "uid": str(uid), "gid": str(gid)}
        self.tmpfs = syscalls.new_tmpfs(size, _DATA_FLAGS)
        for name in _OUTPUTS:
            fd = os.open(name, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.tmpfs)
            os.fchown(fd, uid, gid)
            os.close(fd)
        box = syscalls.bind_tree(str(self.box), _DATA_FLAGS | syscalls.ATTR_RDONLY)
        opened.callback(os.close, box)
        space = os.open(f"/proc/{self.seen.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        opened.callback(os.close, space)
        return box, space

    def pins(self) -> list[int]:
        """What has device numbers, which are given out anew when they are free (places.py): its file systems, which its namespaces hold."""
        return pinned(self.seen.pid)

    def open_output(self) -> None:
        """When its slot comes, so that those that wait hold little. It has not run yet: the files are those that were made."""
        if self.output < 0:
            self.output, self.errors = (os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.tmpfs) for name in _OUTPUTS)

    def clear(self) -> bool:
        """Take back the chunk of a slot that did not begin. False if the child cannot be used again: it must have been frozen all along."""
        self._unlink()
        return self.group.frozen()

    def _unlink(self) -> None:
        for name in (FRAMES_FILE, CHUNK_FILE):
            (self.box / name).unlink(missing_ok=True)

    def bury(self) -> bool:
        """Free all that its run held; the empty file system stays until the whole brood is closed. Its group, which what it wrote is
        counted to, goes last. False while the kernel is still at it."""
        if not self.spent:
            self.spent = True
            self.group.kill()
            self._unlink()
            self.close()
        if not self.swept and not self.group.crowd():
            top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.tmpfs)
            self.swept = self.sweeper.sweep(top)
            os.close(top)
        self.gone = self.swept > 0 and self.sweeper.is_done(self.swept) and self.group.remove(patience=0)
        return self.gone

    def close(self) -> None:
        for name in ("output", "errors"):
            if (fd := getattr(self, name)) >= 0:
                os.close(fd)
                setattr(self, name, -1)
