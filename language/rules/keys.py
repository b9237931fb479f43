"""GROUP BY column WITH KEYS [a, b] declares the keys as SQL can: WHERE column IN (a, b)."""

from __future__ import annotations

from sqlglot import exp

from ..dialect import Keys, SyntaxMistake
from .calls import plain_name

__all__ = ["keys"]

#: columns that the system fills: their groups are known without keys
_TRUSTED = ("chunk", "region")


def keys(query: exp.Query) -> None:
    """The list belongs to the grouped columns of the program; with several of them there is a list for each."""
    for group in query.find_all(exp.Group):
        declared = group.meta.pop("keys", None)
        select = group.parent
        if not isinstance(declared, Keys) or not isinstance(select, exp.Select):
            continue
        grouped = [_meant(expression, select) for expression in group.expressions]
        columns = [expression for expression in grouped if not _is_trusted(expression)] or grouped
        if len(columns) != len(declared.lists):
            raise SyntaxMistake(f"WITH KEYS has {len(declared.lists)} lists of keys for {len(columns)} columns"
                                if len(declared.lists) > 1 else f"WITH KEYS has one list of keys for {len(columns)} columns", declared.at,
                                'Write a list for each column that the program fills: WITH KEYS [["a", "b"], ["c", "d"]].')
        for column, values in zip(columns, declared.lists, strict=True):
            select.where(exp.In(this=column.copy(), expressions=[value.copy() for value in values]), copy=False)


def _meant(expression: exp.Expr, select: exp.Select) -> exp.Expr:
    """What is grouped by: GROUP BY 1 and GROUP BY name may speak of a selected expression, of which WHERE does not know."""
    if isinstance(expression, exp.Literal) and expression.is_int and 1 <= int(expression.name) <= len(select.expressions):
        return _bare(select.expressions[int(expression.name) - 1])
    name = plain_name(expression)
    for column in select.expressions:
        if name is not None and isinstance(column, exp.Alias) and column.alias.lower() == name:
            return _bare(column)
    return expression


def _bare(column: exp.Expr) -> exp.Expr:
    return column.this if isinstance(column, exp.Alias) else column


def _is_trusted(expression: exp.Expr) -> bool:
    return all(column.name.lower() in _TRUSTED for column in expression.find_all(exp.Column))
