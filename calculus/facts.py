"""What is known of a value: little, and only what is enforced where the value is made.

A value is bounded, and then it is never NULL, if it is a number in the statement, range(…), a count of rows, a boolean that is never
NULL as a whole number (0 or 1), or a CASE, COALESCE, LEAST or GREATEST every arm of which is one of these. A whole number as a type that
has them all is the same number. Of everything else (arithmetic, other casts, functions, sums of groups) no bound is known, whatever it is
computed from: it may be NULL, and of any size. What the room evaluates in the place of a call (twins.py) is among that.

A motion speaks of one key of a KEY relation, from the core to a version of it. A row-wise function of values that stay stays. What only
rises is such a column itself, range of it, or the time from first to last seen (spans.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from . import spans
from .alike import unalike
from .certificate import Facts, Motion
from .clamps import RANGES, clamped
from .functions import names
from .tree import AnyOf, Call, Case, Choice, Col, Const, DistinctFrom, Expr, Logic, NullTest, Relabel, Truth, bare

__all__ = ["NUMBERS", "SAME", "WHOLE", "WIDENING", "Judge", "unwidened"]

WHOLE = {"int2", "int4", "int8"}
NUMBERS = {"float8", "numeric", *WHOLE}
_COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}
#: what PostgreSQL puts around a number that range or a comparison takes in another type; none of them falls where its argument rises
WIDENING = {"pg_catalog.int8(int4)", "pg_catalog.numeric(int4)", "pg_catalog.numeric(int8)", "pg_catalog.float8(int4)",
             "pg_catalog.float8(int8)", "pg_catalog.float8(numeric)"}
#: casts of whole numbers to types that have each of them
SAME = {"pg_catalog.int8(int4)", "pg_catalog.numeric(int4)", "pg_catalog.numeric(int8)", "pg_catalog.float8(int4)"}
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")


def unwidened(expr: Expr) -> Expr:
    """Without the casts that PostgreSQL has put around it for range."""
    while isinstance(expr, Relabel) or (isinstance(expr, Call) and expr.fn in WIDENING):
        expr = expr.args[0]
    return expr


class Judge:
    """Knows the columns; answers once for each expression."""

    def __init__(self, columns: Mapping[int, Facts]) -> None:
        self.columns = columns
        self._known: dict[int, tuple[Expr, Facts]] = {}

    def facts(self, expr: Expr) -> Facts:
        if (inner := unalike(expr)) is not expr:
            return self.facts(inner)  # the same value in another form
        if id(expr) not in self._known:
            found = replace(self._facts(expr), motion=self._motion(expr))
            if expr.type in WHOLE and found.grid is None:
                found = replace(found, grid=Fraction(1))
            self._known[id(expr)] = (expr, found)
        return self._known[id(expr)][1]

    def _facts(self, expr: Expr) -> Facts:
        match expr:
            case Col():
                return replace(self.columns[expr.col], type=expr.type)
            case Const():
                return _constant(expr)
            case Relabel():
                return replace(self.facts(expr.args[0]), type=expr.type)
            case Call() if expr.fn in RANGES:
                low, high, grid = clamped(expr)
                return Facts(expr.type, nullable=False, low=low, high=high, grid=grid)
            case Case():
                return _one_of(expr.type, [self.facts(arm) for arm in (*expr.args[1:-1:2], expr.args[-1])])
            case Choice():
                return _choice(expr, [self.facts(arm) for arm in expr.args])
            case Call(fn="pg_catalog.int4(boolean)") if not self.facts(expr.args[0]).nullable:
                return Facts(expr.type, nullable=False, low=Fraction(0), high=Fraction(1))
            case Call() if expr.fn in SAME:
                known = self.facts(expr.args[0])
                return Facts(expr.type, nullable=known.nullable, low=known.low, high=known.high, grid=known.grid)
            case NullTest() | Truth() | DistinctFrom():
                return Facts(expr.type, nullable=False)
            case Logic() | AnyOf():
                return Facts(expr.type, nullable=any(self.facts(arg).nullable for arg in expr.args))
            case Call() if names(expr.fn)[1] in _COMPARISONS:
                return Facts(expr.type, nullable=any(self.facts(arg).nullable for arg in expr.args))
            case _:
                return Facts(expr.type)

    def _motion(self, expr: Expr) -> Motion:
        if isinstance(expr, Col):
            return self.columns[expr.col].motion
        parts = [self.facts(arg).motion for arg in expr.args]
        if all(part is Motion.STAYS for part in parts):
            return Motion.STAYS
        if isinstance(expr, Relabel):
            return parts[0]
        if not isinstance(expr, Call):
            return Motion.ANY
        if expr.fn in RANGES or expr.fn in WIDENING:
            return parts[0]
        return Motion.RISES if spans.rises(expr, self.columns) else self._compared(expr)

    def _compared(self, expr: Call) -> Motion:
        """Of "kept": true stays true where what rises is compared with a constant from above. NULL is not kept, and less than any value."""
        name = names(expr.fn)[1]
        if len(expr.args) == 2 and name in ("<", "<=", ">", ">="):
            greater, less = expr.args if name in (">", ">=") else reversed(expr.args)
            if self.facts(greater).motion is Motion.RISES and isinstance(bare(less), Const):
                return Motion.RISES
        return Motion.ANY


def _constant(expr: Const) -> Facts:
    if expr.value is None or expr.type not in NUMBERS or not _NUMBER.fullmatch(expr.value):
        return Facts(expr.type, nullable=expr.value is None)
    value = Fraction(Decimal(expr.value))
    exact = expr.type == "numeric" and value.denominator == 1
    return Facts(expr.type, nullable=False, low=value, high=value, grid=Fraction(1) if exact else None)


def _one_of(type_: str, arms: Sequence[Facts]) -> Facts:
    """The value is that of some arm."""
    found = Facts(type_, nullable=any(arm.nullable for arm in arms))
    lows, highs = [arm.low for arm in arms if arm.low is not None], [arm.high for arm in arms if arm.high is not None]
    if len(lows) < len(arms) or len(highs) < len(arms):
        return found
    grids = {arm.grid for arm in arms}
    return replace(found, low=min(lows), high=max(highs), grid=grids.pop() if len(grids) == 1 else None)


def _choice(expr: Choice, arms: Sequence[Facts]) -> Facts:
    """COALESCE, LEAST and GREATEST pass over NULL."""
    found = replace(_one_of(expr.type, arms), nullable=all(arm.nullable for arm in arms))
    lows, highs = [arm.low for arm in arms if arm.low is not None], [arm.high for arm in arms if arm.high is not None]
    if found.low is None:
        return found
    match expr.kind:
        case "coalesce":
            return found
        case "greatest":
            return replace(found, low=max(lows))
        case "least":
            return replace(found, high=min(highs))
        case _:
            assert_never(expr.kind)
