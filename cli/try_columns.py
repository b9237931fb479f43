"""The columns that `privid try --columns` is given, as CREATE FOREIGN TABLE has them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass

from privid.model import SYSTEM_COLUMNS

__all__ = ["Column", "columns"]

_STRING = r"'(?:[^']|'')*'"
#: what stands between commas that are in no string and in no parentheses
_PART = re.compile(rf"(?:{_STRING}|\((?:{_STRING}|[^()'])*\)|[^,'()])+")
_OPTION = re.compile(r"(\w+)\s+'((?:[^']|'')*)'")
_COLUMN = re.compile(rf"(\w+)\s+(text|float8|double precision|boolean|timestamptz)"
                     rf"(?:\s+OPTIONS\s*\(((?:\s*\w+\s+{_STRING}\s*,?)+)\))?(?:\s+DEFAULT\s+(.+))?", re.I)


@dataclass(frozen=True)
class Column:
    """A column as the table for Python wants it described."""

    type_name: str
    options: Mapping[str, str]


def columns(text: str) -> dict[str, Column]:
    """Columns by name; those that the system fills may stand there and are left out."""
    found: dict[str, Column] = {}
    parts = _PART.findall(text)
    for part in parts if ",".join(parts) == text else [text]:
        match = _COLUMN.fullmatch(part.strip())
        if not match or (match[2].lower() == "timestamptz" and match[1] != "chunk"):
            raise argparse.ArgumentTypeError(f'"{part.strip()}" is not a column: write a name and text, float8 or boolean')
        if match[1] not in SYSTEM_COLUMNS:
            kind = match[2].lower()
            default = match[4] if match[4] is not None else {"text": "''", "boolean": "false"}.get(kind, "0")
            options = {name.lower(): value.replace("''", "'") for name, value in _OPTION.findall(match[3] or "")}
            found[match[1]] = Column(kind, {"default": re.sub(r"^'(.*)'$", r"\1", default).replace("''", "'"), **options})
    return found
