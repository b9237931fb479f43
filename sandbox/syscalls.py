"""System calls that Python has no functions for: namespaces, mounts, capabilities, filters, kcmp."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from collections.abc import Mapping

__all__ = ["ATTR_NODEV", "ATTR_NOEXEC", "ATTR_NOSUID", "ATTR_RDONLY", "CLONE_FS", "FORK_APART", "KCMP_KINDS", "NAMESPACES",
           "NAMESPACE_FLAGS", "bind_tree", "die_with_parent", "drop_capabilities", "enter_namespace", "kcmp", "limit_inodes",
           "load_filter", "make_dumpable", "make_private", "make_undumpable", "mount", "move_mount", "new_tmpfs", "no_huge_pages",
           "no_new_privileges", "no_page_merging", "pivot_root", "set_attributes", "settle_pages", "trace", "umount", "unshare",
           "unshare_mounts"]

CLONE_FS = 0x200
_FLAGS = {"mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000,
          "net": 0x40000000}
#: Namespaces that every run has of its own, as /proc/PID/ns names them.
NAMESPACES = tuple(_FLAGS)
NAMESPACE_FLAGS = sum(_FLAGS.values())
#: The only flags beyond those of threads and plain children with which a zygote may call clone: all new namespaces, the child's number
#: told to the C library as fork does (CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID), SIGCHLD at its end.
FORK_APART = NAMESPACE_FLAGS | 0x1000000 | 0x200000 | 17

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 18, 1 << 19
MNT_DETACH = 2
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 1, 2, 4, 8
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _CLOEXEC = 1, os.O_CLOEXEC
_MOVE_EMPTY_SOURCE, _MOVE_EMPTY_TARGET = 4, 0x40
_FSCONFIG_STRING, _FSCONFIG_CREATE, _FSCONFIG_CHANGE = 1, 6, 7
_FSPICK_CLOEXEC, _FSPICK_EMPTY_PATH = 1, 8
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_PR_SET_THP_DISABLE, _PR_SET_MEMORY_MERGE = 41, 67
_SYS_MOVE_PAGES = {"x86_64": 279, "aarch64": 239}.get(platform.machine())
_SYS_KCMP = {"x86_64": 312, "aarch64": 272}.get(platform.machine())

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = _libc.ptrace.restype = ctypes.c_long


def _call(name: str, *arguments: object) -> int:
    result: int = getattr(_libc, name)(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def unshare(flags: int) -> None:
    _call("unshare", flags)


def enter_namespace(fd: int, kind: str = "") -> None:
    """Join the namespace of a descriptor from /proc/PID/ns; of the calling thread only."""
    _call("setns", fd, _FLAGS.get(kind, 0))


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _call("mount", encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])


def make_private(target: str) -> None:
    """Mounts made below are seen in this namespace only."""
    mount(None, target, None, MS_REC | MS_PRIVATE)


def unshare_mounts() -> None:
    """Mounts made from now on are seen by the calling thread and what it starts alone; those of the machine go on coming in."""
    unshare(_FLAGS["mnt"])
    mount(None, "/", None, MS_REC | MS_SLAVE)


def umount(target: str) -> None:
    _call("umount2", target.encode(), MNT_DETACH)


def pivot_root(new: str, old: str) -> None:
    _call("pivot_root", new.encode(), old.encode())


def new_tmpfs(options: Mapping[str, str], attributes: int) -> int:
    """A fresh tmpfs that is mounted nowhere yet, as a descriptor that also serves as its directory."""
    context = _call("fsopen", b"tmpfs", 1)
    try:
        for key, value in options.items():
            _call("fsconfig", context, _FSCONFIG_STRING, key.encode(), value.encode(), 0)
        _call("fsconfig", context, _FSCONFIG_CREATE, None, None, 0)
        return _call("fsmount", context, 1, attributes)
    finally:
        os.close(context)


def limit_inodes(directory: int, count: int) -> None:
    """How many files there can be in a tmpfs, given a descriptor of its root, in whichever namespace it is mounted."""
    context = _call("fspick", directory, b"", _FSPICK_CLOEXEC | _FSPICK_EMPTY_PATH)
    try:
        _call("fsconfig", context, _FSCONFIG_STRING, b"nr_inodes", str(count).encode(), 0)
        _call("fsconfig", context, _FSCONFIG_CHANGE, None, None, 0)
    finally:
        os.close(context)


def bind_tree(path: str, attributes: int) -> int:
    """A directory or file as a mount of its own that is mounted nowhere yet."""
    fd = _call("open_tree", _AT_FDCWD, path.encode(), _OPEN_TREE_CLONE | _CLOEXEC)
    try:
        set_attributes(fd, attributes)
    except BaseException:
        os.close(fd)
        raise
    return fd


class _MountAttributes(ctypes.Structure):
    _fields_ = (("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("propagation", ctypes.c_uint64), ("userns", ctypes.c_uint64))


def set_attributes(fd: int, attributes: int) -> None:
    wanted = _MountAttributes(attributes, 0, 0, 0)
    _call("mount_setattr", fd, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, ctypes.byref(wanted), ctypes.c_size_t(ctypes.sizeof(wanted)))


def move_mount(fd: int, target: str) -> None:
    """Mount what a descriptor stands for, in the namespace that the calling thread is in."""
    _call("move_mount", fd, b"", _AT_FDCWD, target.encode(), _MOVE_EMPTY_SOURCE)


def die_with_parent(signal: int) -> None:
    _call("prctl", _PR_SET_PDEATHSIG, signal, 0, 0, 0)


def make_dumpable() -> None:
    _call("prctl", _PR_SET_DUMPABLE, 1, 0, 0, 0)


def make_undumpable() -> None:
    """Nobody but root can trace it, or read what it is."""
    _call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)


def no_new_privileges() -> None:
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def no_huge_pages() -> None:
    """Neither where a program asks for them, nor in what comes from it."""
    _call("prctl", _PR_SET_THP_DISABLE, 1, 0, 0, 0)


def no_page_merging() -> None:
    """Pages of the same content stay apart, also where whoever started us wanted them merged. Older kernels merge nothing unasked."""
    with contextlib.suppress(OSError):
        _call("prctl", _PR_SET_MEMORY_MERGE, 0, 0, 0, 0)


def settle_pages() -> None:
    """Have all processors finish what they have put off about pages that they made, which holds these as an owner does. It is what the
    kernel does before it moves pages, here none; where it is not built to move any, it happens some pages later."""
    if _SYS_MOVE_PAGES is not None:
        _libc.syscall(_SYS_MOVE_PAGES, 0, ctypes.c_ulong(0), None, ctypes.byref(ctypes.c_int()), None, 0)


def drop_capabilities() -> None:
    """All of them, in all sets of the calling thread but the bounding one, which no_new_privileges makes meaningless."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def trace(request: int, pid: int, address: int = 0, data: ctypes.Array[ctypes.c_char] | None = None) -> int:
    """ptrace; the calling thread is who traces."""
    return _call("ptrace", ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(address), data)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def load_filter(program: bytes) -> None:
    """Put a BPF program on the calling thread, for good."""
    _call("prctl", _PR_SET_SECCOMP, 2, ctypes.byref(_Program(len(program) // 8, program)), 0, 0)


#: What two processes could share, by kcmp's numbers.
KCMP_KINDS = {"memory": 1, "descriptors": 2, "file system": 3, "signal handlers": 4}


def kcmp(first: int, second: int, kind: int) -> int:
    """0 when the two share it; otherwise 1 or 2, an order that holds among all processes."""
    result: int = _libc.syscall(_SYS_KCMP, first, second, kind, ctypes.c_ulong(0), ctypes.c_ulong(0))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"kcmp: {os.strerror(code)}")
    return result
