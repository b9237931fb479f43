"""Cameras, tables and rows for verifying the calculus: small grids, every kind of stride, and neighbours of every kind.

A world is what the executables output for one video: a list of rows for each run of each table, which is a chunk or a region of a chunk.
Two worlds are neighbours when they differ only in runs in which one event is visible: it lies in one segment of one camera, behind a mask
in a few shorter pieces of it, and in as many regions as their boundary allows.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property, lru_cache
from json import dumps
from typing import TypeVar

from privid.model import Column
from privid.sandbox import rows as reading

__all__ = ["CAMERAS", "COLUMNS", "FPS", "FRAMES", "KIND", "KINDS", "PLATES", "PUBLIC", "SIZES", "STARTS", "TABLES", "Pair", "Row", "Site",
           "Words", "World", "array_text", "copy_text", "fresh_pair", "mutated", "touched", "visible"]

T = TypeVar("T")

STARTS = datetime(2026, 3, 1, 6, 0, tzinfo=UTC)
FPS = 10
FRAMES = 400

#: plate, v, w, red, size
Row = tuple[str, float, float, bool, str]
#: for each table, for each run, its rows
World = dict[str, tuple[tuple[Row, ...], ...]]

KIND = "verify_size"
COLUMNS = (f"chunk timestamptz, region text, plate text DEFAULT '', v float8 DEFAULT 0, w float8 DEFAULT 0, red boolean DEFAULT false, "
           f"size {KIND} DEFAULT 'small'")

#: of a table whose columns have options: what its rows may have, and how the reader of output is told
BOUNDS, KEYS = (Fraction(-5), Fraction(30)), ("", "A", "B", "C")
OPTIONS_COLUMNS = COLUMNS.replace("plate text", """plate text OPTIONS (keys '"", A, B, C')""").replace(
    "v float8", f"v float8 OPTIONS (low '{BOUNDS[0]}', high '{BOUNDS[1]}')")
_READ = (Column("plate", 3, "text", "text", False, "", keys=KEYS), Column("v", 4, "float8", "float8", False, 0.0, bounds=BOUNDS))

PLATES = ("A", "B", "C", "D", "E", "F")
NUMBERS = (-100.0, -7.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 30.0, 60.0, 100.0)
SMALL = (-2.0, 0.0, 1.0, 4.0, 10.0)
#: ends of types, what is lost in casts, and what is equal only nearly; a program's numbers are finite, and its zero has no sign
EXTREME = (1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 2147483647.0, 2147483648.0, -2147483649.0, 9007199254740993.0,
           9223372036854775807.0, -9223372036854775808.0, 1e18, 1e15, 0.1, 0.30000000000000004, 1e-7, 0.5, -0.5, 1e100)
#: texts that are numbers, equal ones among them, and ends of lengths
ODD = ("", "0", "-0", "1", "1.0", "1.00", "-0.0", "NaN", "Infinity", "1e999", "9223372036854775808", "true", "t", " 1 ",
       "a" * 300, "%", "é")
SIZES = ("small", "medium", "large")
DEFAULT: Row = ("", 0.0, 0.0, False, "small")

#: ordinary tables, the same for everybody
PUBLIC = """
CREATE TABLE plates (plate text PRIMARY KEY, owner text NOT NULL, weight float8 NOT NULL);
INSERT INTO plates VALUES ('A', 'ann', 1), ('B', 'bob', 2), ('C', 'ann', 5), ('D', 'dan', 0);
CREATE TABLE tolls (plate text NOT NULL, toll float8 NOT NULL);
INSERT INTO tolls VALUES ('A', 1), ('A', 2), ('B', 3);
"""


@dataclass(frozen=True)
class Policy:
    """What a camera protects."""

    frames: int
    k: int


CAMERAS = {"north": Policy(3, 1), "south": Policy(7, 2)}


@dataclass(frozen=True)
class Promise:
    """What of an event is visible: frames of a piece, how many pieces, and the frames of all of them."""

    frames: int
    pieces: int
    visible: int | None = None

    def some(self, rng: random.Random, first: int, frames: int) -> frozenset[int]:
        """Frames of a segment in which an event is visible that has as much of it as it may."""
        left, found = self.pieces * self.frames if self.visible is None else self.visible, set[int]()
        for _ in range(self.pieces):
            length = min(self.frames, frames, left)
            if self.visible is not None and length and rng.random() < 0.5:
                length = rng.randint(1, length)
            if length:
                start = first + rng.randint(0, frames - length)
                found |= set(range(start, start + length))
                left -= length
        return frozenset(found)


@dataclass(frozen=True)
class Site:
    """A foreign table: its grid in frames, how many rows a chunk may have, and what of the picture it shows."""

    name: str
    camera: str
    first: int
    count: int
    size: int
    step: int
    max_rows: int
    pad: bool = False
    mask: Promise | None = None
    regions: tuple[str, ...] = ()
    hard: bool = False
    straddle: int = 1
    stays: Promise | None = None  # what is visible of an event in one region
    #: pixels of a cell in which regions are said to lie, and of an event; and by how many it moves in a frame
    cells: tuple[int, int, int] | None = None
    bounded: bool = False  # its columns have options

    @property
    def columns(self) -> str:
        return OPTIONS_COLUMNS if self.bounded else COLUMNS

    def read(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows of a chunk as they are in the table: what the program printed, read by the reader of output."""
        return [_read(row, reading._converter) for row in rows] if self.bounded else rows

    @cached_property
    def runs(self) -> tuple[tuple[int, str], ...]:
        """Chunk and region of each run."""
        return tuple((j, region) for j in range(self.count) for region in self.regions or ("",))

    @cached_property
    def moments(self) -> tuple[str, ...]:
        """The column chunk, for each run."""
        return tuple((STARTS + timedelta(seconds=(self.first + j * self.step) / FPS)).isoformat() for j, _ in self.runs)

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Chunk and region as rows of an array begin with them, for each run."""
        return tuple(f'{moment},\\"{region}\\",' for moment, (_, region) in zip(self.moments, self.runs, strict=True))

    @property
    def options(self) -> dict[str, str]:
        last = self.first + (self.count - 1) * self.step + self.size
        return {"executable": "rows", "begin": _moment(self.first), "end": _moment(last), "chunk": f"{self.size}/{FPS} s",
                "stride": f"{self.step - self.size}/{FPS} s", "timeout": "500ms", "max_rows": str(self.max_rows),
                "pad": "on" if self.pad else "off",
                **({"mask": self.name} if self.mask else {}), **({"regions": self.name} if self.regions else {})}

    def strip(self, region: int) -> tuple[tuple[float, float], ...]:
        """The shape of a region, and of a mask: a part of a picture of 16 x 16 pixels."""
        return (4.0 * region, 0.0), (4.0 * region + 4, 0.0), (4.0 * region + 4, 16.0), (4.0 * region, 16.0)


@lru_cache(maxsize=10_000)
def _read(row: Row, _: object) -> Row:
    """Each row once, by every version of the reader."""
    (read,) = reading.parse_rows((dumps({"plate": row[0], "v": row[1]}) + "\n").encode(), _READ, 1)
    return (*read, *row[2:])  # type: ignore[return-value]


def _moment(frame: int) -> str:
    return (STARTS + timedelta(seconds=frame / FPS)).isoformat()


TABLES = {site.name: site for site in (
    Site("n1", "north", 0, 8, 5, 5, 1),
    Site("n2", "north", 3, 9, 4, 2, 2),
    Site("n3", "north", 0, 6, 3, 7, 2, pad=True),
    Site("s1", "south", 0, 6, 10, 10, 1),
    Site("s2", "south", 5, 10, 2, 5, 1, pad=True),
    Site("s3", "south", 10, 7, 6, 4, 3),
    Site("m1", "south", 0, 12, 2, 2, 1, mask=Promise(2, 2)),
    Site("m2", "south", 4, 8, 3, 2, 2, mask=Promise(3, 1), pad=True),
    Site("m4", "south", 2, 12, 2, 2, 1, mask=Promise(2, 1)),
    Site("m3", "south", 2, 12, 2, 2, 1, mask=Promise(3, 3, 4)),
    Site("r1", "north", 0, 5, 2, 2, 1, regions=("a", "b"), hard=True),
    Site("r2", "north", 2, 7, 1, 1, 1, regions=("a", "b", "c"), straddle=2),
    Site("r3", "south", 0, 5, 4, 5, 1, regions=("a", "b"), mask=Promise(2, 1)),
    Site("r4", "south", 0, 10, 1, 2, 1, regions=("a", "b"), hard=True, stays=Promise(2, 3, 3)),
    Site("r6", "south", 1, 9, 1, 2, 1, regions=("a", "b", "c"), straddle=1, stays=Promise(1, 1)),
    Site("r7", "south", 0, 8, 3, 3, 1, regions=("a", "b", "c", "d"), cells=(4, 2, 2)),
    Site("r8", "south", 0, 8, 3, 3, 1, regions=("a", "b", "c", "d"), cells=(8, 2, 2)),
    Site("r5", "south", 3, 6, 3, 3, 1, regions=("a", "b", "c"), stays=Promise(1, 2), mask=Promise(3, 2, 4)),
    Site("o1", "north", 0, 8, 2, 2, 3, bounded=True),
    Site("o2", "south", 0, 7, 5, 5, 2, bounded=True, pad=True),
)}

#: tables by what is known of them: each kind is drawn as often as another
KINDS: dict[str, list[str]] = {}
for _site in TABLES.values():
    KINDS.setdefault("options" if _site.bounded else "cells" if _site.cells else "regions" if _site.regions else
                     "mask" if _site.mask else "pad" if _site.pad else "plain", []).append(_site.name)


def touched(site: Site, first: int, frames: int) -> list[int]:
    """By the definition: the chunks that read one of the frames first … first + frames - 1."""
    return [j for j in range(site.count)
            if site.first + j * site.step <= first + frames - 1 and first <= site.first + j * site.step + site.size - 1]


def visible(rng: random.Random, site: Site, first: int, frames: int) -> frozenset[int]:
    """Runs in which some event in the segment can be seen: where it lies behind a mask and in which regions is for the event to choose."""
    shown = frozenset(range(first, first + frames)) if site.mask is None else site.mask.some(rng, first, frames)
    if not site.regions:
        return frozenset(_reading(site, shown))
    width = len(site.regions)
    if site.cells is not None:
        return _crossing(rng, site, shown)
    own = rng.randrange(width)
    by_region = [_reading(site, shown if site.stays is None else shown & site.stays.some(rng, first, frames))
                 if region == own or not site.hard else set[int]() for region in range(width)]
    most = min(site.straddle, width) if site.size == 1 and not site.hard else width
    found = set[int]()
    for j in set[int]().union(*by_region):
        there = [region for region in range(width) if j in by_region[region]]
        found |= {j * width + region for region in rng.sample(there, min(most, len(there)))}
    return frozenset(found)


def _crossing(rng: random.Random, site: Site, shown: Iterable[int]) -> frozenset[int]:
    """Runs in which something is seen that moves over the regions, which are four pixels wide (`Site.strip`)."""
    assert site.cells is not None
    _, wide, speed = site.cells
    width = len(site.regions)
    at, way, found = rng.randint(-wide, 4 * width), rng.choice((-1, 1)), set[int]()
    ways = (1, 1, 1, -1) if rng.random() < 0.5 else (1,)  # who goes straight on crosses most
    for frame in sorted(shown):
        under = range(at // 4, (at + wide - 1) // 4 + 1)
        found |= {j * width + region for j in touched(site, frame, 1) for region in under if 0 <= region < width}
        at, way = at + way * speed, way * rng.choice(ways)
    return frozenset(found)


def _reading(site: Site, frames: Iterable[int]) -> set[int]:
    """By the definition: the chunks that read one of these frames."""
    return {j for frame in frames for j in touched(site, frame, 1)}


@dataclass(frozen=True)
class Pair:
    """Neighbouring worlds, the segment in which they differ, and the runs of each table in which its event can be seen."""

    camera: str
    first: int
    before: World
    after: World
    seen: dict[str, frozenset[int]]


_LITERAL = re.compile(r"'((?:[^']|'')*)'|(?<![\w.])(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class Words:
    """Constants of a statement: rows that have them, or nearly, meet its conditions, keys and bounds from both sides."""

    numbers: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, statement: str) -> Words:
        numbers, texts = dict[float, None](), dict[str, None]()
        for text, number in _LITERAL.findall(statement):
            written = number or (text if _NUMBER.fullmatch(text) else "")
            if written and abs(value := float(written) + 0.0) < 1e300:  # no sign of zero
                numbers |= dict.fromkeys((value, value + 1, value - 1, -value + 0.0))
            if not number and "\t" not in text and "\\" not in text and len(text) < 400 and ":" not in text:
                texts |= dict.fromkeys((text, text + "x"))
        return cls(tuple(numbers), tuple(texts))


class Palette:
    """Rows of one character: few plates and numbers, so that keys meet and bounds are reached."""

    def __init__(self, rng: random.Random, odd: float = 0.0, words: Words = Words()) -> None:  # noqa: B008 (never changed)
        self.rng = rng
        self.plates = self._some(ODD if rng.random() < odd else PLATES, words.texts, rng.choice((1, 2, 2, 3, 4, 6)))
        self.v = self._some(EXTREME if rng.random() < odd else NUMBERS, words.numbers, rng.choice((1, 2, 2, 4)))
        self.w = self._some(EXTREME if rng.random() < odd / 2 else SMALL, words.numbers, rng.choice((1, 2)))
        self.red = rng.choice(((True,), (False,), (True, False)))
        self.sizes = rng.sample(SIZES, rng.choice((1, 2, 3)))
        self.one_each = rng.random() < 0.4
        self.next = 0

    def _some(self, usual: Sequence[T], named: Sequence[T], number: int) -> list[T]:
        """Of the usual values, or half of them of those that the statement names."""
        if not named or self.rng.random() < 0.5:
            return self.rng.sample(usual, min(number, len(usual)))
        return [self.rng.choice(named if self.rng.random() < 0.6 else usual) for _ in range(number)]

    def row(self) -> Row:
        choose = self.rng.choice
        self.next += 1
        plate = self.plates[self.next % len(self.plates)] if self.one_each else choose(self.plates)
        return plate, choose(self.v), choose(self.w), choose(self.red), choose(self.sizes)

    def chunk(self, site: Site, fill: float) -> tuple[Row, ...]:
        rng = self.rng
        duplicates = rng.random() < 0.3
        rows = [self.row()] * site.max_rows if duplicates else [self.row() for _ in range(site.max_rows)]
        kept = rows[:sum(rng.random() < fill for _ in rows)]
        return tuple(kept) + ((DEFAULT,) * (site.max_rows - len(kept)) if site.pad else ())

    def sparse(self, site: Site, away: frozenset[int]) -> list[tuple[Row, ...]]:
        """As many rows of each plate as of another, none in some runs."""
        places = [j for j in range(len(site.runs)) if j not in away for _ in range(site.max_rows)]
        chosen = Counter(self.rng.sample(places, min(len(places), self.rng.choice((1, 1, 1, 2, 3)) * len(self.plates))))
        return [tuple(self.row() for _ in range(chosen[j])) + (DEFAULT,) * (site.max_rows - chosen[j] if site.pad else 0)
                for j in range(len(site.runs))]


_FILLS = (0.0, 0.3, 0.7, 1.0, 1.0)


def fresh_pair(rng: random.Random, tables: Sequence[str], odd: float = 0.0, words: Words = Words()) -> Pair:  # noqa: B008
    """Neighbours from nothing: some background, and a segment whose chunks are empty, full or anything, before and after. `odd`: the chance
    of rows with ends and oddities of their types."""
    camera = rng.choice(sorted({TABLES[t].camera for t in tables}))
    policy = CAMERAS[camera]
    sites = [TABLES[t] for t in tables]
    first = _segment(rng, [s for s in sites if s.camera == camera], policy.frames)
    background, old, new = (Palette(rng, odd, words) for _ in range(3))
    # rows that meet keys of the background, or leave them, or neither
    meeting = rng.randrange(5)
    if meeting in (0, 1):
        old.plates = background.plates
    if meeting in (0, 2):
        new.plates = background.plates
    quiet, left, right = rng.choice((0.0, 0.0, *_FILLS)), rng.choice(_FILLS), rng.choice(_FILLS)
    if rng.random() < 0.25:  # every row from one end of what the statement tells apart to the other
        ends = sorted((*words.numbers, *rng.sample(NUMBERS, 2)))
        old.v, new.v, left, right = [ends[0]], [ends[-1]], 1.0, 1.0
        if rng.random() < 0.5:
            old.v, new.v = new.v, old.v
    before: World = {}
    after: World = {}
    seen = {site.name: visible(rng, site, first, policy.frames) if site.camera == camera else frozenset[int]() for site in sites}
    few = rng.random() < 0.25
    if few:
        left, right = _few_keys(rng, background, old, new, words)
    for site in sites:
        one = background.sparse(site, seen[site.name]) if few else [background.chunk(site, quiet) for _ in site.runs]
        other = list(one)
        for j in seen[site.name]:
            one[j], other[j] = old.chunk(site, left), new.chunk(site, right)
        before[site.name], after[site.name] = tuple(one), tuple(other)
    return Pair(camera, first, before, after, seen)


def _few_keys(rng: random.Random, background: Palette, old: Palette, new: Palette, words: Words) -> tuple[float, float]:
    """As many rows of each key as of another: some keys that are there without the event, some that it touches before, some after. How
    full the event's chunks are then."""
    named = [plate for plate in words.texts if plate in PLATES]
    keys = rng.sample(PLATES, len(PLATES)) if len(named) < 2 or rng.random() < 0.3 else rng.sample(named, len(named))
    there, rest = keys[:max(1, len(keys) // 2)], keys[len(keys) // 2:]
    background.plates = there
    old.plates, new.plates = rng.choice(((there, rest), (rest, there), (there, there), (rest, rest), (keys, there), (keys, rest)))
    background.one_each = old.one_each = new.one_each = True
    if rng.random() < 0.5:
        old.v = background.v
    if rng.random() < 0.5:
        new.v = background.v
    return rng.choice(((1.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.7, 0.7)))


def _segment(rng: random.Random, sites: Sequence[Site], frames: int) -> int:
    """Somewhere it meets a table, more often where it meets many chunks; sometimes few, where less is charged."""
    lows = min(s.first for s in sites) - frames + 1
    highs = max(s.first + (s.count - 1) * s.step + s.size for s in sites)
    choices = [rng.randrange(lows, highs) for _ in range(4)]
    met = {q: sum(len(touched(s, q, frames)) * s.max_rows for s in sites) for q in choices}
    some = [q for q in choices if met[q]] or choices
    return (min if rng.random() < 0.25 else max)(some, key=met.__getitem__)


def mutated(rng: random.Random, pair: Pair, tables: Sequence[str], odd: float = 0.0, words: Words = Words()) -> Pair:  # noqa: B008
    """A pair not far from another: some chunks of it are changed, copied or swapped; outside the segment in both worlds alike."""
    before = {t: list(pair.before[t]) for t in tables}
    after = {t: list(pair.after[t]) for t in tables}
    palette = Palette(rng, odd, words)
    known = [row for t in tables for chunk in (*before[t], *after[t]) for row in chunk]
    if rng.random() < 0.2:
        _align(rng, pair, rng.choice((before, after)), palette)
    for _ in range(rng.choice((1, 1, 2, 3))):
        site = TABLES[rng.choice(tables)]
        inside = pair.seen[site.name]
        if inside and rng.random() < 0.7:
            j, side = rng.choice(sorted(inside)), rng.choice((before, after))
            side[site.name][j] = _changed(rng, site, side[site.name][j], palette, known)
        else:
            outside = [j for j in range(len(site.runs)) if j not in inside]
            if outside:
                j = rng.choice(outside)
                before[site.name][j] = after[site.name][j] = _changed(rng, site, before[site.name][j], palette, known)
    return replace(pair, before={t: tuple(c) for t, c in before.items()}, after={t: tuple(c) for t, c in after.items()})


def _align(rng: random.Random, pair: Pair, side: dict[str, list[tuple[Row, ...]]], palette: Palette) -> None:
    """Gives all rows of the event on one side the same plate, number or colour; or plates that differ."""
    field, value = rng.randrange(5), palette.row()
    plates = iter(rng.sample(PLATES, len(PLATES)) * 100) if field == 0 and rng.random() < 0.5 else None
    for table, runs in side.items():
        for j in sorted(pair.seen[table]):
            runs[j] = tuple((*row[:field], next(plates) if plates else value[field], *row[field + 1:])  # type: ignore[misc]
                            for row in runs[j])


def _changed(rng: random.Random, site: Site, chunk: tuple[Row, ...], palette: Palette, known: list[Row]) -> tuple[Row, ...]:
    """Another output of one chunk: a row more, a row less, a row that occurs elsewhere, one with another value, or all anew."""
    rows = list(chunk)
    kind = rng.random()
    if kind < 0.15 or (not rows and kind < 0.5):
        return palette.chunk(site, 1.0)
    if kind < 0.3 and rows and not site.pad:
        rows.pop(rng.randrange(len(rows)))
    elif kind < 0.45 and len(rows) < site.max_rows:
        rows.append(rng.choice(known) if known and rng.random() < 0.7 else palette.row())
    elif rows:
        i = rng.randrange(len(rows))
        rows[i] = rng.choice(known) if known and rng.random() < 0.4 else _touched_up(rng, rows[i], palette)
    return tuple(rows)


def _touched_up(rng: random.Random, row: Row, palette: Palette) -> Row:
    other = palette.row()
    field = rng.randrange(5)
    return (*row[:field], other[field], *row[field + 1:])  # type: ignore[return-value]


def copy_text(site: Site, world: int, runs: Iterable[Sequence[Row]]) -> str:
    """Lines for COPY: world, chunk, region, plate, v, w, red, size."""
    return "".join(f"{world}\t{moment}\t{region}\t{plate}\t{v}\t{w}\t{red}\t{size}\n"
                   for moment, (_, region), rows in zip(site.moments, site.runs, runs, strict=True)
                   for plate, v, w, red, size in site.read(rows))


def array_text(site: Site, runs: Sequence[Sequence[Row]]) -> str:
    """An array of rows: chunk, region, plate, v, w, red, size."""
    return "{" + ",".join([f'"({place}{_fields(row)})"' for place, rows in zip(site.places, runs, strict=True) if rows
                           for row in site.read(rows)]) + "}"


@lru_cache(maxsize=20_000)
def _fields(row: Row) -> str:
    """The values of a row in an array of rows; a text is quoted for the row, and that for the array."""
    plate, v, w, red, size = row
    quoted = '"' + plate.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return ",".join((quoted.replace("\\", "\\\\").replace('"', '\\"'), str(v), str(w), "t" if red else "f", size))
