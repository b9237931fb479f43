"""The parent's end of a decoder process: starts it, asks it, and outlives whatever happens to it.

Messages are JSON over a private SOCK_SEQPACKET pair, descriptors travel beside them. The process is restarted by nobody: once it
is gone or silent, its owner raises an error that names the file, and the next request starts a new one.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from privid.errors import SandboxFailed
from privid.sandbox.confine import complaints, environment
from privid.sandbox.users import helpers_user

__all__ = ["MAX_MESSAGE", "Worker", "WorkerGone"]

MAX_MESSAGE = 65536
#: starting means importing numpy and PyAV, which takes long on a busy machine
_START_SECONDS = 60.0


class WorkerGone(Exception):
    """The process ended, was ended, or said nothing for too long; the text says which."""


class Worker:
    """One decoder process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "privid.video.worker", str(theirs.fileno()), str(helpers_user() or "")],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaints(), pass_fds=[theirs.fileno()], cwd="/",
                env=_environment(), start_new_session=True)
        try:
            ready = self._receive(_START_SECONDS)
        except WorkerGone as error:
            self.close()
            raise SandboxFailed("could not start the video decoder", detail=f"The process {error}.",
                                hint="privid doctor tells what this machine lacks.") from None
        if "ready" not in ready:
            self.close()
            raise SandboxFailed("could not start the video decoder", detail=str(ready.get("refused"))[:500],
                                hint="privid doctor tells what this machine lacks.")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, message: dict[str, Any], descriptors: Sequence[int], patience: float, limit: float) -> dict[str, Any]:
        """Sends a message and waits for the answer: at most `patience` seconds without a sign of progress, `limit` in all."""
        end = time.monotonic() + limit
        try:
            socket.send_fds(self._socket, [json.dumps(message).encode()], list(descriptors))
        except OSError:
            raise self._gone() from None
        while True:
            answer = self._receive(min(patience, max(0.001, end - time.monotonic())))
            if "progress" not in answer:
                return answer

    def close(self) -> None:
        """Ends the process and frees the socket; for the thread that asks, when it asks no more."""
        self.cancel()
        self._socket.close()

    def cancel(self) -> None:
        """Ends the process at once. May be called twice, and from another thread: its request under way raises WorkerGone."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()

    def _receive(self, patience: float) -> dict[str, Any]:
        self._socket.settimeout(patience)
        try:
            data = self._socket.recv(MAX_MESSAGE)
        except TimeoutError:
            self.cancel()
            raise WorkerGone("did not answer in time") from None
        except OSError:
            raise self._gone() from None
        if not data:
            raise self._gone()
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.cancel()
            raise WorkerGone("answered with something that is not a message")
        return answer

    def _gone(self) -> WorkerGone:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            code = 0
        self.cancel()
        return WorkerGone(f"was ended by signal {-code}" if code < 0 else f"ended with status {code}")


def _environment() -> dict[str, str]:
    """No more than it needs; big blocks stay in the heap, because fresh pages cost more than decoding into them."""
    return {**environment(), "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2",
            "MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
