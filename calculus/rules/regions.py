"""Regions: a chunk is run once for each part of the picture, and one event shows in g of them.

Proof: regions.md.
"""

from __future__ import annotations

from privid.model import Table, TableUse

from ..certificate import Derivation, step

__all__ = ["RULE", "explained", "factor", "stays"]

RULE = "regions"


def stays(table: Table) -> bool:
    """Whether the owner promises that an event shows in one region all the time."""
    return table.regions is None or (table.regions.boundary == "hard" and table.regions.apart)


def factor(use: TableUse) -> int:
    """g: in how many of the regions that run one event can change what a chunk outputs."""
    table = use.table
    if stays(table):
        return 1
    assert table.regions is not None
    if table.regions.boundary == "soft" and table.regions.apart and table.grid.size == 1:
        return min(table.regions.straddle, use.shown)
    return use.shown


def explained(use: TableUse) -> list[Derivation]:
    """The step of a derivation, for a table that has regions."""
    table = use.table
    if table.regions is None:
        return []
    found, among = factor(use), f"{use.shown} of {len(table.regions.parts)} regions run"
    if not table.regions.apart:
        why = "some share pixels, so that no promise of the borders helps"
    elif stays(table):
        why = "an event never leaves its region"
    elif table.grid.size == 1:
        why = f"within the one frame of a chunk an event shows in at most {table.regions.straddle}"
    else:
        why = f"within the {table.grid.size} frames of a chunk an event may cross them all"
    return [step(RULE, f'"{table.regions.name}": {among}; {why}', f"g={found}")]
