"""range(column, [low, high]) is range(column, low, high)."""

from __future__ import annotations

from sqlglot import exp

from ..dialect import SyntaxMistake
from .calls import calls, offset

__all__ = ["ranges"]


def ranges(query: exp.Query) -> None:
    """Takes the two ends out of their brackets."""
    for call in calls(query, "range"):
        if len(call.expressions) == 2 and isinstance(call.expressions[1], exp.Array):
            call.set("expressions", [call.expressions[0], *call.expressions[1].expressions])
        if len(call.expressions) != 3:
            raise SyntaxMistake("range needs a column and two ends", offset(call),
                                "Write range(column, low, high) or range(column, [low, high]).")
