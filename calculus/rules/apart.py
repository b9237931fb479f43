"""Relations of different hard regions: an event changes those of its own region alone.

Proof: apart.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from privid.model import Regions

from ..certificate import Leaf
from . import regions

__all__ = ["RULE", "Where", "says", "where", "worst"]

RULE = "regions apart"
Change = TypeVar("Change")


@dataclass(frozen=True)
class Where:
    """Some of an owner's hard regions, by place: no event elsewhere changes the relation."""

    regions: Regions
    places: frozenset[int]


def where(leaves: Sequence[Leaf], camera: str) -> Where | None:
    """Where an event of the camera must be to change what comes from these scans; None: anywhere."""
    uses = [leaf.use for leaf in leaves if leaf.use.table.camera.name == camera]
    defined = {use.table.regions if regions.stays(use.table) else None for use in uses}
    if len(defined) != 1:
        return None
    (found,) = defined
    if found is None:
        return None
    return Where(found, frozenset(place for use in uses for place, spans in enumerate(use.by_region) if spans))


def worst(parts: Sequence[tuple[Where | None, Change]], total: Callable[[Sequence[Change]], Change],
          greatest: Callable[[Sequence[Change]], Change]) -> Change:
    """What one event does to all parts together: what is anywhere adds up, and of what lies in regions of one owner's list that which has
    the region of the event. `greatest` is an upper bound of several changes of which one happens."""
    added = [change for place, change in parts if place is None]
    lists: dict[Regions, list[tuple[frozenset[int], Change]]] = {}
    for place, change in parts:
        if place is not None:
            lists.setdefault(place.regions, []).append((place.places, change))
    for found, members in lists.items():
        met = [[change for places, change in members if region in places] for region in range(len(found.parts))]
        added.append(greatest([total(changes) for changes in met if changes] or [change for _, change in members]))
    return total(added)


def says(sides: Sequence[Sequence[Leaf]], cameras: Sequence[str]) -> str:
    """For people: a remark where some sides lie in different regions."""
    for camera in cameras:
        found = [place for leaves in sides if (place := where(leaves, camera)) is not None]
        if any(one.regions == other.regions and not one.places & other.places for i, one in enumerate(found) for other in found[:i]):
            return "; an event never leaves its region, so it changes one side"
    return ""
