"""What a release shows without noise, though something is protected: over any rows it is what it is where no program printed anything.

The engine computes it from that alone. A video leads to any other segment by segment; so a difference here is a claim that does not hold,
even where no single segment was seen to change the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privid.model import Plan
from privid.udf import noise

from .calculus_mechanisms import Answer, change, parts
from .calculus_world import DEFAULT, TABLES, Pair, World

__all__ = ["against_nothing", "contradiction"]


def nothing(tables: Sequence[str]) -> World:
    """Each table filled up where it is padded, and empty where it is not."""
    return {name: ((DEFAULT,) * (TABLES[name].max_rows if TABLES[name].pad else 0),) * len(TABLES[name].runs) for name in tables}


def against_nothing(pair: Pair) -> Pair:
    """One of a pair's worlds beside that; no neighbours."""
    return replace(pair, after=nothing(list(pair.before)))


def contradiction(plan: Plan, one: Answer, other: Answer) -> str | None:
    """What is shown without noise of these answers, where that differs."""
    shown = _shown(plan, one), _shown(plan, other)
    if shown[0] != shown[1]:
        return f"{shown[1]} of nothing, but {shown[0]}"
    for output, pieces in zip(plan.outputs, parts(plan), strict=True):
        for part in pieces:
            if not part.scale and change(one, other, part):
                return f"a part of {output.label} without noise is not what it is of nothing"
    return None


def _shown(plan: Plan, answer: Answer) -> list[list[str | None]]:
    """The columns that get no noise at all, for every key."""
    bare = tuple(replace(output, collects=output.collects or (i,)) for i, output in enumerate(plan.outputs)
                 if output.parts and not any(output.parts))
    return noise.perturb(replace(plan, outputs=bare), [(*key, *values) for key, values in answer.items()]) if bare else []
