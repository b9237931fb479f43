"""count(*) of the distinct values of trusted expressions over whole chunks: as many as there are, which is public.

Proof: count_groups.md.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from privid.model import Evaluate, Mechanism

from .. import show
from ..certificate import Cells, step
from ..draft import Draft
from ..expressions import Scope
from ..tree import Aggregate, Const, bare
from ..weight import MAX_KEYS
from . import count, group_cells

if TYPE_CHECKING:
    from ..algebra import Release

__all__ = ["RULE", "applies", "draft"]

RULE = "public groups"


def applies(agg: Aggregate, release: Release) -> bool:
    if release.counted is None or release.group or release.conditions or release.argmax is not None:
        return False
    rows, keys = release.counted
    scope = Scope.of(rows)
    every = all(isinstance(bare(arg), Const) and not scope.facts(arg).nullable for arg in agg.args)
    return (agg.name in count.IDENTITIES and every and not agg.distinct and agg.filter is None
            and bool(keys) and all(scope.trusted(key) and scope.local(key) for key in keys)
            and sum(leaf.use.count for leaf in rows.leaves) <= MAX_KEYS)


def draft(agg: Aggregate, release: Release, cells: Cells, evaluate: Evaluate) -> Draft:
    """Of the groups that GROUP BY of the same expressions would list."""
    assert release.counted is not None
    rows, keys = release.counted
    found = len(group_cells.cells(keys, rows, Scope.of(rows), evaluate))
    says = f"{', '.join(map(show.expression, keys))}: {found} groups of the chunks that are read, whatever the video shows"
    return Draft(agg, Mechanism.EXACT, dict.fromkeys(release.relation.cameras, Fraction(0)), (), None, None, Fraction(1), None,
                 step(RULE, says, "public", [cells.derivation]), public=(str(found),))
