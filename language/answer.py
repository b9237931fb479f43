"""An answer as psql shows it: a table of text, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Answer"]


@dataclass(frozen=True)
class Answer:
    """What one statement gave: columns, rows in text form (None for NULL), which columns are numbers, and what was told about it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    numbers: tuple[bool, ...]
    notices: tuple[str, ...]

    def table(self) -> str:
        """The rows under the names of their columns."""
        shown = [[value or "" for value in row] for row in self.rows]
        # a plan has lines in one value
        shown = [line for row in shown for line in _lines(row)]
        widths = [max(map(len, column)) for column in zip(self.columns, *shown, strict=True)]
        head = [" " + name.center(width) + " " for name, width in zip(self.columns, widths, strict=True)]
        body = [[f" {value:>{width}} " if number else f" {value:<{width}} "
                 for value, width, number in zip(row, widths, self.numbers, strict=True)] for row in shown]
        count = f"({len(self.rows)} row{'' if len(self.rows) == 1 else 's'})"
        return "\n".join([*("|".join(cells).rstrip() for cells in [head]), "+".join("-" * (width + 2) for width in widths),
                          *("|".join(cells).rstrip() for cells in body), count])


def _lines(row: Sequence[str]) -> list[list[str]]:
    """A row of values with several lines each, as several rows."""
    split = [value.split("\n") for value in row]
    height = max(map(len, split), default=1)
    return [[lines[number] if number < len(lines) else "" for lines in split] for number in range(height)]
