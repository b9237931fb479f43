"""The documents as the tests read them: pages, sections, tables, code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
#: every page that people read
PAGES = [*(REPOSITORY / f"{name}.md" for name in ("README", "SECURITY", "CHANGELOG")), *sorted(DOCS.glob("*.md")),
         *sorted((REPOSITORY / "bench").glob("*.md"))]


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def section(text: str, title: str) -> str:
    """What stands under a heading of the second level."""
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f'there is no section "{title}"'
    return found[1]


def rows(text: str) -> Iterator[list[str]]:
    """The rows of all tables in a text, without their heads."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        is_head = lines[number + 1:number + 2] and lines[number + 1].startswith("|-")
        if line.startswith("|") and not line.startswith("|-") and not is_head:
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def code(text: str) -> set[str]:
    """The code spans of a text."""
    return set(re.findall(r"`([^`\n]+)`", text))


def blocks(text: str) -> list[str]:
    """The fenced and the indented blocks of a text."""
    fenced = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return fenced + re.findall(r"(?:^    .*\n)+", rest, re.MULTILINE)
