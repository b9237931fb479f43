"""What this machine offers to the sandbox: for `privid doctor`, and for an engine that starts."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from privid.errors import PrividError

from . import filter as system_calls
from .brood import most_memory
from .cgroups import find_hierarchy
from .command import find_bwrap
from .loaded import can_look
from .nurse import BROODS
from .run import Limits
from .runtime import DEFAULT_RUNTIME, RUNTIMES, find_runtime
from .syscalls import KCMP_KINDS, kcmp, new_tmpfs

__all__ = ["Finding", "Status", "lanes", "memory_bound", "obstacle", "runs_bound", "survey"]

_GIB = 1024 ** 3
#: RAM for the copy of the default runtime that each lane has.
_LANE_ROOT = 320 * 1024 ** 2
_SCRATCH = Path("/dev/shm")


class Status(Enum):
    """As isolate and its like say it."""

    PASS = "PASS"
    CAUTION = "CAUTION"  # works, but weaker
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One line of the survey."""

    name: str
    status: Status
    found: str
    remedy: str = ""


def lanes() -> int:
    """Lanes that this machine can run without their programs sharing a core with the engine, but at least one."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


def obstacle() -> Finding | None:
    """The first thing without which no program can be run."""
    return next((found for found in survey() if found.status is Status.FAIL), None)


def survey(asked: int | None = None) -> list[Finding]:
    """Everything the sandbox depends on, tried rather than looked up where that is possible; `asked`: lanes, if a number was asked for."""
    checks: tuple[Callable[[], Finding], ...] = (_bubblewrap, _user_namespaces, _apparmor, _seccomp, _control_groups, _warm_starts, _users,
                                                 _strangers, _runtime, partial(_cores, asked), _priorities,
                                                 partial(_memory, asked or lanes()), partial(_scratch, asked or lanes()))
    return [check() for check in checks]


def _bubblewrap() -> Finding:
    name = "bubblewrap"
    try:
        program = find_bwrap()
    except PrividError as error:
        return Finding(name, Status.FAIL, error.message, error.hint or "")
    command = [program, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
               "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
               "--size", "1048576", "--tmpfs", "/tmp", "--remount-ro", "/", "/usr/bin/true"]
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,  # type: ignore[call-overload]
                              env={}, cwd="/", start_new_session=True, **user)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, Status.FAIL, f"{program} could not be run: {error}", "Reinstall Debian's package bubblewrap.")
    if done.returncode == 0:
        version = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env={},
                                 cwd="/", start_new_session=True).stdout.strip()
        return Finding(name, Status.PASS, f"{version} makes all namespaces without privileges")
    return Finding(name, Status.FAIL, f"{program} could not make a sandbox: {done.stderr.strip()}",
                   "Allow unprivileged user namespaces; see the two lines below.")


def _user_namespaces() -> Finding:
    name = "user namespaces"
    allowed, maximum = _number("/proc/sys/kernel/unprivileged_userns_clone"), _number("/proc/sys/user/max_user_namespaces")
    if allowed == 0:
        return Finding(name, Status.FAIL, "kernel.unprivileged_userns_clone is 0", "Run: sysctl -w kernel.unprivileged_userns_clone=1.")
    if maximum is not None and maximum < 64:
        return Finding(name, Status.FAIL, f"user.max_user_namespaces is {maximum}", "Run: sysctl -w user.max_user_namespaces=1024.")
    return Finding(name, Status.PASS, f"at most {maximum}" if maximum is not None else "no limit found")


def _apparmor() -> Finding:
    name, setting = "AppArmor", "kernel.apparmor_restrict_unprivileged_userns"
    if _number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1:
        return Finding(name, Status.CAUTION, f"{setting} is 1, which stops bubblewrap unless a profile allows it",
                       f"Add an AppArmor profile for bwrap that allows userns, or run: sysctl -w {setting}=0.")
    return Finding(name, Status.PASS, "does not restrict user namespaces")


def _seccomp() -> Finding:
    name = "seccomp"
    if platform.machine() not in ("x86_64", "aarch64"):
        return Finding(name, Status.CAUTION, f"the filter is not tested on {platform.machine()}", "Use x86-64 or arm64.")
    if not Path("/proc/sys/kernel/seccomp/actions_avail").exists():
        return Finding(name, Status.FAIL, "the kernel has no system call filters", "Use a kernel with CONFIG_SECCOMP_FILTER.")
    try:
        return Finding(name, Status.PASS, f"filter of {system_calls.instructions()} instructions")
    except PrividError as error:
        return Finding(name, Status.FAIL, error.message, error.hint or "")


def _control_groups() -> Finding:
    name = "control groups"
    if os.geteuid() != 0:
        return Finding(name, Status.CAUTION, "not available to an ordinary user: memory is bounded per process, not per run",
                       "Run the engine as root; it steps down to a user per lane by itself.")
    hierarchy = find_hierarchy()
    if hierarchy is None:
        return Finding(name, Status.CAUTION, "no writable memory and pids controllers: memory is bounded per process, not per run",
                       "Mount cgroup2 at /sys/fs/cgroup with the controllers memory and pids.")
    if hierarchy.weight is None:
        return Finding(name, Status.CAUTION, f"version {hierarchy.version}, memory and pids, but no cpu: what is left of a run has "
                       "little weight as a session only, which counts for nothing where the engine is in a group of its own",
                       "Let /sys/fs/cgroup have the controller cpu.")
    return Finding(name, Status.PASS, f"version {hierarchy.version}, memory, pids and cpu")


def _warm_starts() -> Finding:
    name, remedy = "warm starts", "Programs work without, but each run imports its libraries anew."
    if os.geteuid() != 0:
        return Finding(name, Status.CAUTION, "need root", f"Run the engine as root. {remedy}")
    hierarchy = find_hierarchy()
    if hierarchy is None or hierarchy.stroke is None:
        return Finding(name, Status.CAUTION, "need control groups that can be frozen and killed at one stroke",
                       f"Mount cgroup2 on a kernel of version 5.14 or later. {remedy}")
    if not can_look():
        return Finding(name, Status.CAUTION, "need a process without a filter of system calls of its own, to see those of children",
                       "Take what makes one out of the unit (privid engine --print-unit has none) or the container. " + remedy)
    try:
        kcmp(os.getpid(), os.getpid(), KCMP_KINDS["memory"])
        os.close(new_tmpfs({"size": "4096"}, 0))
    except (OSError, AttributeError) as error:
        return Finding(name, Status.CAUTION, f"this kernel or C library lacks a call: {error}",
                       f"Use a kernel with CONFIG_KCMP and a C library of version 2.36 or later. {remedy}")
    return Finding(name, Status.PASS, f"children are frozen and verified in {hierarchy.stroke}")


def _priorities() -> Finding:
    name = "priorities"
    before = os.sched_getscheduler(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        os.sched_setscheduler(0, before, os.sched_param(0))
    except OSError:
        return Finding(name, Status.CAUTION, "slots cannot be given precedence: on a busy machine they begin late",
                       "Run the engine as root with CAP_SYS_NICE, or keep other work off this machine.")
    return Finding(name, Status.PASS, "slots begin on time whatever else runs")


def _users() -> Finding:
    if os.geteuid() == 0:
        return Finding("users", Status.PASS, "every lane and every brood runs as a user of its own")
    return Finding("users", Status.CAUTION, "every lane runs as the engine's user, so lanes share that user's kernel limits",
                   "Run the engine as root; it steps down to a user per lane by itself.")


def _runtime() -> Finding:
    try:
        root = find_runtime(DEFAULT_RUNTIME).root
        return Finding("runtime", Status.PASS, f"{', '.join(_built())} in {root.parent}")
    except PrividError as error:
        return Finding("runtime", Status.FAIL, error.message, error.hint or "")


def _built() -> list[str]:
    found = []
    for name in RUNTIMES:
        with contextlib.suppress(PrividError):
            find_runtime(name)
            found.append(name)
    return found


def _cores(asked: int | None) -> Finding:
    cores, number = len(os.sched_getaffinity(0)), asked or lanes()
    found = f"{cores}, {'and' if asked else 'so'} {number} {'lane' if number == 1 else 'lanes'}{' asked for' if asked else ''}"
    if cores < 2:
        return Finding("cores", Status.CAUTION, f"{found}; programs share the only core with the engine and can feel its work",
                       "Use a machine with two cores or more.")
    if number >= cores:
        return Finding("cores", Status.CAUTION, f"{found}; programs share cores with the engine, and slots are further apart",
                       f"Run: privid up --lanes {cores - 1}.")
    return Finding("cores", Status.PASS, found)


def memory_bound(lanes: int, limits: Limits, roots: int, *, warm: bool = True) -> int:
    """Bytes that lanes can take at most, each busy with one program, frames not counted: copies of the runtimes; the run that goes on and
    what earlier ones have left (Lane); what broods hold. Each of these has a limit of its own; /tmp counts to its run."""
    return runs_bound(lanes, limits) + lanes * (roots + (BROODS * most_memory(limits) if warm else 0))


def runs_bound(lanes: int, limits: Limits) -> int:
    """Bytes that runs can take at most, and those before them that go away."""
    return 2 * lanes * limits.memory


def _memory(lanes: int) -> Finding:
    total, limits = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), Limits()
    roots = sum(_size(find_runtime(name).root) for name in _built())
    cold, needed = (memory_bound(lanes, limits, roots, warm=warm) + _GIB for warm in (False, os.geteuid() == 0))
    found = f"{total / _GIB:.1f} GiB; lanes can use up to {needed / _GIB:.1f} GiB with the engine, decoded frames not counted"
    if needed > cold:
        found += f", and {BROODS * most_memory(limits) / _GIB:.0f} GiB more for each further program that a lane is busy with at a time"
    if total < needed:
        return Finding("RAM", Status.CAUTION, found, f"Use fewer lanes, or start with --cold, which takes {cold / _GIB:.1f} GiB at most.")
    return Finding("RAM", Status.PASS, found)


def _size(directory: Path) -> int:
    """What a copy of a directory takes."""
    return sum(path.lstat().st_size + 4096 for path in directory.rglob("*"))


def _scratch(lanes: int) -> Finding:
    name = str(_SCRATCH)
    if not _SCRATCH.is_dir():
        return Finding(name, Status.CAUTION, "does not exist, so lanes read their files from disk and can time each other's accesses",
                       "Mount a tmpfs at /dev/shm.")
    if os.statvfs(_SCRATCH).f_flag & os.ST_NOEXEC:
        return Finding(name, Status.FAIL, "is mounted noexec, so programs cannot be run from it", "Run: mount -o remount,exec /dev/shm.")
    free, needed = shutil.disk_usage(_SCRATCH).free, lanes * _LANE_ROOT + _GIB
    if free < needed:
        return Finding(name, Status.CAUTION, f"{free / _GIB:.1f} GiB free, {needed / _GIB:.1f} GiB wanted",
                       f"Run: mount -o remount,size={-(-needed // _GIB)}G /dev/shm.")
    return Finding(name, Status.PASS, f"{free / _GIB:.1f} GiB free")


def _strangers() -> Finding:
    """Whether other users of the machine see what processes are called and take."""
    name = "processes"
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    options = [set(line[-1].split(",")) for line in lines if line[4] == "/proc"]
    if options and options[-1] & {"hidepid=2", "hidepid=invisible", "hidepid=4", "hidepid=ptraceable"}:
        return Finding(name, Status.PASS, "are not shown to other users of this machine")
    return Finding(name, Status.CAUTION, "are shown to all users of this machine: by its name, or by what it takes, a program can tell "
                   "one of them what it saw", "Give analysts no shell here, and mount /proc with hidepid=invisible and the gid= of those "
                   "who may see processes.")


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None
