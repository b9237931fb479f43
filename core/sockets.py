"""Places of Unix sockets, in directories that may be somebody else's.

What is removed there is a socket of ours that nobody listens on any more, and nothing that was put in its place.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Collection
from pathlib import Path

from .closed import user_name
from .errors import PrividError

__all__ = ["remove_socket"]

# a descriptor of the thing itself, whatever it is: what is looked at is what is asked
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_socket(path: Path, owners: Collection[int], patience: float = 0.0, *, own: bool = False) -> None:
    """Removes a stale socket, which may be of one of these users; nothing may be there. Refuses everything else.

    One that somebody listens on is given a while, for an engine that is about to end. With `own` it is the caller who listens.
    """
    try:
        folder = os.open(path.parent, _LOOK | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    except OSError as error:
        raise PrividError(f'could not open "{path.parent}": {error.strerror}',
                          hint="The directory of a socket is named itself, not by a link to it.") from None
    try:
        entry = os.open(path.name, _LOOK, dir_fd=folder)
        try:
            _check(path, os.fstat(entry), owners)
            deadline = time.monotonic() + patience
            while not own and _answers(entry):
                if time.monotonic() > deadline:
                    raise PrividError(f'somebody listens on "{path}" already', hint="Another engine? Stop it, or choose another socket.")
                time.sleep(0.05)
        finally:
            os.close(entry)
        os.unlink(path.name, dir_fd=folder)
    except FileNotFoundError:
        return
    finally:
        os.close(folder)


def _check(path: Path, info: os.stat_result, owners: Collection[int]) -> None:
    if not stat.S_ISSOCK(info.st_mode):
        raise PrividError(f'"{path}" is not a socket', hint="Move away what is there, or choose another place for the socket.")
    if info.st_uid not in owners:
        raise PrividError(f'socket "{path}" belongs to {user_name(info.st_uid)}',
                          hint="If nobody needs it, remove it; or choose another place for the socket.")


def _answers(entry: int) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(f"/proc/self/fd/{entry}")
        except ConnectionRefusedError:
            return False
        except OSError:  # there is one whose queue is full, or who does not let us in
            pass
    return True
