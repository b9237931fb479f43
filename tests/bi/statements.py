"""What BI tools send, one file a tool: blocks of purpose, expectation, statement and, where it is refused, what its hint makes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Case", "cases"]

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    tool: str
    purpose: str
    statement: str
    #: what a refusal's hint must say literally; None where the statement is answered
    hint: str | None = None
    #: the statement with that in it
    followed: str | None = None

    @property
    def name(self) -> str:
        return f"{self.tool}: {self.purpose}"


def cases() -> list[Case]:
    return [_case(path.stem, block) for path in sorted(HERE.glob("*.sql")) for block in re.split(r"\n{2,}", path.read_text().strip())]


def _case(tool: str, block: str) -> Case:
    purpose, expected, body = block.split("\n", 2)
    statement, _, followed = body.partition("\n-- followed\n")
    answered = expected == "-- expect: answer"
    hint = None if answered else expected.removeprefix("-- expect: hint, ")
    assert purpose.startswith("-- ") and (answered or (hint != expected and followed)), block
    return Case(tool, purpose[3:], statement.strip(), hint, followed.strip() or None)
