"""`privid try --tune`: which chunk length and max_rows give a count of the rows the least error, on a video of one's own.

The executable runs once over the video for each chunk length; max_rows is cut from what it printed. The noise of each combination is what
the calculus says of SELECT count(*) over a table with these options and a window of the length that is meant.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from privid.calculus import analyse, parse_select
from privid.engine.definitions import MAX_CHUNK_BYTES
from privid.fdw.wrapper import ChunkTable
from privid.model import Footage, Key, Output, Span, Table
from privid.udf.interval import deviation
from privid.video import make_grid

from .terminal import CommandFailed, Progress, progress
from .try_ import make_table, open_video
from .try_measure import ENDINGS, duration, lines_of, suggested_timeout

__all__ = ["Errors", "Length", "Meant", "chosen_lengths", "compare", "tune"]

#: seconds; lengths that are tried unless --chunk names others: those near rho
_LENGTHS = tuple(map(Fraction, ("1/5", "1/2", "1", "2", "5", "10", "15", "30", "60", "120", "300", "600")))
_NEAR = (Fraction(1, 6), 2)
_TIMEOUT = Fraction(60)
#: values of max_rows of which the error is computed, and those that are printed, for each length
_COMPUTED, _PRINTED = 100, 8
_COUNT: dict[str, Any] = {
    "from": [{"kind": "table", "rel": 1, "table": 0}], "where": None, "group": [], "targets": [], "distinct": False, "limit": None,
    "offset": None, "aggs": [{"name": "pg_catalog.count()", "args": [], "star": True, "distinct": False, "filter": None, "type": "int8",
                              "loc": -1}]}
_LINE = "{:>8} {:>8} {:>9} {:>8} {:>5} {:>11} {:>8}"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Meant:
    """The release that is meant: over how many seconds, under which policy."""

    window: Fraction
    rho: Fraction
    k: int
    epsilon: Fraction


@dataclass(frozen=True)
class Length:
    """What the executable did with chunks of one length."""

    chunk: Fraction
    stride: Fraction
    table: Table
    rows: tuple[int, ...]  # that each chunk printed; none where it failed
    failed: Counter[str]
    slowest: float

    @property
    def rate(self) -> Fraction:
        """Rows for each second of video that was seen."""
        return Fraction(sum(self.rows)) / (len(self.rows) * self.chunk)

    def kept(self, max_rows: int) -> Fraction:
        """Rows of a chunk, in the mean."""
        return Fraction(sum(min(number, max_rows) for number in self.rows), len(self.rows))


@dataclass(frozen=True)
class Errors:
    """What a count over the window is off by, with one chunk length and max_rows."""

    length: Length
    max_rows: int
    chunking: float  # rows that this length finds more or less than there should be
    cut: float  # rows dropped by max_rows, as a negative number
    noise: Output

    @property
    def error(self) -> float:
        """All of it together. What is found twice may hide what is dropped, but only by chance: they are not set off against each other."""
        return math.hypot(self.chunking, self.cut, deviation(self.noise.scale))


def tune(options: argparse.Namespace) -> int:
    footage = open_video(options)
    if options.rho * footage.fps < 1:
        raise CommandFailed(f"option --rho of {duration(options.rho)} is shorter than a frame, which lasts {duration(1 / footage.fps)}",
                            "Where nothing is protected there is no noise, and nothing to tune.")
    whole = Fraction(footage.frames) / footage.fps
    piece = (whole if options.end is None else options.end) - (options.begin or 0)
    meant = Meant(options.window or piece, options.rho, options.k or 1, options.epsilon)
    wanted = chosen_lengths(options, footage, min(piece, meant.window))
    if wanted[-1] > meant.window:
        raise CommandFailed(f"chunk of {duration(wanted[-1])} is longer than the window of {duration(meant.window)}",
                            "Use shorter chunks or a longer --window.")
    lengths = _run(options, footage, wanted)
    reference = Fraction(options.truth) / piece if options.truth else lengths[-1].rate
    expected = float(reference * meant.window)
    most = max(max(length.rows) for length in lengths)
    found = [compare(length, meant, reference, most) for length in lengths]
    best = min((errors for one in found for errors in one), key=lambda errors: (errors.error, errors.max_rows))
    source = "as --truth has them" if options.truth else f"as chunks of {duration(lengths[-1].chunk)} have them"
    release = f"count over {_long(meant.window)}, rho {duration(meant.rho)}, k {meant.k}, epsilon {float(meant.epsilon):g}"
    print(f"{release}: {expected:.4g} rows expected, {source}")
    if meant.window > piece:
        print(f"one row in the video stands for {float(meant.window / piece):.3g} in the window: the longer the video, the surer")
    for line in _table(found, best, expected):
        print(line)
    print(f"best: chunk '{duration(best.length.chunk)}', stride '{duration(options.stride)}', "
          f"timeout '{suggested_timeout(best.length.slowest)}', max_rows '{best.max_rows}'")
    if options.plot is not None:
        from .try_plot import draw
        draw(found, best, f"Error of a {release}; {expected:.4g} rows expected").save(options.plot)
        print(f"Drawn to {options.plot}.")
    return 1 if any(length.failed for length in lengths) else 0


# Runs

def chosen_lengths(options: argparse.Namespace, footage: Footage, piece: Fraction) -> tuple[Fraction, ...]:
    """The chunk lengths to compare: whole frames, half of what a table allows at most, at least two in the piece, near rho if possible."""
    if options.chunk is not None:
        return tuple(options.chunk)
    fps, most = footage.fps, MAX_CHUNK_BYTES // 2 // (footage.width * footage.height * 3)
    sizes = {round(length * fps) for length in _LENGTHS}
    fitting = sorted(size / fps for size in sizes if 1 <= size <= most and 2 * size <= piece * fps and size + options.stride * fps >= 1)
    if not fitting:
        raise CommandFailed(f"{float(piece):g} s are too short to compare chunk lengths", "Name them: --chunk 1s,2s.")
    near = [length for length in fitting if _NEAR[0] * options.rho <= length <= _NEAR[1] * options.rho]
    return tuple(near if len(near) > 1 else fitting[-4:])


def _run(options: argparse.Namespace, footage: Footage, wanted: Sequence[Fraction]) -> list[Length]:
    """Every length over the same piece of video: as much as the longest chunks cover."""
    timeout = options.timeout or _TIMEOUT
    longest = make_table(options, footage, wanted[-1], timeout)
    end = Fraction(longest.table.grid.span_frames((0, longest.table.grid.count))[1]) / footage.fps
    tables = [make_table(options, footage, chunk, timeout, end) for chunk in wanted]
    found = []
    with progress(sum(table.table.grid.count for table in tables)) as bar:
        done = 0
        for chunk, table in zip(wanted, tables, strict=True):
            found.append(_run_length(chunk, options.stride, table, bar, done))
            done += table.table.grid.count
            _warn(found[-1], bar)
    if not any(sum(length.rows) for length in found):
        raise CommandFailed("no rows: the program printed none in any chunk", "Run it without --tune to see what it does.")
    if len(found) > 1 and all(len(set(length.rows)) == 1 for length in found) and len({length.rows[0] for length in found}) == 1:
        number = found[0].rows[0]
        print(f"every chunk printed {number} row{'' if number == 1 else 's'}, whatever its length: their number is no count of anything",
              file=sys.stderr)
    return found


def _run_length(chunk: Fraction, stride: Fraction, table: ChunkTable, bar: Progress, before: int) -> Length:
    rows: list[int] = []
    failed: Counter[str] = Counter()
    slowest, count = 0.0, table.table.grid.count
    bar.reach(before, f"{duration(chunk)}: chunk 1 of {count}")
    for run in table.runs(early=True):
        rows.append(len(lines_of(run.result.stdout)) if run.well else 0)
        if run.well:
            slowest = max(slowest, run.result.ended - run.result.started)
        else:
            failed[run.result.outcome.value] += 1
        bar.reach(before + len(rows), f"{duration(chunk)}: chunk {min(len(rows) + 1, count)} of {count}")
    return Length(chunk, stride, table.table, tuple(rows), failed, slowest)


def _warn(length: Length, bar: Progress) -> None:
    for outcome, number in length.failed.items():
        bar.clear()
        print(f"chunks of {duration(length.chunk)}: in {number} of {len(length.rows)} the program {ENDINGS[outcome]}, "
              f"and counts as having printed nothing", file=sys.stderr)


# Errors

def compare(length: Length, meant: Meant, reference: Fraction, most: int) -> list[Errors]:
    """The errors of one chunk length for max_rows up to the most. `reference` is how many rows a second there should be."""
    table = _imagined(length, meant)
    found = length.kept(most) * table.grid.count
    values = sorted({*_some(most, _COMPUTED), max(1, *length.rows)})
    return [Errors(length, max_rows, float(found - reference * meant.window), float(length.kept(max_rows) * table.grid.count - found),
                   _noise(replace(table, max_rows=max_rows), meant.epsilon)) for max_rows in values]


def _imagined(length: Length, meant: Meant) -> Table:
    """The table that is meant, over a camera with the policy that is meant, which has filmed for as long as the window."""
    table = length.table
    footage, stops = table.camera.footage, _EPOCH + timedelta(microseconds=math.ceil(meant.window * 1_000_000))
    filmed = replace(footage, files=(replace(footage.files[0], first_frame=0, frames=math.ceil(meant.window * footage.fps) + 1),))
    camera = replace(table.camera, starts=_EPOCH, rho=meant.rho, k=meant.k, footage=filmed)
    return replace(table, camera=camera, grid=make_grid(_EPOCH, filmed, _EPOCH, stops, length.chunk, length.stride))


def _noise(table: Table, epsilon: Fraction) -> Output:
    """What the calculus adds to SELECT count(*) FROM the table."""
    return analyse(parse_select(_COUNT), {}, [table], epsilon, _no_expression, _NoRows()).outputs[0]


def _no_expression(expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
    raise AssertionError("a plain count has no expressions")


class _NoRows:
    """A plain count reads no public rows."""

    def is_unique(self, columns: Any, rows: Any, places: Any) -> bool:
        raise AssertionError

    def matching(self, columns: Any, rows: Any, condition: str) -> list[Key]:
        raise AssertionError


# The table

def _table(found: Sequence[Sequence[Errors]], best: Errors, expected: float) -> Iterator[str]:
    """A line for some values of max_rows of each length, the best of each among them."""
    yield _LINE.format("chunk", "max_rows", "chunking", "cut", "met", "noise 95 %", "error")
    for errors in found:
        own = min(errors, key=lambda one: one.error)
        shown = _some(max(1, *own.length.rows), _PRINTED)
        for one in errors:
            if one.max_rows in shown or one is own:
                cells = (duration(one.length.chunk), str(one.max_rows), _number(one.chunking, "+"), _number(one.cut, "+"),
                         str(one.noise.sensitivity / one.max_rows), f"+/-{float(one.noise.error95):.4g}", _number(one.error))
                share = f"{100 * one.error / expected:7.0f} %" if expected else ""
                yield _LINE.format(*cells) + share + ("  <- best" if one is best else "")
    yield "chunking, cut: rows added or lost by the chunk length and by max_rows; met: chunks that one event can meet;"
    yield "error: root mean square of chunking, cut and noise"


def _number(rows: float, sign: str = "") -> str:
    return f"{rows:{sign}.0f}" if abs(rows) >= 100 else f"{rows:{sign}.3g}" if round(rows, 6) else "0"


def _long(seconds: Fraction) -> str:
    """A window, in the unit that people would use.

    >>> _long(Fraction(43200)), _long(Fraction(90)), _long(Fraction(240))
    ('12h', '90s', '4min')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return duration(seconds)


def _some(most: int, number: int) -> list[int]:
    """So many values from 1 to the most, denser where they are small.

    >>> _some(5, 8), _some(100, 8)
    ([1, 2, 3, 4, 5], [1, 2, 4, 7, 14, 27, 52, 100])
    """
    if most <= number:
        return list(range(1, most + 1))
    return sorted({round(most ** (n / (number - 1))) for n in range(number)})
