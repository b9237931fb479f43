"""What a release claims of each camera's budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privid import calculus
from privid.ledger import Claim, Use
from privid.model import Camera, Plan, Span, Table, TableUse

__all__ = ["claims_of", "scenes_of"]


def claims_of(plan: Plan) -> list[Claim]:
    """What a release reads of each camera; a camera read through several tables is charged once for all frames."""
    tables: dict[str, list[TableUse]] = {}
    for use in plan.uses:
        tables.setdefault(use.table.camera.name, []).append(use)
    return [replace(_claim(uses[0].table.camera, uses, plan), scenes=scenes_of([use.table for use in uses])) for uses in tables.values()]


def scenes_of(tables: Sequence[Table]) -> list[str]:
    """The masks and regions of tables, in words."""
    masks = [f'mask "{table.mask.name}"' for table in tables if table.mask is not None]
    return masks + [f'regions "{table.regions.name}"' for table in tables if table.regions is not None]


def _claim(camera: Camera, uses: Sequence[TableUse], plan: Plan) -> Claim:
    costs = {cost.camera: cost.epsilon for cost in plan.costs}
    epsilon = costs.get(camera.name, plan.epsilon)
    if camera.r and not epsilon:
        return Claim(camera, [], epsilon)  # what costs nothing is logged without frames, as a claim of nothing
    if camera.r:
        uses = [use for use in uses if use.table.r]  # behind a mask that leaves nothing protected, nothing is lost
    spans: list[Span] = [span for use in uses for span in use.frame_spans()]
    if not camera.r or not plan.linear:
        return Claim(camera, spans, epsilon)
    return Claim(camera, spans, epsilon,
                 [Use.seen(use.table.grid, use.chunks, calculus.views(use)) for use in uses if use.chunks])
