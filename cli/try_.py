"""Runs an executable on a video of your own, in the same sandbox as a table does, outside any policy.

Rows go to standard output, one JSON object per line with the time of the chunk since the start of the video. What the program writes to
its standard error, and how it ended where that was not well, goes to standard error. The exit code is 1 when any chunk did not end well.
"""

from __future__ import annotations

import argparse
import glob
import json
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

from privid.errors import PrividError
from privid.model import Footage
from privid.quantities import parse_duration

from .terminal import CommandFailed, progress

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "run an executable on a video of your own, to debug it"

#: no stack has as many lanes, so a trial shares a user with none of them
_LANE = 999
_STARTS = datetime(2000, 1, 1, tzinfo=UTC)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("executable", metavar="EXECUTABLE", type=Path, help="a Python module with process(chunk), or a program")
    parser.add_argument("video", metavar="VIDEO", type=Path, help="a video file")
    for option, default, text in (("--chunk", "5s", "length of a chunk"), ("--stride", "0s", "pause between chunks; may be negative"),
                                  ("--timeout", "1s", "time that a chunk may take")):
        parser.add_argument(option, metavar="DURATION", type=_duration, default=default, help=f"{text} (default: {default})")
    parser.add_argument("--max-rows", metavar="N", type=_count, default=None, help="rows kept of each chunk (default: all)")
    parser.add_argument("--chunks", metavar="N", type=_count, default=None, help="run the first N chunks only")


def run(options: argparse.Namespace) -> int:
    # these load numpy; the other commands start without
    from privid.sandbox.chunk import write_chunk_json
    from privid.sandbox.executable import classify, install
    from privid.sandbox.lane import GUARD, Lane
    from privid.sandbox.run import Outcome
    from privid.sandbox.runtime import find_runtime
    from privid.video import Decoder, make_grid, open_footage

    for file in (options.executable, options.video):
        if not file.is_file():
            raise CommandFailed(f'file "{file}" does not exist')
    content = options.executable.read_bytes()
    classify(content, options.executable.name)  # the quickest refusal first
    well = True
    with tempfile.TemporaryDirectory(prefix="privid-try-", dir="/dev/shm") as scratch_name:
        scratch = Path(scratch_name)
        video = options.video.resolve()
        footage = open_footage(video.parent, glob.escape(video.name), None, scratch)
        grid = make_grid(_STARTS, footage, _STARTS, _STARTS + _length(footage), options.chunk, options.stride)
        count = min(grid.count, options.chunks or grid.count)
        timeout = float(options.timeout)
        with (Lane(_LANE, runtime=find_runtime(), scratch=scratch) as lane, Decoder(video.parent, footage) as decoder,
              progress(count) as bar):
            program = scratch / "program"
            kind = install(content, options.executable.name, program)
            folder = scratch / "chunk"
            folder.mkdir(mode=0o755)
            for index in range(count):
                first = grid.frames(index)[0]
                since = timedelta(microseconds=round(first * 1_000_000 / footage.fps))
                bar.reach(index, f"chunk {index + 1} of {count}")
                decoder.read(first, grid.size, folder)
                write_chunk_json(folder, start=_STARTS + since, fps=footage.fps, camera=video.stem, region="", width=footage.width,
                                 height=footage.height, frames=grid.size)
                begin = time.monotonic() + GUARD
                result = lane.run(program, kind, folder, begin, begin + timeout)
                bar.clear()
                _show(str(since), result.stdout, result.stderr, options.max_rows)
                if result.outcome is not Outcome.OK:
                    well = False
                    print(f"{since}: the program {_ENDINGS[result.outcome.value]}; a table would hold its default row", file=sys.stderr)
    return 0 if well else 1


_ENDINGS = {"crashed": "crashed", "timed out": "did not end in time", "flooded": "wrote too much", "cancelled": "was ended"}


def _show(since: str, stdout: bytes, stderr: bytes, max_rows: int | None) -> None:
    for text in stderr.decode(errors="replace").splitlines():
        print(f"{since}: {text}", file=sys.stderr)
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


def _length(footage: Footage) -> timedelta:
    return timedelta(microseconds=round(footage.frames * 1_000_000 / footage.fps))


def _duration(text: str) -> Fraction:
    try:
        return parse_duration(text, "")
    except PrividError as error:
        raise argparse.ArgumentTypeError(f'"{text}" is not a duration. {error.hint}') from None


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of at least 1')
    return int(text)
