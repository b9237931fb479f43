"""The system call filter: what it refuses, and that the refusals matter."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from privid.sandbox import filter as system_calls

from .conftest import Trial

#: A filter of one instruction: return SECCOMP_RET_ALLOW.
ALLOW_ALL = struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)

PROBE = """
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define TRY(name, call) do { errno = 0; long r = (long)(call); printf("{\\"%s\\": %d}\\n", name, r < 0 ? errno : 0); } while (0)
#define HIGH 0x700000000L
int main(void) {
    char b[4096]; int word = 0, fds[2], file = open("/app/program", O_RDONLY);
    struct flock lock = {.l_type = F_RDLCK};
    sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0);
    TRY("ordinary signal", kill(getpid(), SIGUSR1));
    TRY("ordinary signal to a thread", syscall(SYS_tgkill, getpid(), getpid(), SIGUSR2));
    TRY("real-time signal", syscall(SYS_kill, getpid(), 40));
    TRY("real-time signal, high bits set", syscall(SYS_kill, getpid(), HIGH | 40));
    TRY("real-time signal to a task", syscall(SYS_tkill, getpid(), 40));
    TRY("real-time signal to a thread", syscall(SYS_tgkill, getpid(), getpid(), 40));
    TRY("queued signal", sigqueue(getpid(), SIGUSR1, (union sigval){0}));
    TRY("real-time signal at the death of a parent", prctl(PR_SET_PDEATHSIG, 40));
    TRY("ordinary signal at the death of a parent", prctl(PR_SET_PDEATHSIG, SIGTERM));
    TRY("real-time signal at a child's end",
        ({ long p = syscall(SYS_clone, 40, 0, 0, 0, 0); if (p == 0) _exit(0); if (p > 0) waitpid(p, 0, __WALL); p; }));
    TRY("signals as a file", syscall(SYS_signalfd4, -1, &all, 8, 0));
    TRY("timer as a file", syscall(SYS_timerfd_create, 1, 0));
    TRY("message queue", syscall(SYS_mq_open, "privid", O_CREAT | O_RDWR, 0600, 0));
    TRY("locked memory", mlock(b, 1));
    TRY("flock", syscall(SYS_flock, file, 1));
    TRY("ofd lock", fcntl(file, F_OFD_SETLK, &lock));
    TRY("posix lock", fcntl(file, F_SETLK, &lock));
    TRY("lease", fcntl(file, F_SETLEASE, F_RDLCK));
    TRY("pipe size", fcntl(1, F_SETPIPE_SZ, 4096));
    TRY("inotify", syscall(SYS_inotify_init1, 0));
    TRY("fanotify", syscall(SYS_fanotify_init, 0, 0));
    TRY("shared futex wake", syscall(SYS_futex, &word, 1, 1, 0, 0, 0));
    TRY("shared futex wait", syscall(SYS_futex, &word, 0, 1, 0, 0, 0));
    TRY("private futex wake", syscall(SYS_futex, &word, 129, 1, 0, 0, 0));
    TRY("shared futex wake, high bits set", syscall(SYS_futex, &word, HIGH | 1, 1, 0, 0, 0));
    TRY("private futex wake, high bits set", syscall(SYS_futex, &word, HIGH | 129, 1, 0, 0, 0));
    TRY("sysinfo", syscall(SYS_sysinfo, b));
    TRY("socket", syscall(SYS_socket, 1, 1, 0));
    TRY("socketpair", syscall(SYS_socketpair, 1, 1, 0, fds));
    TRY("pipe", syscall(SYS_pipe2, fds, 0));
    TRY("memfd", syscall(SYS_memfd_create, "x", 0));
    TRY("eventfd", syscall(SYS_eventfd2, 0, 0));
    TRY("epoll", syscall(SYS_epoll_create1, 0));
    TRY("mknod", syscall(SYS_mknodat, AT_FDCWD, "/tmp/fifo", 0010600, 0));
    TRY("shared anonymous", mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    TRY("shared writable, high bits set", syscall(SYS_mmap, 0, 4096, 3, HIGH | 0x21, -1, 0));
    TRY("shared read-only", mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0));
    TRY("private", mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
    TRY("shmget", syscall(SYS_shmget, 0, 4096, 01600));
    TRY("semget", syscall(SYS_semget, 0, 1, 01600));
    TRY("msgget", syscall(SYS_msgget, 0, 01600));
    TRY("io_uring", syscall(SYS_io_uring_setup, 1, b));
    TRY("keyctl", syscall(SYS_keyctl, 0, -3, 1));
    TRY("add_key", syscall(SYS_add_key, "user", "d", "p", 1, -3));
    TRY("userfaultfd", syscall(SYS_userfaultfd, 1));
    TRY("bpf", syscall(SYS_bpf, 0, b, 16));
    TRY("perf", syscall(SYS_perf_event_open, b, 0, -1, -1, 0));
    TRY("statx", syscall(SYS_statx, AT_FDCWD, "/tmp", 0, 0x1000, b));
    TRY("times", syscall(SYS_utimensat, AT_FDCWD, "/dev/null", 0, 0));
    TRY("statfs", syscall(SYS_statfs, "/chunk", b));
    TRY("mincore", syscall(SYS_mincore, (long)b & ~4095L, 1, b));
    TRY("fadvise", syscall(SYS_fadvise64, file, 0, 0, 4));
    TRY("readahead", syscall(SYS_readahead, file, 0, 4096));
    TRY("madvise cold", syscall(SYS_madvise, (long)b & ~4095L, 4096, 20));
    TRY("madvise free", syscall(SYS_madvise, (long)b & ~4095L, 4096, 8));
    TRY("madvise mergeable", syscall(SYS_madvise, (long)b & ~4095L, 4096, 12));
    TRY("session", syscall(SYS_setsid));
    TRY("scheduler", syscall(SYS_sched_setscheduler, 0, 3, b));
    TRY("scheduler's attributes", syscall(SYS_sched_setattr, 0, b, 0));
    TRY("setpriority", syscall(SYS_setpriority, 0, 0, 5));
    TRY("getpriority", syscall(SYS_getpriority, 0, 0));
    TRY("limits of another", syscall(SYS_prlimit64, 1, 0, 0, b));
    TRY("own limits", syscall(SYS_prlimit64, 0, 0, 0, b));
    TRY("timer", syscall(SYS_timer_create, 1, 0, b));
    TRY("io priority", syscall(SYS_ioprio_get, 1, 0));
    TRY("membarrier", syscall(SYS_membarrier, 0, 0, 0));
    TRY("schedule of another", syscall(SYS_sched_getscheduler, 1));
    TRY("setaffinity", syscall(SYS_sched_setaffinity, 0, 8, "\\1\\0\\0\\0\\0\\0\\0"));
    TRY("clone into a namespace",
        ({ long p = syscall(SYS_clone, CLONE_NEWUSER | 17, 0, 0, 0, 0); if (p == 0) _exit(0); if (p > 0) wait(0); p; }));
    TRY("new user namespace", unshare(CLONE_NEWUSER));
    TRY("clone3", syscall(SYS_clone3, b, 0));
    TRY("mount", syscall(SYS_mount, "a", "/tmp", "tmpfs", 0, 0));
    TRY("setns", syscall(SYS_setns, 0, 0));
    TRY("type into the terminal", ioctl(0, 0x5412, "x"));
    TRY("seccomp", syscall(SYS_seccomp, 2, 0, b));
    TRY("process_vm_readv", syscall(SYS_process_vm_readv, 1, b, 1, b, 1, 0));
    TRY("kcmp", syscall(SYS_kcmp, 1, 1, 0, 0, 0));
    TRY("pidfd", syscall(SYS_pidfd_open, 1, 0));
    TRY("acct", syscall(SYS_acct, 0));
    TRY("quota", syscall(SYS_quotactl, 0, 0, 0, 0));
    TRY("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0));  /* last: one who is traced stops at the next signal */
}
"""

ALLOWED = {"ordinary signal", "ordinary signal to a thread", "ordinary signal at the death of a parent", "own limits",
           "private futex wake", "private futex wake, high bits set", "private", "shared read-only"}
#: Not EPERM, but an answer that libraries can live with, and one that tells nothing.
OTHER = {"shared futex wait": errno.EAGAIN, "fadvise": 0, "memfd": errno.ENOSYS, "io_uring": errno.ENOSYS, "statfs": errno.ENOSYS,
         "statx": errno.ENOSYS, "times": 0, "membarrier": errno.ENOSYS,
         "clone3": errno.ENOSYS, "pidfd": errno.ENOSYS}
#: Refused by the kernel of itself, filter or no filter, in a sandbox without capabilities or a terminal.
REFUSED_ANYHOW = {"fanotify", "bpf", "perf", "mount", "setns", "acct", "quota", "type into the terminal", "seccomp", "userfaultfd", "lease",
                  "locked memory"}


@contextmanager
def without_filter(trial: Trial) -> Iterator[None]:
    """The same sandbox in every other respect."""
    trial.lane._filter.write_bytes(ALLOW_ALL)
    try:
        yield
    finally:
        trial.lane._filter.write_bytes(system_calls.export())


@pytest.fixture(scope="module")
def probe(compile_c: Callable[..., bytes]) -> bytes:
    return compile_c(PROBE, "-static")


def answers(trial: Trial, probe: bytes) -> dict[str, int]:
    return {name: code for line in trial(probe, slot=0.6).stdout.splitlines() for name, code in json.loads(line).items()}


def test_every_way_to_meet_another_run_is_refused(trial: Trial, probe: bytes) -> None:
    found = answers(trial, probe)
    assert len(found) > 50
    expected = {name: 0 if name in ALLOWED else OTHER.get(name, errno.EPERM) for name in found}
    assert found == expected


def test_without_the_filter_the_same_calls_are_answered(trial: Trial, probe: bytes) -> None:
    with without_filter(trial):
        found = answers(trial, probe)
    meant = set(found) - ALLOWED - set(OTHER) - REFUSED_ANYHOW
    still_refused = {name for name in meant if found[name] == errno.EPERM}
    # each of these depends on the kernel's settings, not on the sandbox
    assert still_refused <= {"readahead", "process_vm_readv", "keyctl", "add_key", "ptrace", "kcmp", "madvise mergeable"}
    for name in ("flock", "ofd lock", "posix lock", "inotify", "sysinfo", "socket", "pipe", "shared futex wake", "shmget", "mincore",
                 "real-time signal", "queued signal", "real-time signal at a child's end", "real-time signal at the death of a parent"):
        assert found[name] == 0, name


def test_the_filter_is_bounded_and_the_same_each_time() -> None:
    assert system_calls.instructions() < 600
    first = system_calls.export()
    system_calls.export.cache_clear()
    assert system_calls.export() == first
