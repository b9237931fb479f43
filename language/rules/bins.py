"""SELECT day … GROUP BY day(chunk): the bin is selected by the name of its function."""

from __future__ import annotations

from sqlglot import exp

from .calls import is_call, plain_name

__all__ = ["BINS", "bins"]

BINS = ("minute", "hour", "day", "week", "month", "year")


def bins(query: exp.Query) -> None:
    """A selected name that is only the name of a bin stands for the bin that is grouped by."""
    for select in query.find_all(exp.Select):
        group = select.args.get("group")
        grouped = {str(call.this).lower(): call for call in (group.expressions if group else []) if is_call(call, *BINS)}
        for column in list(select.expressions):
            name = plain_name(column)
            if name in grouped:
                column.replace(exp.alias_(grouped[name].copy(), name))
