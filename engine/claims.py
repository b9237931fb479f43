"""What a release claims of each camera's budget."""

from __future__ import annotations

from collections.abc import Sequence

from privid import calculus
from privid.ledger import Claim, Use
from privid.model import Camera, Plan, Span, TableUse

__all__ = ["claims_of"]


def claims_of(plan: Plan) -> list[Claim]:
    """What a release reads of each camera; a camera read through several tables is charged once for all frames."""
    tables: dict[str, list[TableUse]] = {}
    for use in plan.uses:
        tables.setdefault(use.table.camera.name, []).append(use)
    return [_claim(uses[0].table.camera, uses, plan) for uses in tables.values()]


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
