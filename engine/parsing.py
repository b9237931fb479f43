"""The keeper's side of the parser: it is handed outputs one at a time, and of what it says a block is taken that can be nothing else."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import time
from contextlib import suppress

from privid.errors import SandboxFailed
from privid.sandbox.confine import complaints, environment
from privid.sandbox.confined_calls import COMPUTE, DESCRIPTORS, FORK, only
from privid.sandbox.users import User, claim_user

from .checked import Checker
from .kept import Entry
from .pace import Pace
from .parser import BLOCK, ENDED, READY, RIGHTS, WISH, Task

__all__ = ["CHILD", "PARSER", "Parsing"]

#: what a child may do; its parent may make children, put filters on top of its own, and wait for a child's end or bring it about
CHILD = *DESCRIPTORS, *COMPUTE
PARSER = *CHILD, "prctl", "dup2", "wait4", "pidfd_open", "pidfd_send_signal", "set_robust_list"
#: not as a script, whose names would be others than those that travel
_START = "from privid.engine.parser import main; main()"
_PIECE = 256 * 1024
#: nanoseconds for which a child may be late: a busy machine makes it so; only one that somebody has taken over is so by itself
_PATIENCE = 2_000_000_000


class Parsing:
    """One parser, with a user of its own where we are root."""

    def __init__(self) -> None:
        self._user: User | None = claim_user() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._task: Task | None = None
        self._checker = Checker(())
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        own, child = only(PARSER, FORK), only(CHILD)
        uid = -1 if self._user is None else self._user.uid
        with theirs, suppress(OSError):
            self._sock.sendall(RIGHTS.pack(uid, len(own), len(child)) + own + child)
            # where it can have a pid namespace this one ends at once, and the first process there goes on
            self._process = subprocess.Popen([sys.executable, "-P", "-c", _START, str(theirs.fileno())], stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, stderr=complaints(), pass_fds=(theirs.fileno(),), cwd="/",
                                             env=environment(), start_new_session=True)
        if self._sock.recv(1) != READY:
            self.close()
            raise SandboxFailed("could not start the parser of programs' output", hint="privid doctor tells what this machine lacks.")

    def parse(self, task: Task, printed: int | None, size: int, pace: Pace) -> Entry | None:
        """The rows; None if the child died of them, was late, or said what is no block. Raises OSError when the parser itself is gone."""
        patience, told = task.span + _PATIENCE, b""
        until = time.monotonic_ns() + patience
        if task != self._task:
            self._task, self._checker, told = task, Checker(task.columns), pickle.dumps(task, pickle.HIGHEST_PROTOCOL)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours:
            with theirs:
                descriptors = [theirs.fileno(), *([] if printed is None else [printed])]
                socket.send_fds(self._sock, [WISH.pack(size, patience, len(told))], descriptors)
            self._sock.sendall(told)
            found = None
            with suppress(OSError):
                found = self._take(ours, task, until, pace)
        if self._sock.recv(1) != ENDED:
            raise ConnectionResetError
        return found if found is not None and self._checker.is_block(found.rows, found.body, pace.pause) else None

    def _take(self, sock: socket.socket, task: Task, until: int, pace: Pace) -> Entry | None:
        """What a child says, if that can be a block."""
        head = _exactly(sock, BLOCK.size, until, pace)
        if head is None:
            return None
        failed, rows, length = BLOCK.unpack(head)
        if rows > task.max_rows or length > self._checker.longest(rows):
            return None
        content = _exactly(sock, length, until, pace)
        return None if content is None else Entry(rows, content, failed)

    def close(self) -> None:
        """At the end of its socket it ends."""
        self._sock.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        if self._user is not None:
            self._user.close()


def _exactly(sock: socket.socket, length: int, until: int, pace: Pace) -> bytes | None:
    """So many bytes, or None if there are fewer by then."""
    pieces, found = list[bytes](), 0
    while found < length:
        sock.settimeout(max(0.001, (until - time.monotonic_ns()) / 1e9))
        if not (piece := sock.recv(min(_PIECE, length - found))):
            return None
        pieces.append(piece)
        found += len(piece)
        pace.pause()
    return b"".join(pieces)
