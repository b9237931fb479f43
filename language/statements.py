"""What a query file says: SPLIT, PROCESS and SELECT, each with where it says so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

__all__ = ["Column", "Process", "Program", "Select", "Split", "Statement"]


@dataclass(frozen=True)
class Split:
    """SPLIT camera BEGIN … END … BY TIME … STRIDE … [BY REGION …] [WITH MASK …] INTO name."""

    at: int
    camera: str
    begin: datetime
    end: datetime
    chunk: Fraction  # seconds
    stride: Fraction
    name: str
    #: where each part stands, by the name of the option that it becomes
    places: dict[str, int]
    mask: str | None = None
    regions: str | None = None


@dataclass(frozen=True)
class Column:
    """name:STRING="" or name:NUMBER=0."""

    name: str
    type: str  # STRING, NUMBER
    default: str


@dataclass(frozen=True)
class Process:
    """PROCESS chunks USING file TIMEOUT … PRODUCING n ROWS WITH SCHEMA (…) INTO table, with the chunks that it speaks of."""

    at: int
    split: Split
    file: str
    timeout: Fraction
    max_rows: int
    pad: bool  # PRODUCING EXACTLY n ROWS
    columns: tuple[Column, ...]
    table: str
    places: dict[str, int]


@dataclass(frozen=True)
class Select:
    """A SELECT, as written; comments are blanks."""

    at: int
    text: str


Statement = Split | Process | Select


@dataclass(frozen=True)
class Program:
    """A whole file: its statements in order, and what was overlooked on purpose (message, offset)."""

    statements: tuple[Statement, ...]
    overlooked: tuple[tuple[str, int], ...] = ()
