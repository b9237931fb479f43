"""Mask: what is left visible of an appearance comes in short pieces, all within one segment of the camera.

Proof: mask.md.
"""

from __future__ import annotations

from collections.abc import Callable

from privid.model import Table

from ..certificate import Derivation, step

__all__ = ["RULE", "explained", "met"]

RULE = "mask"


def met(table: Table, reach: Callable[[int], int]) -> int:
    """The most that one appearance meets of something, when a run of r frames meets `reach(r)` of it.

    Without a mask an appearance is one run of the camera's r frames. Behind one it is at most κ runs of r_M frames within that run.
    """
    whole = reach(table.camera.r)
    return whole if table.mask is None else min(table.pieces * reach(table.r), whole)


def explained(table: Table, reach: Callable[[int], int]) -> list[Derivation]:
    """The step of a derivation, for a table that has a mask."""
    if table.mask is None:
        return []
    pieces = "one piece" if table.pieces == 1 else f"{table.pieces} pieces"
    says = (f'"{table.mask.name}": an appearance is visible in at most {pieces} of {table.r} frames, which meet {reach(table.r)} chunks '
            f"each, all within {table.camera.r} frames, which meet {reach(table.camera.r)}")
    return [step(RULE, says, f"m={met(table, reach)}")]
