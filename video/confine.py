"""What the decoder process gives up before it sees a byte of video (sandbox/confine.py has how).

A video file is data from outside and FFmpeg is a large parser of such data. After this call the process can read the
descriptors that it is handed, write the ones that it is handed, make threads and talk to its parent: nothing else.
"""

from __future__ import annotations

from privid.sandbox import confine as _confine
from privid.sandbox.confined_calls import COMPUTE, DESCRIPTORS, THREADS, only

__all__ = ["confine"]

_ADDRESS_SPACE = 6 << 30
_CALLS = (*DESCRIPTORS, *COMPUTE, "pwrite64", "newfstatat", "fadvise64", "dup", "getsockopt", "set_robust_list", "get_robust_list",
          "set_tid_address", "sched_getaffinity", "membarrier", "tgkill", "setitimer", "sysinfo", "uname", "getuid", "geteuid", "getgid",
          "getegid")


def confine(user: int | None) -> None:
    """Gives everything up, for good; where it is root, becomes a user. Raises when some part of it is not possible here."""
    _confine.confine(_confine.Confinement(only(_CALLS, THREADS), _ADDRESS_SPACE, _confine.NOBODY if user is None else user))
