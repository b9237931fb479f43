"""What the calculus says of one statement, and what would be evaluated for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privid.engine.judge import Judged
from privid.model import Plan, Table
from privid.room.deparse import Inner

__all__ = ["Claim"]


@dataclass(frozen=True)
class Claim:
    request: dict[str, Any]
    judged: Judged
    shown: dict[str, Any]  # the object "Privid" of EXPLAIN
    #: the whole statement is the release; otherwise a level of it, of whose answer PostgreSQL computes the rest
    whole: bool = True

    @property
    def plan(self) -> Plan:
        return self.judged.plan

    @property
    def inner(self) -> Inner:
        return self.judged.inner

    @property
    def tables(self) -> Sequence[Table]:
        return self.judged.tables
