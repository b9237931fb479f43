"""Warm starts: a brood is a number of frozen children of one zygote, each verified, each good for one run.

Theory of operation. The nursery (see there) boots a zygote that imports the analyst's module and forks children; no frame of any chunk that
they will see is there yet. The lane waits until the children seem ready, freezes the zygote's control group, moves each child to a frozen
group of its own, verifies it from outside, and kills the zygote and whatever else is left in its group. Only then does a child get a
private /tmp, the ends of its output, and an empty directory mounted at /chunk. When its slot begins, the chunk's files are linked into that
directory and the child is thawed; when the slot ends, its group is killed.

Whatever does not go as it should makes the brood fail, never a run: the lane then starts this program cold.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import filter as system_calls
from . import syscalls
from .cgroups import Group, Hierarchy
from .chunk import CHUNK_FILE, FRAMES_FILE
from .command import ENVIRONMENT
from .run import Limits, prefer
from .verify import Refused, Seen, check_alone, check_apart, look, seems_ready

__all__ = ["Brood", "Child", "NotWarm"]

#: Seconds that a zygote may take to import its module and to fork. It sees no frame, so how long it takes tells nothing of one.
PATIENCE = 60.0
#: The filter of the zygote, and the ordinary one that a child puts on top.
_FILTERS = 2
_MIB = 1 << 20
_CHILD_PAGES = 8 * _MIB  # page tables and the like of a frozen child, counted to its zygote
_MAPPED = 2 << 30  # the largest chunk, which a program maps
_DATA_FLAGS = syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV


class NotWarm(Exception):
    """This program cannot be started warm; the text says why, for the log."""


@dataclass(eq=False)
class Child:
    """One frozen child and the lane's ends of everything it has."""

    seen: Seen
    group: Group
    box: Path  # what it finds at /chunk
    tmpfs: int
    output: int
    errors: int
    gone: bool = False  # buried

    def clear(self) -> bool:
        """Take back the chunk of a slot that did not begin. False if the child cannot be used again: it must have been frozen all along."""
        self._unlink()
        return self.group.frozen()

    def _unlink(self) -> None:
        for name in (FRAMES_FILE, CHUNK_FILE):
            (self.box / name).unlink(missing_ok=True)

    def bury(self) -> bool:
        """Free what its run held; what is pinned stays until the whole brood is closed. False while the kernel is still at it."""
        if self.output >= 0:
            self.group.kill()
            self._unlink()
            self.close()
        self.gone = self.group.remove(patience=0)
        return self.gone

    def close(self) -> None:
        for name in ("output", "errors"):
            if (fd := getattr(self, name)) >= 0:
                os.close(fd)
                setattr(self, name, -1)


class Brood:
    """Made and closed by one thread of the lane, which must live as long: the nursery dies with it."""

    def __init__(self, *, name: str, lane: Path, root: Path, module: Path, files: Path | None, count: int, limits: Limits,
                 hierarchy: Hierarchy, uid: int, gid: int, cores: frozenset[int] | None = None,
                 elsewhere: frozenset[int] | None = None) -> None:
        self.children: deque[Child] = deque()
        self.size = count
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ended: dict[int, int] = {}
        self._said: set[str] = set()
        self._listening = threading.Lock()
        self._made: list[Child] = []
        self._pins: list[int] = []
        self._nest = lane / name
        self._nest.mkdir(mode=0o755)
        self._zygote = hierarchy.create(f"{name}-zygote", memory=limits.memory + count * _CHILD_PAGES,
                                        processes=2 * count + limits.processes)
        self.control.setblocking(False)
        with theirs:
            self._nursery = subprocess.Popen([sys.executable, "-I", "-m", "privid.sandbox.nursery", str(theirs.fileno())],
                                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                                             env={}, pass_fds=(theirs.fileno(),), start_new_session=True)
        bounds = {"AS": limits.address_space + _MAPPED, "NPROC": 4 * count + 2 * limits.processes, "FSIZE": limits.tmpfs,
                  "NOFILE": limits.files, "CORE": 0, "MEMLOCK": 0}
        order = {"root": str(root), "module": str(module), "files": None if files is None else str(files), "uid": uid, "gid": gid,
                 "tmpfs": limits.tmpfs, "limits": bounds, "filter": system_calls.export(zygote=True).hex(),
                 "environment": {**ENVIRONMENT, "PWD": "/tmp"},
                 "command": ["/usr/bin/python3", "-s", "-B", "/usr/lib/privid/zygote.py", "/chunk", "/app/module.py", str(count),
                             str(syscalls.FORK_APART)]}
        try:
            zygote = self._boot(order, count, elsewhere)
            self._settle(count, hierarchy, limits, name, uid, gid, root, zygote)
            self._furnish(limits, uid, gid)
            for child in self._made:
                prefer(child.seen.pid, cores)
        except (OSError, Refused, ValueError, IndexError, NotWarm) as error:
            self.close()
            raise NotWarm(str(error)) from None
        except BaseException:
            self.close()
            raise
        self.children.extend(self._made)

    # Boot

    def _boot(self, order: dict[str, Any], count: int, cores: frozenset[int] | None) -> int:
        """The zygote's process id, when as many children as wanted seem ready."""
        self.control.send(json.dumps(order).encode())
        self._deadline = time.monotonic() + PATIENCE
        self._ask("zygote")
        self._init = _children(self._nursery.pid)[0]
        zygote = _children(self._init)[0]
        self._zygote.add(zygote)
        if cores is not None:
            os.sched_setaffinity(zygote, cores)
        self.control.send(b'{"go": true}')
        ready: set[int] = set()
        while True:
            pids = self._zygote.crowd()
            if len(pids) > count + 1:  # the zygote and the mother of the children are there, too
                ready.update(pid for pid in pids - ready if seems_ready(pid, _FILTERS))
                if len(ready & pids) >= count:
                    return zygote
            if zygote not in pids:
                raise NotWarm("the module could not be imported")
            if time.monotonic() > self._deadline:
                raise NotWarm("the module took too long to import")
            time.sleep(0.01)

    def _settle(self, count: int, hierarchy: Hierarchy, limits: Limits, name: str, uid: int, gid: int, root: Path, zygote: int) -> None:
        """Freeze, separate, verify, kill the rest, seal."""
        self._zygote.freeze()
        while not self._zygote.frozen():
            if time.monotonic() > self._deadline:
                raise NotWarm("the zygote could not be frozen")
            time.sleep(0.001)
        home = root.stat()
        for pid in sorted(self._zygote.processes() - {zygote}):
            with contextlib.suppress(Refused):
                seen = look(pid, uid=uid, gid=gid, root=home, filters=_FILTERS)
                self._made.append(self._separate(seen, hierarchy, limits, f"{name}-{len(self._made)}"))
        if len(self._made) != count:
            raise NotWarm(f"{len(self._made)} of {count} children are as they must be")
        children = [child.seen for child in self._made]
        check_apart(children, [zygote, self._init])
        self._zygote.kill()
        while self._zygote.processes():
            if time.monotonic() > self._deadline:
                raise NotWarm("the zygote could not be killed")
            time.sleep(0.001)
        for child in self._made:
            check_alone(child.seen.pid)
            if child.group.processes() != {child.seen.pid} or not child.group.frozen():
                raise Refused("it is not alone in its group")
        self.control.send(b'{"seal": true}')
        self._ask("sealed")
        if any(Path(f"/proc/{self._init}/root/tmp").iterdir()):
            raise NotWarm("the module leaves files in /tmp when it is imported")

    def _separate(self, seen: Seen, hierarchy: Hierarchy, limits: Limits, name: str) -> Child:
        group = hierarchy.create(name, memory=limits.memory, processes=limits.processes)
        group.freeze()
        group.add(seen.pid)
        return Child(seen, group, self._nest / name, -1, -1, -1)

    def _furnish(self, limits: Limits, uid: int, gid: int) -> None:
        """For each a fresh /tmp, the output, and the place where the chunk will be."""
        size = {"size": str(limits.tmpfs), "nr_inodes": str(limits.inodes), "mode": "0755", "uid": str(uid), "gid": str(gid)}
        with contextlib.ExitStack() as opened:
            mounts = [self._prepare(child, size, uid, gid, opened) for child in self._made]
            with _visit() as enter:
                for child, (box, space) in zip(self._made, mounts, strict=True):
                    enter(space)
                    syscalls.move_mount(child.tmpfs, "/tmp")
                    syscalls.move_mount(box, "/chunk")

    def _prepare(self, child: Child, size: dict[str, str], uid: int, gid: int, opened: contextlib.ExitStack) -> tuple[int, int]:
        """What will be mounted in a child's namespace, and this."""
        child.box.mkdir(mode=0o755)
        child.box.chmod(0o755)
        child.tmpfs = syscalls.new_tmpfs(size, _DATA_FLAGS)
        # Device numbers of a tmpfs and of what an IPC namespace holds are given out anew when they are free: held until the whole brood is
        # gone, so that the numbers which a later child sees do not tell how fast an earlier one went away.
        self._pins += [child.tmpfs, os.open(f"/proc/{child.seen.pid}/ns/ipc", os.O_RDONLY | os.O_CLOEXEC)]
        child.output, child.errors = (os.open(name, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=child.tmpfs)
                                      for name in (".output", ".errors"))
        for fd in (child.output, child.errors):
            os.fchown(fd, uid, gid)
        box = syscalls.bind_tree(str(child.box), _DATA_FLAGS | syscalls.ATTR_RDONLY)
        opened.callback(os.close, box)
        space = os.open(f"/proc/{child.seen.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        opened.callback(os.close, space)
        return box, space

    # Talk with process 1

    def _ask(self, wanted: str) -> None:
        """Wait until process 1 says so."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        while wanted not in self._said:
            left = self._deadline - time.monotonic()
            if left <= 0 or not poll.poll(1000 * left):
                raise NotWarm("the nursery does not answer")
            if not self.listen():
                raise NotWarm("the nursery has ended")

    def listen(self) -> bool:
        """Take what process 1 says, without waiting; endings are noted. False when the nursery is gone. Callable from any thread."""
        with self._listening:
            while True:
                try:
                    data = self.control.recv(65536)
                except BlockingIOError:
                    return True
                except OSError:
                    return False
                if not data:
                    return False
                message: dict[str, Any] = json.loads(data)
                self._said.update(message)
                self.ended.update(dict(message.get("ended", ())))

    # The end

    def close(self) -> None:
        """Kill what is left and free everything; may take a while."""
        groups = [self._zygote, *(child.group for child in self._made if not child.gone)]
        for group in groups:
            group.kill()
        self._nursery.kill()
        self._nursery.wait()
        self.control.close()
        for child in self._made:
            child.close()
        self._made.clear()
        self.children.clear()
        for group in groups:
            group.remove(patience=10)
        for fd in self._pins:
            os.close(fd)
        self._pins.clear()
        for box in sorted(self._nest.glob("**/*"), reverse=True):
            box.rmdir() if box.is_dir() else box.unlink()
        self._nest.rmdir()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def _visit() -> Iterator[Callable[[int], None]]:
    """Gives what enters other mount namespaces, and comes home; the calling thread must not share its view of the file system with others
    (unshare(CLONE_FS))."""
    home = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield lambda space: syscalls.enter_namespace(space, "mnt")
    finally:
        syscalls.enter_namespace(home, "mnt")
        os.close(home)
