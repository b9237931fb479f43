"""Two recordings, one calm and one stormy, seen by cameras that protect nothing and cameras that protect a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from .world import CALM, COLUMNS, PROGRAM, STORMY, rows_of, seconds


@dataclass
class World:
    """Tables of role analyst: open_calm (nothing protected), calm and stormy (a second protected), truth (ordinary)."""

    stack: Any

    def connect(self, user: str = "analyst", **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        connection: psycopg.Connection[tuple[Any, ...]] = self.stack.connect(user, **options)
        return connection

    def rows(self, statement: str, user: str = "analyst", **settings: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.stack.run(statement, user=user, settings={f"privid.{k}": v for k, v in settings.items()})
        return found

    def spent(self, camera: str) -> float:
        """What is gone of a camera's budget where most of it is gone."""
        return float(self.rows("SELECT c.epsilon - min(b.remaining) FROM privid.cameras c JOIN privid.budget b USING (camera) "
                               f"WHERE camera = '{camera}' GROUP BY c.epsilon")[0][0])


@pytest.fixture(scope="session")
def world(stack: Any, make_video: Callable[..., Path]) -> Iterator[World]:
    make_video(stack.videos / "calm.mp4", seconds(CALM))
    make_video(stack.videos / "stormy.mp4", seconds(STORMY))
    stack.camera("open_calm", "calm.mp4")
    stack.camera("calm", "calm.mp4", rho="1s", epsilon="100000", quantum="20ms")
    stack.camera("stormy", "stormy.mp4", rho="1s", epsilon="100000", quantum="20ms")
    stack.run("CREATE TYPE world_size AS ENUM ('small', 'large')")
    for name in ("open_calm", "calm", "stormy"):
        stack.table(name, name, "world", columns=COLUMNS, max_rows="4", timeout="400ms")
    stack.table("whole_calm", "open_calm", "world", columns=f"{COLUMNS}, failed boolean", max_rows="4", timeout="400ms")
    with stack.connect("analyst") as connection:
        connection.execute("CREATE TABLE truth (chunk timestamptz, v float8, kind text, flag boolean, size world_size)")
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO truth VALUES (%s, %s, %s, %s, %s)", list(rows_of(CALM)))
    world = World(stack)
    _run_whole(world)
    yield world


def _run_whole(world: World) -> None:
    """Has every calm chunk run once, in time. A slot that a busy machine made too late stays what it was for this program, so another
    that says the same takes its place."""
    for attempt in range(5):
        world.stack.executable("world", PROGRAM + b"# %d\n" % attempt)
        if world.rows("SELECT count(*) FILTER (WHERE failed) FROM whole_calm") == [(0,)]:
            return
    raise AssertionError("no program of five had all of its chunks in time")
