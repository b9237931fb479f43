"""System calls of processes that give everything up (confine.py), as filters for the kernel.

Apart from confine.py, because making one needs a library that some of these processes are better off without.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Sequence

import pyseccomp

from .filter import compiled

__all__ = ["COMPUTE", "DESCRIPTORS", "FORK", "THREADS", "only"]

#: of a process that works on its memory, and on descriptors that it holds
DESCRIPTORS = ("read", "readv", "pread64", "write", "writev", "lseek", "close", "fstat", "sendto", "sendmsg", "recvfrom", "recvmsg", "poll",
               "ppoll")
COMPUTE = ("mmap", "munmap", "mprotect", "mremap", "madvise", "brk", "futex", "rseq", "exit", "exit_group", "gettid", "getpid",
           "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "clock_gettime", "clock_getres",
           "gettimeofday", "time", "nanosleep", "clock_nanosleep", "sched_yield", "getrandom", "getrusage")

_LOW = 0xFFFF_FFFF
_CLONE_THREAD, _CLONE_VM = 0x00010000, 0x00000100
#: what it may make besides, as flags of clone and which of them are looked at: threads, or children by fork as the C library makes them
THREADS = _CLONE_THREAD | _CLONE_VM, _CLONE_THREAD | _CLONE_VM
FORK = 0x1000000 | 0x200000 | signal.SIGCHLD, _LOW


def only(calls: Sequence[str], makes: tuple[int, int] | None = None) -> bytes:
    """Everything not listed fails with EPERM, which libraries survive; killing would turn a harmless question into a crash."""

    def rules() -> pyseccomp.SyscallFilter:
        made = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
        made.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)  # a binary tree: every call passes it
        for name in calls:
            made.add_rule(pyseccomp.ALLOW, name)
        if makes is not None:
            made.add_rule(pyseccomp.ALLOW, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, makes[1], makes[0]))
        made.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")  # glibc then uses clone, whose flags a filter can see
        for command in (1, 2, 3, 1030):  # F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
            made.add_rule(pyseccomp.ALLOW, "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, command))
        return made

    return compiled(rules)
