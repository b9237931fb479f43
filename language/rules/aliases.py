"""Names of columns: (expression AS name), and avg_speed for an avg(speed) that a subquery leaves without a name."""

from __future__ import annotations

from sqlglot import exp

from .calls import plain_name

__all__ = ["aliases"]


def aliases(query: exp.Query) -> None:
    """Takes names out of parentheses, and gives those that the query around a subquery uses."""
    for select in list(query.find_all(exp.Select)):
        for column in list(select.expressions):
            if isinstance(column, exp.Paren) and isinstance(column.this, exp.Alias):
                column.replace(exp.alias_(column.this.this.copy(), column.this.args["alias"].copy()))
    for subquery in query.find_all(exp.Subquery):
        around, inside = subquery.find_ancestor(exp.Select), subquery.this
        if around is None or not isinstance(inside, exp.Select) or not isinstance(subquery.parent, (exp.From, exp.Join)):
            continue
        used = {plain_name(column) for column in around.find_all(exp.Column) if column.find_ancestor(exp.Select) is around}
        for column in list(inside.expressions):
            if isinstance(column, exp.Anonymous):
                named = {plain_name(found) for found in column.find_all(exp.Column)}
                name = f"{str(column.this).lower()}_{named.pop()}" if len(named) == 1 else None
                if name in used:
                    column.replace(exp.alias_(column.copy(), name))
