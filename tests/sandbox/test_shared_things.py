"""The registry of what two warm siblings have in common: whatever is equal in their /proc, or in what they find themselves, is named here
with the reason why it carries nothing, or the test fails. So it does for a thing that a newer kernel shows and nobody has thought about."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from privid.sandbox.child import Child
from privid.sandbox.executable import install
from privid.sandbox.lane import Outcome, Program
from privid.sandbox.syscalls import NAMESPACES, kcmp

from .conftest import Trial

_NUMBERS = "numbers that describe it, and are its own to change"
_FORK = "as the zygote had it when it was made; a copy"
_NONE = "there is none"
_FIXED = "set by the engine for all; no call that is allowed changes it"
_MACHINE = "a fact of the machine"


def named(reason: str, names: str, part: str = "") -> dict[str, str]:
    return {f"{part}: {name}" if part else name: reason for name in names.split()}


#: By the name in /proc/PID, or that and the name of a part of it.
ALLOWED = {
    # memory: pages of the zygote, copied when written to and never given to the last who has them; pages of files, read-only, without holes
    **named(_FORK, "auxv cmdline environ comm maps smaps smaps_rollup numa_maps statm map_files exe"),
    **named(_NUMBERS, "VmPeak VmSize VmLck VmPin VmHWM VmRSS RssAnon RssFile RssShmem VmData VmStk VmExe VmLib VmPTE VmSwap HugetlbPages",
            "status"),
    # where it stopped, before it was frozen, and how it is set
    **named(_FORK, "stack syscall wchan io sched schedstat arch_status coredump_filter personality timerslack_ns"),
    **named(_FORK, "State voluntary_ctxt_switches nonvoluntary_ctxt_switches Name Umask FDSize SigBlk SigIgn SigCgt", "status"),
    "robust list": _FORK,  # an address in memory of its own
    # verified, one by one, to be nothing; or nothing ever
    **named(_NONE, "fd fdinfo timers ksm_merging_pages ksm_stat uid_map gid_map projid_map loginuid sessionid"),
    **named(_NONE, "TracerPid Groups SigPnd ShdPnd CapInh CapPrm CapEff CapAmb Kthread Ngid CoreDumping", "status"),
    "kcmp: io context": _NONE, "kcmp: semaphores": _NONE, "stat: terminal": _NONE, "stat: terminal's group": _NONE,
    # chosen outside
    **named(_FIXED, "limits cwd root setgroups oom_adj oom_score oom_score_adj cpuset attr mounts mountstats timens_offsets"),
    **named(_FIXED, "Uid Gid Threads NoNewPrivs Seccomp Seccomp_filters CapBnd Cpus_allowed Cpus_allowed_list THP_enabled", "status"),
    **named(_FIXED, "time time_for_children", "ns"),  # not made anew, and only somebody with capabilities could change it
    **named(_FIXED, "name=systemd blkio freezer devices cpuset cpuacct cpu cpu,cpuacct net_cls net_prio net_cls,net_prio perf_event "
                    "hugetlb rdma misc", "cgroup"),  # controllers by which nothing is bounded
    "status: SigQ": "of its own namespace; what siblings have together is compared with nothing that they could reach (bounds.py)",
    "status: PPid": "process 1 of the nursery, which runs no code of an analyst",
    **named(_MACHINE, "Mems_allowed Mems_allowed_list untag_mask Speculation_Store_Bypass SpeculationIndirectBranch x86_Thread_features "
                      "x86_Thread_features_locked", "status"),
    **named("read-only", "/ /dev/null /dev/zero /dev/urandom /app/module.py /app/files /chunk", "mount"),
    "net": "the names of what a network namespace has; the namespaces are two",
    # what it finds itself
    **named(_FIXED, "pid parent session group users limits place names cores", "inside"),
    **named(_NONE, "pending timers", "inside"),
    "inside: rseq": _FORK, "inside: key rings": "refused", "inside: input": "/dev/null, which keeps nothing",
    "inside: numbers in /tmp": "its own file system counts anew",
}
#: Cannot be read of somebody else, or would change something.
UNREAD = {"mem", "pagemap", "clear_refs"}
_ROBUST_LIST, _KINDS = 274, {"memory": 1, "descriptors": 2, "file system": 3, "signal handlers": 4, "io context": 5, "semaphores": 6}

INSIDE = """
import ctypes, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
def number(*files): return [(os.fstat(f) if isinstance(f, int) else os.stat(f)).st_ino for f in files]
def process(chunk):
    open('/tmp/a', 'w').close()
    yield {'pid': os.getpid(), 'parent': os.getppid(), 'session': os.getsid(0), 'group': os.getpgid(0),
           'users': [os.getresuid(), os.getresgid()], 'limits': [resource.getrlimit(n) for n in range(16)],
           'pending': sorted(signal.sigpending()), 'timers': [signal.getitimer(n) for n in range(3)],
           'place': os.getcwd(), 'names': list(os.uname()), 'cores': sorted(os.sched_getaffinity(0)),
           'key rings': [libc.syscall(250, 0, ring, 0) for ring in range(-8, 0)], 'input': number(0),
           'device of /tmp': os.stat('/tmp').st_dev, 'numbers in /tmp': number('/tmp/a', 1, 2), 'number of /chunk': number('/chunk'),
           'rseq': ctypes.c_ssize_t.in_dll(libc, '__rseq_offset').value, 'random': os.urandom(8).hex()}
"""


@pytest.fixture(scope="module")
def siblings(make_trial: Callable[..., Trial]) -> Iterator[tuple[Trial, Program, list[Child]]]:
    trial = make_trial(11)
    path = trial.scratch / "siblings"
    program = Program(path, install(("import cv2, tempfile\n" + INSIDE).encode(), "siblings", path))
    trial.lane.announce(program, 4)
    while not trial.lane.ready(program):
        time.sleep(0.005)
    assert trial.lane._nurse is not None and trial.lane._nurse.why_cold(program) is None
    (brood,) = trial.lane._nurse._wards[program].broods
    yield trial, program, list(brood.children)
    trial.lane.dismiss(program)


def things(pid: int) -> dict[str, object]:
    """All that /proc says of a process."""
    home, found = Path(f"/proc/{pid}"), dict[str, object]()
    for path in sorted(home.iterdir()):
        name = path.name
        if name in UNREAD or name == "task":  # of which it has one, itself
            continue
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif name == "ns":
            found |= {f"ns: {space.name}": str(space.readlink()) for space in path.iterdir()}
        elif path.is_dir():
            found[name] = sorted(entry.name for entry in path.iterdir())
        elif name == "status":
            found |= {f"status: {key}": value for key, _, value in (line.partition(":\t") for line in path.read_text().splitlines())}
        elif name == "cgroup":
            lines = [line.split(":", 2) for line in path.read_text().splitlines()]
            found |= {f"cgroup: {controllers}": place for _, controllers, place in lines}
        elif name == "mountinfo":
            found |= {f"mount: {line.split()[4]}": line.split()[2] for line in path.read_text().splitlines()}
        elif name == "stat":
            fields = path.read_text().rpartition(") ")[2].split()
            found |= {f"stat: {key}": fields[2 + number] for number, key in enumerate(("group", "session", "terminal", "terminal's group"))}
        else:
            found[name] = path.read_bytes()
    head, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert ctypes.CDLL(None).syscall(ctypes.c_long(_ROBUST_LIST), pid, ctypes.byref(head), ctypes.byref(size)) == 0
    return found | {"robust list": head.value}


def in_common(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    assert set(one) == set(other)
    return {name for name in one if one[name] == other[name]}


def test_siblings_have_nothing_in_common_that_is_not_in_the_registry(siblings: tuple[Trial, Program, list[Child]]) -> None:
    one, other = (child.seen.pid for child in siblings[2][:2])
    common = in_common(things(one), things(other)) | {f"kcmp: {name}" for name, kind in _KINDS.items() if kcmp(one, other, kind) == 0}
    assert common - set(ALLOWED) == set()
    assert len(common) > 50  # it has looked


def test_the_registry_would_tell_what_two_ordinary_children_share(siblings: tuple[Trial, Program, list[Child]]) -> None:
    """A process and itself: all that must be two is found."""
    pid = siblings[2][0].seen.pid
    missed = in_common(things(pid), things(pid)) - set(ALLOWED)
    assert missed >= {f"ns: {name}" for name in NAMESPACES} | {"mount: /tmp", "stat: session", "stat: group", "autogroup", "status: Pid"}
    assert any(name.startswith("cgroup: ") for name in missed)


def test_what_siblings_have_mounted_in_common_is_read_only_and_reaches_nobody(siblings: tuple[Trial, Program, list[Child]]) -> None:
    for child in siblings[2][:2]:
        lines = [line.split() for line in Path(f"/proc/{child.seen.pid}/mountinfo").read_text().splitlines()]
        assert {fields[4] for fields in lines if "ro" not in fields[5].split(",")} == {"/tmp"}
        assert all(fields[6] == "-" for fields in lines)  # no mount made in one is seen in another


def test_files_that_siblings_have_mapped_are_those_of_the_root(siblings: tuple[Trial, Program, list[Child]]) -> None:
    trial, _, children = siblings
    home = trial.lane._root_of("python").stat().st_dev
    for child in children[:2]:
        for line in Path(f"/proc/{child.seen.pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            assert fields[1][3] == "p", line
            assert fields[3] in ("00:00", f"{os.major(home):02x}:{os.minor(home):02x}"), line


def test_siblings_find_nothing_in_common_that_is_not_in_the_registry(siblings: tuple[Trial, Program, list[Child]]) -> None:
    trial, program, _ = siblings
    found: list[dict[str, Any]] = []
    while len(found) < 2:
        result = trial.lane.run_soon(program, trial.chunk, 1.0)
        assert result.outcome is Outcome.OK, result.stderr.decode()
        found.append({f"inside: {name}": value for name, value in json.loads(result.stdout).items()})
    assert in_common(*found) - set(ALLOWED) == set()
    assert set(found[0]["inside: key rings"]) == {-1}
    assert found[0]["inside: pending"] == [] and found[0]["inside: timers"] == [[0.0, 0.0]] * 3
    assert found[0]["inside: limits"][6] == [trial.lane.limits.processes] * 2
