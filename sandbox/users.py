"""A user for each lane and each brood that nobody else on this machine has, so that not even what the kernel counts per user is shared."""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from privid.errors import SandboxFailed

__all__ = ["FIRST_UID", "SANDBOX_GID", "User", "claim_user"]

#: All lanes have this group; it owns the scratch directory, into which no other user can look.
SANDBOX_GID = 64099
#: Numbers that Debian gives to nobody by itself.
FIRST_UID, _COUNT = 64100, 1000
_LOCKS = Path("/run/privid/users")


@dataclass
class User:
    """Ours for as long as the lock is held, which goes with the process however it ends.

    Closing gives it back even if a process of ours was forked meanwhile and still has the same open file.
    """

    uid: int
    lock: int

    def close(self) -> None:
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        os.close(self.lock)


def claim_user(locks: Path = _LOCKS, first: int = FIRST_UID, count: int = _COUNT) -> User:
    """A user that nobody holds, and of whom nothing lives that an engine which was killed has left; by root only."""
    try:
        locks.mkdir(parents=True, exist_ok=True, mode=0o700)
        alive = _alive()
        begin = secrets.randbelow(count)
        for uid in (first + (begin + step) % count for step in range(count)):
            if uid in alive:
                continue
            lock = os.open(locks / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return User(uid, lock)
            os.close(lock)
    except OSError as error:
        raise SandboxFailed(f"could not claim a user: {error.strerror}", hint=f"Make {locks} writable by root.") from None
    raise SandboxFailed(f"all {count} users for programs are in use", hint="Stop other stacks on this machine, or use fewer lanes.")


def _alive() -> set[int]:
    """Users of whom there are processes."""
    found = set()
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with suppress(OSError):  # it has just ended
                    found.add(entry.stat().st_uid)
    return found
