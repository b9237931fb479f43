"""GROUP BY trusted expressions: the groups are known from the chunks alone, and a segment pays once for all of them.

Proof: group_cells.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from privid.errors import NoRule
from privid.model import Evaluate, Key

from .. import show
from ..certificate import Row
from ..chunks import values
from ..tree import Expr, position

__all__ = ["MAX_KEYS", "RULE", "cells", "says"]

RULE = "group by trusted cells"
#: groups of one release
MAX_KEYS = 100_000


def cells(expressions: Sequence[Expr], row: Row, evaluate: Evaluate) -> list[Key]:
    """Every combination that a selected chunk has, in order of time."""
    found: dict[Key, None] = {}
    for _, key in values(expressions, row.use.table, row.use.chunks, evaluate):
        found.setdefault(key)
        if len(found) > MAX_KEYS:
            raise NoRule(f"GROUP BY has no rule for more than {MAX_KEYS} groups", position=position(expressions[0].loc),
                         detail="Every group that can occur is released.",
                         hint="Group by longer bins, for example date_trunc('hour', chunk).")
    return list(found)


def says(expressions: Sequence[Expr], found: Sequence[Key]) -> str:
    return f"{', '.join(map(show.expression, expressions))}: {len(found)} cells that share no chunk"
