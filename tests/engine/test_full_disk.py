"""Who fills the engine's disk after a release is charged changes no answer, whatever rows there are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.client import EngineProcess, running, wait_for
from tests.engine.conftest import House
from tests.engine.test_release import numbers, release

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")

#: twenty rows for each step of brightness, each with a long text
WORDY = b"""
def process(chunk):
    for number in range(20 * int(chunk.frames[0, 0, 0, 0])):
        yield {"v": 1, "w": f"{number:04}" * 250}
"""
#: bytes that stay free: what the room's own catalogs take does not follow from rows
LITTLE = 2 << 20


@pytest.fixture
def cramped(house: House, small_disk: Callable[[int], Path], tmp_path: Path) -> Iterator[House]:
    """Another engine on the same database, whose disk is small."""
    engine = EngineProcess(small_disk(300), house.engine.videos, house.engine.conninfo)
    engine.log_file = tmp_path / "engine.log"
    with running(engine):
        found = House(engine, house.database)
        found._cameras = house._cameras
        found.upload("wordy", WORDY)
        yield found


def fill(directory: Path) -> Path:
    path, free = directory / "filling", os.statvfs(directory)
    path.write_bytes(bytes(free.f_bavail * free.f_frsize - LITTLE))
    return path


def counted(cramped: House, level: int) -> tuple[int, int]:
    """How many rows there are while the disk is full, and when it is not; asked anew if the machine is too busy for an answer."""
    for _ in range(5):
        table = cramped.table(cramped.video([level] * 20), "wordy", max_rows="2000", timeout="2s",
                              server={"rho": "1s", "epsilon": "2000000"})
        jobs, late = len(cramped.engine.events("job")), len(cramped.engine.events("room late"))
        with cramped.engine.connect() as client:
            client.send("R", cramped.request(table, epsilon="1000000"))
            assert wait_for(lambda jobs=jobs: len(cramped.engine.events("job")) > jobs, 60)  # type: ignore[misc]
            filling = fill(cramped.engine.data)
            kind, body = client.receive()
            filling.unlink()
            assert kind == "a", body
            again = release(client, cramped.request(table, epsilon="900000"))
        if len(cramped.engine.events("room late")) == late:
            break
    return round(numbers(json.loads(body))[0]), round(numbers(again)[0])


def test_a_disk_that_is_filled_after_the_charge_takes_nothing_from_an_answer(cramped: House) -> None:
    assert counted(cramped, 100) == (4000, 4000)
    assert counted(cramped, 0) == (0, 0)
    assert not cramped.engine.events("thread failed") and not cramped.engine.events("room failed")
