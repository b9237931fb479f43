"""DISTINCT over a UNION ALL in which a relation occurs more than once: it counts once.

Proof: union_once.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from ..certificate import AnyRelation, step

__all__ = ["RULE", "kept", "says"]

RULE = "union once"
Part = TypeVar("Part")


def kept(parts: Sequence[Part], same: Callable[[Part, Part], bool]) -> list[Part]:
    """Each relation once."""
    found: list[Part] = []
    for part in parts:
        if not any(same(part, other) for other in found):
            found.append(part)
    return found


def says(below: AnyRelation, parts: int, once: int) -> AnyRelation:
    """For people: what has been left out."""
    told = f"{parts} parts, of which {parts - once} repeat another: equal rows become one in the end, so a relation counts once"
    return replace(below, derivation=step(RULE, told, below.bound, [below.derivation]))
