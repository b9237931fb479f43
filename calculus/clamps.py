"""range(value, low, high) as an expression: its bounds on its grid."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from privid.errors import InvalidValue
from privid.udf.grid import LARGEST_BOUND, grid_step, snap

from .tree import Call, Const, Expr, position

__all__ = ["RANGES", "clamped"]

RANGES = {"privid.range(float8,float8,float8)", "public.range(float8,float8,float8)"}
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def clamped(call: Call) -> tuple[Fraction, Fraction, Fraction]:
    """Low and high as they are on the grid, and the grid's step."""
    low, high = _bound(call.args[1], call), _bound(call.args[2], call)
    if low > high:
        raise _invalid(call, f"The low bound {low:g} is greater than the high bound {high:g}.")
    grid = grid_step(low, high)
    return snap(low, grid), snap(high, grid), grid


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
