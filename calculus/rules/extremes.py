"""min and max of a trusted time over whole chunks: a matter of the grid, not of what a program said.

Proof: extremes.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from privid.model import Evaluate, Key, Mechanism, TableUse

from .. import show
from ..alike import alike_value
from ..certificate import Cells, step
from ..chunks import runs
from ..draft import Draft
from ..functions import names
from ..tree import Aggregate, Call, Col, Const, Expr
from ..weight import Keys

if TYPE_CHECKING:
    from ..algebra import Release

__all__ = ["RULE", "applies", "draft"]

RULE = "public extremes"
_TIMES = ("timestamptz", "timestamp", "date")


def applies(agg: Aggregate, release: Release) -> bool:
    return (names(agg.name)[1] in ("min", "max") and agg.filter is None and release.argmax is None
            and agg.args[0].type in _TIMES and release.whole
            and all(map(release.scope.trusted, (agg.args[0], *release.group))))


def draft(agg: Aggregate, release: Release, cells: Cells, evaluate: Evaluate) -> Draft:
    """The least or greatest value among the chunks of each group; NULL where there are none."""
    best: dict[Key, tuple[Decimal, str]] = {}  # as many as there are groups
    (leaf,) = release.relation.leaves
    greatest = names(agg.name)[1] == "max"
    wanted = [e if isinstance(e, Const) else release.scope.cells(e)[leaf.number] for e in (*map(alike_value, release.group), agg.args[0])]
    for key, moment, text in _moments(wanted, leaf.use, evaluate):
        known = best.get(key)
        if known is None or (moment > known[0] if greatest else moment < known[0]):
            best[key] = (moment, text)
    found = tuple(best[key][1] if key in best else None for key in cells.keys)
    says = f"{show.aggregate(agg)} of the chunks that are read, whatever the video shows"
    return Draft(agg, Mechanism.EXACT, dict.fromkeys(release.relation.cameras, Fraction(0)), (), None, None, Fraction(1), None,
                 step(RULE, says, "public", [cells.derivation]), public=found)


def _moments(wanted: Sequence[Expr], use: TableUse, evaluate: Evaluate) -> Iterator[tuple[Key, Decimal, str]]:
    """Group, moment and text of each chunk; of a chunk's own time the first and the last of a group's neighbours are enough."""
    value = wanted[-1]
    epoch = Call(type="numeric", fn=f"pg_catalog.extract(text,{value.type})", args=(Const(type="text", value="epoch"), value))
    if isinstance(value, Col):
        groups = Keys()
        ends = [(groups.one(key), (lo, hi - 1)) for lo, hi, _, key in (runs(wanted[:-1], use, evaluate) if wanted[:-1] else _all(use))]
        singles = tuple((chunk, chunk + 1) for chunk in sorted({chunk for _, pair in ends for chunk in pair}))
        known = {lo: found for lo, _, _, found in runs([epoch, value], TableUse(use.table, singles), evaluate)}
        yield from ((group, Decimal(moment), text) for group, pair in ends for moment, text in (known[chunk] for chunk in pair)
                    if moment is not None and text is not None)
        return
    for _, _, _, (*key, moment, text) in runs([*wanted[:-1], epoch, value], use, evaluate):
        if moment is not None and text is not None:
            yield tuple(key), Decimal(moment), text


def _all(use: TableUse) -> Iterator[tuple[int, int, int, Key]]:
    """All chunks as one group."""
    yield from ((lo, hi, 0, ()) for lo, hi in use.chunks)
