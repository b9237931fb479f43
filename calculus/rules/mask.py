"""Mask: what is left visible of an appearance comes in short pieces, few frames in all, within one segment of the camera.

Proof: mask.md.
"""

from __future__ import annotations

from collections.abc import Callable

from privid.model import Table
from privid.pieces import Pieces, most_met

from ..certificate import Derivation, step

__all__ = ["RULE", "explained", "in_words", "met"]

RULE = "mask"


def met(table: Table, reach: Callable[[int], int], gain: int = 1) -> int:
    """The most that one appearance meets of something, when a run of r frames meets `reach(r)` of it, and of one chunk at most `gain`.

    Without a mask an appearance is one run of the camera's r frames. Behind one it is at most κ runs of r_M frames, v_M frames in all,
    within that run.
    """
    whole = reach(table.camera.r)
    return whole if table.mask is None else min(most_met(table.visible, table.grid.size, table.grid.step, reach, gain), whole)


def explained(table: Table, reach: Callable[[int], int]) -> list[Derivation]:
    """The step of a derivation, for a table that has a mask."""
    if table.mask is None:
        return []
    seen = table.visible
    says = (f'"{table.mask.name}": an appearance is visible in at most {in_words(seen)}, which meet '
            f"{most_met(seen, table.grid.size, table.grid.step, reach)} chunks, all within {table.camera.r} frames, which meet "
            f"{reach(table.camera.r)}")
    return [step(RULE, says, f"m={met(table, reach)}")]


def in_words(seen: Pieces) -> str:
    """The pieces of an appearance, and all of them together where that says more."""
    pieces = "one piece" if seen.count == 1 else f"{seen.count} pieces"
    return f"{pieces} of {seen.r} frames" + (f", {seen.total} frames in all" if seen.total < seen.count * seen.r else "")
