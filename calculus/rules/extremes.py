"""min and max of a trusted time over whole chunks: a matter of the grid, not of what a program said.

Proof: extremes.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from privid.model import Evaluate, Key, Mechanism, TableUse

from .. import show
from ..alike import alike_value
from ..certificate import Cells, step
from ..chunks import values
from ..draft import Draft
from ..functions import names
from ..tree import Aggregate, Call, Col, Const, Expr

if TYPE_CHECKING:
    from ..algebra import Release

__all__ = ["RULE", "applies", "draft"]

RULE = "public extremes"
_TIMES = ("timestamptz", "timestamp", "date")
#: relations whose rows are those of whole chunks, chosen by trusted conditions alone
_WHOLE = ("scan",)


def applies(agg: Aggregate, release: Release) -> bool:
    return (names(agg.name)[1] in ("min", "max") and agg.filter is None and release.argmax is None
            and agg.args[0].type in _TIMES and release.relation.form[0] in _WHOLE
            and all(map(release.scope.trusted, (agg.args[0], *release.group))))


def draft(agg: Aggregate, release: Release, cells: Cells, evaluate: Evaluate) -> Draft:
    """The least or greatest value among the chunks of each group; NULL where there are none."""
    best: dict[Key, tuple[Decimal, str]] = {}
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


def _moments(wanted: Sequence[Expr], use: TableUse, evaluate: Evaluate) -> list[tuple[Key, Decimal, str]]:
    """Group, moment and text of each chunk; of a chunk's own time the first and the last are enough."""
    value = wanted[-1]
    if len(wanted) == 1 and isinstance(value, Col) and use.chunks:
        first, last = use.chunks[0][0], use.chunks[-1][1] - 1
        use = TableUse(use.table, ((first, first + 1), (last, last + 1)) if last > first else ((first, first + 1),))
    epoch = Call(type="numeric", fn=f"pg_catalog.extract(text,{value.type})", args=(Const(type="text", value="epoch"), value))
    return [(tuple(found[:-2]), Decimal(found[-2]), found[-1]) for _, _, found in values([*wanted[:-1], epoch, value], use, evaluate)
            if found[-2] is not None and found[-1] is not None]
