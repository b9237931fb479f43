"""A user for each lane that no other lane on this machine has, so that not even the kernel's limits per user are shared."""

from __future__ import annotations

import fcntl
import os
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
    """Ours for as long as the lock is held, which goes with the process however it ends."""

    uid: int
    lock: int

    def close(self) -> None:
        os.close(self.lock)


def claim_user() -> User:
    """The first user that no lane holds; by root only."""
    try:
        _LOCKS.mkdir(parents=True, exist_ok=True, mode=0o700)
        for uid in range(FIRST_UID, FIRST_UID + _COUNT):
            lock = os.open(_LOCKS / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return User(uid, lock)
            os.close(lock)
    except OSError as error:
        raise SandboxFailed(f"could not claim a user for a lane: {error.strerror}", hint=f"Make {_LOCKS} writable by root.") from None
    raise SandboxFailed(f"all {_COUNT} users for lanes are in use", hint="Stop other stacks on this machine, or use fewer lanes.")
