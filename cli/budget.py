"""Shows what remains of a camera's budget over time, in the terminal and as a picture: privid budget street --png budget.png"""

from __future__ import annotations

import argparse
import shutil
import sys
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from .options import database_options
from .plot import Plot, bars
from .reading import Camera, read_camera, rows
from .target import Target, find_target

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "show what remains of a camera's budget over time"

#: from, to (seconds since the camera's first frame), remaining
Step = tuple[float, float, float]


def arguments(parser: argparse.ArgumentParser) -> None:
    database_options(parser)
    parser.add_argument("camera", metavar="CAMERA", help="name of the camera")
    parser.add_argument("--png", metavar="FILE", type=Path, help="draw it to this file as well")


def run(options: argparse.Namespace) -> int:
    target = find_target(options)
    camera = read_camera(target, options.camera)
    steps = _steps(target, camera)
    _print(camera, steps)
    if options.png is not None:
        _draw(camera, steps).save(options.png)
        print(f"Drawn to {options.png}.")
    return 0


def _steps(target: Target, camera: Camera) -> list[Step]:
    found = rows(target, "SELECT begins, ends, remaining::float8 FROM privid.budget WHERE camera = %s ORDER BY begins", camera.name)
    return [(_seconds(camera, begins), _seconds(camera, ends), float(remaining)) for begins, ends, remaining in found]


def _seconds(camera: Camera, moment: datetime) -> float:
    return (moment - camera.starts).total_seconds()


def _print(camera: Camera, steps: Sequence[Step]) -> None:
    width = max(20, min(100, shutil.get_terminal_size().columns - 12))
    fancy = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    least, most = min(step[2] for step in steps), max(step[2] for step in steps)
    print(f"camera {camera.name}: epsilon {camera.epsilon:g} per frame, rho {camera.rho}, k {camera.k}")
    lines = bars(_columns(steps, width), camera.epsilon, fancy=fancy)
    for number, line in enumerate(lines):
        label = f"{camera.epsilon:g}" if number == 0 else "0" if number == len(lines) - 1 else ""
        print(f"{label:>9} |{line}")
    ends = f"{camera.ends:%Y-%m-%d %H:%M:%S}"
    print(f"{'':9} +{'-' * width}")
    print(f"{'':10} {f'{camera.starts:%Y-%m-%d %H:%M:%S}':<{max(1, width - len(ends))}}{ends} UTC")
    print(f"remaining: {least:g} where least is left, {most:g} where most is")


def _columns(steps: Sequence[Step], width: int) -> list[float]:
    """The least that remains in each of so many equal stretches of time: what a window there could spend."""
    first, last = steps[0][0], steps[-1][1]
    begins = [step[0] for step in steps]
    columns = []
    for column in range(width):
        lo, hi = (first + (last - first) * edge / width for edge in (column, column + 1))
        n = max(0, bisect_right(begins, lo) - 1)
        columns.append(min(step[2] for step in steps[n:max(n + 1, bisect_right(begins, hi - 1e-9))]))
    return columns


def _draw(camera: Camera, steps: Sequence[Step]) -> Plot:
    first, last = steps[0][0], steps[-1][1]
    plot = Plot(f"Remaining budget of camera {camera.name}", (first, last), (0, camera.epsilon * 1.05 or 1))
    form = "%H:%M:%S" if last - first < 86400 else "%m-%d %H:%M" if last - first < 40 * 86400 else "%Y-%m-%d"
    ticks = [first + (last - first) * n / 6 for n in range(7)]
    plot.axes([(tick, camera.moment(tick).strftime(form)) for tick in ticks],
              [(camera.epsilon * n / 4, f"{camera.epsilon * n / 4:g}") for n in range(5)],
              f"first moment of a protected segment, UTC, from {camera.starts:%Y-%m-%d} on", "epsilon")
    plot.area(steps)
    return plot
