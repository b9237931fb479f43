"""Regions: a chunk is run once for each part of the picture, and one event shows in g of them.

Proof: regions.md.
"""

from __future__ import annotations

from collections.abc import Callable

from privid.model import Table, TableUse
from privid.pieces import Pieces, View, most_met

from ..certificate import Derivation, step
from . import mask

__all__ = ["RULE", "explained", "factor", "met", "stays", "views"]

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
    crossed = _crossed(table)
    if crossed is not None:
        return min(crossed, use.shown)
    if table.regions.boundary == "soft" and table.regions.apart and table.grid.size == 1:
        return min(table.regions.straddle, use.shown)
    return use.shown


def _crossed(table: Table) -> int | None:
    """In how many cells of a grid one event shows within a chunk, where the regions are such: each lies in a cell of its own."""
    cut = table.regions
    if cut is None or cut.cells is None or not cut.apart or (extent := cut.cells.extent(cut.parts)) is None:
        return None
    return cut.cells.met(table.grid.size, table.camera.footage.fps, *extent)


def met(use: TableUse, reach: Callable[[int], int]) -> int:
    """The most runs in which one appearance is visible, when a run of r frames meets `reach(r)` of the chunks."""
    table, own = use.table, use.table.visible_in_region
    everywhere = factor(use) * mask.met(table, reach)
    return everywhere if own is None else min(everywhere, _visited(use) * most_met(own, table.grid.size, table.grid.step, reach))


def views(use: TableUse) -> list[View]:
    """The same as what it is the least of, for the ledger, which says what of it holds within a segment."""
    table, own, g = use.table, use.table.visible_in_region, factor(use)
    found = [View(table.visible, g)]
    if table.mask is not None:
        found.append(View(Pieces.whole(table.camera.r), g))
    return found if own is None else [*found, View(own, _visited(use))]


def _visited(use: TableUse) -> int:
    """In how many of the regions that run one appearance can be visible at all."""
    return 1 if stays(use.table) else use.shown


def explained(use: TableUse, reach: Callable[[int], int]) -> list[Derivation]:
    """The step of a derivation, for a table that has regions."""
    table, own = use.table, use.table.visible_in_region
    if table.regions is None:
        return []
    found, among = factor(use), f"{use.shown} of {len(table.regions.parts)} regions run"
    if not table.regions.apart:
        why = "some share pixels, so that no promise of the borders helps"
    elif stays(table):
        why = "an event never leaves its region"
    elif (crossed := _crossed(table)) is not None and table.regions.cells is not None:
        wide, high = table.regions.cells.size
        why = f"within the {table.grid.size} frames of a chunk an event of {wide} x {high} pixels shows in at most {crossed} cells"
    elif table.grid.size == 1:
        why = f"within the one frame of a chunk an event shows in at most {table.regions.straddle}"
    else:
        why = f"within the {table.grid.size} frames of a chunk an event may cross them all"
    bound = f"g={found}"
    if own is not None:
        chunks = most_met(own, table.grid.size, table.grid.step, reach)
        why += f"; in one region an appearance is visible in at most {mask.in_words(own)}, which meet {chunks} chunks"
        bound += f", {_visited(use)} * {chunks} runs"
    return [step(RULE, f'"{table.regions.name}": {among}; {why}', bound)]
