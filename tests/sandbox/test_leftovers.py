"""What a warm run leaves in its /tmp is gone soon after it, though the file system is kept, empty, for its number."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from privid.sandbox.capabilities import memory_bound
from privid.sandbox.executable import install
from privid.sandbox.lane import Outcome, Program
from privid.sandbox.run import Limits

from .conftest import Trial

LIMITS = Limits(memory=512 << 20, tmpfs=64 << 20, processes=24)
LEFT = {
    "a large file": "open('/tmp/large', 'wb').write(bytes(48 << 20))",
    "a file without a name, held open by a helper": "fd = os.open('/tmp/x', os.O_RDWR | os.O_CREAT)\n    os.unlink('/tmp/x')\n"
                                                    "    os.ftruncate(fd, 48 << 20)\n    os.posix_fallocate(fd, 0, 48 << 20)\n"
                                                    "    if os.fork() == 0:\n        while True: time.sleep(1)",
    "directories that nobody may enter": "for n in range(200):\n        os.mkdir('d')\n        open('d/f', 'wb').write(bytes(1 << 16))\n"
                                         "        os.chdir('d')\n    os.chdir('/tmp')\n    os.chmod('/tmp/d', 0)\n    os.chmod('/tmp', 0)",
    "as many files as there can be": "try:\n        for n in range(1 << 20): open(f'/tmp/{n}', 'wb').write(b'x' * 100)\n"
                                     "    except OSError: pass",
}


@pytest.fixture(scope="module")
def lane(make_trial: Callable[..., Trial]) -> Trial:
    return make_trial(10, LIMITS)


def used(descriptor: int) -> tuple[int, int]:
    """Bytes and files in a file system."""
    facts = os.fstatvfs(descriptor)
    return (facts.f_blocks - facts.f_bfree) * facts.f_bsize, facts.f_files - facts.f_ffree


@pytest.mark.parametrize("name", LEFT)
def test_nothing_is_left_of_a_warm_run_but_the_number_of_its_file_system(lane: Trial, name: str) -> None:
    path = lane.scratch / f"leaves-{time.monotonic_ns()}"
    content = f"import os, time\ndef process(chunk):\n    {LEFT[name]}\n    yield {{'n': 1}}\n"
    program = Program(path, install(content.encode(), "leaves", path))
    lane.lane.announce(program, 3)
    while not lane.lane.ready(program):
        time.sleep(0.005)
    assert lane.lane._nurse is not None and lane.lane._nurse.why_cold(program) is None
    (brood,) = lane.lane._nurse._wards[program].broods
    children = list(brood.children)
    for child in children[:2]:
        assert lane.lane.run_soon(program, lane.chunk, 2.0).outcome is Outcome.OK
        deadline = time.monotonic() + 20
        while not child.gone and time.monotonic() < deadline:
            time.sleep(0.005)
        assert child.gone
        while used(child.tmpfs) != (0, 1) and time.monotonic() < deadline:  # its own directory; what is freed shows a little later
            time.sleep(0.005)
        assert used(child.tmpfs) == (0, 1)
    assert len({os.fstat(child.tmpfs).st_dev for child in children}) == 3
    lane.lane.dismiss(program)


def test_the_bound_that_doctor_tells_has_all_that_lanes_can_hold() -> None:
    limits, roots = Limits(), 300 << 20
    one = memory_bound(1, limits, roots)
    # a run, the one before it that goes away, two broods of a zygote each: every one with a limit of its own
    assert one >= 4 * limits.memory + roots
    assert memory_bound(3, limits, roots) == 3 * one


def test_every_bound_is_that_of_a_group_which_outlives_what_is_counted_to_it(lane: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lane.scratch / "counted"
    content = b"def process(chunk):\n    open('/tmp/large', 'wb').write(bytes(32 << 20))\n    yield {'n': 1}\n"
    program = Program(path, install(content, "m", path))
    lane.lane.announce(program, 1)
    while not lane.lane.ready(program):
        time.sleep(0.005)
    assert lane.lane._nurse is not None
    (brood,) = lane.lane._nurse._wards[program].broods
    (child,) = brood.children
    seen: list[tuple[tuple[int, int], bool]] = []
    remove = type(child.group).remove

    def noted(group: object, patience: float) -> bool:
        if group is child.group:
            seen.append((used(child.tmpfs), all(Path(directory).is_dir() for directory in child.group.directories)))
        return remove(group, patience)  # type: ignore[arg-type]

    monkeypatch.setattr(type(child.group), "remove", noted)
    assert lane.lane.run_soon(program, lane.chunk, 1.0).outcome is Outcome.OK
    deadline = time.monotonic() + 5
    while not child.gone and time.monotonic() < deadline:
        time.sleep(0.005)
    assert seen and seen[0] == ((0, 1), True)
    lane.lane.dismiss(program)


def test_what_a_cold_run_leaves_is_removed_however_it_lies(lane: Trial) -> None:
    """Its /tmp is made in a user namespace of its own, in which not even root can move anything."""
    path = lane.scratch / f"leaves-{time.monotonic_ns()}"
    content = "#!/bin/sh\nhead -c 20000000 /dev/zero > /tmp/large\nmkdir -p /tmp/a/b/c /tmp/d/e\necho > /tmp/a/b/c/f\n"
    program = Program(path, install(content.encode(), "leaves", path))
    assert lane.lane.run_soon(program, lane.chunk, 2.0).outcome is Outcome.OK
    assert lane.lane._pins is not None
    deadline = time.monotonic() + 20
    while (left := max(used(fd)[0] for fd in lane.lane._pins._generations[-1])) > 1 << 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left <= 1 << 20
