"""Columns with the options low and high, or keys: what the reader of a program's output makes of every value, whatever was printed.

Proof: column_options.md.
"""

from __future__ import annotations

from privid.errors import NoRule
from privid.model import Column, Table
from privid.udf.grid import LARGEST_BOUND, grid_step, settler

from .. import show
from ..certificate import Derivation, Facts, step

__all__ = ["RULE", "explained", "facts"]

RULE = "column options"


def facts(column: Column) -> Facts:
    """Of a column that a program fills. It is never NULL."""
    type_ = column.type_name if column.type == "enum" else column.type
    if not _holds(column):
        raise NoRule(f'column "{column.name}" has options that its values do not keep',
                     detail="The bounds must be numbers of their grid, keys must be texts, and the default must be within them.",
                     hint="ALTER FOREIGN TABLE ... ALTER COLUMN ... OPTIONS shows what is wrong.")
    low, high = column.bounds or (None, None)
    return Facts(type_, nullable=False, low=low, high=high, labels=column.labels if column.keys is None else column.keys)


def _holds(column: Column) -> bool:
    """The hypotheses of the proof. Whoever made the column has checked them, and said which one fails."""
    if column.keys is not None:
        return column.type == "text" and column.default in column.keys and column.bounds is None
    if column.bounds is None:
        return True
    low, high = column.bounds
    if column.type != "float8" or not isinstance(column.default, float) or not -LARGEST_BOUND <= low <= high <= LARGEST_BOUND:
        return False
    grid = grid_step(float(low), float(high))
    return ((low / grid).denominator == 1 and (high / grid).denominator == 1
            and settler(float(low), float(high))(column.default) == column.default)


def explained(table: Table) -> list[Derivation]:
    """For the derivation of the table, where it has such columns."""
    said = [f'"{c.name}" lies in [{show.number(c.bounds[0])}, {show.number(c.bounds[1])}]' for c in table.columns if c.bounds is not None]
    said += [f'"{c.name}" is one of {len(c.keys)} keys' for c in table.columns if c.keys is not None]
    return [step(RULE, f"{', '.join(said)}, whatever a program prints", "not NULL")] if said else []
