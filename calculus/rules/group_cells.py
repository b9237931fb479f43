"""GROUP BY trusted expressions: the groups are known from the chunks alone, and a segment pays once for all of them.

Proof: group_cells.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from privid.errors import NoRule
from privid.model import Evaluate, Key

from .. import show
from ..alike import alike_text, alike_value
from ..certificate import Relation
from ..chunks import runs
from ..expressions import Scope
from ..tree import Const, Expr, position

__all__ = ["MAX_KEYS", "RULE", "cells", "says"]

RULE = "group by trusted cells"
#: groups of one release
MAX_KEYS = 100_000


def cells(expressions: Sequence[Expr], row: Relation, scope: Scope, evaluate: Evaluate, *, of_nothing: bool = False) -> list[Key]:
    """Every combination that a selected chunk has, in order of time, scan by scan. `of_nothing`: there may be rows although no chunk is
    selected, which are in the group of constants."""
    found: dict[Key, None] = {}
    by_expr = [scope.cells(e) for e in expressions]
    for leaf in row.leaves:
        if not leaf.use.count and not (of_nothing and all(isinstance(e, Const) for e in expressions)):
            continue
        here = [e if isinstance(e, Const) else known.get(leaf.number) for e, known in zip(expressions, by_expr, strict=True)]
        own = [e for e in here if e is not None]
        if len(own) < len(expressions):
            continue  # no row of this scan carries these columns
        if all(isinstance(e, Const) for e in own):
            found.setdefault(tuple(e.value and alike_text(e.type, e.value) for e in own if isinstance(e, Const)))
            continue
        for _, _, _, key in runs(list(map(alike_value, own)), leaf.use, evaluate):
            found.setdefault(key)
            if len(found) > MAX_KEYS:
                raise NoRule(f"GROUP BY has no rule for more than {MAX_KEYS} groups", position=position(expressions[0].loc),
                             detail="Every group that can occur is released.",
                             hint="Group by longer bins, for example date_trunc('hour', chunk).")
    return list(found)


def says(expressions: Sequence[Expr], found: Sequence[Key]) -> str:
    return f"{', '.join(map(show.expression, expressions))}: {len(found)} cells that share no chunk"
