"""As whom the room runs: ourselves, or, when we are root, a user that nobody else is.

The number has no account. Neither the served PostgreSQL, nor programs of analysts, nor another stack's
room can signal the room's processes or open its files.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from privid.accounts import holder
from privid.closed import make_directory
from privid.errors import PrividError

__all__ = ["ENVIRONMENT", "NUMBERS", "RoomUser", "claim_user", "step_down"]

#: Numbers that Debian gives to nobody; those of the sandbox (privid.sandbox.users) end before them.
NUMBERS = range(65200, 65400)
_LOCKS = Path("/run/privid/rooms")

#: what programs of the room find: nothing of the engine's PG* settings, locale or time zone
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


@dataclass
class RoomUser:
    """Ours for as long as the lock is held, which goes with the process however it ends."""

    uid: int
    gid: int
    lock: int | None = None

    @property
    def is_self(self) -> bool:
        return self.uid == os.geteuid()

    def reaches(self, directory: Path) -> bool:
        """Whether the user may walk down to a directory; the system knows every kind of permission."""
        command = [*step_down(self.uid, self.gid), "test", "-x", str(directory)]
        done = subprocess.run(command, cwd="/", env=ENVIRONMENT, check=False, stdin=subprocess.DEVNULL, capture_output=True,
                              start_new_session=True)
        return done.returncode == 0

    def close(self) -> None:
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


def step_down(uid: int, gid: int) -> list[str]:
    """The beginning of a command that runs as this user, can gain no rights, and ends with the thread
    that started it."""
    identity = [] if uid == os.geteuid() else [f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    return ["setpriv", *identity, "--no-new-privs", "--pdeathsig=QUIT", "--"]


def claim_user() -> RoomUser:
    """Ourselves; for root, whom PostgreSQL refuses, the first number that no account and no room has."""
    if os.geteuid() != 0:
        return RoomUser(os.geteuid(), os.getegid())
    try:
        make_directory(_LOCKS, 0o700)
        for uid in NUMBERS:
            if holder(uid) is not None:
                continue  # somebody was given the number after all
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(_LOCKS / str(uid), flags, 0o600)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return RoomUser(uid, uid, lock)
            os.close(lock)
    except OSError as error:
        raise PrividError(f"could not claim a user for the room: {error.strerror}",
                          hint=f"Make {_LOCKS} writable by root.") from None
    raise PrividError(f"all {len(NUMBERS)} users for rooms are in use",
                      hint="Stop other stacks on this machine.")
