"""GROUP BY trusted expressions: the groups are known from the chunks alone, and a segment pays once for all of them.

Proof: group_cells.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from privid.model import Evaluate, Key, TableUse

from .. import show
from ..alike import alike_text, alike_value
from ..certificate import Relation
from ..chunks import runs
from ..expressions import Scope, columns_of
from ..tree import Const, Expr
from ..weight import Keys

__all__ = ["RULE", "cells", "says"]

RULE = "group by trusted cells"


def cells(expressions: Sequence[Expr], row: Relation, scope: Scope, evaluate: Evaluate, *, of_nothing: bool = False) -> list[Key]:
    """Every combination that a selected chunk has, in order of time, scan by scan. `of_nothing`: there may be rows although no chunk is
    selected, which are in the group of constants."""
    found = Keys(expressions[0].loc if expressions else -1)
    by_expr = [scope.cells(e) for e in expressions]
    for leaf in row.leaves:
        here = [e if isinstance(e, Const) else known.get(leaf.number) for e, known in zip(expressions, by_expr, strict=True)]
        own = [e for e in here if e is not None]
        if len(own) < len(expressions):
            continue  # no row of this scan carries these columns
        constant = not any(map(columns_of, own))
        if not leaf.use.count and not (of_nothing and constant):
            continue
        if all(isinstance(e, Const) for e in own):
            found.one(tuple(e.value and alike_text(e.type, e.value) for e in own if isinstance(e, Const)))
            continue
        use = TableUse(leaf.use.table, ((0, 1),)) if constant else leaf.use  # the same in every chunk
        for _, _, _, key in runs(list(map(alike_value, own)), use, evaluate):
            found.one(key)
    return list(found.known)


def says(expressions: Sequence[Expr], found: Sequence[Key]) -> str:
    return f"{', '.join(map(show.expression, expressions))}: {len(found)} cells that share no chunk"
