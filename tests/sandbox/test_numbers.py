"""Numbers and times that the kernel gives to what a run has: they tell when its slot began, and nothing of other runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privid.sandbox.executable import Kind, install
from privid.sandbox.lane import Program
from privid.sandbox.places import GENERATION, Pins, Place, Places

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


def test_a_bounded_number_of_runs_is_held_on_to(tmp_path: Path) -> None:
    def held() -> int:
        return sum(os.path.realpath(path) == str(tmp_path) for path in Path("/proc/self/fd").iterdir())

    pins = Pins()
    for run in range(5 * GENERATION):
        pins.turn().append(os.open(tmp_path, os.O_RDONLY))
        if run % 50 == 49:
            assert held() > min(run, GENERATION)
    deadline = time.monotonic() + 10
    while held() > 2 * GENERATION and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held() <= 2 * GENERATION
    pins.close()
    assert held() == 0


def test_the_numbers_of_the_outputs_do_not_count_what_is_made_meanwhile(lane: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers() -> list[int]:
        found = []
        for _ in range(2):
            found.append(max(facts(lane)["outputs"]))
            for name in range(100):
                (lane.scratch / f"made-{name}").touch()
                (lane.scratch / f"made-{name}").unlink()
        return found

    first, second = numbers()
    assert 0 < second - first < 20
    real = Places.take

    def take_new(places: Places) -> Place:
        (place := real(places)).make()
        return place

    monkeypatch.setattr(Places, "take", take_new)
    first, second = numbers()
    assert second - first >= 100


def test_places_are_given_in_turn_and_a_place_that_is_still_open_is_not_given_again(tmp_path: Path) -> None:
    places = Places(tmp_path / "places")
    first = places.take()
    numbers = [first.output.stat().st_ino]
    for _ in range(63):
        (place := places.take()).free()
        numbers.append(place.output.stat().st_ino)
    assert len(set(numbers)) == 64
    again = places.take()
    assert again is not first
    assert again.output == first.output
    assert places.take().output.stat().st_ino == numbers[1]


def test_the_times_of_all_that_a_program_has_say_when_its_slot_began(lane: Trial) -> None:
    found = facts(lane, lead=0.7)
    assert found["times"] == 0
    assert found["changed"] / 1000 > found["began"] - 0.05
