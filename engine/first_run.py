"""Programs that have not been run before: whoever asks is reminded that a broken program looks like an empty street.

All of this is public: definitions, the statement, and whether a release over the program has been charged before. How runs end takes no
part: whoever wants to know asks for the column failed, which has noise as everything else that the video decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from privid.model import Table

__all__ = ["advice", "asks", "reminder"]

_QUESTION = "count(*) FILTER (WHERE failed)"


def asks(select: Any) -> bool:
    """Whether a statement names a column failed.

    >>> asks({"aggs": [{"filter": {"e": "col", "rel": 1, "col": 3, "name": "failed"}}]}), asks({"aggs": [{"label": "failed"}]})
    (True, False)
    """
    todo = [select]
    while todo:  # and no calls: however deep it is
        part = todo.pop()
        if isinstance(part, dict):
            if part.get("e") == "col" and part.get("name") == "failed":
                return True
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return False


def advice(new: Iterable[Table], imports: Callable[[Table], bool]) -> list[str]:
    """For EXPLAIN: a line for each table whose program is new; and whether it is to be imported, which nobody has timed."""
    return [f'The program of foreign table "{table.name}" has not been run before. Ask {_QUESTION} too: it shows, with noise, how many '
            f"rows are of runs that failed.{_declare(table)}"
            f"{' What importing it takes is not known yet, so that the seconds have a guess.' if imports(table) else ''}" for table in new]


def _declare(table: Table) -> str:
    declared = any(column.tells_failure for column in table.columns)
    return "" if declared else " For that, declare the column: ALTER FOREIGN TABLE ... ADD COLUMN failed boolean."


def reminder(new: Iterable[Table]) -> str:
    """What the notice of a release has in addition."""
    if not any(True for _ in new):
        return ""
    return f"; a program ran here for the first time: {_QUESTION} shows whether it works"
