"""A small world whose every row is known: what the program says about each chunk, computed outside as well."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["CALM", "COLUMNS", "PROGRAM", "STARTS", "STORMY", "rows_of", "seconds"]

STARTS = datetime(2026, 3, 1, 6, 0, tzinfo=UTC)

COLUMNS = """chunk timestamptz, v float8 DEFAULT 0, kind text DEFAULT 'none', flag boolean DEFAULT false, size world_size DEFAULT 'small'"""

#: A program, not a module: it starts quickly and reads the frames itself. Above brightness 199 it turns hostile.
PROGRAM = b'''#!/usr/bin/python3
import json, sys

with open(sys.argv[1] + "/frames.npy", "rb") as file:
    file.seek(-1, 2)
    level = file.read(1)[0]
kinds, sizes = ["car", "person", "bus"], ["small", "large"]
if level < 200:
    for i in range(level % 5):
        print(json.dumps({"v": (level + i) / 4, "kind": kinds[(level + i) % 3], "flag": i % 2 == 0, "size": sizes[i % 2]}))
else:
    values = ["NaN", "Infinity", "-Infinity", "1e308", "-1e308", "5e-324", "-0.0", "1e999", "null", '"x"', "[1]", "true", "9" * 400]
    texts = ["", "x" * 100000, "\\\\u0000", "\\\\ud800", "%", "\\\\\\\\", "car", "2026-99-99", "1/0"]
    for i in range(4):
        n = (level - 200) * 4 + i
        print('{"v": %s, "kind": "%s", "flag": %s, "size": "%s"}' % (
            values[n % len(values)], texts[n % len(texts)], ["true", "7", "null"][n % 3], ["huge", "large"][n % 2]))
'''

#: brightness of each second of the two recordings (10 frames a second)
CALM = [2, 13, 24, 31, 44, 53, 60, 71, 84, 92]
STORMY = [200, 201, 202, 203, 204, 205, 206, 207, 208, 209]


def seconds(levels: list[int]) -> list[int]:
    """Brightness of each frame."""
    return [level for level in levels for _ in range(10)]


def rows_of(levels: list[int]) -> Iterator[tuple[Any, ...]]:
    """What the program says about a calm recording, row by row."""
    kinds, sizes = ["car", "person", "bus"], ["small", "large"]
    for second, level in enumerate(levels):
        for i in range(level % 5):
            yield (STARTS + timedelta(seconds=second), (level + i) / 4, kinds[(level + i) % 3], i % 2 == 0, sizes[i % 2])


def plan_of(explained: Any) -> dict[str, Any]:
    """The object Privid of an EXPLAIN (FORMAT JSON)."""
    found: list[dict[str, Any]] = []

    def look(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("Privid"), dict):
                found.append(node["Privid"])
            for value in node.values():
                look(value)
        elif isinstance(node, list):
            for value in node:
                look(value)

    look(json.loads(explained) if isinstance(explained, str) else explained)
    assert len(found) == 1, explained
    return found[0]
