"""range(value, low, high): clamped to public bounds on a public grid, never NULL.

Proof: clamp.md.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from privid.errors import InvalidValue
from privid.udf.grid import LARGEST_BOUND, grid_step, snap

from .. import show
from ..certificate import Derivation, step
from ..tree import Call, Const, Expr, Relabel, position

__all__ = ["RULE", "Clamp", "clamp_of"]

RULE = "range"
_IDENTITIES = {"privid.range(float8,float8,float8)", "public.range(float8,float8,float8)"}
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Clamp:
    """The bounds of a clamped value, as they are on its grid."""

    low: Fraction
    high: Fraction
    step: Fraction
    derivation: Derivation

    @property
    def single(self) -> Fraction:
        return max(abs(self.low), abs(self.high))

    @property
    def pair(self) -> Fraction:
        return self.high - self.low


def clamp_of(expr: Expr, below: Derivation) -> Clamp | None:
    """The clamp that an expression is, or None when it is another expression."""
    while isinstance(expr, Relabel):
        expr = expr.args[0]
    if not isinstance(expr, Call) or expr.fn not in _IDENTITIES:
        return None
    low, high = _bound(expr.args[1], expr), _bound(expr.args[2], expr)
    if low > high:
        raise _invalid(expr, f"The low bound {low:g} is greater than the high bound {high:g}.")
    grid = grid_step(low, high)
    exact_low, exact_high = snap(low, grid), snap(high, grid)
    interval = f"[{show.number(exact_low)}, {show.number(exact_high)}]"
    says = f"{show.expression(expr.args[0])} is clamped to {interval} in steps of {float(grid):g}"
    return Clamp(exact_low, exact_high, grid, step(RULE, says, f"{interval}, not NULL", [below]))


def _bound(expr: Expr, call: Call) -> float:
    if not isinstance(expr, Const):
        raise _invalid(expr, "Its bounds must be constants.")
    value = float(expr.value) if expr.value is not None and _FLOAT.fullmatch(expr.value) else math.nan
    if not math.isfinite(value) or abs(value) > LARGEST_BOUND:
        raise _invalid(call, f"Its bounds must be numbers of at most {LARGEST_BOUND:g} in size.")
    return value


def _invalid(expr: Expr, detail: str) -> InvalidValue:
    return InvalidValue("invalid bounds of range", detail=detail, position=position(expr.loc),
                        hint="Write range(value, low, high) with constants low <= high, for example range(speed, 0, 50).")
