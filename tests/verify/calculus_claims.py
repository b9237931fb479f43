"""What the calculus says of one statement, what would be evaluated for it, and what it allows one event to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from privid import calculus
from privid.engine.judge import Judged
from privid.ledger.steps import Step, Use, shares
from privid.model import Plan, Table
from privid.room.deparse import Inner

from .calculus_mechanisms import Part, parts
from .calculus_world import CAMERAS

__all__ = ["Claim"]


@dataclass(frozen=True)
class Claim:
    request: dict[str, Any]
    judged: Judged
    shown: dict[str, Any]  # the object "Privid" of EXPLAIN
    #: the whole statement is the release; otherwise a level of it, of whose answer PostgreSQL computes the rest
    whole: bool = True

    @property
    def plan(self) -> Plan:
        return self.judged.plan

    @property
    def inner(self) -> Inner:
        return self.judged.inner

    @property
    def tables(self) -> Sequence[Table]:
        return self.judged.tables

    @cached_property
    def noisy(self) -> list[list[Part]]:
        """For each output, what of it gets noise."""
        return parts(self.plan)

    @cached_property
    def _steps(self) -> dict[str, list[Step]]:
        """By camera: the share of epsilon that is charged, by the first frame of a segment."""
        return {camera: _costs_of(self.plan, camera) for camera in CAMERAS}

    def allows(self, camera: str, first: int) -> tuple[Fraction, Fraction]:
        """What one of the camera's segments may lose where most is charged, and where this one begins."""
        whole = _charged(self.plan, camera) / CAMERAS[camera].k
        return whole, whole * next((share for lo, hi, share in self._steps[camera] if lo <= first < hi), Fraction(0))


def _charged(plan: Plan, camera: str) -> Fraction:
    """The epsilon that a camera is debited where a segment meets as many chunks as any; no camera may lose more than was asked for."""
    return min(next((cost.epsilon for cost in plan.costs if cost.camera == f"verify_{camera}"), plan.epsilon), plan.epsilon)


def _costs_of(plan: Plan, camera: str) -> list[Step]:
    uses = [use for use in plan.uses if use.table.camera.name == f"verify_{camera}" and use.chunks]
    frames = CAMERAS[camera].frames
    if plan.linear and uses:
        exact = shares([Use.seen(use.table.grid, use.chunks, calculus.views(use)) for use in uses if use.table.r], 0, frames)
        if exact is not None:
            return exact
    return [(lo - frames + 1, hi, Fraction(1)) for use in uses for lo, hi in use.frame_spans()]
