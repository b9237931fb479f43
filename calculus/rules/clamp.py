"""range(value, low, high): clamped to public bounds on a public grid, never NULL; and what else is bounded, put on a grid.

Proof: clamp.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privid.udf.grid import LARGEST_BOUND, grid_step, snap

from .. import show
from ..certificate import Certificate, Derivation, Facts, Interval, Motion, step
from ..clamps import RANGES
from ..expressions import Scope
from ..facts import NUMBERS, WIDENING, unwidened
from ..tree import Call, Col, Expr, bare

__all__ = ["RULE", "Clamp", "clamp_of", "ups_of"]

RULE = "range"


@dataclass(frozen=True)
class Clamp:
    """A value that can be summed exactly, and is never NULL: its bounds as they are on its grid."""

    low: Fraction
    high: Fraction
    step: Fraction
    motion: Motion
    #: bounds that the inner query must put the value through to get it on the grid
    collect: tuple[str, str] | None
    derivation: Derivation

    @property
    def single(self) -> Fraction:
        return max(abs(self.low), abs(self.high))

    @property
    def pair(self) -> Fraction:
        return self.high - self.low


def clamp_of(expr: Expr, scope: Scope, below: Derivation) -> Clamp | None:
    """The bounds of a value that is summed, or None when it has none."""
    facts = scope.facts(expr)
    low, high, grid = facts.low, facts.high, facts.grid
    if facts.type not in NUMBERS or low is None or high is None:
        return None
    collect = None
    if facts.type == "float8" or grid is None:
        # float8 sums depend on the order of rows: the value is put on a grid first
        if max(abs(low), abs(high)) > LARGEST_BOUND:
            return None
        grid = grid_step(float(low), float(high))
        collect = (repr(float(low)), repr(float(high)))
        low, high = snap(float(low), grid), snap(float(high), grid)
    inside, interval = bare(expr), f"[{show.number(low)}, {show.number(high)}]"
    if isinstance(inside, Call) and inside.fn in RANGES:
        says = f"{show.expression(inside.args[0])} is clamped to {interval} in steps of {float(grid):g}"
        derivation = step(RULE, says, f"{interval}, not NULL", [below])
    else:
        derivation = step(RULE, f"{show.expression(expr)} lies in {interval}, in steps of {float(grid):g}", interval, [below])
    return Clamp(low, high, grid, facts.motion, collect, derivation)


def _keeps_sums(value: Facts, clamped: Facts) -> bool:
    """Whether the clamp brings no change of a value further from 0, and makes nothing of NULL: it cannot bind, or 0 lies in its bounds."""
    if clamped.low is None or clamped.high is None or (value.nullable and clamped.low != 0):
        return False
    free = value.low is not None and value.high is not None and clamped.low <= value.low and value.high <= clamped.high
    return free or clamped.low <= 0 <= clamped.high


def ups_of(expr: Expr, cert: Certificate, scope: Scope, camera: str) -> Interval | None:
    """Bounds of the expression's sum over a version less that over the core (Theorem 4), where they carry over from a column."""
    expr = bare(expr)
    if isinstance(expr, Col):
        return cert.changes[camera].ups.get(expr.col)
    if not isinstance(expr, Call):
        return None
    if expr.fn in WIDENING:
        return ups_of(expr.args[0], cert, scope, camera)
    if expr.fn not in RANGES:
        return None
    up = ups_of(expr.args[0], cert, scope, camera)
    value, clamped = scope.facts(unwidened(expr.args[0])), scope.facts(expr)
    if up is None or clamped.low is None or clamped.high is None or clamped.grid is None:
        return None
    if not _keeps_sums(value, clamped):
        return None
    if value.grid is None or (value.grid / clamped.grid).denominator != 1:
        # rounding to the grid may move each of the values that change by a step
        slack = cert.changes[camera].tau * clamped.grid
        up = (up[0] - slack, up[1] + slack)
    return up
