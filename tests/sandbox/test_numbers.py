"""Numbers and times that the kernel gives to what a run has: they tell when its slot began, and nothing of other runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privid.cli.processes import wait_until
from privid.sandbox import stock
from privid.sandbox.executable import Kind, install
from privid.sandbox.lane import Late, Program
from privid.sandbox.places import GENERATION, Pins, Places
from privid.sandbox.run import Run

from .conftest import Trial, wait_until_gone

FACTS = """
#include <stdio.h>
#include <sys/stat.h>
int main(void) {
    struct stat all[7]; const char *paths[] = {"/tmp", "/chunk", "/chunk/chunk.json", "/chunk/frames.npy", "/app/program"};
    long changed = 1L << 62, times = 0;
    for (int i = 0; i < 5; i++) stat(paths[i], all + i);
    fstat(1, all + 5); fstat(2, all + 6);
    for (int i = 0; i < 7; i++) {
        long c = all[i].st_ctim.tv_sec * 1000 + all[i].st_ctim.tv_nsec / 1000000;
        if (c < changed) changed = c;
        times |= all[i].st_atim.tv_sec | all[i].st_mtim.tv_sec | all[i].st_atim.tv_nsec | all[i].st_mtim.tv_nsec;
    }
    printf("{\\"device\\": %ld, \\"outputs\\": [%ld, %ld], \\"changed\\": %ld, \\"times\\": %ld}\\n", (long)all[0].st_dev,
           (long)all[5].st_ino, (long)all[6].st_ino, changed, times);
}
"""


@pytest.fixture(scope="module")
def lane(make_trial: Callable[..., Trial], compile_c: Callable[..., bytes]) -> Trial:
    trial = make_trial(7)
    install(compile_c(FACTS, "-static"), "facts", trial.scratch / "facts")
    return trial


def facts(trial: Trial, lead: float = 0.1) -> dict[str, Any]:
    program = Program(trial.scratch / "facts", Kind.PROGRAM)
    for slot in (0.1, 0.4, 0.8, 1.6, 3.2):  # on a busy machine the first may be too short
        begin = time.monotonic() + lead
        result = trial.lane.run(program, trial.chunk, begin, begin + slot)
        if result.stdout:
            found: dict[str, Any] = json.loads(result.stdout)
            return found | {"began": time.time() - (time.monotonic() - result.started)}
    raise AssertionError("the program did not come to its end")


def test_no_device_number_of_a_cold_run_is_given_to_a_later_one(lane: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for _ in range(4):
        seen.append(facts(lane)["device"])
        assert wait_until_gone(lane.lane) == []
    assert len(set(seen)) == len(seen)
    monkeypatch.setattr(lane.lane, "_pins", None)
    for _ in range(30):  # others on this machine take numbers, too
        seen.append(facts(lane)["device"])
        if len(set(seen)) < len(seen):
            return
        assert wait_until_gone(lane.lane) == []
        time.sleep(0.05)  # the last of it goes away behind the processes
    raise AssertionError("no number was given out again, though nothing keeps it")


def test_the_numbers_of_a_brood_are_kept_from_the_moment_at_which_it_is_used_up(make_trial: Callable[..., Trial],
                                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """Not until its last run has been cleared away, which takes as long as the run wants."""
    trial = make_trial(8)
    module = trial.scratch / "module"
    install(b"import os\ndef process(chunk): yield {'v': os.stat('/tmp').st_dev}\n", "module", module)
    program = Program(module, Kind.MODULE)
    seen: list[int] = []
    monkeypatch.setattr(stock, "HOLD", 60.0)
    for _ in range(6):  # a brood each
        trial.lane.announce(program, 2, 0.5)
        assert wait_until(lambda: trial.lane.ready(program), 30)
        for _ in range(2):
            begin = time.monotonic() + 0.1
            result = trial.lane.run(program, trial.chunk, begin, begin + 0.5)
            assert result.warm
            seen.append(json.loads(result.stdout)["v"])
        trial.lane.dismiss(program)
        assert wait_until_gone(trial.lane) == []
    assert len(set(seen)) == len(seen)


def test_a_bounded_number_of_runs_is_held_on_to(tmp_path: Path) -> None:
    def held() -> int:
        return sum(os.path.realpath(path) == str(tmp_path) for path in Path("/proc/self/fd").iterdir())

    pins = Pins()
    for run in range(5 * GENERATION):
        pins.turn().append(os.open(tmp_path, os.O_RDONLY))
        if run % 50 == 49:
            assert held() > min(run, GENERATION)
    deadline = time.monotonic() + 20
    while held() > 2 * GENERATION and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held() <= 2 * GENERATION
    pins.close()
    assert held() == 0


def test_the_numbers_of_the_outputs_are_the_same_however_slowly_earlier_runs_go_away(lane: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers() -> list[list[int]]:
        found = []
        for _ in range(3):
            found.append(facts(lane)["outputs"])
            for name in range(100):
                (lane.scratch / f"made-{name}").touch()
                (lane.scratch / f"made-{name}").unlink()
        return found

    first = facts(lane)["outputs"]
    held = list[Run]()
    with monkeypatch.context() as patch:
        patch.setattr(Run, "bury", lambda run, _: held.append(run))
        assert numbers() == [first] * 3
    for run in held:
        lane.lane._dead.put(run)
    # without: files of a lane's own, which an ordinary user must do with, and of which none is used again before its turn
    monkeypatch.setattr(lane.lane, "_places", Places(lane.scratch / "places"))
    assert len({max(found) for found in numbers()}) == 3


def test_an_ordinary_users_places_are_given_in_turn_and_one_that_is_still_open_is_never_made_anew(tmp_path: Path) -> None:
    places = Places(tmp_path / "places")

    def taken() -> int:
        with (place := places.take()).made() as (output, _):
            number = output.stat().st_ino
        place.free()
        return number

    first = places.take()
    with first.made() as (output, _):
        numbers = [output.stat().st_ino]
    numbers += [taken() for _ in range(255)]
    assert len(set(numbers)) == 256
    with pytest.raises(Late):
        places.take()
    first.free()
    assert [taken() for _ in range(256)] == numbers[1:] + numbers[:1]


def test_the_times_of_all_that_a_program_has_say_when_its_slot_began(lane: Trial) -> None:
    found = facts(lane, lead=0.7)
    assert found["times"] == 0
    assert found["changed"] / 1000 > found["began"] - 0.05


def test_a_program_finds_a_bounded_number_of_files_in_its_tmp(lane: Trial) -> None:
    text = "#!/usr/bin/python3\nimport os\nn = 0\ntry:\n    while True:\n        os.mkdir(f'/tmp/{n}')\n        n += 1\n" \
           "except OSError: print(n, flush=True)\n"
    for slot in (0.6, 2.0, 8.0):
        if (result := lane(text, slot=slot)).stdout:
            break
    assert int(result.stdout) < lane.lane.limits.inodes
