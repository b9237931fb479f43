"""A user for each lane and each brood that nobody else on this machine has, so that not even what the kernel counts per user is shared."""

from __future__ import annotations

import fcntl
import functools
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from privid.accounts import holder
from privid.closed import make_directory
from privid.errors import SandboxFailed

__all__ = ["NUMBERS", "SANDBOX_GID", "User", "claim_user", "helpers_user"]

#: All lanes have this group; it owns the scratch directory, into which no other user can look.
SANDBOX_GID = 64099
#: Numbers that Debian gives to nobody by itself.
NUMBERS = range(64100, 65100)
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


def claim_user(locks: Path = _LOCKS, first: int = NUMBERS.start, count: int = len(NUMBERS)) -> User:
    """A user that nobody holds, that the machine has given to nobody, and of whom nothing lives that an engine which was killed has left.

    By root only. Accounts come and go: each claim asks for them.
    """
    try:
        make_directory(locks, 0o700)
        alive = _alive()
        begin = secrets.randbelow(count)
        for uid in (first + (begin + step) % count for step in range(count)):
            if uid in alive or holder(uid) is not None:
                continue
            lock = os.open(locks / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return User(uid, lock)
            os.close(lock)
    except OSError as error:
        raise SandboxFailed(f"could not claim a user: {error.strerror}", hint=f"Make {locks} writable by root.") from None
    raise SandboxFailed(f"all {count} users for programs are in use, or have accounts",
                        hint=f"Stop other stacks on this machine, use fewer lanes, or keep accounts out of {first} to {first + count - 1}.")


@functools.cache
def helpers_user() -> int | None:
    """The user of the confined processes that this one starts, as long as it lives; None: its own. What nobody runs, anybody may end."""
    return claim_user().uid if os.geteuid() == 0 else None


def _alive() -> set[int]:
    """Users of whom there are processes."""
    found = set()
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with suppress(OSError):  # it has just ended
                    found.add(entry.stat().st_uid)
    return found
