"""From first to last seen: extract(epoch FROM max(t) - min(t)), also divided by a whole number, for t the column chunk.

As rows are added to a group the last does not come earlier and the first not later. Proof: rules/inner_aggregates.md, "Spans".
"""

from __future__ import annotations

from collections.abc import Mapping

from .certificate import Extreme, Facts
from .tree import Call, Col, Const, Expr, bare

__all__ = ["rises"]

_SUBTRACT = "pg_catalog.-(timestamptz,timestamptz)"
_EXTRACT = "pg_catalog.extract(text,interval)"
_DIVIDE = "pg_catalog./(numeric,numeric)"
#: digits of a divisor: quotients of different microseconds are then further apart than they are rounded
_DIGITS = 6


def rises(expr: Expr, columns: Mapping[int, Facts]) -> bool:
    match bare(expr):
        case Call(fn=fn, args=(value, Const(value=str(divisor)))) if fn == _DIVIDE:
            return divisor.isdigit() and 0 < len(divisor.lstrip("0")) <= _DIGITS and rises(value, columns)
        case Call(fn=fn, args=(Const(value="epoch"), Call(fn=inner, args=(last, first)))) if (fn, inner) == (_EXTRACT, _SUBTRACT):
            return _is(last, Extreme.LAST, columns) and _is(first, Extreme.FIRST, columns)
        case _:
            return False


def _is(expr: Expr, extreme: Extreme, columns: Mapping[int, Facts]) -> bool:
    inside = bare(expr)
    return isinstance(inside, Col) and columns[inside.col].extreme is extreme
