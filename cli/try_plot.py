"""The picture of `privid try --tune`: the error of a count by max_rows, a curve for each chunk length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .plot import Plot, ticks
from .try_measure import duration

if TYPE_CHECKING:
    from .try_tune import Errors

__all__ = ["draw"]


def draw(found: Sequence[Sequence[Errors]], best: Errors, title: str) -> Plot:
    """Errors on a scale of powers of ten: what is cut can be a thousand times what noise adds."""
    every = [one for errors in found for one in errors if one.error > 0]
    most = max(one.max_rows for one in every)
    low, high = math.log10(best.error / 2), math.log10(2 * max(one.error for one in every))
    plot = Plot(title, (0, most * 1.35), (low, high))  # the legend is where no curve is
    plot.axes([(tick, f"{tick:g}") for tick in ticks(most) if tick == int(tick)],
              [(math.log10(tick), f"{tick:g}") for tick in _powers(low, high)], "max_rows",
              "expected error, in rows: chunking, cut and noise together")
    for number, errors in enumerate(found):
        plot.curve([(one.max_rows, math.log10(one.error)) for one in errors if one.error > 0], number)
    plot.cross(best.max_rows, math.log10(best.error), f"chunk {duration(best.length.chunk)}, max_rows {best.max_rows}: {best.error:.3g}")
    plot.legend([f"chunk {duration(errors[0].length.chunk)}" for errors in found], high=True)
    return plot


def _powers(low: float, high: float) -> list[float]:
    """Numbers for an axis between two powers of ten.

    >>> _powers(0.1, 1.8), len(_powers(0, 6))
    ([2.0, 5.0, 10.0, 20.0, 50.0], 7)
    """
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0 ** n for n in range(math.floor(low), math.ceil(high) + 1) for factor in factors]
        shown = [tick for tick in found if low <= math.log10(tick) <= high]
        if len(shown) <= 8:
            break
    return shown
