"""The public worst case of an inner query, from the judged tree and public sizes alone.

When the allowance is over the answer is that of an empty input. So nothing that a program writes
may make the inner query take longer: a statement that is slower when somebody is seen would tell.
From the leaves up, each relation has a bound on its rows and each value one on its size; each step
costs what it costs on the largest arguments (calls.py, aggregates.py, relations.py). No condition
is taken to drop a row. The sum, of an idle machine, is multiplied by a margin for a busy one. What
is taken for granted of PostgreSQL's plan is looked up in the plan (plans.py).

Expressions are charged where they are referred to: PostgreSQL puts the columns of a plain subquery
in the place of the references, and evaluates conditions as far down as they mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from privid.calculus.tree import Select
from privid.model import Collected, Table, TableUse

from .bounds import Statement
from .plans import Planned
from .premises import Room
from .relations import making, output, planning

__all__ = ["LATENCY", "SAFETY", "Bound", "bound", "premises_of", "worst_case"]

#: a machine that does other work, and what was not measured
SAFETY = 4
#: waking up ten times on a machine all of whose cores are busy, with work of the same priority; nanoseconds
LATENCY = 40_000_000
#: a transaction in a fresh session; nanoseconds
_SESSION = 2_500_000
#: a name of a time zone that the session has not met: files are searched and read, and kept; nanoseconds, and bytes
_ZONE, _ZONE_KEPT = 500_000, 32 << 10
#: bytes that a row's expressions make, for which what is kept free in any case has room (space.py)
_SMALL = 1 << 20


class Bound(NamedTuple):
    """What an inner query takes at most. Where memory or files end, time is of no use."""

    seconds: Fraction
    memory: int  # bytes of its backend
    files: int  # bytes of temporary files


def worst_case(select: Select, columns: Sequence[Collected], tables: Sequence[Table],
               uses: Sequence[TableUse], *, planned: Planned | None = None,
               room: Room | None = None) -> Fraction:
    """Seconds, with the margin: from the first statement of a release in the room to the last row
    of its result. Without a plan it is one with hash tables wherever PostgreSQL can."""
    return bound(select, columns, tables, uses, planned=planned or Planned(), room=room).seconds


def premises_of(select: Select, columns: Sequence[Collected], tables: Sequence[Table],
                uses: Sequence[TableUse], room: Room) -> Room:
    """The room as a statement needs it: every hash table of a join is in memory as a whole."""
    statement = Statement(tables, uses, room, Planned())
    statement.release(select, columns)
    return room.holding(statement.largest)


def bound(select: Select, columns: Sequence[Collected], tables: Sequence[Table],
          uses: Sequence[TableUse], *, planned: Planned, room: Room | None = None) -> Bound:
    """Time, memory and files of a statement that PostgreSQL plans so."""
    statement = Statement(tables, uses, room or Room(), planned)
    rows, widths = statement.release(select, columns)
    statement.count_sorts()
    labels = _labels(tables, statement)
    cost = statement.cost + planning(statement.nodes, statement.items) + output(rows, widths)
    declared = sum(len(table.columns) for table in tables if table.index in statement.scanned)
    cost += _SESSION + making(len(statement.scanned) + len(labels), declared, sum(labels.values()))
    zones = len(statement.values.zones)
    seconds = Fraction(SAFETY * (cost + zones * _ZONE) + LATENCY, 1_000_000_000)
    memory = statement.memory + max(0, statement.values.memory + zones * _ZONE_KEPT - _SMALL)
    return Bound(seconds, memory, statement.files)


def _labels(tables: Sequence[Table], statement: Statement) -> Mapping[str, int]:
    """How many labels each enum of the tables that are read has."""
    read = (table for table in tables if table.index in statement.scanned)
    return {column.type_name: len(column.labels) for table in read for column in table.columns
            if column.labels is not None}
