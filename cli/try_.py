"""Runs an executable on a video of your own, in the same sandbox as a table does, outside any policy.

Rows go to standard output, one JSON object per line with the time of the chunk since the start of the video: as the program printed
them, or with --columns as a table would hold them, defaults in the place of what failed. What the program writes to
its standard error, and how it ended where that was not well, goes to standard error. The exit code is 1 when any chunk did not end well.
"""

from __future__ import annotations

import argparse
import glob
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from privid.errors import PrividError
from privid.quantities import parse_duration

from .terminal import CommandFailed, progress

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "run an executable on a video of your own, to debug it"

#: the most that any table may keep of a chunk
MAX_ROWS = 100_000
_STARTS = datetime(2000, 1, 1, tzinfo=UTC)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("executable", metavar="EXECUTABLE", type=Path, help="a Python module with process(chunk), or a program")
    parser.add_argument("video", metavar="VIDEO", type=Path, help="a video file")
    for option, default, text in (("--chunk", "5s", "length of a chunk"), ("--stride", "0s", "pause between chunks; may be negative"),
                                  ("--timeout", "1s", "time that a chunk may take")):
        parser.add_argument(option, metavar="DURATION", type=_duration, default=default, help=f"{text} (default: {default})")
    parser.add_argument("--max-rows", metavar="N", type=_count, default=None, help="rows kept of each chunk (default: all)")
    parser.add_argument("--columns", metavar="LIST", type=_columns, default=None,
                        help="print rows as a table with these columns would hold them: \"kind text DEFAULT '', speed float8\" "
                             "(without a DEFAULT: empty, 0 or false)")
    parser.add_argument("--attach", metavar="FILE", type=Path, action="append", default=[],
                        help="a file beside the executable that it finds in chunk.files or /app/files; may be repeated")
    parser.add_argument("--runtime", metavar="NAME", default=None, help="what the program finds to import (default: python)")
    parser.add_argument("--cold", action="store_true", help="start a module from nothing for each chunk, as a plain program is")
    parser.add_argument("--chunks", metavar="N", type=_count, default=None, help="run the first N chunks only")


def run(options: argparse.Namespace) -> int:
    from privid.fdw.wrapper import ChunkTable  # it loads numpy; the other commands start without

    for file in (options.executable, options.video, *options.attach):
        if not file.is_file():
            raise CommandFailed(f'file "{file}" does not exist')
    executable, video = options.executable.resolve(), options.video.resolve()
    table = ChunkTable({
        "videos": str(video.parent), "source": glob.escape(video.name), "camera": video.stem, "starts": _STARTS.isoformat(),
        "executables": executable.root, "executable": str(executable), "files": ",".join(str(file.resolve()) for file in options.attach),
        "chunk": f"{options.chunk} s", "stride": f"{options.stride} s", "timeout": f"{options.timeout} s",
        "max_rows": str(options.max_rows or MAX_ROWS), "warm": "off" if options.cold else "on",
        **({"runtime": options.runtime} if options.runtime else {})}, options.columns or {})
    count = min(table.table.grid.count, options.chunks or table.table.grid.count)
    well = True
    with progress(count) as bar:
        bar.reach(0, f"chunk 1 of {count}")
        for done, run in enumerate(table.runs(first=count), 1):
            bar.clear()
            since = run.begins - _STARTS
            _show_errors(str(since), run.result.stderr)
            if options.columns:
                for row in table.rows(run):
                    print(json.dumps({"chunk": str(since), **dict(zip(options.columns, row, strict=True))}), flush=True)
            else:
                _show_rows(str(since), bytes(run.result.stdout), options.max_rows)
            if not run.well:
                well = False
                print(f"{since}: the program {_ENDINGS[run.result.outcome.value]}; a table would hold its default row", file=sys.stderr)
            bar.reach(done, f"chunk {min(done + 1, count)} of {count}")
    return 0 if well else 1


_ENDINGS = {"crashed": "crashed", "timed out": "did not end in time", "flooded": "wrote too much", "cancelled": "was ended"}


def _show_errors(since: str, stderr: bytes) -> None:
    for text in stderr.decode(errors="replace").splitlines():
        print(f"{since}: {text}", file=sys.stderr)


def _show_rows(since: str, stdout: bytes, max_rows: int | None) -> None:
    """What the program printed, whatever a table would make of it."""
    lines = [line for line in stdout.split(b"\n") if line.strip()]
    for line in lines[:max_rows]:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict):
            print(json.dumps({"chunk": since, **row}), flush=True)
        else:
            print(f"{since}: not a row: {line[:200].decode(errors='replace')}", file=sys.stderr)
    if max_rows is not None and len(lines) > max_rows:
        print(f"{since}: {len(lines) - max_rows} more rows than --max-rows were dropped", file=sys.stderr)


_STRING = r"'(?:[^']|'')*'"
#: what stands between commas that are in no string and in no parentheses
_PART = re.compile(rf"(?:{_STRING}|\((?:{_STRING}|[^()'])*\)|[^,'()])+")
_OPTION = re.compile(r"(\w+)\s+'((?:[^']|'')*)'")
_COLUMN = re.compile(rf"(\w+)\s+(text|float8|double precision|boolean|timestamptz)"
                     rf"(?:\s+OPTIONS\s*\(((?:\s*\w+\s+{_STRING}\s*,?)+)\))?(?:\s+DEFAULT\s+(.+))?", re.I)


@dataclass(frozen=True)
class _Column:
    """A column as the table for Python wants it described."""

    type_name: str
    options: Mapping[str, str]


def _columns(text: str) -> dict[str, _Column]:
    """Columns as CREATE FOREIGN TABLE has them; those that the system fills may stand there and are left out."""
    found: dict[str, _Column] = {}
    parts = _PART.findall(text)
    for part in parts if ",".join(parts) == text else [text]:
        match = _COLUMN.fullmatch(part.strip())
        if not match or (match[2].lower() == "timestamptz" and match[1] != "chunk"):
            raise argparse.ArgumentTypeError(f'"{part.strip()}" is not a column: write a name and text, float8 or boolean')
        if match[1] not in ("chunk", "region"):
            kind = match[2].lower()
            default = match[4] if match[4] is not None else {"text": "''", "boolean": "false"}.get(kind, "0")
            options = {name.lower(): value.replace("''", "'") for name, value in _OPTION.findall(match[3] or "")}
            found[match[1]] = _Column(kind, {"default": re.sub(r"^'(.*)'$", r"\1", default).replace("''", "'"), **options})
    return found


def _duration(text: str) -> Fraction:
    try:
        return parse_duration(text, "")
    except PrividError as error:
        raise argparse.ArgumentTypeError(f'"{text}" is not a duration. {error.hint}') from None


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of at least 1')
    return int(text)
