"""A street of two regions, and the table that BI tools ask about; Superset's connection has a search path of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

PROGRAM = b'''#!/usr/bin/python3
import json, sys

with open(sys.argv[1] + "/frames.npy", "rb") as file:
    file.seek(-1, 2)
    level = file.read(1)[0]
for i in range(level % 4):
    print(json.dumps({"kind": ["car", "person", "bus"][(level + i) % 3], "plate": "B-%d" % (level * 3 + i), "speed": level / 4 + 3 * i,
                      "flag": i % 2 == 0}))
'''
COLUMNS = ("chunk timestamptz, region text, kind text DEFAULT 'none', plate text DEFAULT '', speed float8 DEFAULT 0, "
           "flag boolean DEFAULT false")
REGIONS = {"north": "((0,0),(64,0),(64,24),(0,24))", "south": "((0,24),(64,24),(64,48),(0,48))"}

#: what a tool's connection does first
PRELUDES = {"superset": 'SET search_path = "analyst"'}

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def tools(stack: Any, make_video: Callable[..., Path]) -> Iterator[Callable[[str], Connection]]:
    """A connection as the tool makes it."""
    make_video(stack.videos / "passers.mp4", [7 * second % 60 for second in range(10) for _ in range(10)])
    stack.camera("passers", "passers.mp4", rho="1s", epsilon="100000", quantum="20ms")
    regions = json.dumps(REGIONS)
    stack.run(f"SELECT privid.create_regions('passers', 'sides', '{regions}', 'hard')", user="owner")
    stack.executable("passers", PROGRAM)
    stack.table("passers", "passers", "passers", columns=COLUMNS, max_rows="3", timeout="300ms", regions="sides")
    made: dict[str, Connection] = {}

    def connect(tool: str) -> Connection:
        if tool not in made:
            made[tool] = stack.connect("analyst")
            if tool in PRELUDES:
                made[tool].execute(PRELUDES[tool].encode())
        return made[tool]

    yield connect
    for connection in made.values():
        connection.close()
    stack.run("DROP FOREIGN TABLE passers")  # a name that others have too


@pytest.fixture(scope="module")
def declared(stack: Any, tools: Callable[[str], Connection]) -> Iterator[Callable[[str], Connection]]:
    """The same, while the table's columns have bounds and keys."""
    tools("metabase")
    stack.run("ALTER FOREIGN TABLE passers ALTER speed OPTIONS (ADD low '0', ADD high '60'), "
              "ALTER kind OPTIONS (ADD keys 'none, car, person, bus')")
    yield tools
    stack.run("ALTER FOREIGN TABLE passers ALTER speed OPTIONS (DROP low, DROP high), ALTER kind OPTIONS (DROP keys)")
