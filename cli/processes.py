"""Processes that outlive a command: told apart from strangers that got the same number later."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from privid.closed import read_file, write_file

__all__ = ["PidFile", "ended", "identity", "inside", "wait_until"]


def identity(pid: int) -> str | None:
    """What no other process on this machine has or will have: boot, number and start time. None when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    # the command's name may hold spaces and brackets: count fields after its last bracket
    fields = stat[stat.rindex(")") + 2:].split()
    return None if fields[0] in "ZX" else f"{boot} {pid} {fields[19]}"


class PidFile:
    """Names a process by its identity, so that a stale file is never taken for a stranger with the same number."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, pid: int) -> None:
        write_file(self.path, json.dumps({"pid": pid, "identity": identity(pid)}) + "\n")

    def pid(self) -> int | None:
        """The process, if it is still the one that was written down."""
        try:
            known = json.loads(read_file(self.path))
            pid = int(known["pid"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return pid if known.get("identity") is not None and identity(pid) == known["identity"] else None

    def stop(self, patience: float = 15.0) -> bool:
        """Asks the process to end, then makes it. False when there was none."""
        pid = self.pid()
        if pid is not None:
            # a descriptor of the process cannot come to mean another one between the check and the signal
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                try:
                    if self.pid() == pid:
                        signal.pidfd_send_signal(handle, signal.SIGTERM)
                        if not wait_until(lambda: self.pid() is None, patience):
                            signal.pidfd_send_signal(handle, signal.SIGKILL)
                            wait_until(lambda: self.pid() is None, 5.0)
                finally:
                    os.close(handle)
        self.path.unlink(missing_ok=True)
        return pid is not None


def inside(directory: Path, program: str = "postgres") -> list[int]:
    """Processes of a program whose working directory this is, seen through any mount namespace (PostgreSQL's all stand in their data)."""
    try:
        wanted = directory.stat()
    except OSError:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                here = (entry / "cwd").stat()
                if ((here.st_dev, here.st_ino) == (wanted.st_dev, wanted.st_ino)
                        and (entry / "exe").readlink().name.split(" ")[0] == program):  # "(deleted)" follows after an upgrade
                    found.append(int(entry.name))
    return sorted(found)


def ended(pids: list[int]) -> bool:
    """Whether none of them runs any more."""
    return all(identity(pid) is None for pid in pids)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Polls, gently; False when the time is over."""
    deadline = time.monotonic() + seconds
    pause = 0.01
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
    return True
