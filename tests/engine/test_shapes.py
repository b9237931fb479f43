"""A table with fewer columns reads what was kept for one with more: its own columns of the same rows, at no slot."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privid.engine.chunks import ChunkCache, series_of
from privid.engine.rows import decode_columns, encode_columns, pick
from privid.engine.shapes import MOST, Shapes
from privid.model import Column, Table
from tests.calculus.builders import table as table_of
from tests.conftest import write_video

V = Column("v", 2, "float8", "float8", False, 0.1)
PLATE = Column("plate", 3, "text", "text", False, "")
RED = Column("red", 4, "boolean", "boolean", False, False)
KIND = Column("kind", 5, "enum", "public.kind", False, "car", ("car", "bus"))
BOUNDED = replace(V, bounds=(Fraction(0), Fraction(1, 3)))
LISTED = replace(PLATE, keys=("a", "b"), default="a")
TRUSTED = Column("chunk", 1, "timestamptz", "timestamptz", True, None)


def narrow(*columns: Column, **more: Any) -> Table:
    return replace(table_of(), columns=(TRUSTED, *columns), **more)


@pytest.fixture
def shapes(tmp_path: Path) -> Iterator[Shapes]:
    cache = ChunkCache(tmp_path / "chunks.db")
    yield Shapes(cache)
    cache.close()


def remember(shapes: Shapes, table: Table) -> None:
    shapes.remember(shapes.of(table, "module", "x"), "module", "x")


def test_columns_are_picked_as_if_they_had_been_kept_alone() -> None:
    rng, columns = random.Random(1), (V, PLATE, RED, KIND, replace(PLATE, name="other"))
    for _ in range(200):
        rows = [(rng.choice((0.1, -5.0, 1e300)), rng.choice(("", "a", "\u00e9" * 5)), rng.random() < 0.5, rng.choice(("car", "bus")),
                 "x" * rng.randrange(9)) for _ in range(rng.randrange(5))]
        body = encode_columns(columns, rows)
        places = tuple(rng.sample(range(5), rng.randrange(6)))
        wanted = [columns[place] for place in places]
        assert pick(body, places) == encode_columns(wanted, [tuple(row[place] for place in places) for row in rows])
        assert decode_columns(wanted, pick(body, places), len(rows)) == [tuple(row[place] for place in places) for row in rows]


def test_a_table_is_read_as_the_first_that_has_its_columns(shapes: Shapes) -> None:
    remember(shapes, narrow(V, PLATE, RED))
    remember(shapes, narrow(V, PLATE, RED, KIND))
    found = shapes.of(narrow(RED, V), "module", "x")
    assert [c.name for c in found.table.untrusted] == ["v", "plate", "red"] and found.picks == (2, 0)
    assert shapes.of(narrow(), "module", "x").picks == (), "only how many rows there are"
    assert shapes.of(narrow(V, PLATE, RED), "module", "x").picks is None, "the table itself"
    everything = narrow(V, PLATE, RED, KIND)
    found = shapes.of(narrow(KIND), "module", "x")
    assert found.picks == (3,)
    assert series_of(found.table, "module", "x").key(0, 0) == series_of(everything, "module", "x").key(0, 0), "the very same runs"


def test_options_of_columns_travel(shapes: Shapes) -> None:
    remember(shapes, narrow(BOUNDED, LISTED, KIND))
    found = shapes.of(narrow(LISTED), "module", "x")
    assert [(c.bounds, c.keys, c.labels, c.default) for c in found.table.untrusted] == [
        (BOUNDED.bounds, None, None, 0.1), (None, ("a", "b"), None, "a"), (None, None, ("car", "bus"), "car")]


@pytest.mark.parametrize("other", [
    narrow(replace(V, default=1.0)), narrow(BOUNDED), narrow(replace(V, name="w")), narrow(replace(V, type="text", default="")),
    narrow(LISTED), narrow(replace(KIND, labels=("car", "bus", "tram"))), narrow(replace(KIND, default="bus")),
    narrow(V, max_rows=4), narrow(V, timeout=Fraction(2)), narrow(V, owner="ben"),
    narrow(V, executable=replace(table_of().executable, sha256="0")),
], ids=["default", "bounds", "name", "type", "keys", "labels", "enum default", "max_rows", "timeout", "owner", "program"])
def test_what_would_be_read_in_another_way_is_run_again(shapes: Shapes, other: Table) -> None:
    remember(shapes, narrow(V, PLATE, RED, KIND))
    assert shapes.of(narrow(V), "module", "x").picks is not None
    assert shapes.of(other, "module", "x").picks is None


def test_only_so_many_shapes_are_remembered(shapes: Shapes) -> None:
    for number in range(MOST + 5):
        remember(shapes, narrow(replace(V, name=f"v{number}")))
    remember(shapes, narrow(V, PLATE))
    assert shapes.of(narrow(V), "module", "x").picks is None


def test_a_narrower_table_runs_nothing_and_has_the_same_values(stack: Any, unique: Callable[[str], str]) -> None:
    name = unique("shape")
    write_video(stack.videos / f"{name}.mp4", [i // 10 for i in range(30)])
    stack.camera(name, f"{name}.mp4")
    stack.executable(name, "#!/bin/sh\necho '{\"v\": 3, \"plate\": \"ab\", \"red\": true}'\necho '{\"v\": 4, \"plate\": \"cd\"}'\n")
    more = {"timeout": "100ms", "max_rows": "3", "end": "2026-03-01 06:00:03+00"}
    stack.table(name, name, name, "chunk timestamptz, v float8 DEFAULT 0, plate text DEFAULT '', red boolean DEFAULT false", **more)
    stack.table(f"{name}_few", name, name, "red boolean DEFAULT false, chunk timestamptz, v float8 DEFAULT 0", **more)
    stack.table(f"{name}_full", name, name, "plate text DEFAULT ''", **more, pad="on")
    stack.table(f"{name}_other", name, name, "v float8 DEFAULT 1", **more)
    ask = "SELECT count(*), sum(range(v, 0, 9)) FROM "
    wide = stack.run(f"{ask}{name}")
    assert wide == [(6, 21)]
    slots = {table: _slots(stack, f"SELECT count(*) FROM {table}") for table in (f"{name}_few", f"{name}_full", f"{name}_other")}
    assert list(slots.values()) == [0, 0, 3]
    assert stack.run(f"{ask}{name}_few") == wide
    assert stack.run(f"SELECT count(*) FILTER (WHERE red) FROM {name}_few") == [(3,)]
    by_plate = stack.run(f"SELECT plate, count(*) FROM {name}_full WHERE plate IN ('ab', 'cd', '') GROUP BY 1")
    assert by_plate == [("ab", 3), ("cd", 3), ("", 3)]


def _slots(stack: Any, statement: str) -> int:
    return int(stack.run(f"EXPLAIN (FORMAT JSON) {statement}")[0][0][0]["Plan"]["Privid"]["Slots"])
