"""What would make an answer more accurate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from privid.model import Evaluate, Mechanism, Output

from . import show
from .algebra import Release
from .bounds import draft
from .certificate import Cells, Change
from .draft import Draft

__all__ = ["hints"]


def hints(release: Release, cells: Cells, drafts: Sequence[Draft], outputs: Sequence[Output], evaluate: Evaluate) -> Iterator[str]:
    yield from _padded(release, cells, drafts, evaluate)
    for one, output in zip(drafts, outputs, strict=True):
        if not output.scale:
            continue
        if one.mechanism is Mechanism.AVERAGE and output.scales[0]:
            yield (f"If the number of rows is known beforehand, sum({show.expression(one.agg.args[0])}) divided by it outside needs no "
                   "noise on the count.")
            yield (f"The error of {show.aggregate(one.agg)} falls with the number of rows: {4.11 * float(output.scale):.4g} divided by it, "
                   "with probability 95 %.")


def _padded(release: Release, cells: Cells, drafts: Sequence[Draft], evaluate: Evaluate) -> Iterator[str]:
    """A public number of rows makes sums and averages better where the range is far from zero."""
    row = release.relation
    tables = [leaf.use.table for leaf in row.leaves]
    if row.form[0] != "scan" or any(t.pad for t in tables):
        return

    def dense(one: Change) -> Change:
        return replace(one, n=0, sigma=one.tau)

    padded = replace(release, relation=replace(row, changes=row.each(dense), full=True))
    for agg, one in zip(release.aggs, drafts, strict=True):
        if one.mechanism is not Mechanism.LAPLACE or agg.filter is not None:
            continue
        better = draft(agg, padded, cells, evaluate).sensitivity
        # the number of rows of a padded table tells nothing, so counting them is no improvement
        if better is not None and one.sensitivity is not None and 0 < better < one.sensitivity:
            yield (f"With the option pad 'on' {show.aggregate(agg)} would change by at most {show.number(better)} "
                   f"instead of {show.number(one.sensitivity)}.")
