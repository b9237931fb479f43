"""20,000 hostile outputs, each of which is rows of its table; and 200 pairs of slots after hostile and after plain ones, of which nothing
tells which: neither their beginnings, nor the moments of rows, nor the processor time of the engine."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from privid.engine.kept import Kept, Segments
from privid.engine.reading import Readings
from privid.engine.rows import decode_columns
from privid.sandbox.printed import Printed
from tests.calculus import builders
from tests.engine.outputs import COLUMNS, feel, fuzzed, in_the_engine, p_values

OUTPUTS, PAIRS, CHANCE = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, int(sys.argv[2]) if len(sys.argv) > 2 else 200, 0.01


def outputs(directory: Path) -> None:
    """Each is read by the same reader, and none takes the next one with it."""
    path, chance, default = directory / "rows", random.Random(17), 0
    cells = Segments(path).allocate(50, 1 << 20)
    readings, kept = Readings(path), Kept(path)
    table = builders.table(max_rows=1)
    table = type(table)(**{**vars(table), "columns": COLUMNS})
    reader, begun = readings._process.pid, time.monotonic()
    for number in range(OUTPUTS):
        for content in (fuzzed(chance), b'{"n": 7}') if number % 100 == 0 else (fuzzed(chance),):
            printed, cell = Printed.of(content), cells[number % 50]
            readings.read(cell, table, printed)
            printed.close()
            found = kept.get(cell.address)
            assert found is not None and found[0] <= 1, number
            rows = decode_columns(COLUMNS, found[1], found[0])
            default += rows == [(0.0, *("none",) * 21)]
        assert readings._process.pid == reader and (number % 100 or rows[0][0] == 7.0), number
    readings.close()
    kept.close()
    print(f"{OUTPUTS} outputs in {time.monotonic() - begun:.0f} s by one reader; {default} became a row of defaults")


def look(directory: Path, seed: int) -> dict[str, float]:
    order = [number % 2 == 0 for number in range(2 * PAIRS)]
    random.Random(seed).shuffle(order)
    directory.mkdir()
    found = p_values(feel(directory, order, random.Random(seed)))
    print(", ".join(f"{name}: p = {p:.3g}" for name, p in found.items()))
    return found


def apart(looks: Sequence[dict[str, float]]) -> list[str]:
    """What told in each of the looks: by chance alone, one in a hundred tells in one of them."""
    return [name for name in looks[0] if all(found[name] <= CHANCE for found in looks)]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="privid-outputs-") as place:
        outputs(Path(place))
        looks = [look(Path(place) / "first", 1)]
        if apart(looks):
            looks.append(look(Path(place) / "second", 2))
        if told := apart(looks):
            raise SystemExit(f"hostile output is felt by the {' and the '.join(told)}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Readings, "read", in_the_engine)
            if not apart([look(Path(place) / "weaker", 3)]):
                raise SystemExit("it is not felt even if the engine parses itself")


if __name__ == "__main__":
    main()
