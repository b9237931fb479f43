"""Warm starts: the same rows as cold ones, from children that share nothing, made by a zygote that is dead before they see a frame."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from privid.sandbox import brood as broods
from privid.sandbox import nurse, syscalls, verify
from privid.sandbox.executable import Kind, install
from privid.sandbox.lane import Lane, Late, Outcome, Program, RunResult

from .conftest import TOLERANCE, Trial, wait_until_gone

SLOT = 0.25


@pytest.fixture(scope="module")
def warm(make_trial: Callable[..., Trial]) -> Iterator[Trial]:
    """A lane that starts warm; whatever ran in it, nothing is left at the end."""
    trial = make_trial(2)
    assert trial.lane.warm
    yield trial
    assert wait_until_gone(trial.lane, 20) == []
    deadline = time.monotonic() + 20
    while left := [p.name for p in (trial.scratch / "lane-2").glob("*-b*")]:  # what is swept takes its time
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


class Expected:
    """A module that a lane has been told to expect."""

    def __init__(self, trial: Trial, content: str, slots: int, name: str = "module") -> None:
        self.trial, self.path = trial, trial.scratch / f"{name}-{time.monotonic_ns()}"
        self.program = Program(self.path, install(content.encode(), name, self.path))
        trial.lane.announce(self.program, slots)
        deadline = time.monotonic() + 60
        while not trial.lane.ready(self.program):
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def run(self, slot: float = SLOT) -> RunResult:
        result = self.trial.lane.run_soon(self.program, self.trial.chunk, slot)
        assert -0.01 <= time.monotonic() - result.started - slot < TOLERANCE
        return result

    @property
    def why_cold(self) -> str | None:
        assert self.trial.lane._nurse is not None
        return self.trial.lane._nurse.why_cold(self.program)


@contextmanager
def expected(trial: Trial, content: str, slots: int = 2) -> Iterator[Expected]:
    found = Expected(trial, content, slots)
    try:
        yield found
    finally:
        trial.lane.dismiss(found.program)


def cold(trial: Trial, content: str, slot: float = 1.2) -> RunResult:
    path = trial.scratch / f"cold-{time.monotonic_ns()}"
    program = Program(path, install(content.encode(), "cold", path), warm=False)
    result = trial.lane.run_soon(program, trial.chunk, 0.45)  # enough, unless the machine is busy
    return result if result.outcome is not Outcome.TIMED_OUT else trial.lane.run_soon(program, trial.chunk, 2 * slot)


def rows(result: RunResult) -> list[dict[str, object]]:
    assert result.outcome is Outcome.OK, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("content", [
    # pixels, facts, order of sets, environment, user, place
    "import cv2, numpy as np, os, sys\ndef process(chunk):\n"
    "    g = cv2.GaussianBlur(chunk.frames[2], (5, 5), 0)\n"
    "    yield {'s': int(g.sum()), 'set': list({'a', 'b', 'c', 'd'}), 'env': sorted(os.environ.items()), 'uid': os.getuid(),\n"
    "           'cwd': os.getcwd(), 'argv': sys.argv, 'tmp': os.listdir('/tmp'), 'app': sorted(os.listdir('/app')), 'path': sys.path,\n"
    "           'start': str(chunk.start), 'chunk': sorted(os.listdir('/chunk')), 'fps': chunk.fps, 'mode': os.stat('/tmp').st_mode}\n",
    # seeds that a module sets when it is imported
    "import random, numpy as np\nrandom.seed(5); np.random.seed(7)\ndef process(chunk):\n"
    "    yield {'a': random.random(), 'b': float(np.random.rand())}\n",
    # files of its own, threads, children
    "import concurrent.futures as c, subprocess\ndef process(chunk):\n    open('/tmp/a', 'w').write('x')\n"
    "    with c.ThreadPoolExecutor(3) as pool: got = list(pool.map(lambda i: i * i, range(5)))\n"
    "    yield {'n': got}\n",
    # a module that ends by itself
    "import sys\ndef process(chunk):\n    yield {'n': 1}\n    sys.exit(0)\n",
])
def test_a_warm_start_says_bit_for_bit_what_a_cold_one_says(warm: Trial, content: str) -> None:
    with expected(warm, content) as module:
        assert module.why_cold is None
        found = [module.run(), module.run()]
    base = cold(warm, content)
    assert rows(base)
    assert [(r.outcome, bytes(r.stdout)) for r in found] == [(base.outcome, bytes(base.stdout))] * 2


@pytest.mark.parametrize("content, outcome", [
    ("def process(chunk):\n    yield {'n': 1}\n    raise ValueError\n", Outcome.CRASHED),
    ("import ctypes\ndef process(chunk):\n    ctypes.string_at(0)\n", Outcome.CRASHED),
    ("import os\ndef process(chunk):\n    os._exit(3)\n", Outcome.CRASHED),
    ("def process(chunk):\n    while True: pass\n", Outcome.TIMED_OUT),
    ("import signal\ndef process(chunk):\n    [signal.signal(s, signal.SIG_IGN) for s in range(1, 32) if s not in (9, 19)]\n"
     "    signal.pause()\n", Outcome.TIMED_OUT),
    ("import os, time\ndef process(chunk):\n    while True:\n        try: os.fork()\n        except OSError: pass\n", Outcome.TIMED_OUT),
    ("def process(chunk):\n    yield {'n': len(bytearray(10 << 30))}\n", Outcome.CRASHED),
    ("def process(chunk):\n    while True: yield {'n': 'x' * 100000}\n", Outcome.FLOODED),
    ("import os\ndef process(chunk):\n    if os.fork() == 0:\n        while True: pass\n    yield {'n': 1}\n", Outcome.OK),
], ids=["raises", "segfault", "exits", "loops", "ignores signals", "fork bomb", "memory", "flood", "helper left"])
def test_a_hostile_module_ends_with_its_slot_and_leaves_nothing(warm: Trial, content: str, outcome: Outcome) -> None:
    with expected(warm, content, 1) as module:
        assert module.why_cold is None
        result = module.run(0.5)
        assert result.outcome is outcome, result.stderr.decode()


STATE = """
import os, random, numpy as np, threading
seen = []
threading.Thread(target=lambda: None).start()
def process(chunk):
    seen.append(1)
    before = sorted(os.listdir('/tmp'))
    open('/tmp/mark', 'w').write('x')
    yield {'seen': len(seen), 'tmp': before, 'a': random.random(), 'b': float(np.random.rand()), 'c': os.urandom(4).hex()}
"""


def test_no_state_passes_from_one_child_to_the_next_and_randomness_is_fresh(warm: Trial) -> None:
    with expected(warm, STATE, 3) as module:
        found = [rows(module.run())[0] for _ in range(3)]
    assert [(f["seen"], f["tmp"]) for f in found] == [(1, [])] * 3
    for name in "abc":
        assert len({f[name] for f in found}) == 3


REACH = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *arguments):
    ctypes.set_errno(0)
    return ctypes.get_errno() if getattr(libc, call)(*arguments) < 0 else 0
def process(chunk):
    fds = [fd for fd in range(1024) if libc.fcntl(fd, 1) >= 0]
    yield {'fds': fds, 'unshare': tried('unshare', FLAGS), 'user': tried('unshare', 0x10000000), 'capset': tried('capset', None, None),
           'socket': tried('socket', 1, 1, 0), 'pipe': tried('pipe', (ctypes.c_int * 2)()), 'flock': tried('flock', 0, 2),
           'sysinfo': tried('sysinfo', ctypes.create_string_buffer(512)), 'mount': tried('mount', b'a', b'/tmp', b'tmpfs', 0, None),
           'shm': tried('shmget', 0, 4096, 0o1600), 'limit': tried('setrlimit', 7, (ctypes.c_ulong * 2)(9, 9)),
           'kill': tried('kill', -1, 0), 'proc': os.path.exists('/proc/self'),
           'pid': os.getpid(), 'parent': os.getppid(), 'memfd': tried('memfd_create', b'x', 0), 'inotify': tried('inotify_init')}
""".replace("FLAGS", str(syscalls.NAMESPACE_FLAGS))


def test_a_warm_child_reaches_no_more_than_a_cold_program(warm: Trial) -> None:
    with expected(warm, REACH) as module:
        (found,) = rows(module.run())
    refused = dict.fromkeys(("unshare", "user", "capset", "socket", "pipe", "flock", "sysinfo", "mount", "shm", "inotify", "limit"), 1)
    assert {name: found[name] for name in refused} == refused
    assert found["fds"] == rows(cold(warm, REACH))[0]["fds"]
    assert (found["memfd"], found["proc"], found["pid"], found["parent"]) == (38, False, 1, 0)


@pytest.mark.parametrize("content, reason", [
    ("import nothing_of_this_name\ndef process(chunk): pass\n", "could not be imported"),
    ("open('/tmp/cache', 'w').write('x')\ndef process(chunk):\n    yield {'n': open('/tmp/cache').read()}\n", "could not be imported"),
    ("import ctypes\nctypes.CDLL = None\ndef process(chunk): yield {'n': 1}\n", None),
    # one that forks nothing at all
    ("import os\nos.fork = lambda: 1\nos.waitpid = lambda *_: None\ndef process(chunk): yield {'n': 1}\n", "imported"),
    # helpers that outlive the import: they are killed with the zygote
    ("import os, time\nif os.fork() == 0:\n    time.sleep(1000)\ndef process(chunk): yield {'n': 1}\n", None),
])
def test_a_module_that_cannot_be_trusted_warm_is_started_cold(warm: Trial, content: str, reason: str | None,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broods, "PATIENCE", 1.5)
    with expected(warm, content) as module:
        if reason is None:
            assert module.why_cold is None
        else:
            assert module.why_cold is not None
            assert any(words in module.why_cold for words in reason.split("|")), module.why_cold
        result, base = module.run(0.8), cold(warm, content, 0.8)
    assert (result.outcome, bytes(result.stdout)) == (base.outcome, bytes(base.stdout))


def test_the_zygote_is_dead_and_the_children_are_frozen_before_any_frame_is_there(warm: Trial) -> None:
    lane = warm.lane
    path = warm.scratch / "looked-at"
    install(b"import cv2\ndef process(chunk): yield {'n': 1}\n", "looked-at", path)
    # a brood belongs to one thread, which must not share its file system with others; the test's own does for a moment
    home = os.open("/", os.O_RDONLY)
    syscalls.unshare(syscalls.CLONE_FS)
    brood = lane._breed(Program(path, Kind.MODULE), 4)
    try:
        assert brood._zygote.processes() == set()
        assert len(brood.children) == 4
        for child in brood.children:
            assert child.group.frozen()
            assert child.group.processes() == {child.seen.pid}
            assert not list(child.box.iterdir())
            assert not any(Path(f"/proc/{child.seen.pid}/fd").iterdir())
            assert len(set(child.seen.namespaces)) == 7
        spaces = [space for child in brood.children for space in child.seen.namespaces]
        assert len(set(spaces)) == len(spaces)
        verify.check_apart([child.seen for child in brood.children], [os.getpid()])
        with pytest.raises(verify.Refused, match="namespace"):
            verify.check_apart([brood.children[0].seen, brood.children[0].seen], [])
        with pytest.raises(verify.Refused):
            verify.look(os.getpid(), verify.Allowed(brood.uid, lane.gid, Path("/"), [], filters=2))
        assert brood.uid != lane.uid
    finally:
        brood.close()
        os.fchdir(home)
        os.close(home)


def test_a_long_series_passes_from_brood_to_brood(warm: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nurse, "LEAST", 4)
    monkeypatch.setattr(nurse, "MOST", 7)
    with expected(warm, "def process(chunk):\n    yield {'n': int(chunk.frames[0, 0, 0, 0])}\n", 15) as module:
        for _ in range(15):
            while not warm.lane.ready(module.program):
                time.sleep(0.005)
            assert rows(module.run(0.2)) == [{"n": int(warm.frames[0, 0, 0, 0])}]


def test_attached_files_are_found_read_only_in_both_ways(warm: Trial) -> None:
    files = warm.scratch / "attached"
    files.mkdir()
    (files / "weights.txt").write_text("0.25")
    files.chmod(0o755)
    content = ("weight = float(open('/app/files/weights.txt').read())\ndef process(chunk):\n    try: (chunk.files / 'x').write_text('y')\n"
               "    except OSError as e: yield {'w': weight, 'again': (chunk.files / 'weights.txt').read_text(), 'e': e.errno}\n")
    path = warm.scratch / "with-files"
    kind = install(content.encode(), "m", path)
    for is_warm in (True, False):
        program = Program(path, kind, files=files, warm=is_warm)
        warm.lane.announce(program, 1)
        while not warm.lane.ready(program):
            time.sleep(0.005)
        assert rows(warm.lane.run_soon(program, warm.chunk, 0.8)) == [{"w": 0.25, "again": "0.25", "e": 30}]
        warm.lane.dismiss(program)


def test_the_runtime_none_runs_a_compiled_program_and_holds_no_interpreter(warm: Trial, compile_c: Callable[..., bytes]) -> None:
    path = warm.scratch / "static"
    kind = install(compile_c("""
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
int main(int c, char **v) {
    struct rlimit l; getrlimit(RLIMIT_NPROC, &l);
    printf("{\\"a\\": \\"%s\\", \\"env\\": %d, \\"lib\\": %d, \\"p\\": %d}\\n", v[1], access("/usr/bin/env", 0),
           access("/usr/lib/python3", 0), (int)l.rlim_cur);
}""", "-static"), "static", path)
    result = warm.lane.run_soon(Program(path, kind, runtime="none"), warm.chunk, 0.4)
    assert rows(result) == [{"a": "/chunk", "env": -1, "lib": -1, "p": warm.lane.limits.processes}]


def test_a_slot_that_comes_again_after_a_cancel_finds_another_child(warm: Trial) -> None:
    with expected(warm, "def process(chunk):\n    yield {'n': 1}\n", 1) as module:
        assert rows(module.run()) == [{"n": 1}]
        assert not warm.lane.ready(module.program)
        deadline = time.monotonic() + 30
        while not warm.lane.ready(module.program):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert rows(module.run()) == [{"n": 1}]
        assert module.why_cold is None


def test_children_of_a_program_that_was_dismissed_meanwhile_are_gone_though_nothing_else_happens(warm: Trial) -> None:
    path = warm.scratch / "alone"
    program = Program(path, install(b"import time\ntime.sleep(0.3)\ndef process(chunk): yield {'n': 1}\n", "alone", path))
    warm.lane.announce(program, 3)
    time.sleep(0.15)
    warm.lane.dismiss(program)
    assert wait_until_gone(warm.lane, 10) == []


def test_a_program_that_is_dismissed_while_its_children_are_made_leaves_nothing_and_disturbs_nobody(warm: Trial) -> None:
    path = warm.scratch / "dismissed"
    program = Program(path, install(b"import time\ntime.sleep(0.3)\ndef process(chunk): yield {'n': 1}\n", "dismissed", path))
    warm.lane.announce(program, 3)
    time.sleep(0.15)
    warm.lane.dismiss(program)
    with expected(warm, "def process(chunk):\n    yield {'n': 2}\n") as module:
        assert rows(module.run()) == [{"n": 2}]
    assert wait_until_gone(warm.lane, 20) == []


def test_a_child_whose_slot_slipped_is_used_for_the_next_one(warm: Trial) -> None:
    with expected(warm, "def process(chunk):\n    yield {'n': int(chunk.frames[0, 0, 0, 0])}\n", 1) as module:
        nurse_ = warm.lane._nurse
        assert nurse_ is not None
        (brood,) = nurse_._wards[module.program].broods
        (child,) = brood.children
        past = time.monotonic() - 1
        with pytest.raises(Late):
            Lane.run(warm.lane, module.program, warm.chunk, past, past + SLOT)
        assert list(brood.children) == [child] and child.group.frozen() and not list(child.box.iterdir())
        assert rows(module.run()) == [{"n": int(warm.frames[0, 0, 0, 0])}]


def test_a_program_that_a_module_starts_finds_its_standard_files(warm: Trial) -> None:
    content = ("import os\ndef process(chunk):\n"
               "    if os.fork() == 0: os.execv('/bin/sh', ['sh', '-c', 'echo out; echo error >&2; read x'])\n"
               "    yield {'code': os.wait()[1] >> 8}\n")
    with expected(warm, content) as module:
        result = module.run(0.5)
        assert rows(result) == [{"code": 1}]  # at the end of its input
        assert result.stderr == b"out\nerror\n"


def test_a_program_whose_children_cannot_be_made_for_whatever_reason_is_started_cold(warm: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(broods, "look", fail)
    with expected(warm, "def process(chunk):\n    yield {'n': 3}\n") as module:
        assert module.why_cold == "ZeroDivisionError while its children were made"
        assert rows(module.run(1.2)) == [{"n": 3}]


@pytest.mark.parametrize("flags, file, refused", [
    ("MAP_PRIVATE", "/bin/true", None), ("MAP_SHARED", "/bin/true", "shared"), ("MAP_SHARED | MAP_ANONYMOUS", "/bin/true", "shared"),
    ("MAP_PRIVATE", "own", "mapped"), ("MAP_PRIVATE | MAP_ANONYMOUS", "/bin/true", None),
])
def test_what_is_mapped_must_be_private_and_of_an_allowed_device(compile_c: Callable[..., bytes], warm: Trial, tmp_path: Path, flags: str,
                                                                 file: str, refused: str | None) -> None:
    path = tmp_path / "maps"
    (tmp_path / "own").write_text("x")
    own = warm.scratch / "mapped"
    own.write_text("x")
    path.write_bytes(compile_c(f"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {{
    mmap(0, 4096, PROT_READ, {flags}, open("{own if file == 'own' else file}", O_RDONLY), 0);
    write(1, "!", 1); return getchar();
}}""", "-static"))
    path.chmod(0o755)
    allowed = verify.Allowed(0, 0, Path("/"), [Path("/bin/true"), path], filters=0)
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.read(1) == b"!"
        with pytest.raises(verify.Refused, match=refused) if refused is not None else nullcontext():
            verify.check_mappings(Path(f"/proc/{process.pid}/maps").read_bytes(), allowed)
        process.communicate()


def test_the_root_of_a_lane_has_no_holes(warm: Trial, tmp_path: Path) -> None:
    root = warm.lane._root_of("python")
    assert not verify.has_holes(*(path for path in root.rglob("*") if not path.is_symlink()))
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 20)
    assert verify.has_holes(root / "etc/passwd", tmp_path / "hole")


def test_a_module_whose_attached_files_have_holes_is_started_cold(warm: Trial) -> None:
    files = warm.scratch / "attached-holes"
    files.mkdir()
    with (files / "hole").open("wb") as file:
        file.truncate(1 << 20)
    path = warm.scratch / "with-holes"
    program = Program(path, install(b"def process(chunk): yield {'n': 1}\n", "m", path), files=files)
    warm.lane.announce(program, 1)
    while not warm.lane.ready(program):
        time.sleep(0.005)
    assert warm.lane._nurse is not None and warm.lane._nurse.why_cold(program) == "a file of it has holes"
    warm.lane.dismiss(program)


TEMPORARY = """
import os, tempfile
place = tempfile.gettempdir()
try: early = tempfile.mkstemp()
except OSError as error: early = error.errno
def process(chunk):
    fd, path = tempfile.mkstemp()
    os.write(fd, b'x')
    yield {'place': place, 'now': tempfile.gettempdir(), 'mine': os.path.dirname(path), 'early': early}
"""


def test_temporary_files_have_their_place_when_a_module_is_imported_and_are_made_when_there_is_a_chunk(warm: Trial) -> None:
    with expected(warm, TEMPORARY) as module:
        assert module.why_cold is None
        assert rows(module.run(0.5)) == [{"place": "/tmp", "now": "/tmp", "mine": "/tmp", "early": errno.EROFS}]
