"""Aggregates that have another name in PostgreSQL: ARGMAX is privid.argmax, VAR is variance."""

from __future__ import annotations

from sqlglot import exp

from .calls import calls

__all__ = ["aggregates"]


def aggregates(query: exp.Query) -> None:
    """ARGMAX of the column that is grouped by asks for one winner among all groups, so that the grouping goes."""
    for call in calls(query, "var"):
        call.set("this", "variance")
    for call in calls(query, "argmax", "arg_max"):
        select = call.find_ancestor(exp.Select)
        group = select.args.get("group") if select is not None else None
        if select is not None and group is not None:
            candidates = {argument.sql().lower() for argument in call.expressions}
            left = [expression for expression in group.expressions if expression.sql().lower() not in candidates]
            if left:
                group.set("expressions", left)
            else:
                select.set("group", None)
        call.set("this", "argmax")
        call.replace(exp.Dot(this=exp.to_identifier("privid"), expression=call.copy()))
