"""Shows what somebody loses who is seen longer or more often than a camera's policy protects: privid exposure street --png exposure.png

The bound is that of the paper's appendix on the degradation of privacy: how probably an adversary, who is wrong about an absent person at
most with the probability alpha, can detect a present one."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from .options import database_options, whole_number
from .plot import Plot
from .reading import Camera, read_camera, rows
from .target import Target, find_target
from .terminal import CommandFailed

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "show what being seen longer than the policy protects costs"

#: what the adversary accepts as the probability of a false alarm
ALPHAS = (0.001, 0.01, 0.1, 0.2)
TIMES = (0.5, 1, 2, 3, 5, 10)


def arguments(parser: argparse.ArgumentParser) -> None:
    database_options(parser)
    parser.add_argument("camera", metavar="CAMERA", help="name of the camera")
    parser.add_argument("--times", metavar="N", type=_count, default=None, help="how often the person appears (default: the camera's k)")
    parser.add_argument("--png", metavar="FILE", type=Path, help="draw it to this file as well")


def _count(text: str) -> int:
    return whole_number(text, 1, 1_000_000, "a number from 1 to 1000000")


def run(options: argparse.Namespace) -> int:
    target = find_target(options)
    camera = read_camera(target, options.camera)
    if not camera.rho or not camera.k:
        raise CommandFailed(f'camera "{camera.name}" protects nobody', "Its rho or k is 0.")
    times = options.times or camera.k
    print(f"camera {camera.name}: epsilon {camera.epsilon:g}, rho {camera.rho}, k {camera.k}; {times} appearances")
    print(f"{'each of':>16}  {'epsilon':>8}  " + "  ".join(f"alpha {alpha:g}".rjust(11) for alpha in ALPHAS))
    found = _exposure(target, camera, times, [float(factor) for factor in TIMES])
    for n, factor in enumerate(TIMES):
        epsilon, *detections = found[n]
        print(f"{camera.rho * factor!s:>16}  {epsilon:8g}  " + "  ".join(f"{detection:11.4f}" for detection in detections))
    print("Epsilon is the most that can be lost once the budget is spent; under alpha is the greatest probability of being detected.")
    if options.png is not None:
        _draw(target, camera, times).save(options.png)
        print(f"Drawn to {options.png}.")
    return 0


def _exposure(target: Target, camera: Camera, times: int, factors: Sequence[float]) -> list[list[float]]:
    """For each multiple of rho: epsilon, and the bound on detection for each alpha."""
    found = rows(target, """SELECT max(e.epsilon)::float8, array_agg(e.detection ORDER BY a.n)
                           FROM unnest(%s::float8[]) WITH ORDINALITY x(factor, n), unnest(%s::float8[]) WITH ORDINALITY a(alpha, n),
                                LATERAL privid.exposure(%s, %s * x.factor, %s, a.alpha) e
                           GROUP BY x.n ORDER BY x.n""", list(factors), list(ALPHAS), camera.name, camera.rho, times)
    return [[float(epsilon), *map(float, detections)] for epsilon, detections in found]


def _draw(target: Target, camera: Camera, times: int) -> Plot:
    furthest = max(2.0, min(20.0, math.ceil(6 * camera.k / (times * max(camera.epsilon, 0.3)))))
    title = f"Exposure beyond the policy: camera {camera.name}, epsilon {camera.epsilon:g}, k {camera.k}; seen {times} times"
    plot = Plot(title, (0, furthest), (0, 1))
    plot.axes([(furthest * n / 8, f"{furthest * n / 8:g}") for n in range(9)], [(n / 5, f"{n / 5:g}") for n in range(6)],
              f"duration of each appearance, in multiples of rho = {camera.rho}", "greatest probability of detection")
    factors = [furthest * n / 240 for n in range(1, 241)]
    found = _exposure(target, camera, times, factors)
    for number in range(len(ALPHAS)):
        plot.curve([(factor, values[number + 1]) for factor, values in zip(factors, found, strict=True)], number)
    plot.upright(1, "rho")
    plot.legend([f"false alarms {100 * alpha:g} %" for alpha in ALPHAS])
    return plot
