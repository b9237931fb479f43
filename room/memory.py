"""How much memory an inner query can take: PostgreSQL bounds each step that holds rows, so the number of such steps is bounded."""

from __future__ import annotations

from privid.calculus.tree import FromItem, FromJoin, FromSubquery, Query, Select, SetOperation
from privid.errors import NoRule

__all__ = ["MAX_STEPS", "check_memory", "steps"]

#: joins, groupings, sorts and the like; each takes at most work_mem times hash_mem_multiplier (settings.py): 128 MB, or what the largest
#: side of a join may have (premises.py)
MAX_STEPS = 24


def check_memory(select: Select) -> None:
    """Refuses a statement that could take more memory than the room has for it."""
    found = steps(select)
    if found > MAX_STEPS:
        raise NoRule(f"statement has {found} joins, groupings and sorts, but at most {MAX_STEPS} can be computed at once",
                     detail="Each of them may have to hold many rows.", hint="Ask in several statements.")


def steps(query: Query) -> int:
    """Steps of a level and of all below it that hold rows."""
    if isinstance(query, SetOperation):
        return (query.kind != "union" or not query.all) + (query.limit is not None) + steps(query.left) + steps(query.right)
    own = (bool(query.group) + query.distinct + (query.limit is not None)
           + sum(agg.distinct for agg in query.aggs))
    return own + max(0, len(query.sources) - 1) + sum(map(_of_source, query.sources))


def _of_source(item: FromItem) -> int:
    match item:
        case FromJoin():
            return 1 + _of_source(item.left) + _of_source(item.right)
        case FromSubquery():
            return steps(item.select)
    return 0
