"""Runs an executable on a video of your own, in the same sandbox as a table does, outside any policy.

Rows go to standard output, one JSON object per line with the time of the chunk since the start of the video: as the program printed
them, or with --columns as a table would hold them, defaults in the place of what failed. What the program writes to
its standard error, how it ended where that was not well, and at the end a summary with suggested table options go to standard error.
The exit code is 1 when any chunk did not end well.

With --tune it runs the executable once for each of several chunk lengths instead, and prints which error a count of its rows would have
for each length and each max_rows: from what is cut, and from noise.
"""

from __future__ import annotations

import argparse
import glob
import json
import sys
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from privid.errors import PrividError
from privid.quantities import parse_duration, parse_number

from .options import shortened, whole_number
from .terminal import CommandFailed, progress
from .try_columns import Column, columns

if TYPE_CHECKING:  # they load numpy and OpenCV; the other commands start without
    from privid.fdw.wrapper import ChunkTable
    from privid.model import Footage

__all__ = ["SUMMARY", "arguments", "make_table", "open_video", "run"]

SUMMARY = "run an executable on a video of your own, to develop it"

#: the most that any table may keep of a chunk
MAX_ROWS = 100_000
_STARTS = datetime(2000, 1, 1, tzinfo=UTC)
#: options that belong to --tune, and those that it leaves no use for
_FOR_TUNING = ("rho", "epsilon", "k", "window", "truth", "plot")
_NOT_FOR_TUNING = ("max_rows", "columns", "chunks")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("executable", metavar="EXECUTABLE", type=Path, help="a Python module with process(chunk), or a program")
    parser.add_argument("video", metavar="VIDEO", type=Path, help="a video file")
    parser.add_argument("--chunk", metavar="DURATION", type=_durations, default=None,
                        help="length of a chunk (default: 5s); with --tune several, separated by commas (default: around rho)")
    parser.add_argument("--stride", metavar="DURATION", type=_duration, default="0s",
                        help="pause between chunks (default: 0s); chunks that overlap: --stride=-1s")
    parser.add_argument("--timeout", metavar="DURATION", type=_duration, default=None,
                        help="time that a chunk may take (default: 1s; with --tune 60s)")
    parser.add_argument("--begin", metavar="DURATION", type=_duration, default=None, help="start so far into the video (default: 0s)")
    parser.add_argument("--end", metavar="DURATION", type=_duration, default=None, help="stop so far into the video (default: its end)")
    parser.add_argument("--chunks", metavar="N", type=_count, default=None, help="run the first N chunks only")
    parser.add_argument("--max-rows", metavar="N", type=_count, default=None, help="rows kept of each chunk (default: all)")
    parser.add_argument("--columns", metavar="LIST", type=columns, default=None,
                        help="print rows as a table with these columns would hold them: \"kind text DEFAULT '', speed float8\" "
                             "(without a DEFAULT: empty, 0 or false)")
    parser.add_argument("--attach", metavar="FILE", type=Path, action="append", default=[],
                        help="a file beside the executable that it finds in chunk.files or /app/files; may be repeated")
    parser.add_argument("--runtime", metavar="NAME", default=None, help="what the program finds to import (default: python)")
    parser.add_argument("--cold", action="store_true", help="start a module from nothing for each chunk, as a plain program is")
    tuning = parser.add_argument_group("with --tune")
    tuning.add_argument("--tune", action="store_true",
                        help="compare chunk lengths and max_rows by the error of a count; needs --rho and --epsilon")
    tuning.add_argument("--rho", metavar="DURATION", type=_duration, default=None, help="of the camera that is meant")
    tuning.add_argument("--k", metavar="N", type=_count, default=None, help="of the camera that is meant (default: 1)")
    tuning.add_argument("--epsilon", metavar="X", type=_number, default=None, help="what the release may take")
    tuning.add_argument("--window", metavar="DURATION", type=_duration, default=None,
                        help="what is counted over (default: the length of the video, from --begin to --end)")
    tuning.add_argument("--truth", metavar="N", type=_count, default=None,
                        help="rows that there should be in the video, from --begin to --end (default: as the longest chunks have them)")
    tuning.add_argument("--plot", metavar="FILE", type=Path, default=None, help="draw the errors to this file (PNG) as well")


def run(options: argparse.Namespace) -> int:
    _check(options)
    if options.tune:
        from .try_tune import tune
        return tune(options)
    from .try_measure import ENDINGS, duration, lines_of, measure, summary

    chunk, timeout = (options.chunk or (Fraction(5),))[0], options.timeout or Fraction(1)
    table = make_table(options, open_video(options), chunk, timeout)
    count = min(table.table.grid.count, options.chunks or table.table.grid.count)
    runs = []
    with progress(count) as bar:
        bar.reach(0, f"chunk 1 of {count}")
        for done, run in enumerate(table.runs(first=count, early=True), 1):
            bar.clear()
            since = run.begins - _STARTS
            _show_errors(str(since), run.result.stderr)
            if options.columns:
                for row in table.rows(run)[0]:
                    print(json.dumps({"chunk": str(since), **dict(zip(options.columns, row, strict=True))}), flush=True)
            else:
                _show_rows(str(since), lines_of(run.result.stdout), options.max_rows)
            runs.append(measure(run, table.table.untrusted, options.max_rows or MAX_ROWS))
            if not run.well:
                print(f"{since}: the program {ENDINGS[runs[-1].outcome]}; a table would hold its default row", file=sys.stderr)
            bar.reach(done, f"chunk {min(done + 1, count)} of {count}")
    given = {"chunk": duration(chunk), "stride": duration(options.stride), "timeout": duration(timeout),
             **({"runtime": options.runtime} if options.runtime else {})}
    for line in summary(runs, given, options.max_rows):
        print(line, file=sys.stderr)
    return 0 if all(measured.well for measured in runs) else 1


def _check(options: argparse.Namespace) -> None:
    """What no option's own type can refuse."""
    for file in (options.executable, options.video, *options.attach):
        if not file.is_file():
            raise CommandFailed(f'file "{file}" does not exist')
    for name in _NOT_FOR_TUNING if options.tune else _FOR_TUNING:
        if getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise CommandFailed(f"option {option} cannot be used {'with' if options.tune else 'without'} --tune",
                                {"max_rows": "Every max_rows is tried.", "columns": "Rows are only counted.",
                                 "chunks": "Use --end to try a part of the video."}.get(name, "Add --tune --rho DURATION --epsilon X."))
    if options.tune:
        for name, example in (("rho", "30s"), ("epsilon", "1")):
            if getattr(options, name) is None:
                raise CommandFailed(f"option --tune needs option --{name}",
                                    f"Add what the camera or the release will have: --{name} {example}.")
            if getattr(options, name) <= 0:
                raise CommandFailed(f"option --{name} must be above 0, but is {getattr(options, name)}",
                                    "Where nothing is protected there is no noise, and nothing to tune.")
        if options.window is not None and options.window <= 0:
            raise CommandFailed(f"option --window must be above 0, but is {options.window}")
        if options.plot is not None and (options.plot.suffix.lower() != ".png" or not options.plot.parent.is_dir()):
            raise CommandFailed(f'could not write "{options.plot}"', "Name a file that ends in .png, in a directory that exists.")
    elif options.chunk is not None and len(options.chunk) > 1:
        raise CommandFailed("option --chunk has more than one length", "Several lengths are compared with --tune.")


def open_video(options: argparse.Namespace) -> Footage:
    """The video, in which --begin and --end lie."""
    from privid.fdw.wrapper import probe
    from privid.quantities import show_duration

    video = options.video.resolve()
    footage = probe(video.parent, glob.escape(video.name))
    length = Fraction(footage.frames) / footage.fps
    for name in ("begin", "end"):
        value = getattr(options, name)
        if value is not None and not 0 <= value <= length:
            raise CommandFailed(f"option --{name} of {show_duration(value)} is outside the video, which lasts {float(length):g} s")
    if (options.begin or 0) >= (length if options.end is None else options.end):
        raise CommandFailed(f"option --begin of {show_duration(options.begin or Fraction(0))} is not before the end, "
                            f"{show_duration(length if options.end is None else options.end)}")
    return footage


def make_table(options: argparse.Namespace, footage: Footage, chunk: Fraction, timeout: Fraction,
               end: Fraction | None = None) -> ChunkTable:
    """The table that the options describe, over the video up to `end`."""
    from privid.fdw.wrapper import ChunkTable

    executable, video = options.executable.resolve(), options.video.resolve()
    offsets = {"begin": options.begin, "end": options.end if end is None else end}
    window = {name: _STARTS + timedelta(microseconds=round(offset * 1_000_000)) for name, offset in offsets.items() if offset is not None}
    described: dict[str, Column] = options.columns or {}
    return ChunkTable({
        "videos": str(video.parent), "source": glob.escape(video.name), "camera": video.stem, "starts": _STARTS.isoformat(),
        "executables": executable.root, "executable": str(executable), "files": ",".join(str(file.resolve()) for file in options.attach),
        "chunk": f"{chunk} s", "stride": f"{options.stride} s", "timeout": f"{timeout} s",
        "max_rows": str(options.max_rows or MAX_ROWS), "warm": "off" if options.cold else "on",
        **{name: moment.isoformat() for name, moment in window.items()},
        **({"runtime": options.runtime} if options.runtime else {})}, described, footage)


def _show_errors(since: str, stderr: bytes) -> None:
    for text in stderr.decode(errors="replace").splitlines():
        print(f"{since}: {text}", file=sys.stderr)


def _show_rows(since: str, lines: list[bytes], max_rows: int | None) -> None:
    """What the program printed, whatever a table would make of it."""
    for line in lines[:max_rows]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            print(json.dumps({"chunk": since, **row}), flush=True)
        else:
            print(f"{since}: not a row: {line[:200].decode(errors='replace')}", file=sys.stderr)
    if max_rows is not None and len(lines) > max_rows:
        print(f"{since}: {len(lines) - max_rows} more rows than --max-rows were dropped", file=sys.stderr)


def _duration(text: str) -> Fraction:
    try:
        return parse_duration(text, "")
    except PrividError as error:
        raise argparse.ArgumentTypeError(f'"{shortened(text)}" is not a duration. {error.hint}') from None


def _durations(text: str) -> tuple[Fraction, ...]:
    return tuple(sorted({_duration(part) for part in text.split(",")}))


def _number(text: str) -> Fraction:
    try:
        return parse_number(text, "")
    except PrividError as error:
        raise argparse.ArgumentTypeError(f'"{shortened(text)}" is not a number. {error.hint}') from None


def _count(text: str) -> int:
    return whole_number(text, 1, 10**18, "a number of at least 1")
