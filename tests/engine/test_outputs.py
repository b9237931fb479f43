"""Whatever a program prints: its rows are rows, and nothing outside its own slot can be felt of it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from privid.engine.kept import Kept, Segments, segment_of
from privid.engine.reading import Readings
from privid.engine.rows import decode_columns
from privid.sandbox.printed import Printed
from tests.calculus import builders

from .outputs import COLUMNS, HOSTILE, feel, fuzzed, in_the_engine, p_values

FUZZED, SLOTS, CHANCE = 200, 60, 0.001


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Readings, Kept, Segments]]:
    path = tmp_path_factory.mktemp("outputs")
    readings, kept = Readings(path), Kept(path)
    yield readings, kept, Segments(path)
    readings.close()
    kept.close()


def rows_of(place: tuple[Readings, Kept, Segments], content: bytes, max_rows: int) -> list[tuple[object, ...]]:
    of, printed, cell = builders.table(max_rows=max_rows), Printed.of(content), place[2].allocate(1, 8 << 20)[0]
    of = type(of)(**{**vars(of), "columns": COLUMNS})
    place[0].read(cell, of, printed)
    printed.close()
    found = place[1].get(cell.address)
    assert found is not None
    place[2].remove(segment_of(cell.address))
    return list(decode_columns(COLUMNS, found[1], found[0]))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_output_is_rows_of_the_table(place: tuple[Readings, Kept, Segments], kind: str) -> None:
    found = rows_of(place, HOSTILE[kind](random.Random(1)), 2)
    assert len(found) <= 2
    assert all(isinstance(row[0], float) and all(isinstance(word, str) and len(word) <= 1024 for word in row[1:]) for row in found)


def test_fuzzed_output_ends_no_reader_and_what_comes_next_is_read_as_ever(place: tuple[Readings, Kept, Segments]) -> None:
    chance, reader = random.Random(os.environ.get("PRIVID_SEED", 3)), place[0]._process.pid
    for _ in range(FUZZED):
        assert len(rows_of(place, fuzzed(chance), 1)) <= 1
    assert place[0]._process.pid == reader
    assert rows_of(place, b'{"n": 7}', 1) == [(7.0, *("none",) * 21)]


def order(slots: int) -> list[bool]:
    made = [number % 2 == 0 for number in range(slots)]
    random.Random(4).shuffle(made)
    return made


def test_nothing_is_felt_of_hostile_output_outside_its_slot(tmp_path: Path) -> None:
    """Of three looks the best: a busy machine makes differences of its own, but not the same ones each time."""
    least = dict[str, float]()
    for look in range(3):
        (directory := tmp_path / str(look)).mkdir()
        found = p_values(feel(directory, order(SLOTS), random.Random(look)))
        least = {name: max(p, least.get(name, 0.0)) for name, p in found.items()}
        if min(least.values()) > CHANCE:
            return
    raise AssertionError(least)


def test_it_would_be_felt_if_the_engine_parsed_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Readings, "read", in_the_engine)
    found = p_values(feel(tmp_path, order(SLOTS), random.Random(1)))
    assert found["processor time of the engine"] < CHANCE, found
