"""Hostile programs: each gives rows or an outcome, its slot ends on time (which Trial checks), and nothing is left of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from privid.model import Column
from privid.sandbox.executable import Kind, install
from privid.sandbox.lane import Lane, Outcome, Program, Stop
from privid.sandbox.rows import default_row, parse_rows

from .conftest import ORDINARY, Trial, processes_of, wait_until_gone
from .ordinary import check

COLUMNS = (Column("n", 1, "float8", "float8", False, -1.0), Column("word", 2, "text", "text", False, "none"))


def test_a_program_that_opens_sockets_gets_none(trial: Trial) -> None:
    result = trial("""#!/usr/bin/python3
import socket, errno
for family in range(1, 46):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            socket.socket(family, kind)
            print('{"n": %d}' % family)
        except OSError as e:
            assert e.errno == errno.EPERM, e
print('{"n": 0}')
""")
    assert result.outcome is Outcome.OK, result.stderr.decode()
    assert parse_rows(result.stdout, COLUMNS, 9) == [(0.0, "none")]


def test_a_program_writes_nowhere_but_in_its_own_tmp_which_is_bounded(trial: Trial) -> None:
    result = trial("""#!/usr/bin/python3
import os
written = []
for folder, _, _ in [*os.walk('/'), ('/tmp', [], []), ('/proc/self', [], [])]:
    try:
        with open(folder + '/mark', 'x'): written.append(folder)
    except OSError: pass
assert written == ['/tmp'], written
with open('/tmp/large', 'wb') as f:
    try:
        while True: f.write(bytes(1 << 20)); f.flush()
    except OSError as e: print('{"n": %d, "word": "%s"}' % (f.tell() >> 20, e.strerror))
""")
    assert result.outcome is Outcome.OK, result.stderr.decode()
    ((size, reason),) = parse_rows(result.stdout, COLUMNS, 9)
    assert isinstance(size, float)
    assert 200 <= size <= 256
    assert reason in ("No space left on device", "File too large")


def test_nothing_written_is_there_in_the_next_run(trial: Trial) -> None:
    program = "#!/bin/sh\nls -A /tmp /var/tmp\necho x > /tmp/x\n"
    assert trial(program, slot=0.4).stdout == trial(program, slot=0.4).stdout == b"/tmp:\n\n/var/tmp:\n"


def test_processes_are_limited(trial: Trial, compile_c: Callable[..., bytes]) -> None:
    program = compile_c("""
#include <stdio.h>
#include <unistd.h>
int main(void) {
    int born = 0, p;
    for (int i = 0; i < 10000; i++) { p = fork(); if (p == 0) { pause(); _exit(0); } if (p > 0) born++; }
    printf("{\\"n\\": %d}\\n", born);
}""", "-static")
    ((born, _),) = parse_rows(trial(program).stdout, COLUMNS, 1)
    assert isinstance(born, float)
    assert 20 < born < trial.lane.limits.processes
    assert wait_until_gone(trial.lane) == []


def test_strange_values_become_rows(trial: Trial) -> None:
    lines = r'{"n": NaN}\n{"n": Infinity}\n{"n": 2, "word": "\377\376"}\n\377\n{"n": 5}'
    result = trial(f"#!/bin/sh\nprintf '{lines}'\n", slot=0.4)
    assert result.outcome is Outcome.OK
    assert parse_rows(result.stdout, COLUMNS, 9) == [
        (-1.0, "none"), (1.7976931348623157e308, "none"), (2.0, "\ufffd\ufffd"), (-1.0, "none"), (5.0, "none")]


def test_a_program_that_fails_after_printing_has_no_rows(trial: Trial) -> None:
    for program in ("#!/bin/sh\necho '{\"n\": 1}'\nexit 1\n", "#!/bin/sh\necho '{\"n\": 1}'\nkill -SEGV $$\n",
                    "def process(chunk):\n    yield {'n': 1}\n    raise ValueError\n",
                    "import nothing_of_this_name\ndef process(chunk): pass\n"):
        result = trial(program)
        assert (result.outcome, result.stdout) == (Outcome.CRASHED, b"")
    assert default_row(COLUMNS) == (-1.0, "none")


def test_a_program_that_crashes_by_a_bad_pointer_leaves_no_core(trial: Trial, compile_c: Callable[..., bytes]) -> None:
    result = trial(compile_c("int main(void) { *(volatile int *)0 = 1; }", "-static"), slot=0.4)
    assert result.outcome is Outcome.CRASHED
    assert wait_until_gone(trial.lane) == []


def test_a_helper_left_behind_dies_with_its_program(trial: Trial, compile_c: Callable[..., bytes]) -> None:
    program = compile_c("""
#include <stdio.h>
#include <unistd.h>
int main(void) {
    if (fork() == 0) { setsid(); if (fork() == 0) for (;;) sleep(1); _exit(0); }
    puts("{\\"n\\": 4}");
}""", "-static")
    result = trial(program, slot=0.4)
    assert (result.outcome, result.stdout) == (Outcome.OK, b'{"n": 4}\n')
    assert wait_until_gone(trial.lane) == []


def test_a_program_has_three_descriptors_and_no_proc(trial: Trial, compile_c: Callable[..., bytes]) -> None:
    program = compile_c("""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    for (int fd = 0; fd < 4096; fd++) if (fcntl(fd, F_GETFD) >= 0) printf("%d ", fd);
    printf("%d %d %d %d\\n", access("/proc/self", F_OK), access("/proc/1", F_OK), access("/dev/tty", F_OK), access("/dev/shm", F_OK));
}""", "-static")
    assert trial(program, slot=0.4).stdout == b"0 1 2 -1 -1 -1 -1\n"


@pytest.mark.parametrize("content", ["while :; do :; done", ":"], ids=["endless", "over already"])
def test_a_cancelled_run_is_gone_at_once_but_its_lane_is_free_at_the_slots_end_whatever_it_did(trial: Trial, content: str) -> None:
    program = trial.scratch / f"cancelled-{len(content)}"
    program.write_text(f"#!/bin/sh\n{content}\n")
    program.chmod(0o755)
    begin = time.monotonic() + 0.5
    stop, seen = Stop(), list[list[str]]()

    def cancel() -> None:
        stop.set()
        seen.append(wait_until_gone(trial.lane))

    timer = threading.Timer(1.0, cancel)
    timer.start()
    trial.lane.run(Program(program, Kind.PROGRAM), trial.chunk, begin, begin + 4, stop)
    ended = time.monotonic() - begin
    timer.join()
    stop.close()
    assert 4 <= ended < 5
    assert seen == [[]]
    assert trial("#!/bin/sh\n", slot=0.3).outcome is Outcome.OK


def test_a_run_that_is_abandoned_ends_with_its_slot(trial: Trial) -> None:
    program = trial.scratch / "abandoned"
    program.write_text("#!/bin/sh\nwhile :; do :; done\n")
    program.chmod(0o755)
    begin = time.monotonic() + 0.5
    stop = Stop()
    timer = threading.Timer(1.0, stop.abandon)
    timer.start()
    trial.lane.run(Program(program, Kind.PROGRAM), trial.chunk, begin, begin + 30, stop)
    timer.join()
    stop.close()
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_nothing_outlives_an_engine_that_is_killed(make_trial: Callable[..., Trial], warm: bool) -> None:
    trial = make_trial(1)
    reader, writer = os.pipe()
    engine = os.fork()
    if engine == 0:
        # threads do not survive a fork: this engine has a lane of its own, in the same scratch
        lane = Lane(9, scratch=trial.scratch)
        path = trial.scratch / "endless-9"
        content = b"def process(chunk):\n    while True: pass\n" if warm else b"#!/bin/sh\ntrap '' TERM HUP\nwhile :; do :; done\n"
        program = Program(path, install(content, "endless", path))
        lane.announce(program, 3)
        while not lane.ready(program):
            time.sleep(0.01)
        broods = lane._nurse._wards[program].broods if warm and lane._nurse is not None else []
        os.write(writer, str(broods[0].uid if broods else lane.uid).encode())
        lane.run_soon(program, trial.chunk, 30)
        os._exit(0)
    uid = int(os.read(reader, 100))
    os.close(reader)
    os.close(writer)
    deadline = time.monotonic() + 20
    wanted = ["python3"] * 3 if warm else ["program"]  # of which two are frozen
    while [name for name in processes_of(uid) if name in wanted] < wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    assert [name for name in processes_of(uid) if name in wanted] >= wanted
    os.kill(engine, signal.SIGKILL)
    os.waitpid(engine, 0)
    deadline = time.monotonic() + 10
    while processes_of(uid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_of(uid) == []
    shutil.rmtree(trial.scratch / "lane-9")
    make_trial(1)  # the next engine sweeps up
    assert list(Path("/sys/fs/cgroup").glob(f"**/privid/{engine}-*")) == []


def test_an_ordinary_user_gets_the_same_isolation_without_control_groups() -> None:
    """As root, a child steps down first; an ordinary user runs it as he is."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(ORDINARY, ORDINARY, ORDINARY)
                os.setresuid(ORDINARY, ORDINARY, ORDINARY)
            found = check()
        except BaseException as error:
            found = {"error": repr(error)}
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = json.loads(pipe.read())
    os.waitpid(child, 0)
    assert found == {"module": "ok", "sum": True, "loop": "timed out", "on time": True, "memory": "crashed", "forks": True, "flock": 1,
                     "left": []}
