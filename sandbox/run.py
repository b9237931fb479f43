"""One run: a bubblewrap process from its start to its burial.

Theory of operation. The engine's thread starts bubblewrap, which makes the namespaces and mounts and forks the sandbox's process 1; that
waits at the gate (a pipe). Meanwhile the engine puts process 1 into its control group. When the slot begins, the engine opens the gate;
process 1 forks, loads the system call filter, sets its limits and becomes the program. Standard output and error are bounded files, which
the engine does not read meanwhile. The status pipe tells the exit code, and tells it only if the program was really started: so what went
wrong before is known to be the sandbox's fault. Killing process 1 kills everything in its pid namespace.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import selectors
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from privid.errors import SandboxFailed

from .cgroups import Group
from .chunk import CHUNK_FILE, FRAMES_FILE
from .command import sandbox_command
from .hands import Booked, Hand, Late, OwnHand, Stop, watch
from .places import Place, pinned
from .printed import Printed
from .program import Program
from .syscalls import limit_inodes

__all__ = ["Limits", "Outcome", "Run", "RunResult", "follow", "prefer"]

_MIB = 1024 * 1024
_MOMENT = 5.0


class Outcome(Enum):
    """How a program ended. A sandbox that failed is never one of these: it raises SandboxFailed."""

    OK = "ok"
    CRASHED = "crashed"  # an exit code other than 0, or a signal
    TIMED_OUT = "timed out"
    FLOODED = "flooded"  # more on standard output than the limit
    CANCELLED = "cancelled"  # given up by the engine; never data


@dataclass(frozen=True)
class Limits:
    """What one run may use."""

    memory: int = 2048 * _MIB  # all processes together where there are control groups, each process elsewhere
    address_space: int = 8192 * _MIB  # of each process, where control groups bound the memory itself
    tmpfs: int = 256 * _MIB
    inodes: int = 16384  # files and directories in /tmp: to clear them away takes time, too
    processes: int = 64  # and threads
    files: int = 256
    stdout: int = 16 * _MIB
    stderr: int = 64 * 1024  # the tail that is kept


@dataclass(frozen=True)
class RunResult:
    """What a run gave. stderr is for debugging on one's own video; it never reaches an analyst otherwise."""

    outcome: Outcome
    printed: Printed | None  # on standard output, if the run went well; whoever has the result closes it
    stderr: bytes
    started: float = 0.0  # time.monotonic() when the program was let go, for measurements
    ended: float = 0.0  # and when its end was seen; what happens after does not count
    warm: bool = False  # the module had been imported before
    memory: int | None = None  # the most bytes in use at a time, where a lane measures and the kernel records it

    @property
    def stdout(self) -> bytes:
        return b"" if self.printed is None else self.printed.content()


def prefer(pid: int, cores: frozenset[int] | None) -> None:
    """Give a program its cores, and precedence there over whatever else the machine does: its slot is all the time it has."""
    if cores is not None:
        os.sched_setaffinity(pid, cores)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, -10)


class Run:
    """See the module's theory of operation. Used by one thread, which must live as long as the run: bubblewrap dies with it."""

    def __init__(self, *, root: Path, filter_file: Path, program: Program, chunk: Path,
                 limits: Limits, cpu_seconds: float, mapped: int, group: Group | None, user: tuple[int, int] | None, place: Place,
                 pins: list[int] | None, setups: Group | None) -> None:
        self.group = group
        self._root = root
        self._place = place
        self._pins = pins
        self._tmp: int | None = None
        self._limits = limits
        #: How long decoding took depends on what other frames show: file times must say when the slot began and nothing else.
        self._stamped = (program.path, chunk, chunk / CHUNK_FILE, chunk / FRAMES_FILE)
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None  # of process 1
        self._pidfd: int | None = None
        self._status = b""
        self._over = 0.0  # when its program had ended
        self._told = False  # bubblewrap has said all
        with contextlib.ExitStack() as child_ends, contextlib.ExitStack() as own_ends:
            gate, self._gate = _pipe(child_ends, own_ends)
            self._status_fd, status = _pipe(own_ends, child_ends)
            with place.made() as (output, errors):
                self._stdout_fd, stdout = _ends(output, own_ends, child_ends)
                self._stderr_fd, stderr = _ends(errors, own_ends, child_ends)
            seccomp = _opened(child_ends, os.open(filter_file, os.O_RDONLY | os.O_CLOEXEC))
            command = sandbox_command(root=root, program=program, chunk=chunk, tmpfs_bytes=limits.tmpfs,
                                      rlimits=self._rlimits(cpu_seconds, mapped), descriptors=(gate, status, seccomp))
            credentials = {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}
            end = command.index("--")
            reader, writer = _pipe(child_ends, child_ends)
            waiting = [command[0], "--args", str(reader), *command[end:]]
            try:
                self._process = subprocess.Popen(waiting, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd="/", env={},
                                                 pass_fds=(gate, status, seccomp, reader), start_new_session=True, **credentials)  # type: ignore[call-overload]
            except OSError as error:
                raise SandboxFailed(f"could not start bubblewrap: {error.strerror}") from None
            # It waits for its options, without which it can start nothing, until it is where it will be found if this engine is killed.
            if setups is not None:
                setups.harbour(self._process.pid)
            os.write(writer, b"".join(option.encode() + b"\0" for option in command[1:end]))
            self._own_ends = own_ends.pop_all()

    def prepare(self, deadline: float, cores: frozenset[int] | None) -> None:
        """Wait for process 1 and put it in its place. It is at the gate, or on its way there: nothing of the program has run. Raises Late
        at the deadline, which is when its slot begins."""
        with selectors.PollSelector() as selector:
            selector.register(self._status_fd, selectors.EVENT_READ)
            while (pid := self._reported("child-pid")) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Late
                if selector.select(left) and not self._read_status():
                    raise self._failure()
        try:
            self._pid, self._pidfd = pid, os.pidfd_open(pid)
            if self.group is not None:
                self.group.add(pid)
            prefer(pid, cores)
            self._hold(pid, deadline)
        except ProcessLookupError:
            raise self._failure() from None
        except OSError as error:
            raise SandboxFailed(f"could not limit the sandbox: {error.strerror}") from None

    def _hold(self, pid: int, deadline: float) -> None:
        """Wait until the sandbox has its file systems, and hold on to them (see places.py)."""
        home = self._root.stat()
        with contextlib.suppress(FileNotFoundError, PermissionError):  # it has failed, which will be seen; or an ordinary user may not
            while not os.path.samestat(Path(f"/proc/{pid}/root").stat(), home):
                if time.monotonic() > deadline:
                    raise Late
                time.sleep(0.001)
            tmp = os.open(f"/proc/{pid}/root/tmp", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._own_ends.callback(os.close, tmp)
            if os.fstat(tmp).st_dev != home.st_dev:
                self._tmp = tmp
                limit_inodes(tmp, self._limits.inodes)
                if self._pins is not None:
                    self._pins += [os.dup(tmp), *pinned(pid)]

    def book(self, hand: Hand | OwnHand, begin: float, end: float) -> None:
        """Have the program started when its slot begins."""
        with contextlib.ExitStack() as opened:
            stroke = (-1, -1, -1)
            if self.group is not None and self.group.stroke is not None and self._pid is not None:
                stroke = self.group.open_stroke(opened, self._pid)
            stamped = [_opened(opened, os.open(path, os.O_RDONLY | os.O_CLOEXEC)) for path in self._stamped]
            stamped += [fd for fd in (self._stdout_fd, self._stderr_fd, self._tmp) if fd is not None]
            hand.book(begin, end, Booked(b"!", self._gate, *stroke, stamped))

    def collect(self, hand: Hand | OwnHand, stop: Stop | None) -> Outcome:
        """Wait until the program ends, or its time is over; then kill what is left of it."""
        outcome = follow(hand, stop, {self._status_fd: self._read_status}, lambda: self._ended(hand) if self._told else None)
        self._over = time.monotonic()
        self.kill()
        if outcome is None:
            self._check_started()
            return Outcome.FLOODED if self._flooded() else Outcome.TIMED_OUT
        return outcome

    def result(self, outcome: Outcome, started: float) -> RunResult:
        size = os.fstat(self._stderr_fd).st_size
        tail = os.pread(self._stderr_fd, self._limits.stderr, max(0, size - self._limits.stderr))
        printed = None
        if outcome is Outcome.OK:
            self._place.hold()
            printed = Printed(self._stdout_fd, self._place.free)
        return RunResult(outcome, printed, tail, started, self._over)

    def kill(self) -> None:
        """Everything, at once; the kernel clears away behind us."""
        if self.group is not None:
            self.group.kill()
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        elif self._process is not None and self._process.returncode is None:
            # The whole group: a process 1 that has not been reported yet may not have asked to die with its parent yet, either.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def bury(self, clear: Callable[[int], None]) -> None:
        """Wait until nothing is left, and free what the run held; `clear` empties its /tmp. Its group, which that is counted to, goes last.
        May take a while; never inside a slot."""
        self.kill()
        if self._process is not None:
            # Bubblewrap ends when its process 1 has, which it buries. Killed first, it would leave that to the machine's own process 1.
            try:
                self._process.wait(_MOMENT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._pidfd is not None:
            with selectors.PollSelector() as selector:  # a pidfd is readable when its process, and so its namespace, is gone
                selector.register(self._pidfd, selectors.EVENT_READ)
                selector.select(10)
            os.close(self._pidfd)
            self._pidfd = None
        if self._tmp is not None and self._pins is not None:
            clear(self._tmp)
            self._tmp = None
        self._own_ends.close()
        if self.group is None or self.group.remove(patience=10):
            self._place.free()

    def _ended(self, hand: Hand | OwnHand) -> Outcome | None:
        """The status pipe is closed: bubblewrap is gone, and what the program printed is all there. None if it was killed at the end of its
        slot before there was a program that could have ended."""
        code = self._reported("exit-code")
        if code is None:
            if hand.over:
                return None
            raise self._failure()
        self.kill()
        if self._flooded():
            return Outcome.FLOODED
        if code == 128 + signal.SIGKILL and time.monotonic() >= hand.end:
            return Outcome.TIMED_OUT
        return Outcome.OK if code == 0 else Outcome.CRASHED

    def _flooded(self) -> bool:
        return os.fstat(self._stdout_fd).st_size > self._limits.stdout

    def _check_started(self) -> None:
        """Not having been started is no fault of the program."""
        unread = fcntl.ioctl(self._gate, termios.FIONREAD, struct.pack("i", 0))
        if struct.unpack("i", unread)[0]:
            raise Late

    def _read_status(self) -> bool:
        data = os.read(self._status_fd, 4096)
        self._status += data
        self._told = not data
        return bool(data)

    def _reported(self, key: str) -> int | None:
        """A number out of the JSON documents, one per line, that bubblewrap has written."""
        for line in self._status.split(b"\n")[:-1]:
            value = json.loads(line).get(key)
            if value is not None:
                return int(value)
        return None

    def _failure(self) -> SandboxFailed:
        """Only before the program has started, so that what is on standard error is bubblewrap's own."""
        said = os.pread(self._stderr_fd, 1000, 0).decode(errors="replace").strip()
        return SandboxFailed("could not set up the sandbox", detail=said or None, hint="Run privid doctor to see what this machine lacks.")

    def _rlimits(self, cpu_seconds: float, mapped: int) -> dict[str, int]:
        """Limits of each process, in the terms of ulimit. The one on CPU time is only a backstop, should the engine die."""
        limits = self._limits
        address_space = (limits.address_space if self.group is not None else limits.memory) + mapped
        return {"v": address_space // 1024, "p": limits.processes, "f": limits.tmpfs // 512, "n": limits.files, "c": 0, "l": 0,
                "t": math.ceil(cpu_seconds) * (os.cpu_count() or 1) + 1}


def follow(hand: Hand | OwnHand, stop: Stop | None, readers: Mapping[int, Callable[[], bool]],
           judge: Callable[[], Outcome | None]) -> Outcome | None:
    """Read what there is to read, with each descriptor's own reader until this says that there is no more, until it is known how the run
    ended; None when its slot was over before."""
    poll = watch(*readers, hand.fileno(), -1 if stop is None else stop.fileno())
    while not hand.over and (left := hand.deadline - time.monotonic()) > 0:
        for fd, _ in hand.first(poll.poll(1000 * left)):
            if fd in readers:
                if not readers[fd]():
                    poll.unregister(fd)
            elif fd == hand.fileno():
                hand.hear()
            else:
                return Outcome.CANCELLED
        if (outcome := judge()) is not None:
            return outcome
    return None


def _opened(stack: contextlib.ExitStack, fd: int) -> int:
    stack.callback(os.close, fd)
    return fd


def _pipe(readers: contextlib.ExitStack, writers: contextlib.ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    return _opened(readers, reader), _opened(writers, writer)


def _ends(path: Path, own: contextlib.ExitStack, child: contextlib.ExitStack) -> tuple[int, int]:
    reader = _opened(own, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    return reader, _opened(child, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC))
