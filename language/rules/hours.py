"""A difference of two times is a number of hours, so that range can bound it: max(chunk) - min(chunk)."""

from __future__ import annotations

from sqlglot import exp

from .bins import BINS
from .calls import is_call, plain_name

__all__ = ["hours"]


def hours(query: exp.Query) -> None:
    """t - u of times t, u becomes the seconds of the difference, by 3600."""
    for difference in list(query.find_all(exp.Sub)):
        if _is_time(difference.this) and _is_time(difference.expression):
            seconds = exp.Extract(this=exp.var("EPOCH"), expression=difference.copy())
            quotient = exp.Div(this=seconds, expression=exp.Literal.number(3600), typed=True)
            difference.replace(quotient if isinstance(difference.parent, (exp.Select, exp.Alias, exp.Paren, exp.Anonymous))
                               else exp.Paren(this=quotient))


def _is_time(node: exp.Expr | None) -> bool:
    if isinstance(node, exp.Paren):
        return _is_time(node.this)
    if is_call(node, "max", "min", *BINS):
        return node is not None and len(node.expressions) == 1 and _is_time(node.expressions[0])
    return plain_name(node) == "chunk"
