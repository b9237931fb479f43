"""Warm starts: a brood is a number of frozen children of one zygote, each verified, each good for one run.

Theory of operation. The nursery (see there) boots a zygote that imports the analyst's module and forks children; no frame of any chunk that
they will see is there yet, and no chunk runs meanwhile (see intermission.py). The lane waits until the children seem ready, freezes the
zygote's control group, moves each child to a frozen group of its own, verifies it from outside, and kills the zygote and whatever else is
left in its group. Until then there is no file system that anybody of them could write to, and each brood has a user of its own. Only then
does a child get limits of its own, a private /tmp, the ends of its output, and an empty directory mounted at /chunk. When its slot begins,
the chunk's files are linked into that directory and the child is thawed; when the slot ends, its group is killed, and what it left in its
/tmp is removed.

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
from pathlib import Path
from typing import Any

from . import filter as system_calls
from . import syscalls
from .bounds import Bounds, of_child, of_zygote
from .cgroups import ZYGOTE, Group, Hierarchy
from .child import Child
from .command import ENVIRONMENT
from .intermission import SLICE, Intermission
from .loaded import check_filters
from .pages import check_pages
from .places import pinned
from .root import devices
from .run import Limits, prefer
from .sweeper import Sweeper
from .users import SANDBOX_GID, claim_user
from .verify import Allowed, Refused, Seen, check_apart, check_settled, has_holes, look, seems_ready

__all__ = ["Brood", "NotWarm", "most_memory"]

#: Seconds that a zygote may take to import its module and to fork. It sees no frame, so how long it takes tells nothing of one.
PATIENCE = 60.0
#: The filter of the zygote, and the ordinary one that a child puts on top.
_FILTERS = 2
_MIB = 1 << 20
#: Seconds in which the kernel freezes a group, unless something is wrong with it.
_MOMENT = 5.0
_CHILD_PAGES = 8 * _MIB  # page tables and the like of a frozen child, counted to its zygote
#: Seconds of looking at its pages that are counted to a child, which is less than what is allowed for making one (engine/durations.py).
_LOOKING = 0.001
#: Children beyond those that are wanted, who never run: a page that one of them has is copied when it is written to, and never taken over
#: because nobody else has it any more. By that a child could tell that another was still going away. See pages.py.
_WITNESSES = 1


def most_memory(limits: Limits) -> int:
    """What a brood can take before its children run, however many there are; what they take when they run is counted to each."""
    return 2 * limits.memory


class NotWarm(Exception):
    """This program cannot be started warm; the text says why, for the log."""


class Brood:
    """Made and closed by one thread of the lane, which must live as long: the nursery dies with it."""

    def __init__(self, *, name: str, lane: Path, root: Path, module: Path, files: Path | None, count: int, limits: Limits,
                 hierarchy: Hierarchy, sweeper: Sweeper, intermission: Intermission, cores: frozenset[int] | None = None) -> None:
        self._user = claim_user()
        self.uid = self._user.uid
        self.children: deque[Child] = deque()
        self.size = count
        self.imported = 0.0  # seconds that the import took, for which all slots waited; and what its pages take to be looked at
        self._sweeper, self._intermission = sweeper, intermission
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ended: dict[int, int] = {}
        self._said: set[str] = set()
        self._listening = threading.Lock()
        self._made: list[Child] = []
        #: for the lane, when the timetable has no more use for this brood: what must not be numbered anew yet (places.py)
        self.pins: list[int] = []
        self._nest = lane / name
        self._nest.mkdir(mode=0o755)
        count += _WITNESSES
        self._zygote = hierarchy.create(name + ZYGOTE, memory=min(limits.memory + count * _CHILD_PAGES, most_memory(limits)),
                                        processes=2 * count + limits.processes)
        self.control.setblocking(False)
        with theirs:
            self._nursery = subprocess.Popen([sys.executable, "-I", "-m", "privid.sandbox.nursery", str(theirs.fileno())],
                                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                                             env={}, pass_fds=(theirs.fileno(),), start_new_session=True)
        order = {"root": str(root), "devices": devices(root), "module": str(module),
                 "files": None if files is None else str(files), "uid": self.uid,
                 "gid": SANDBOX_GID, "limits": of_zygote(limits), "filter": system_calls.export(zygote=True).hex(),
                 "environment": {**ENVIRONMENT, "PWD": "/tmp"},
                 "command": ["/usr/bin/python3", "-s", "-B", "/usr/lib/privid/zygote.py", "/chunk", "/app/module.py", str(count),
                             str(syscalls.FORK_APART)]}
        try:
            if has_holes(module, *(() if files is None else files.rglob("*"))):
                raise NotWarm("a file of it has holes")
            allowed = Allowed(self.uid, SANDBOX_GID, root, [root, module, *([] if files is None else [files])], _FILTERS)
            zygote = self._boot(order, count, cores)
            self._settle(count, hierarchy, limits, name, allowed, zygote)
            self._furnish(limits)
            for child in self._made:
                prefer(child.seen.pid, cores)
        except (OSError, Refused, ValueError, IndexError, NotWarm) as error:
            self.close()
            raise NotWarm(str(error)) from None
        except BaseException:
            self.close()
            raise
        self.children.extend(self._made[:self.size])

    # Boot

    def _boot(self, order: dict[str, Any], count: int, cores: frozenset[int] | None) -> int:
        """The zygote's process id, when as many children as wanted seem ready."""
        self.control.send(json.dumps(order).encode())
        self._deadline = time.monotonic() + PATIENCE
        self._ask("zygote")
        self._init = _children(self._nursery.pid)[0]
        zygote = _children(self._init)[0]
        self.pins += [*pinned(self._init), *pinned(zygote)]
        self._zygote.add(zygote)
        if cores is not None:
            os.sched_setaffinity(zygote, cores)  # where no decoder is, whose work it could feel
        left = PATIENCE
        while True:
            with self._intermission.importing():
                begun = time.monotonic()
                if left == PATIENCE:
                    self.control.send(b'{"go": true}')
                else:
                    self._zygote.thaw()
                slice_ = min(SLICE, left)
                try:
                    done = self._import(zygote, count, time.monotonic() + slice_)
                finally:
                    self._freeze()
                    self.imported += time.monotonic() - begun
            if done:
                return zygote
            left -= slice_
            if left <= 0:
                raise NotWarm("the module took too long to import")

    def _import(self, zygote: int, count: int, until: float) -> bool:
        """Let the zygote go on; whether as many children as wanted seem ready before that moment."""
        ready: set[int] = set()
        while time.monotonic() < until:
            pids = self._zygote.crowd()
            if len(pids) > count + 1:  # the zygote and the mother of the children are there, too
                ready.update(pid for pid in pids - ready if seems_ready(pid, _FILTERS))
                if len(ready & pids) >= count:
                    return True
            if zygote not in pids:
                raise NotWarm("the module could not be imported where nothing can be written")
            time.sleep(0.005)
        return False

    def _freeze(self) -> None:
        self._zygote.freeze()
        try:
            _await_frozen(self._zygote)
        except Refused:
            self._zygote.kill()
            raise

    def _settle(self, count: int, hierarchy: Hierarchy, limits: Limits, name: str, allowed: Allowed, zygote: int) -> None:
        """Separate, verify, kill the rest, seal: the zygote is frozen, so that this may take its time while chunks run."""
        self._deadline = time.monotonic() + PATIENCE
        for pid in sorted(self._zygote.processes() - {zygote}):
            with contextlib.suppress(Refused):
                seen = look(pid, allowed)
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
        self._seal(of_child(limits))

    def _seal(self, bounds: Bounds) -> None:
        """The last look, when nobody is left who could change anything."""
        self.control.send(json.dumps({"seal": [child.seen.inner_pid for child in self._made], "limits": bounds}).encode())
        self._ask("sealed")
        check_filters((child.seen.pid for child in self._made), [system_calls.export(zygote=True), system_calls.export_for_child()])
        for child in self._made:
            check_settled(child.seen.pid, bounds)
            _await_frozen(child.group)
            if child.group.processes() != {child.seen.pid}:
                raise Refused("it is not alone in its group")
        begun = time.thread_time()  # not how late it is then, which depends on what else runs
        *others, witness = (child.seen.pid for child in self._made)
        check_pages(others, witness)
        self.imported += max(0.0, time.thread_time() - begun - len(others) * _LOOKING)

    def _separate(self, seen: Seen, hierarchy: Hierarchy, limits: Limits, name: str) -> Child:
        group = hierarchy.create(name, memory=limits.memory, processes=limits.processes)
        group.freeze()
        group.add(seen.pid)
        return Child(seen, group, self._nest / name, self._sweeper)

    def _furnish(self, limits: Limits) -> None:
        """For each a fresh /tmp, which is the first place that it can write to, the output, and the place where the chunk will be."""
        with contextlib.ExitStack() as opened:
            mounts = []
            for child in self._made:
                mounts.append(child.furnish(limits, self.uid, SANDBOX_GID, opened))
                self.pins += child.pins()
            with _visit() as enter:
                for child, (box, space) in zip(self._made, mounts, strict=True):
                    enter(space)
                    syscalls.move_mount(child.tmpfs, "/tmp")
                    syscalls.move_mount(box, "/chunk")

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
        tmps = [child.tmpfs for child in self._made if child.tmpfs >= 0]  # what is left in them is cleared away first
        for child in self._made:
            child.close()
        self._made.clear()
        self.children.clear()
        removed = [group.remove(patience=10) for group in groups]
        for fd in (*tmps, *self.pins):
            os.close(fd)
        self.pins.clear()
        if all(removed):  # or else nobody gets this user again before the engine ends
            self._user.close()
        for box in sorted(self._nest.glob("**/*"), reverse=True):
            box.rmdir() if box.is_dir() else box.unlink()
        self._nest.rmdir()


def _await_frozen(group: Group) -> None:
    deadline = time.monotonic() + _MOMENT
    while not group.frozen():
        if time.monotonic() > deadline:
            raise Refused("it could not be frozen")
        time.sleep(0.001)


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
