"""A query file as text, and mistakes that point into it as PostgreSQL's do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Mistake", "Source"]


class Mistake(Exception):
    """Something in the file that cannot be carried out; `at` is where, as an offset in the file's text."""

    def __init__(self, message: str, at: int, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.detail = detail
        self.hint = hint


@dataclass(frozen=True)
class Source:
    """The text of a file, and what it is called."""

    name: str
    text: str

    def place(self, at: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        before = self.text[:at]
        return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1

    def tell(self, severity: str, mistake: Mistake) -> str:
        """The mistake as psql shows one, headed by file, line and column."""
        line, column = self.place(mistake.at)
        lines = self.text.split("\n")
        label = f"LINE {line}: "
        told = [f"{self.name}:{line}:{column}: {severity}:  {mistake.message}",
                label + lines[line - 1].replace("\t", " ").rstrip(),
                " " * (len(label) + column - 1) + "^"]
        if mistake.detail:
            told.append(f"DETAIL:  {mistake.detail}")
        if mistake.hint:
            told.append(f"HINT:  {mistake.hint}")
        return "\n".join(told)
