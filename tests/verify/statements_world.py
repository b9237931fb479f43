"""Two sides for the search among statements: everything alike, but one event in one of two videos.

Each side has a video, a camera and, for each worker, an analyst with tables, types and public rows
of the same names. In video a the event is a stretch of frames of which the program says little or
nothing; in video b it says hostile things about them: rows, huge numbers, long and odd texts.
Statements are written without names of a side, so that one text serves both.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from tests.conftest import STARTS, RunningStack, write_video

from .statements_public import FURNITURE, PUBLIC, PUBLIC_TABLES

__all__ = ["LABELS", "SIDES", "TABLES", "TYPE", "Connection", "Site", "World", "camera_of",
           "drop_world", "made_world"]

Connection = psycopg.Connection[tuple[Any, ...]]

SIDES = ("a", "b")
FPS = 10
BEGIN = datetime.fromisoformat("2026-03-01T06:00:00+00:00")
#: frames that differ, as many as the cameras protect; each table has a chunk that ends in them
EVENT = range(7, 10)
TYPE = "verify_size"
LABELS = ("small", "medium", "large")
COLUMNS = (f"chunk timestamptz, region text, plate text DEFAULT '', v float8 DEFAULT 0, "
           f"w float8 DEFAULT 0, red boolean DEFAULT false, size {TYPE} DEFAULT 'small'")
HALVES = {"left": "((0,0),(8,0),(8,16),(0,16))", "right": "((8,0),(16,0),(16,16),(8,16))"}


@dataclass(frozen=True)
class Site:
    """A foreign table: where its chunks lie, in frames, and how many rows each may have."""

    first: int
    chunks: int
    size: int
    step: int
    rows: int
    pad: bool = False
    regions: bool = False

    def definition(self, name: str, camera: str, timeout: int) -> str:
        last = self.first + (self.chunks - 1) * self.step + self.size
        options = {"executable": "rows", "begin": _moment(self.first), "end": _moment(last),
                   "chunk": f"{self.size}/{FPS} s", "stride": f"{self.step - self.size}/{FPS} s",
                   "timeout": f"{timeout}ms", "max_rows": str(self.rows),
                   "pad": "on" if self.pad else "off"}
        if self.regions:
            options["regions"] = "halves"
        listed = ", ".join(f"\"{option}\" '{value}'" for option, value in options.items())
        return f"CREATE FOREIGN TABLE {name} ({COLUMNS}) SERVER {camera} OPTIONS ({listed})"


def _moment(frame: int) -> str:
    return f"2026-03-01 06:00:{frame // FPS:02}.{frame % FPS}+00"


#: Names that the grammar of the calculus' verification knows. Chunks are few: all run anew for
#: each list of labels that the second session comes up with.
TABLES = {"n1": Site(0, 3, 5, 5, 4), "n2": Site(3, 3, 4, 2, 2), "n3": Site(0, 2, 3, 7, 3, pad=True),
          "r1": Site(6, 1, 2, 2, 2, regions=True)}

# What the program says

_PLATES = ("A", "B", "C", "D")
_NUMBERS = (-7.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 7.5, 30.0, 100.0)
_HUGE = ("1e308", "-1e308", "1e999", "-1e999", "5e-324", "-0.0", "NaN", "9007199254740993", "1e18",
         "2147483648", "-2147483649", "0", "1")
#: as JSON
_ODD = ("X", "", "A", "a" * 1024, "a" * 2000, "x" * 900 + "b", "%", "_", r"\\", r"\u0000",
        r"\ud800", "é", "ß", "İ", "NaN", "1e999", "2026-99-99", "1/0", "true", " ", "9" * 300,
        "ａ", "e\u0301", "-2147483648")
_ASKED = '{"plate": "X", "v": 1, "w": 1e308, "red": true, "size": "large"}'

#: a frame's brightness is a letter, and the program says something about each
QUIET, HOSTILE, ORDINARY = "Z", "Y", "abcdefghij"


def levels(side: str) -> Iterator[int]:
    """Brightness of each frame."""
    event = QUIET if side == "a" else HOSTILE
    for frame in range(40):
        yield ord(event if frame in EVENT else ORDINARY[frame // 5])


def hostile_row(rng: random.Random) -> str:
    plate, v, w = rng.choice(_ODD), rng.choice(_HUGE), rng.choice(_HUGE)
    red, size = rng.choice(("true", "false", "7")), rng.choice((*LABELS, "huge"))
    return f'{{"plate": "{plate}", "v": {v}, "w": {w}, "red": {red}, "size": "{size}"}}'


def calm_row(rng: random.Random) -> str:
    return json.dumps({"plate": rng.choice(_PLATES), "v": rng.choice(_NUMBERS),
                       "w": rng.choice(_NUMBERS), "red": rng.random() < 0.5,
                       "size": rng.choice(LABELS)})


def program(seed: int) -> str:
    """A shell script, because that starts at once.

    Frames of letters follow the header's line, and the last letter decides what is said.
    """
    rng = random.Random(seed)
    said = {letter: [calm_row(rng) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4)))]
            for letter in ORDINARY}
    said[QUIET] = [] if rng.random() < 0.7 else [calm_row(rng)]
    said[HOSTILE] = [hostile_row(rng) for _ in range(4)]
    if rng.random() < 0.8:  # one that statements ask for by name
        said[HOSTILE][0] = _ASKED
    cases = "\n".join(f"*{letter}) {'; '.join(map(_printed, rows)) or ':'};;"
                      for letter, rows in said.items())
    return (f'#!/bin/sh\n{{ read -r header; read -r frames; }} < "$1/frames.npy"\n'
            f"case $frames in\n{cases}\nesac\n")


def _printed(row: str) -> str:
    quoted = row.replace("'", "'\\''")
    return f"printf '%s\\n' '{quoted}'"


# The sides


class Missed(Exception):
    """A program did not run when it should have, and its row of defaults was taken."""


@dataclass
class World:
    """Both sides for one worker."""

    stack: RunningStack
    number: int
    seed: int
    #: milliseconds that a run may take
    timeout: int = 80
    roles: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.roles = {side: f"fuzz{self.number}{side}" for side in SIDES}

    def connect(self, side: str, **options: Any) -> Connection:
        return self.stack.connect(self.roles[side], **options)

    def blank(self, text: str) -> str:
        """What names a side, without the side."""
        for side, role in self.roles.items():
            text = text.replace(role, "fuzz").replace(camera_of(self.seed, side), "fuzz")
        return text

    def create(self) -> None:
        for side, role in self.roles.items():
            self.stack.run(f"CREATE ROLE {role} LOGIN IN ROLE privid_analyst", user="privid")
            with self.connect(side) as connection:
                connection.execute("SELECT privid.upload('rows', %s)",
                                   (program(self.seed).encode(),))
            self.furnish(side)

    def furnish(self, side: str) -> None:
        """Everything that an analyst has, from nothing."""
        role, camera = self.roles[side], camera_of(self.seed, side)
        self.stack.run(f"DROP SCHEMA IF EXISTS {role} CASCADE", user="privid")
        self.stack.run(f"CREATE SCHEMA {role} AUTHORIZATION {role}", user="privid")
        self.stack.run(f"GRANT USAGE ON FOREIGN SERVER {camera} TO {role}", user="owner")
        labels = ", ".join(map(repr, LABELS))
        with self.connect(side) as connection:
            connection.execute(f"CREATE TYPE {TYPE} AS ENUM ({labels})".encode())
            for name, site in TABLES.items():
                connection.execute(site.definition(name, camera, self.timeout).encode())
            connection.execute(PUBLIC.replace("{seed}", str(self.seed)).encode())
            for table in PUBLIC_TABLES:  # what is known of a table must not change by itself
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())

    def repair(self) -> bool:
        """Whether the sides had come to differ in more than the event; now they do not.

        That happens when something was taken back in part.
        """
        if self._furniture("a") == self._furniture("b"):
            return False
        for side in SIDES:
            self.furnish(side)
        return True

    def _furniture(self, side: str) -> list[str]:
        """All that the second session can change."""
        role = self.roles[side]
        with self.stack.connect("privid") as connection:
            found = connection.execute(FURNITURE, {"schema": role}).fetchall()
            for table in PUBLIC_TABLES:
                try:
                    found += connection.execute(
                        f"SELECT '{table}', md5(string_agg(t::text, '|' ORDER BY t::text)) "
                        f"FROM ONLY {role}.{table} t".encode()).fetchall()
                except psycopg.errors.UndefinedTable:
                    found.append((table, "is gone"))
        return sorted(self.blank(str(row)) for row in found)

    def run_all(self) -> None:
        """Every chunk runs now, and not again; what was meant to differ does, and nothing else."""
        for name, site in TABLES.items():
            one, other = ({*self._raw(side, name)} for side in SIDES)
            frames = {round((row[0] - BEGIN).total_seconds() * FPS) for row in one ^ other}
            if not frames or any(frame + site.size - 1 not in EVENT for frame in frames):
                raise Missed(f"sides of {name} differ in chunks at frames {sorted(frames)}")

    def _raw(self, side: str, table: str) -> list[tuple[Any, ...]]:
        with self.stack.connect("privid") as connection:
            connection.execute("SET privid.raw = on")
            statement = f"SELECT * FROM {self.roles[side]}.{table}"
            try:
                return connection.execute(statement.encode()).fetchall()
            except psycopg.Error as error:
                if error.sqlstate == "PV010":
                    raise Missed(f"the machine is too busy to run {table}") from error
                raise


def camera_of(seed: int, side: str) -> str:
    return f"fuzz{seed}{side}"


def made_world(stack: RunningStack, workers: int, seed: int, quantum: str = "1ms") -> list[World]:
    """The cameras of a seed, and a world for each worker, with all chunks run.

    On a busy machine a run may miss its slot; then another program runs, with more time.
    """
    for attempt in range(3):
        worlds = [World(stack, number, seed + 100_000 * attempt, 80 * 4**attempt)
                  for number in range(workers)]
        try:
            _install(worlds, quantum)
            return worlds
        except Missed:
            drop_world(worlds)
        except BaseException:
            drop_world(worlds)
            raise
    raise Missed("runs miss their slots again and again")


def _install(worlds: list[World], quantum: str) -> None:
    stack, seed = worlds[0].stack, worlds[0].seed
    for side in SIDES:
        video, camera = stack.videos / f"fuzz_{side}.mp4", camera_of(seed, side)
        if not video.exists():
            write_video(video, list(levels(side)), fps=FPS, width=16, height=16)
        stack.camera(camera, video.name, rho=f"{len(EVENT)}/{FPS} s", epsilon="1000000",
                     quantum=quantum, starts=STARTS)
        stack.run("SELECT privid.create_regions(%s, 'halves', %s)", camera, json.dumps(HALVES),
                  user="owner")
    for world in worlds:
        world.create()
    worlds[0].run_all()


def drop_world(worlds: list[World]) -> None:
    """What a search has made, or a part of it."""
    stack, seed = worlds[0].stack, worlds[0].seed
    roles = [role for world in worlds for role in world.roles.values()]
    there = stack.run("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", roles, user="privid")
    for (role,) in there:
        stack.run(f"DROP OWNED BY {role} CASCADE", user="privid")
        stack.run(f"DROP ROLE {role}", user="privid")
    for side in SIDES:
        stack.run(f"DROP SERVER IF EXISTS {camera_of(seed, side)} CASCADE", user="owner")
