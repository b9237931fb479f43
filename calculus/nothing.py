"""Whether the relation of a release can have rows although no row of a camera is read: what is counted then is not 0."""

from __future__ import annotations

from .tree import FromItem, FromJoin, FromSubquery, JoinKind, Query, Select, SetOperation

__all__ = ["has_rows_of_nothing"]


def has_rows_of_nothing(select: Select) -> bool:
    """An aggregate without GROUP BY has a row, and an outer join has those of its public side. Where in doubt, yes: the room is asked."""
    return any(map(_source, select.sources))


def _source(item: FromItem) -> bool:
    match item:
        case FromJoin():
            return item.join is not JoinKind.INNER or _source(item.left) or _source(item.right)
        case FromSubquery():
            return _query(item.select)
        case _:
            return False


def _query(query: Query) -> bool:
    if isinstance(query, SetOperation):
        return _query(query.left) or _query(query.right)
    return (query.grouped and not query.group) or has_rows_of_nothing(query)
