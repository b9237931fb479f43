"""Averages and variances from noisy counts, sums and squares, with the interval that the theory gives for each answer.

Sums are taken around the middle of the range, where noise on the count costs least (calculus 6.2, 6.3). Everything until the
division is in whole numbers of a grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

from privid.model import Output

from .grid import decimals
from .interval import error95

__all__ = ["averages", "number", "pivot", "variances"]

#: adds noise of a scale, in steps, to whole numbers
Noise = Callable[[list[int], Fraction], list[int]]
Column = list[str | None]


def averages(output: Output, collected: list[Column], noise: Noise) -> tuple[Column, str | None]:
    """Middle plus noisy sum over noisy count, kept within the range."""
    low, high = _range(output)
    middle, half = (low + high) / 2, output.step / 2
    counts = [int(text or 0) for text in collected[0]]
    sums = [_whole((Fraction(text or 0) - middle * count) / half, output) for text, count in zip(collected[1], counts, strict=True)]
    noisy_counts = noise(counts, output.scales[0])
    noisy_sums = noise(sums, output.scales[1] / half)
    values = [middle if count <= 0 else min(high, max(low, middle + total * half / count))
              for total, count in zip(noisy_sums, noisy_counts, strict=True)]
    return [_text(value, output) for value in values], _interval(output, values, noisy_counts)


def _interval(output: Output, values: list[Fraction], counts: list[int]) -> str | None:
    if low_equals_high(output) or not values or not any(output.scales):
        return None
    low, high = _range(output)
    worst = high - low
    # a public number of rows leaves the sum's noise alone
    reach = float(error95(output.scales[1], output.step / 2)) if not output.scales[0] else pivot(0.05) * float(output.scales[1])
    if len(values) > 1:
        least = min(counts)
        within = min(float(worst), reach / least) if least > 0 else float(worst)
        return f"each within +/-{within:.6g} with probability 95 %" if least > 0 else "95 % intervals reach far where few rows were seen"
    if counts[0] <= 0:
        return f"95 % interval [{number(low)}, {number(high)}]: too few rows were seen"
    within = reach / counts[0]
    ends = max(float(low), float(values[0]) - within), min(float(high), float(values[0]) + within)
    return f"95 % interval [{ends[0]:.6g}, {ends[1]:.6g}]"


def pivot(alpha: float) -> float:
    """x with e^-x (1 + x/2) = alpha: the sum of two Laplace variables of scale 1 exceeds it with probability alpha.

    >>> round(pivot(0.05), 2), round(pivot(0.01), 2)
    (4.11, 5.99)
    """
    x = 1.0
    for _ in range(100):
        x = -math.log(alpha / (1 + x / 2))
    return x


def variances(output: Output, collected: list[Column], noise: Noise) -> tuple[Column, str | None]:
    """From count, sum and squares around the middle, each noisy; the deviation is the root."""
    low, high = _range(output)
    assert output.spread is not None
    middle, half = (low + high) / 2, (high - low) / 2
    fine = output.step * output.step / 8
    counts, sums, squares = [], [], []
    for count, total, square in zip(*collected, strict=True):
        n, s, q = int(count or 0), Fraction(total or 0), Fraction(square or 0)
        counts.append(n)
        sums.append(_whole((s - middle * n) * 2 / output.step, output))
        squares.append(_whole((q - 2 * middle * s + (middle * middle - half * half / 2) * n) / fine, output))
    noisy_counts = noise(counts, output.scales[0])
    noisy_sums = noise(sums, output.scales[1] * 2 / output.step)
    noisy_squares = noise(squares, output.scales[2] / fine)
    shown: Column = []
    for size, first, second in zip(noisy_counts, noisy_sums, noisy_squares, strict=True):
        value = half * half / 3 if size <= 0 else second * fine / size + half * half / 2 - (first * output.step / 2 / size) ** 2
        value = min(half * half, max(Fraction(0), value))
        if output.spread.sample and size > 1:
            value = value * size / (size - 1)
        shown.append(_text(_root(value) if output.spread.root else value, output))
    return shown, _spread_interval(output, noisy_counts, noisy_sums, noisy_squares, half, fine) if len(shown) == 1 else None


def _spread_interval(output: Output, counts: list[int], sums: list[int], squares: list[int], half: Fraction, fine: Fraction) -> str | None:
    """Union bound on the three numbers, then the extremes of the quotients."""
    assert output.spread is not None
    if low_equals_high(output):
        return None
    reach = [float(scale) * math.log(1 / (0.05 / 3)) for scale in output.scales]
    most, least = counts[0] + reach[0], counts[0] - reach[0]
    top = float(half * half)
    if least < 1:
        return f"95 % interval [0, {math.sqrt(top) if output.spread.root else top:.6g}]: too few rows were seen"
    total, square = float(sums[0] * output.step / 2), float(squares[0] * fine)
    second = [(square + d * reach[2]) / n for d in (-1, 1) for n in (least, most)]
    first = [(total + d * reach[1]) / n for d in (-1, 1) for n in (least, most)]
    lowest = 0.0 if min(first) <= 0 <= max(first) else min(f * f for f in first)
    ends = [min(top, max(0.0, v)) for v in (min(second) + top / 2 - max(f * f for f in first), max(second) + top / 2 - lowest)]
    if output.spread.sample:
        ends = [ends[0], ends[1] * least / max(least - 1, 1)]
    if output.spread.root:
        ends = [math.sqrt(v) for v in ends]
    return f"95 % interval [{ends[0]:.6g}, {ends[1]:.6g}]"


def low_equals_high(output: Output) -> bool:
    return output.low == output.high


def _range(output: Output) -> tuple[Fraction, Fraction]:
    if output.low is None or output.high is None:
        raise ValueError(f"{output.label} has no range")
    return output.low, output.high


def _whole(value: Fraction, output: Output) -> int:
    if value.denominator != 1:
        raise ValueError(f"a raw value of {output.label} is not on its grid")
    return value.numerator


def _root(value: Fraction) -> Fraction:
    with localcontext() as context:
        context.prec = 30
        return Fraction((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())


def _text(value: Fraction, output: Output) -> str:
    """Four digits beyond the grid; more would be noise of the division."""
    if output.type == "float8":
        return repr(float(value)).removesuffix(".0")
    places = decimals(output.step) + 4
    unit = 10**places
    whole = round(value * unit)
    return f"{'-' if whole < 0 else ''}{abs(whole) // unit}.{abs(whole) % unit:0{places}d}"


def number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.6g}"
