"""Programs and modules that mean well: they see their chunk and nothing else, and say the same every time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from privid.errors import SandboxFailed
from privid.sandbox.executable import Kind
from privid.sandbox.lane import SETUP, Outcome, Program

from .conftest import TOLERANCE, Trial

MODULE = """
import cv2
import numpy as np

def process(chunk):
    print("debugging output is no row")
    assert type(chunk.frames) is np.ndarray and not chunk.frames.flags.owndata
    grey = cv2.cvtColor(chunk.frames[3], cv2.COLOR_BGR2GRAY)
    chunk.frames[0, 0, 0] = 1  # a private copy of one page
    yield {"shape": str(chunk.frames.shape), "sum": chunk.frames[1:].sum(), "grey": grey.sum(),
           "first": np.uint8(chunk.frames[9, 35, 63, 2])}
    yield {"start": chunk.start.isoformat(), "fps": chunk.fps, "camera": chunk.camera, "region": chunk.region,
           "size": [chunk.width, chunk.height], "metadata": chunk.metadata}
"""


def rows(stdout: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in stdout.splitlines()]


def test_a_module_sees_the_right_pixels_and_facts(trial: Trial) -> None:
    result = trial(MODULE)
    assert result.outcome is Outcome.OK, result.stderr.decode()
    pixels, facts = rows(result.stdout)
    # OpenCV's integer weights of blue, green and red
    blue, green, red = (trial.frames[3, :, :, c].astype(int) for c in range(3))
    grey = (blue * 3735 + green * 19235 + red * 9798 + (1 << 14)) >> 15
    assert pixels == {"shape": "(10, 36, 64, 3)", "sum": int(trial.frames[1:].sum()), "grey": int(grey.sum()),
                      "first": int(trial.frames[9, 35, 63, 2])}
    assert facts == {"start": "2026-03-01T06:00:00+00:00", "fps": 30000 / 1001, "camera": "campus", "region": "door", "size": [64, 36],
                     "metadata": {"note": "Grüße"}}
    assert b"debugging output is no row" in result.stderr


def test_a_module_runs_threads(trial: Trial) -> None:
    result = trial("""
import concurrent.futures, cv2, numpy as np
def process(chunk):
    cv2.setNumThreads(3)
    large = cv2.resize(np.full((900, 900, 3), 7, np.uint8), (1800, 1800))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        yield from ({"n": n} for n in pool.map(lambda i: i * int(large[5, 5, 0]), range(3)))
""")
    assert rows(result.stdout) == [{"n": 0}, {"n": 7}, {"n": 14}], result.stderr.decode()


def test_a_shell_script_reads_its_chunk(trial: Trial) -> None:
    result = trial("#!/bin/sh\ncat $1/chunk.json; wc -c < $1/frames.npy\n")
    facts, size = result.stdout.splitlines()
    assert json.loads(facts)["fps_exact"] == "30000/1001"
    assert int(size) == (trial.chunk / "frames.npy").stat().st_size


def test_a_python_program_maps_its_frames(trial: Trial) -> None:
    result = trial("#!/usr/bin/env python3\nimport sys, numpy\nframes = numpy.load(sys.argv[1] + '/frames.npy', mmap_mode='r')\n"
                   "print('{\"n\": %d}' % frames.sum())\n")
    assert rows(result.stdout) == [{"n": int(trial.frames.sum())}], result.stderr.decode()


@pytest.mark.parametrize("options", [("-static",), ()])
def test_a_compiled_program_runs_and_joins_its_threads(trial: Trial, compile_c: Callable[..., bytes], options: tuple[str, ...]) -> None:
    program = compile_c("""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *work(void *n) { usleep(20000); ++*(int *)n; return 0; }
int main(int c, char **v) {
    pthread_t t[4]; int n[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) pthread_create(t + i, 0, work, n + i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    printf("{\\"n\\": %d, \\"argument\\": \\"%s\\"}\\n", n[0] + n[1] + n[2] + n[3], v[1]);
}""", *options)
    result = trial(program)
    assert rows(result.stdout) == [{"n": 10, "argument": "/chunk"}]


def test_a_second_run_says_the_same_even_in_the_order_of_a_set(trial: Trial) -> None:
    module = ("def process(chunk):\n    import os, sys\n    yield {'order': list({'a', 'b', 'c', 'd', 'e', 'f', 'g'}), 'env':"
              " dict(os.environ), 'uid': os.getuid(), 'host': os.uname()[1], 'path': sys.path}\n")
    first, second = trial(module), trial(module)
    assert first.outcome is Outcome.OK
    assert first.stdout == second.stdout


def test_randomness_differs_between_runs(trial: Trial) -> None:
    module = "import numpy as np, random\ndef process(chunk):\n" \
             "    yield {'a': float(np.random.default_rng().random()), 'b': random.random()}\n"
    (first,), (second,) = rows(trial(module).stdout), rows(trial(module).stdout)
    assert first["a"] != second["a"]
    assert first["b"] != second["b"]


def test_a_program_starts_when_its_slot_begins_and_not_before(trial: Trial) -> None:
    program = "#!/usr/bin/python3\nimport time\nprint(time.monotonic())\n"
    result = trial(program, slot=0.6)
    assert 0 <= float(result.stdout) - result.started < TOLERANCE


def test_the_times_of_its_files_say_when_the_slot_began_and_nothing_else(trial: Trial) -> None:
    result = trial("#!/usr/bin/python3\nimport os, time\n"
                   "stats = [os.stat(p) for p in ('/chunk', '/chunk/chunk.json', '/chunk/frames.npy', '/app/program')]\n"
                   "print(max(s.st_mtime + s.st_atime for s in stats), time.time() - min(s.st_ctime for s in stats))\n", slot=0.6)
    modified, changed = map(float, result.stdout.split())
    assert modified == 0
    assert changed < TOLERANCE


def test_an_output_of_a_megabyte_arrives_whole(trial: Trial) -> None:
    result = trial("#!/usr/bin/python3\nfor i in range(100_000): print('{\"n\": %d}' % i)\n")
    assert result.outcome is Outcome.OK
    assert [row["n"] for row in rows(result.stdout)] == list(range(100_000))


def test_only_the_tail_of_the_error_output_is_kept(trial: Trial) -> None:
    result = trial("#!/bin/sh\nseq 1 100000 >&2\n")
    assert result.outcome is Outcome.OK
    assert result.stderr.endswith(b"\n99999\n100000\n")
    assert len(result.stderr) == trial.lane.limits.stderr


def test_a_script_whose_interpreter_is_missing_is_the_programs_own_fault(trial: Trial) -> None:
    assert trial("#!/usr/bin/no-such-thing\n", slot=0.3).outcome is Outcome.CRASHED


def test_a_sandbox_that_cannot_be_set_up_is_no_outcome(trial: Trial) -> None:
    program = trial.scratch / "fine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    begin = time.monotonic() + SETUP
    with pytest.raises(SandboxFailed, match="could not read"):
        trial.lane.run(Program(program, Kind.PROGRAM), Path("/nowhere"), begin, begin + 0.3)
    for path, without, usual in ((trial.chunk / "chunk.json", 0o000, 0o644), (program, 0o644, 0o755)):
        path.chmod(without)
        with pytest.raises(SandboxFailed, match="is not readable by lanes"):
            trial.lane.run(Program(program, Kind.PROGRAM), trial.chunk, begin, begin + 0.3)
        path.chmod(usual)
    tmp = trial.lane._root_of("python") / "tmp"
    tmp.rmdir()
    try:
        with pytest.raises(SandboxFailed, match="could not set up") as failure:
            trial.lane.run(Program(program, Kind.PROGRAM), trial.chunk, begin, begin + 5)
    finally:
        tmp.mkdir()
    assert "bwrap" in (failure.value.detail or "")
    assert trial("#!/bin/sh\necho\n", slot=0.3).outcome is Outcome.OK


#: opens each device
OPENS = "open('/dev/null', 'w').write('x'); n = [len(open(f'/dev/{name}', 'rb').read(4)) for name in ('urandom', 'zero')]"


@pytest.mark.parametrize("content", [f"#!/usr/bin/python3\n{OPENS}\nprint({{'n': sum(n)}})\n",
                                     f"def process(chunk):\n    {OPENS}\n    yield {{'n': sum(n)}}\n"], ids=["cold", "warm"])
def test_devices_are_there_and_work(trial: Trial, content: str) -> None:
    result = trial(content, slot=1.5)
    assert result.outcome is Outcome.OK and result.stdout.strip().replace(b'"', b"'") == b"{'n': 8}", result.stderr
