"""What the paper writes and SQL does not, one rule per file: each takes a whole query and changes it in place."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from .aggregates import aggregates
from .aliases import aliases
from .bins import bins
from .hours import hours
from .joins import joins
from .keys import keys
from .ranges import ranges
from .subqueries import subqueries

__all__ = ["RULES"]

#: in the order in which they need each other: names of columns are settled before keys are looked up among them
RULES: tuple[Callable[[exp.Query], None], ...] = (subqueries, aliases, bins, joins, ranges, hours, keys, aggregates)
