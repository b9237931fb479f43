"""Exact noise: discrete Laplace on the integers by OpenDP, so that no floating-point rounding can tell one answer from another.

Values are counted in steps of their grid, given to OpenDP as whole numbers, and come back as whole numbers. OpenDP's own privacy
map is asked: the scale is the least float at which the map grants the output's share of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import MAX_PREC, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, assert_never

import opendp.prelude as dp

from privid.errors import InvalidValue
from privid.model import Key, Mechanism, Output, Plan

from .grid import decimals
from .moments import averages, number, variances
from .quantiles import quantiles

__all__ = ["MAX_SCALE", "MAX_VALUE", "Rows", "answer", "choose", "float_scale", "notice", "perturb"]


#: steps of the grid: beyond this a 64-bit integer might not hold value and noise together
MAX_SCALE = 2**55
#: steps of the grid: no value of an answer and no sensitivity is larger
MAX_VALUE = 2**62
#: floats above the exact scale that are tried before giving up
_TRIES = 64

dp.enable_features("contrib")


#: rows of the inner query as text: keys, then what is collected
Rows = Sequence[Sequence[str | None]]


def perturb(plan: Plan, rows: Rows) -> list[list[str | None]]:
    """The answer: one row for each key of the plan, in its order, whatever the raw rows are."""
    return answer(plan, rows)[0]


def answer(plan: Plan, rows: Rows, settled: Rows | None = None) -> tuple[list[list[str | None]], str]:
    """The answer, and one line for the client with what the theory says of its error. `settled` has the numbers that get no noise, where
    they are computed apart: what becomes of the others does not show in them."""
    keys = plan.keys
    raw = _by_key(plan, rows)
    known = raw if settled is None else _by_key(plan, settled)
    if plan.argmax is not None:
        return _winners(plan, keys, raw), notice(plan)
    columns, remarks = [], []
    for j, output in enumerate(plan.outputs):
        if output.public is not None:
            columns.append(list(output.public))
            continue
        collected = [[None if row is None else row[c] for row in (raw if scale else known)]
                     for c, scale in zip(output.collects or (j,), output.parts, strict=True)]
        shown, remark = _column(output, collected)
        columns.append(shown)
        if remark:
            remarks.append(f"{output.label}: {remark}")
    told = notice(plan) + "".join(f"; {remark}" for remark in remarks)
    return [[*key, *(column[i] for column in columns)] for i, key in enumerate(keys)], told


def _by_key(plan: Plan, rows: Rows) -> list[Sequence[str | None] | None]:
    """What was collected for each key of the plan; None where there is no row."""
    width = len(plan.keys[0]) if plan.keys else 0
    place = {key: i for i, key in enumerate(plan.keys)}
    found: list[Sequence[str | None] | None] = [None] * len(plan.keys)
    for row in rows:
        i = _find(tuple(row[:width]), place)
        if i is not None:  # otherwise a group that the statement does not declare
            found[i] = row[width:] if found[i] is None else _added(plan, found[i] or (), row[width:])
    return found


def _added(plan: Plan, one: Sequence[str | None], other: Sequence[str | None]) -> Sequence[str | None]:
    """Two raw rows of one group: only the sign of a zero told them apart."""
    with localcontext() as context:
        context.prec = MAX_PREC  # numbers of bins have many digits
        return [a if b is None else b if a is None else f"{Decimal(a) + Decimal(b):f}" for a, b in zip(one, other, strict=True)]


def _column(output: Output, collected: list[list[str | None]]) -> tuple[list[str | None], str | None]:
    """One output over all keys, and a remark about its error."""
    match output.mechanism:
        case Mechanism.AVERAGE:
            return averages(output, collected, _noise)
        case Mechanism.VARIANCE:
            return variances(output, collected, _noise)
        case Mechanism.EXACT:
            return [_exact(text, output) for text in collected[0]], None
        case Mechanism.LAPLACE:
            steps = [_steps(text, output) for text in collected[0]]
            return list(_shown(_noised(steps, output), output)), None
        case Mechanism.QUANTILE:
            return quantiles(output, collected[0], choose), None
        case Mechanism.PERMUTE:
            raise ValueError("an argmax has no column")
        case _:
            assert_never(output.mechanism)


def _winners(plan: Plan, keys: Sequence[Key], raw: Sequence[Sequence[str | None] | None]) -> list[list[str | None]]:
    """One row for each cell: the candidate that permute-and-flip chose."""
    output, of = plan.outputs[0], plan.argmax or ()
    cells: dict[Key, list[int]] = {}
    for i, key in enumerate(keys):
        cells.setdefault(tuple(text for j, text in enumerate(key) if j not in of), []).append(i)
    answer: list[list[str | None]] = []
    for members in cells.values():
        scores = [_steps(None if (row := raw[i]) is None else row[output.collects[0] if output.collects else 0], output) for i in members]
        winner = members[choose(scores, output.scale / output.step, output.epsilon)]
        answer.append([*keys[winner], *(None for _ in plan.outputs)])
    return answer


def choose(scores: list[int], scale: Fraction, epsilon: Fraction) -> int:
    """The place of the largest score after exponential noise (permute-and-flip); without noise the first of the largest."""
    if not scale:
        return scores.index(max(scores))
    at_least = _float_at_least(scale)
    scores = [max(-MAX_VALUE, min(MAX_VALUE, score)) for score in scores]
    return int(_noisy_max(at_least)(scores))


@lru_cache(maxsize=16)
def _noisy_max(scale: float) -> Any:
    # scores that only rise: subtracting a constant from all of them changes nothing, so a range of Δ is a rise of at most Δ (argmax.md)
    return dp.m.make_noisy_max(dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True), dp.max_divergence(),
                               scale=scale)


def notice(plan: Plan) -> str:
    """One line for the client."""
    if not any(o.scale for o in plan.outputs):
        return "exact answer: nothing that is protected can change it; no epsilon was charged"
    charged = [cost.epsilon for cost in plan.costs if cost.epsilon]
    what = f"epsilon {number(plan.epsilon)} was charged" if len(charged) < 2 else (
        f"epsilon {number(max(charged))} was charged to one camera, less or as much to the {len(charged) - 1} others")
    return f"{what}; {'; '.join(map(_told, plan.outputs))}"


def _told(o: Output) -> str:
    if not o.scale:
        return f"{o.label}: exact"
    if o.mechanism is Mechanism.PERMUTE:
        return f"{o.label}: scale {number(o.scale)}, within {number(o.error95)} of the largest with probability 95 %"
    if o.quantile is not None:
        return f"{o.label}: scale {number(o.scale)}, its rank within {number(o.error95)} rows of the quantile with probability 95 %"
    if o.scales:
        parts = ", ".join(number(s) for s in o.scales)
        return f"{o.label}: scales {parts}"
    return f"{o.label}: scale {number(o.scale)}, 95 % error +/-{number(o.error95)}"


def _float_at_least(scale: Fraction) -> float:
    found = float(scale)
    return found if Fraction(found) >= scale else math.nextafter(found, math.inf)


def _noise(values: list[int], scale: Fraction) -> list[int]:
    """Noise of at least this scale, in steps, added to whole numbers."""
    if not scale or not values:
        return values
    if scale > MAX_SCALE:
        raise InvalidValue("noise would be too large to be exact", hint="Raise privid.epsilon, or use a narrower range.")
    return [int(v) for v in _laplace(_float_at_least(scale))([max(-MAX_VALUE, min(MAX_VALUE, v)) for v in values])]


def float_scale(output: Output) -> float:
    """The least float, not below the exact scale, for which OpenDP's map stays within the share of epsilon."""
    if output.scales or output.mechanism in (Mechanism.PERMUTE, Mechanism.QUANTILE):
        # several numbers share the epsilon, or one choice has it: the bound is on all together, and no scale is below its own
        return _float_at_least(output.scale / output.step)
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
    """A raw value in steps of the grid; the sum of nothing is nothing, and takes as long."""
    value = Fraction("0.0" if text is None else text) / output.step
    if value.denominator != 1:
        raise ValueError(f"a raw value of {output.label} is not on its grid")
    return value.numerator


def _exact(text: str | None, output: Output) -> str | None:
    """Without noise: in one form whatever rows it was made of, or of none. Only where no segment can change rows may it be on no grid."""
    if not output.protected and not output.counts:
        return text
    try:
        return _shown([_steps(text, output)], output)[0]
    except ValueError:
        if output.protected:
            raise
        return text


def _shown(column: Sequence[int], output: Output) -> list[str]:
    """The text form of the column's type."""
    places = 0 if output.type == "int8" else decimals(output.step)
    if not places:
        return [str(v * output.step.numerator) for v in column]
    unit = 10**places
    return [f"{'-' if v < 0 else ''}{abs(v) // unit}.{abs(v) % unit:0{places}d}" for v in column]
