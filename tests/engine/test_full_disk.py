"""Who fills the engine's disk after a release is charged changes no answer, whatever rows there are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.client import EngineProcess, running
from tests.engine.conftest import House
from tests.engine.test_release import begin, numbers, release

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")

#: as many rows as the brightness of the first pixel, each with a long text
WORDY = b"""
def process(chunk):
    for number in range(int(chunk.frames[0, 0, 0, 0])):
        yield {"v": 1, "w": f"{number}" * 300}
"""


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
    """To the last byte."""
    path = directory / "filling"
    with pytest.raises(OSError, match="No space"), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    with pytest.raises(OSError, match="No space"), path.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return path


def test_a_disk_that_is_filled_after_the_charge_takes_nothing_from_an_answer(cramped: House) -> None:
    for level in (100, 7):
        source = cramped.video([level] * 20)
        table = cramped.table(source, "wordy", max_rows="100", server={"rho": "1s", "epsilon": "2000000"})
        with cramped.engine.connect() as client:
            begin(cramped, client, cramped.request(table, epsilon="1000000"))
            filling = fill(cramped.engine.data)
            kind, body = client.receive()
            assert kind == "a", body
            assert round(numbers(json.loads(body))[0]) == 2 * level
            filling.unlink()
            # and when there is space again, all goes on as before
            assert round(numbers(release(client, cramped.request(table, epsilon="900000")))[0]) == 2 * level
    assert not cramped.engine.events("thread failed") and not cramped.engine.events("room failed")
