"""Limits of warm children as the kernel keeps them: every one has a number that we chose, and is verified to be exactly that.

Some are compared with what a *user* has: processes, pending signals. The kernel counts these in the user namespace of a process and in
all above it, and compares the latter with the limits that whoever made the namespace had then. So a zygote's are as high as this machine
allows, and its filter keeps it from setting any: what its children have together is compared with nothing that they could reach. A
child gets its own when it is frozen, for what it has in its own namespace alone.
"""

from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .run import Limits

__all__ = ["Bounds", "hold", "impose", "of_child", "of_zygote"]

#: By the kernel's numbers; soft and hard are one.
Bounds = Sequence[int]

_NONE = resource.RLIM_INFINITY
_NAMES = ("CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS", "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE",
          "RTPRIO", "RTTIME")
_MAPPED = 2 << 30  # the largest chunk, which a program maps
_STACK = 8 << 20  # which is also what the C library gives a thread
_SIGNALS = 4096  # far less than the machine's own limit, which stands above all children together


def of_child(limits: Limits) -> Bounds:
    """What a program may have. What is not named here is nothing at all: locked memory, queues, priorities."""
    given = {"CPU": _NONE, "FSIZE": limits.tmpfs, "DATA": _NONE, "STACK": _STACK, "RSS": _NONE, "NPROC": limits.processes,
             "NOFILE": limits.files, "AS": limits.address_space + _MAPPED, "LOCKS": _NONE, "SIGPENDING": _SIGNALS}
    return _possible([given.get(name, 0) for name in _NAMES])


def of_zygote(limits: Limits) -> Bounds:
    """The same, but for what a user could use up."""
    counted = ("NPROC", "SIGPENDING")
    return _possible([_NONE if name in counted else value for name, value in zip(_NAMES, of_child(limits), strict=True)])


def _possible(wanted: Bounds) -> Bounds:
    """Not more than this process may give."""
    own = [resource.getrlimit(number)[1] for number in range(len(_NAMES))]
    return [most if value == _NONE else value if most == _NONE else min(value, most) for value, most in zip(wanted, own, strict=True)]


def impose(bounds: Bounds, pid: int = 0) -> None:
    """Set all of them, of a process of one's own user."""
    for number, value in enumerate(bounds):
        resource.prlimit(pid, number, (value, value))


def hold(listing: bytes, bounds: Bounds) -> bool:
    """Whether what /proc/PID/limits lists are these, soft and hard."""
    wanted = [b"unlimited" if value == _NONE else b"%d" % value for value in bounds]
    return [line[26:].split()[:2] for line in listing.splitlines()[1:]] == [[number, number] for number in wanted]
