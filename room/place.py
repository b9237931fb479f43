"""The room's directory: closed to all but its user, locked while in use, empty whenever an engine begins.

It holds a copy of privid_room.so, the socket on which the engine waits for the room's scans, a cluster
that nobody has used ("pristine"), and the data directory of the server that runs ("pg-1", then "pg-2"
when that had to be replaced, and so on). All of it goes when the engine ends; what a killed engine left
goes when the next one begins.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from privid.closed import make_directory
from privid.errors import PrividError

from .user import ENVIRONMENT, RoomUser, step_down

__all__ = ["Place", "end_processes", "possible_places", "processes_in"]

#: where root keeps the rooms of data directories that the room's user cannot reach
_ELSEWHERE = Path("/var/lib/privid")
_PROGRAMS = {"postgres", "initdb"}


def possible_places(data: Path) -> list[Path]:
    """Where the room of a data directory can be: below it, or, for root, where everybody can reach it."""
    data = data.resolve()
    below = [data / "room"]
    if os.geteuid() != 0:
        return below
    return [*below, _ELSEWHERE / f"room-{hashlib.sha256(os.fsencode(data)).hexdigest()[:16]}"]


class Place:
    """The directory, held open; what is in it is reached through the descriptor, however long its path."""

    def __init__(self, data: Path, user: RoomUser) -> None:
        self.user = user
        wanted = possible_places(data)
        reached = user.is_self or user.reaches(data)
        self.path = wanted[0 if reached else -1]
        try:
            for other in wanted:
                # of an engine that was killed before the place changed
                if other != self.path and other.is_dir():
                    _Directory(other).remove()
            if self.path.parent == _ELSEWHERE:
                make_directory(_ELSEWHERE, 0o755)
            self.path.mkdir(mode=0o700, exist_ok=True)
            self._directory = _Directory(self.path)
            self._directory.clear()
            os.fchown(self.fd, user.uid, user.gid)
            os.fchmod(self.fd, 0o700)
        except OSError as error:
            raise PrividError(
                f'could not make the directory "{self.path}": {error.strerror}',
                hint="Choose a data directory that the engine may write to.") from None

    @property
    def fd(self) -> int:
        return self._directory.fd

    def through(self, *names: str) -> str:
        """A path to something inside that is short, and good for as long as the place is held."""
        return "/".join((f"/proc/self/fd/{self.fd}", *names))

    def discard(self, name: str) -> None:
        """Ends what stands in one of the folders, and removes it."""
        self._directory.discard(name)

    def release_memory(self, name: str) -> None:
        """Lets the System V segment of a folder's server go with its last process, however that ends."""
        self._directory.release_memory(name)

    def remove(self) -> None:
        self._directory.remove()


class _Directory:
    """A room's directory, locked: whoever holds the lock may end what runs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # no link is followed, so that root never clears a directory that somebody else chose
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.fd)
            raise PrividError(f'another engine uses the room in "{path}"',
                              hint="Stop it first: privid down.") from None

    def clear(self) -> None:
        end_processes(self.fd)
        for name in _names(self.fd):
            self.discard(name)

    def discard(self, name: str) -> None:
        for attempt in range(20):
            try:
                info = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
                if not stat.S_ISDIR(info.st_mode):
                    os.unlink(name, dir_fd=self.fd)
                    return
                end_processes(self.fd, name)
                self.release_memory(name)
                shutil.rmtree(name, dir_fd=self.fd)
                return
            except FileNotFoundError:
                return
            except OSError:
                if attempt == 19:
                    raise
                time.sleep(0.05)  # a process that has just been ended may have made one more file

    def release_memory(self, name: str) -> None:
        """The segment is in no directory. Its own user removes it, for its number comes from a file that
        the user could have written."""
        with suppress(OSError, ValueError, IndexError):
            info = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            lock = os.open(f"{name}/postmaster.pid", flags, dir_fd=self.fd)
            with os.fdopen(lock, "rb") as file:
                segment = int(file.read(4096).split(b"\n")[6].split()[1])
            command = [*step_down(info.st_uid, info.st_gid), "ipcrm", "--shmem-id", str(segment)]
            subprocess.run(command, cwd="/", env=ENVIRONMENT, check=False, stdin=subprocess.DEVNULL, capture_output=True,
                           start_new_session=True)

    def remove(self) -> None:
        self.clear()
        with suppress(OSError):
            self.path.rmdir()
        os.close(self.fd)


def processes_in(directory: int, name: str | None = None) -> list[int]:
    """PostgreSQL's processes that stand in a room's directory or any of its folders, or in this folder."""
    wanted = _identities(directory, name)
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return sorted(pid for pid in pids if _stands_in(pid, wanted))


def end_processes(directory: int, name: str | None = None) -> None:
    """Kills them, and waits until they are gone. None is told by its name or number alone."""
    deadline = time.monotonic() + 10
    wanted = _identities(directory, name)
    while pids := processes_in(directory, name):
        for pid in pids:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)  # from here on the number means this process
                try:
                    if _stands_in(pid, wanted):
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                finally:
                    os.close(handle)
        if time.monotonic() > deadline:
            raise PrividError("processes of the room do not end",
                              detail=f"They are {', '.join(map(str, pids))}.")
        time.sleep(0.005)


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _identities(directory: int, name: str | None) -> set[tuple[int, int]]:
    """Device and number of a folder, or of the room's directory and all its folders."""
    found = set()
    for entry in (".", *_names(directory)) if name is None else (name,):
        with suppress(OSError):
            info = os.stat(entry, dir_fd=directory, follow_symlinks=False)
            found.add((info.st_dev, info.st_ino))
    return found


def _stands_in(pid: int, wanted: set[tuple[int, int]]) -> bool:
    process = Path("/proc") / str(pid)
    try:
        here = (process / "cwd").stat()
        # "(deleted)" follows the name after an upgrade
        return ((here.st_dev, here.st_ino) in wanted
                and (process / "exe").readlink().name.split(" ")[0] in _PROGRAMS)
    except OSError:
        return False
