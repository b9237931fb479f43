"""The system calls a sandboxed program may make: a default-deny list, as a BPF program for bubblewrap.

Namespaces hide names; they do not stop two programs from meeting in a lock, a futex, a counter or a socket family that the kernel
shares between namespaces. So every call is refused that is not needed to compute on files of one's own. Refused calls return an
error rather than kill, because libraries probe; where a library would take EPERM amiss, it gets the answer it can live with.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterable

import pyseccomp

from privid.errors import SandboxFailed

from .syscalls import FORK_APART

__all__ = ["compiled", "export", "export_for_child", "instructions"]

_LOW = 0xFFFF_FFFF  # the kernel looks at the low half of an int argument only, and so must the filter

_MEMORY = ("brk", "munmap", "mremap", "mprotect")
_FILES = ("read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "lseek", "open", "openat",
          "creat", "close", "close_range", "stat", "fstat", "lstat", "newfstatat", "access", "faccessat", "faccessat2",
          "readlink", "readlinkat", "getdents", "getdents64", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat",
          "renameat2", "link", "linkat", "symlink", "symlinkat", "truncate", "ftruncate", "fallocate", "chmod", "fchmod", "fchmodat",
          "dup", "dup2", "dup3", "umask", "getcwd", "chdir", "fchdir")
_WAITING = ("poll", "ppoll", "select", "pselect6", "nanosleep", "clock_nanosleep", "pause", "restart_syscall")
#: No setsid: the scheduler may give each session a share of its own, so that a program of many would have many.
_PROCESS = ("fork", "vfork", "execve", "exit", "exit_group", "wait4", "waitid", "getpid", "getppid", "gettid", "getuid", "geteuid",
            "getgid", "getegid", "getresuid", "getresgid", "getgroups", "getpgrp", "getpgid", "setpgid", "getsid",
            "set_tid_address", "set_robust_list", "rseq", "sched_yield", "sched_getaffinity", "sched_get_priority_max",
            "sched_get_priority_min", "getcpu", "getrlimit", "getrusage", "times", "uname", "getrandom")
_SIGNALS = ("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait", "sigaltstack")
_TIME = ("clock_gettime", "clock_getres", "gettimeofday", "time", "alarm", "setitimer", "getitimer")

#: Nothing of a run outlives it, so there is nothing to make durable; on a shared disk these would feel others' writes.
#: The times of files: whoever may write a file may set them to now, and /dev/null is one file for the whole machine.
_PRETENDED = ("fsync", "fdatasync", "msync", "sync_file_range", "fadvise64", "utime", "utimes", "utimensat", "futimesat")
#: Asked for by libraries that fall back to an allowed call when the kernel does not know this one.
#: statx would tell when a file was made: when the frames of a chunk are written depends on how long earlier ones took to decode.
#: It tells the number of a mount, too, which counts those of the whole machine.
_NOT_THERE = ("statx", "clone3", "openat2", "execveat", "copy_file_range", "sendfile", "splice", "futex_waitv", "membarrier",
              "statfs", "fstatfs", "memfd_create", "io_uring_setup", "pidfd_open", "mseal", "pkey_alloc", "pkey_mprotect",
              "landlock_create_ruleset", "map_shadow_stack")
#: Extended attributes: a file system without them is an ordinary thing.
_NOT_SUPPORTED = ("getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "setxattr", "lsetxattr", "fsetxattr")

# mmap: private memory of any kind; shared only for reading, as numpy.load(mmap_mode="r") does. No huge pages: their pool is the host's.
_PROT_WRITE, _MAP_TYPE, _MAP_SHARED, _MAP_PRIVATE, _MAP_HUGETLB = 0x2, 0x0F, 0x01, 0x02, 0x40000
# madvise: what allocators use. Not WILLNEED, COLD, PAGEOUT (page cache), MERGEABLE (pages shared by content), COLLAPSE; not FREE, whose
# pages count as used and as available.
_ADVICE = (0, 1, 2, 4, 10, 11, 14, 15, 16, 17, 18, 19)
# clone: threads and plain children, without any namespace, pidfd, other parent, or shared I/O context; at their end SIGCHLD or nothing.
_CLONE_REFUSED = 0xFE02_0000 | 0x1000 | 0x2000 | 0x8000
_CLONE_SIGNAL, _CLONE_SIGNALS = 0xFF, (0, 17)
# Signals, with the argument that has the number: below 32 only. Of real-time signals the kernel keeps as many as are sent, counts them for
# a user, and drops what is too much; of the others it keeps one, always. Other runs are in other pid namespaces.
_SENDING = {"kill": 1, "tkill": 1, "tgkill": 2}
_REAL_TIME = _LOW & ~31
# futex: WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET, and only among threads of one process.
_FUTEX_PRIVATE, _FUTEX_REALTIME = 0x80, 0x100
_FUTEX_COMMANDS = (0, 1, 3, 4, 5, 9, 10)
_FUTEX_WAITS = (0, 9)
# fcntl: duplicates and flags. No locks, leases, owners, signals, notifications, pipe sizes, seals.
_FCNTL = (0, 1, 2, 3, 4, 1030)
# ioctl: "is this a terminal", "how much is there to read", close-on-exec and non-blocking. No TIOCSTI.
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# prctl: thread names, "which signal at my parent's death", "am I dumpable", "which capabilities are there"; to set the signal, as with kill
_PRCTL = (2, 3, 15, 16, 23)
_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP, _PR_GET_TID_ADDRESS, _SECCOMP_MODE_FILTER = 22, 40, 2
_ARCH_PRCTL = (0x1001, 0x1002, 0x1003, 0x1004)


@functools.cache
def export(*, zygote: bool = False) -> bytes:
    """The filter as the kernel takes it; made once per process.

    A zygote's allows what its children need to part from it: exactly one set of new namespaces, a session, to drop capabilities, and to put
    another filter on top, which takes these calls away again.
    """
    return compiled(lambda: _rules(zygote=zygote))


@functools.cache
def export_for_child() -> bytes:
    """What a child puts on top of its zygote's filter: together they are the ordinary one. Short, for it is made ready in every child."""
    return compiled(_child_rules)


def compiled(make: Callable[[], pyseccomp.SyscallFilter]) -> bytes:
    """Rules as the kernel takes them."""
    try:
        with os.fdopen(os.memfd_create("filter"), "w+b") as file:
            make().export_bpf(file)
            file.seek(0)
            return file.read()
    except OSError as error:
        raise SandboxFailed(f"could not make the system call filter: {error.strerror}",
                            hint="Install libseccomp 2.5 or later (Debian's package libseccomp2).") from None


def instructions() -> int:
    """How long the filter is."""
    return len(export()) // 8


def _parting() -> list[tuple[str, list[pyseccomp.Arg]]]:
    """The calls that a zygote may make and an ordinary program may not, with what their arguments must be."""
    return [("clone", [_bits(0, _LOW, FORK_APART)]), ("capset", []), ("setsid", []), ("prctl", [_bits(0, _LOW, _PR_GET_TID_ADDRESS)]),
            ("prctl", [_bits(0, _LOW, _PR_SET_SECCOMP), _bits(1, _LOW, _SECCOMP_MODE_FILTER)])]


def _child_rules() -> pyseccomp.SyscallFilter:
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name, arguments in _parting():
        _add(rules, pyseccomp.ERRNO(errno.EPERM), name, *arguments)
    return rules


def _rules(*, zygote: bool) -> pyseccomp.SyscallFilter:
    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    rules.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)  # a binary tree: the list is long and every call passes it
    for name in (*_MEMORY, *_FILES, *_WAITING, *_PROCESS, *_SIGNALS, *_TIME):
        _add(rules, pyseccomp.ALLOW, name)
    for action, names in ((0, _PRETENDED), (errno.ENOSYS, _NOT_THERE), (errno.ENOTSUP, _NOT_SUPPORTED)):
        for name in names:
            _add(rules, pyseccomp.ERRNO(action), name)
    _allow_memory(rules)
    _allow_threads(rules)
    _allow_values(rules, "fcntl", 1, _FCNTL)
    _allow_values(rules, "ioctl", 1, _IOCTL)
    _allow_values(rules, "prctl", 0, _PRCTL)
    _allow_values(rules, "arch_prctl", 0, _ARCH_PRCTL)
    _add(rules, pyseccomp.ALLOW, "prctl", _bits(0, _LOW, _PR_SET_PDEATHSIG), _bits(1, _REAL_TIME, 0))
    for name, argument in _SENDING.items():
        _add(rules, pyseccomp.ALLOW, name, _bits(argument, _REAL_TIME, 0))
    # One's own limits. A zygote cannot set them, for they would hold for what all its children have together, nor can these; in a cold
    # start the shell that becomes the program sets them, and they hold for its own namespace alone.
    _add(rules, pyseccomp.ALLOW, "prlimit64", _bits(0, _LOW, 0), *([pyseccomp.Arg(2, pyseccomp.EQ, 0)] if zygote else []))
    if not zygote:
        _add(rules, pyseccomp.ALLOW, "setrlimit")
    for name, arguments in _parting() if zygote else ():
        _add(rules, pyseccomp.ALLOW, name, *arguments)
    return rules


def _allow_memory(rules: pyseccomp.SyscallFilter) -> None:
    _add(rules, pyseccomp.ALLOW, "mmap", _bits(3, _MAP_TYPE | _MAP_HUGETLB, _MAP_PRIVATE))
    _add(rules, pyseccomp.ALLOW, "mmap", _bits(2, _PROT_WRITE, 0), _bits(3, _MAP_TYPE | _MAP_HUGETLB, _MAP_SHARED))
    _allow_values(rules, "madvise", 2, _ADVICE)


def _allow_threads(rules: pyseccomp.SyscallFilter) -> None:
    for signal in _CLONE_SIGNALS:
        _add(rules, pyseccomp.ALLOW, "clone", _bits(0, _CLONE_REFUSED | _CLONE_SIGNAL, signal))
    for command in _FUTEX_COMMANDS:
        _add(rules, pyseccomp.ALLOW, "futex", _bits(1, _LOW & ~_FUTEX_REALTIME, command | _FUTEX_PRIVATE))
    # pthread_join waits on a futex that is not private, for the kernel wakes it so. "The value has changed" makes it look again.
    for command in _FUTEX_WAITS:
        _add(rules, pyseccomp.ERRNO(errno.EAGAIN), "futex", _bits(1, _LOW & ~_FUTEX_REALTIME, command))


def _allow_values(rules: pyseccomp.SyscallFilter, name: str, argument: int, values: Iterable[int]) -> None:
    for value in values:
        _add(rules, pyseccomp.ALLOW, name, _bits(argument, _LOW, value))


def _bits(argument: int, mask: int, value: int) -> pyseccomp.Arg:
    return pyseccomp.Arg(argument, pyseccomp.MASKED_EQ, mask, value)


def _add(rules: pyseccomp.SyscallFilter, action: int, name: str, *arguments: pyseccomp.Arg) -> None:
    try:
        rules.add_rule(action, name, *arguments)
    except OSError as error:
        # A call that this processor or this libseccomp does not have cannot be made, or stays refused by default.
        if error.errno not in (errno.EFAULT, errno.EDOM, errno.ENOENT, errno.EINVAL):
            raise
