"""What the decoder process gives up before it sees a byte of video: user, files, network, other programs, endless memory.

A video file is data from outside and FFmpeg is a large parser of such data. After this call the process can read the
descriptors that it is handed, write the ones that it is handed, make threads and talk to its parent: nothing else.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource

import pyseccomp

__all__ = ["confine"]

_NOBODY = 65534
_ADDRESS_SPACE = 6 << 30
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_CLONE_THREAD, _CLONE_VM = 0x00010000, 0x00000100

_ALLOWED = (
    # the descriptors it holds
    "read", "readv", "pread64", "write", "writev", "pwrite64", "lseek", "close", "fstat", "newfstatat", "fadvise64", "dup",
    "sendmsg", "recvmsg", "sendto", "recvfrom", "poll", "ppoll", "getsockopt",
    # memory
    "mmap", "munmap", "mprotect", "mremap", "madvise", "brk",
    # threads
    "futex", "set_robust_list", "rseq", "sched_getaffinity", "sched_yield", "gettid", "getpid", "exit", "exit_group", "membarrier",
    "get_robust_list", "tgkill", "set_tid_address",
    # signals, time, chance
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "setitimer", "clock_gettime", "clock_getres",
    "gettimeofday", "time", "nanosleep", "clock_nanosleep", "getrandom", "getrusage", "sysinfo", "uname", "getuid", "geteuid", "getgid",
    "getegid",
)


def confine() -> None:
    """Gives everything up, for good. Raises when some part of it is not possible here."""
    for limit, value in ((resource.RLIMIT_AS, _ADDRESS_SPACE), (resource.RLIMIT_NOFILE, 64), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_DUMPABLE, 0), (_PR_SET_NO_NEW_PRIVS, 1)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    _filter().load()


def _filter() -> pyseccomp.SyscallFilter:
    """Everything not listed fails with EPERM, which libraries survive; killing would turn a harmless question into a crash."""
    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    for name in _ALLOWED:
        rules.add_rule(pyseccomp.ALLOW, name)
    threads = _CLONE_THREAD | _CLONE_VM
    rules.add_rule(pyseccomp.ALLOW, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, threads, threads))
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")  # glibc then uses clone, whose flags a filter can see
    for command in (1, 2, 3, 1030):  # F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
        rules.add_rule(pyseccomp.ALLOW, "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, command))
    return rules
