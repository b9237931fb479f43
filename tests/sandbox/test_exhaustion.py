"""Programs that take all they can get: the rows are defaults, the next run says what it always says, and nothing is left behind."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from privid.sandbox.executable import install
from privid.sandbox.lane import Outcome, Program, RunResult
from privid.sandbox.run import Limits
from privid.sandbox.sweeper import empty

from .conftest import Trial, trials, wait_until_gone

SLOT = 0.2
ENDED = {Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.FLOODED}

HOSTILE = {
    "forks": "while True:\n    try: os.fork()\n    except OSError: pass",
    "threads": "import threading\nwhile True:\n"
               "    try: threading.Thread(target=lambda: time.sleep(99)).start()\n    except RuntimeError: pass",
    "memory": "kept = []\nwhile True: kept.append(bytearray(1 << 20))",
    "one large file": "try:\n    with open('/tmp/large', 'wb') as f:\n        while True: f.write(bytes(1 << 20))\nexcept OSError: pass\n"
                      "while True: pass",
    "many files": "n = 0\nwhile True:\n    n += 1\n    try: open(f'/tmp/{n}', 'w').close()\n    except OSError: pass",
    "deep directories": "while True:\n    try:\n        os.mkdir('d')\n        os.chdir('d')\n    except OSError: pass",
    "output": "while True: yield {'x': 'y' * 100000}",
    "errors": "while True: os.write(2, bytes(1 << 16))",
    "signals": "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
               "while True: pass",
    "helpers": "for _ in range(8):\n    if os.fork() == 0:\n        os.setsid()\n        while True: time.sleep(1)\nos._exit(3)",
}
#: A warm run has the same limits, and ends in the same way; a few tell that.
WARM = {"forks", "memory", "many files", "output", "signals", "helpers"}
USUAL = "yield {'tmp': os.listdir('/tmp'), 'pid': os.getpid(), 'files': [n for n in range(64) if there(n)], 'cwd': os.getcwd()}"

_TEXT = """
import json, os, sys, time
def there(n):
    try: return bool(os.fstat(n))
    except OSError: return False
def process(chunk):
    yield from ()
{body}
if __name__ == "__main__":
    for row in process(None): print(json.dumps(row), flush=True)
"""


def program(trial: Trial, body: str, *, warm: bool) -> Program:
    text = _TEXT.format(body="".join(f"    {line}\n" for line in body.splitlines()))
    path = trial.scratch / f"exhausting-{time.monotonic_ns()}"
    return Program(path, install((text if warm else f"#!/usr/bin/python3\n{text}").encode(), "exhausting", path), warm=warm)


def run(trial: Trial, wanted: Program) -> RunResult:
    while not trial.lane.ready(wanted):
        time.sleep(0.005)
    return trial.lane.run_soon(wanted, trial.chunk, SLOT)


def run_in_time(trial: Trial, wanted: Program) -> RunResult:
    """This lane has no core of its own: what is cleared away, or another test, may take the time of a slot."""
    for _ in range(8):
        if (result := run(trial, wanted)).outcome is not Outcome.TIMED_OUT:
            break
    return result


def traces(trial: Trial) -> dict[str, object]:
    """What a lane could leave in the machine while it lives."""
    name = f"privid-{os.getpid()}-{trial.lane.index}-*"  # looking deeper would meet groups of others that are just going
    groups = [path.name for where in (name, f"*/{name}") for path in Path("/sys/fs/cgroup").glob(where)
              if not path.name.endswith("-setups")]  # that one stays as long as the lane
    return {"groups": groups, "mounts": Path("/proc/self/mountinfo").read_text().count(str(trial.scratch)),
            "files": sorted(path.name for path in (trial.scratch / f"lane-{trial.lane.index}").iterdir())}


@contextmanager
def machine() -> Iterator[Trial]:
    """A lane, and no more descriptors afterwards than before."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    with trials() as make:
        yield make(6, Limits(memory=192 << 20, tmpfs=64 << 20, processes=24))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_whatever_a_program_takes_the_next_one_finds_everything_as_ever(warm: bool) -> None:
    with machine() as trial:
        usual = program(trial, USUAL, warm=warm)
        hostile = {name: program(trial, body, warm=warm) for name, body in HOSTILE.items() if not warm or name in WARM}
        for wanted, slots in ((usual, len(hostile) + 1), *((wanted, 1) for wanted in hostile.values())):
            trial.lane.announce(wanted, slots if warm else 0)
        base = run_in_time(trial, usual)
        assert base.outcome is Outcome.OK, base.stderr.decode()
        for name, wanted in hostile.items():
            began = time.monotonic()
            result = run(trial, wanted)
            assert result.outcome in ENDED, name
            assert result.stdout == b"", name
            assert len(result.stderr) <= trial.lane.limits.stderr, name
            assert time.monotonic() >= began + SLOT, name
            found = run_in_time(trial, usual)
            assert (found.outcome, bytes(found.stdout)) == (base.outcome, bytes(base.stdout)), name
        del base, found, result  # and the files that they hold
        for wanted in (usual, *hostile.values()):
            trial.lane.dismiss(wanted)
        assert wait_until_gone(trial.lane, 20) == []
        deadline = time.monotonic() + 20
        nothing = {"groups": [], "mounts": 0, "files": ["filter", "root-python"]}
        while (left := traces(trial)) != nothing and time.monotonic() < deadline:
            time.sleep(0.02)
        assert left == nothing


def test_a_directory_is_emptied_however_deep_it_is() -> None:
    folder = Path(tempfile.mkdtemp(prefix="privid-test-", dir="/dev/shm"))
    top = os.open(folder, os.O_RDONLY)
    place = os.dup(top)
    for _ in range(1500):  # deeper than a recursive function could go
        os.mkdir("d", dir_fd=place)
        os.symlink("/etc", "link", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
    empty(top)
    os.close(top)
    folder.rmdir()
    assert Path("/etc/passwd").exists()


def test_a_sandbox_that_is_killed_while_it_is_set_up_leaves_nothing() -> None:
    with machine() as trial:
        lane, wanted = trial.lane, program(trial, USUAL, warm=False)
        for step in range(24):
            run = lane._start(f"{os.getpid()}-6-killed{step}", wanted, trial.chunk, cpu_seconds=1, mapped=0)
            time.sleep(step * 0.001)  # from before its first namespace until it waits for its slot
            run.kill()
            run.bury(empty)
        assert wait_until_gone(lane, 20) == []
        assert [name for name in map(str, list(traces(trial)["groups"])) if "killed" in name] == []  # type: ignore[call-overload]
        children = [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
        assert [pid for pid in children if "bwrap" in Path(f"/proc/{pid}/comm").read_text()] == []
