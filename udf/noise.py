"""Exact noise: discrete Laplace on the integers by OpenDP, so that no floating-point rounding can tell one answer from another.

Values are counted in steps of their grid, given to OpenDP as whole numbers, and come back as whole numbers. OpenDP's own privacy
map is asked: the scale is the least float at which the map grants the output's share of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import opendp.prelude as dp

from privid.errors import InvalidValue
from privid.model import Key, Output, Plan

from .grid import decimals

__all__ = ["MAX_SCALE", "MAX_VALUE", "float_scale", "notice", "perturb"]

#: steps of the grid: beyond this a 64-bit integer might not hold value and noise together
MAX_SCALE = 2**55
#: steps of the grid: no value of an answer and no sensitivity is larger
MAX_VALUE = 2**62
#: floats above the exact scale that are tried before giving up
_TRIES = 64

dp.enable_features("contrib")


def perturb(plan: Plan, rows: Sequence[Sequence[str | None]]) -> list[list[str | None]]:
    """The answer: one row for each key of the plan, in its order, whatever the raw rows are."""
    width = len(plan.keys[0]) if plan.keys else 0
    place = {key: i for i, key in enumerate(plan.keys)}
    totals = [[0] * len(plan.keys) for _ in plan.outputs]
    for raw in rows:
        i = _find(tuple(raw[:width]), place)
        if i is None:
            continue  # a group that the statement does not declare
        for j, output in enumerate(plan.outputs):
            totals[j][i] += _steps(raw[width + j], output)
    columns = [_shown(_noised(column, output), output) for column, output in zip(totals, plan.outputs, strict=True)]
    return [[*key, *(column[i] for column in columns)] for i, key in enumerate(plan.keys)]


def notice(plan: Plan) -> str:
    """One line for the client."""
    if not any(o.scale for o in plan.outputs):
        return "exact answer: nothing that is protected can change it; no epsilon was charged"
    each = "; ".join(f"{o.label}: scale {_number(o.scale)}, 95 % error ±{_number(o.error95)}" if o.scale else f"{o.label}: exact"
                     for o in plan.outputs)
    return f"epsilon {_number(plan.epsilon)} was charged; {each}"


def float_scale(output: Output) -> float:
    """The least float, not below the exact scale, for which OpenDP's map stays within the share of epsilon."""
    steps = output.scale / output.step
    if steps > MAX_SCALE:
        raise InvalidValue(f"noise for {output.label} would be too large to be exact",
                           detail=f"Its scale would be {float(output.scale):g} in steps of {float(output.step):g}.",
                           hint="Raise privid.epsilon, or use a narrower range.")
    change = steps * output.epsilon
    if change.denominator != 1:
        raise ValueError(f"the sensitivity of {output.label} is not a multiple of its step")
    scale = float(steps)
    if Fraction(scale) < steps:
        scale = math.nextafter(scale, math.inf)
    for _ in range(_TRIES):
        if Fraction(_laplace(scale).map(int(change))) <= output.epsilon:
            return scale
        scale = math.nextafter(scale, math.inf)
    raise ValueError(f"no scale near {steps} grants epsilon {output.epsilon}")


@lru_cache(maxsize=64)
def _laplace(scale: float) -> Any:
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)


def _noised(column: list[int], output: Output) -> list[int]:
    if not output.scale or not column:
        return column
    # the plan allows no larger values; clamping cannot widen a change, so this is safe even if it were wrong
    return [int(v) for v in _laplace(float_scale(output))([max(-MAX_VALUE, min(MAX_VALUE, v)) for v in column])]


def _find(key: Key, place: dict[Key, int]) -> int | None:
    """Where a raw group belongs. A float8 zero may print a sign that equality does not see."""
    if key in place:
        return place[key]
    return place.get(tuple("0" if text == "-0" else text for text in key))


def _steps(text: str | None, output: Output) -> int:
    """A raw value in steps of the grid; the sum of nothing is nothing."""
    if text is None:
        return 0
    value = Fraction(text) / output.step
    if value.denominator != 1:
        raise ValueError(f"a raw value of {output.label} is not on its grid")
    return value.numerator


def _shown(column: list[int], output: Output) -> list[str]:
    """The text form of the column's type."""
    places = 0 if output.type == "int8" else decimals(output.step)
    if not places:
        return [str(v * output.step.numerator) for v in column]
    unit = 10**places
    return [f"{'-' if v < 0 else ''}{abs(v) // unit}.{abs(v) % unit:0{places}d}" for v in column]


def _number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.6g}"
