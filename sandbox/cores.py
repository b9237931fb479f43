"""Cores for the lanes of an engine, which other engines on this machine leave alone as long as there are others."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path

from privid.closed import make_directory
from privid.errors import PrividError

__all__ = ["claim_cores"]

_LOCKS = Path("/run/privid/cores")


def claim_cores(lanes: int, cores: list[int], cleanup: ExitStack, locks: Path = _LOCKS) -> list[int]:
    """As many of the cores as there are lanes: the last that no other engine's lanes have, then the last that are left.

    So who runs a machine knows which to keep free, and two engines on it do not get into each other's slots without need. A lock goes
    with this process, however it ends; who may write none gets the last.
    """
    backwards = sorted(cores, reverse=True)
    own = list(islice(_free(backwards, cleanup, locks), lanes))
    return sorted([*own, *(core for core in backwards if core not in own)][:lanes])


def _free(cores: list[int], cleanup: ExitStack, locks: Path) -> Iterator[int]:
    with suppress(OSError, PrividError):
        make_directory(locks, 0o700)
        for core in cores:
            lock = os.open(locks / str(core), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            cleanup.callback(os.close, lock)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield core
