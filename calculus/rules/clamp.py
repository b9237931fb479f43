"""range(value, low, high): clamped to public bounds on a public grid, never NULL. LEAST and GREATEST with constants bound a value too.

Proof: clamp.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privid.udf.grid import grid_step, snap

from .. import show
from ..certificate import Certificate, Derivation, Interval, step
from ..clamps import RANGES
from ..expressions import Scope
from ..facts import NUMBERS
from ..tree import Call, Col, Expr, Relabel

__all__ = ["RULE", "Clamp", "bare", "clamp_of", "ups_of"]

RULE = "range"
_CASTS = {f"pg_catalog.{to}({of})" for to in ("float8", "numeric", "int8") for of in ("int4", "int8", "numeric", "float8")}


@dataclass(frozen=True)
class Clamp:
    """A value that can be summed exactly: its bounds as they are on its grid (None when only a sum of it is bounded)."""

    low: Fraction | None
    high: Fraction | None
    step: Fraction
    moves: str | None
    nullable: bool
    #: bounds that the inner query must put the value through to get it on the grid
    collect: tuple[str, str] | None
    derivation: Derivation

    @property
    def single(self) -> Fraction:
        assert self.low is not None and self.high is not None
        return max(abs(self.low), abs(self.high))

    @property
    def pair(self) -> Fraction:
        assert self.low is not None and self.high is not None
        return self.high - self.low


def bare(expr: Expr) -> Expr:
    """Without relabelling."""
    while isinstance(expr, Relabel):
        expr = expr.args[0]
    return expr


def clamp_of(expr: Expr, scope: Scope, below: Derivation) -> Clamp | None:
    """The bounds of a value that is summed, or None when it has neither bounds nor a grid."""
    facts = scope.facts(expr)
    if facts.type not in NUMBERS:
        return None
    collect = None
    low, high, grid = facts.low, facts.high, facts.grid
    if facts.type == "float8" or grid is None:
        # float8 sums depend on the order of rows: the value is put on a grid first
        if low is None or high is None or facts.nullable or max(abs(low), abs(high)) > 10**18:
            return None
        grid = grid_step(float(low), float(high))
        collect = (repr(float(low)), repr(float(high)))
        low, high = snap(float(low), grid), snap(float(high), grid)
    if low is not None and high is not None and facts.nullable:
        low, high = min(low, Fraction(0)), max(high, Fraction(0))  # NULL adds nothing
    inside = bare(expr)
    if low is None or high is None:
        derivation = below
    elif isinstance(inside, Call) and inside.fn in RANGES:
        interval = f"[{show.number(low)}, {show.number(high)}]"
        says = f"{show.expression(inside.args[0])} is clamped to {interval} in steps of {float(grid):g}"
        derivation = step(RULE, says, f"{interval}, not NULL", [below])
    else:
        interval = f"[{show.number(low)}, {show.number(high)}]"
        derivation = step(RULE, f"{show.expression(expr)} lies in {interval}, in steps of {float(grid):g}", interval, [below])
    return Clamp(low, high, grid, None if facts.nullable and facts.moves != "0" else facts.moves, facts.nullable, collect, derivation)


def ups_of(expr: Expr, cert: Certificate, scope: Scope, camera: str) -> Interval | None:
    """Bounds of the expression's sum over a version less that over the core (Theorem 4), where they carry over from a column."""
    expr = bare(expr)
    if isinstance(expr, Col):
        return cert.changes[camera].ups.get(expr.col)
    if not isinstance(expr, Call):
        return None
    if expr.fn in _CASTS:
        return ups_of(expr.args[0], cert, scope, camera)
    if expr.fn not in RANGES:
        return None
    up = ups_of(expr.args[0], cert, scope, camera)
    value, clamped = scope.facts(expr.args[0]), scope.facts(expr)
    if up is None or clamped.low is None or clamped.high is None or clamped.grid is None:
        return None
    free = value.low is not None and value.high is not None and clamped.low <= value.low and value.high <= clamped.high
    if not (free or clamped.low <= 0 <= clamped.high) or (value.nullable and clamped.low != 0):
        return None
    if value.grid is None or (value.grid / clamped.grid).denominator != 1:
        # rounding to the grid may move each of the values that change by a step
        slack = cert.changes[camera].tau * clamped.grid
        up = (up[0] - slack, up[1] + slack)
    return up
