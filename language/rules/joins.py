"""JOIN … ON column and ON (columns) join where these columns are equal: USING (columns)."""

from __future__ import annotations

from sqlglot import exp

from .calls import plain_name

__all__ = ["joins"]


def joins(query: exp.Query) -> None:
    """A condition that is only names of columns is a list of columns."""
    for join in query.find_all(exp.Join):
        condition = join.args.get("on")
        if isinstance(condition, exp.Paren):
            condition = condition.this
        columns = condition.expressions if isinstance(condition, exp.Tuple) else [condition]
        if all(plain_name(column) is not None for column in columns):
            join.set("on", None)
            join.set("using", [column.this for column in columns if column is not None])
