"""Everything that a client sees of a statement, without what is noise: sides must not differ in it.

Names of columns tell what they hold: k... is public and compared to the last character, c... has
noise and only whether it is NULL is compared; of any other column, numbers are taken for noise.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from .statements_world import Connection

__all__ = ["LOST", "Seen", "Values", "look"]

#: names of the columns, and the rows as text, for those who compare values
Values = tuple[tuple[str, ...], tuple[tuple[str | None, ...], ...]]
Names = Callable[[str], str]

_NUMBERS = frozenset((20, 21, 23, 700, 701, 1700))
#: objects that were made here have identifiers that say nothing
_FIRST_OWN_OID = 16384


@dataclass(frozen=True)
class Seen:
    """The outcome of one step. What is shown is compared; time and values are looked at apart."""

    shown: tuple[Any, ...]
    notices: tuple[str, ...]
    seconds: float
    values: Values | None = None

    @property
    def state(self) -> str:
        """Its SQLSTATE, or that the server was lost."""
        match self.shown[0]:
            case "error":
                return str(self.shown[1])
            case "lost":
                return "lost"
        return "00000"

    @property
    def compared(self) -> tuple[Any, ...]:
        return self.shown, self.notices


LOST = Seen(("lost",), (), 0.0)

#: What differs from run to run. Budgets do, since workers share cameras, and the slots that are
#: needed, since a statement that was cancelled leaves chunks to run; all else that a plan tells
#: stays.
_BLANKS = tuple((re.compile(pattern), put) for pattern, put in (
    (r"\[-?[\d.e+-]+, -?[\d.e+-]+\]", "[interval]"),  # of an average, around its noisy value
    (r"[Rr]elease \d+", "release N"),
    (r"log id [0-9a-f]+", "log id N"),
    (r"\b[\d.e+]+ remains", "left"),
    (r'(Budget|Share)[ -]Remaining[\\">]*:? ?[\\"]*[\d.e+]+', "left"),
    (r'Seconds[\\">]*:? ?[\d.e+-]+', "seconds"),
    (r"in \d+ slots?, [\d.e+-]+ s", "slots"),
    (r'Slots[\\">]*:? ?\d+', "slots"),
    # said where there are slots, on a machine that is busy
    (r'[-\s]*(<\w+>|(, *)?\\?"|Hint: )?The machine has been too busy for many slots of late[^"<\n]*(</\w+>|\\?")?', ""),
    (r',?\s*(\\?"Hints\\?": *\[\s*\]|<Hints>\s*</Hints>|Hints:\s*$)', ""),
    (r'Release[\\">]*:? ?[\\"]*[0-9a-f]{16}', "name"),
    (r"actual time=[\d.]+", "time"),
    (r"\.\.[\d.]+ rows=", " rows="),
    (r"(Planning|Execution) Time: [\d.]+ ms", "time"),
    (r'"?(Actual (Startup|Total) Time|Planning Time|Execution Time)"?: [\d.]+', "time"),
    (r"<(Actual-(Startup|Total)-Time|Planning-Time|Execution-Time)>[\d.]+", "time"),
    (r'"?\w+ (Hit|Read|Dirtied|Written) Blocks"?: \d+,?', "blocks"),
    (r"<[\w-]+-(Hit|Read|Dirtied|Written)-Blocks>\d+", "blocks"),
    (r"(?m)^\s*(Buffers: .*|Planning:\s*|WAL: .*)$", ""),
    (r'"?WAL (Records|FPI|Bytes)"?: \d+,?', "wal"),
    (r"Memory( Usage)?: \d+kB|Buckets: .*|Batches: \d+", "memory"),
    (r"Timing: Generation .*", "compiling"),
    (r'(Generation|Inlining|Optimization|Emission|Total)("?: |>)[\d.]+', "compiling"),
    (r"pg_(toast_)?temp_\d+", "pg_temp"),
    (r"process \d+|PID \d+|pid \d+", "process"),
    (r"(?m)^\s*\n", "")))


def blank(text: str | None, names: Names) -> str | None:
    """Without names of a side, and without what differs from run to run."""
    if text is None:
        return None
    text = names(text)
    for pattern, put in _BLANKS:
        text = pattern.sub(put, text)
    return text


def _notice(diagnostic: psycopg.errors.Diagnostic, names: Names) -> str:
    """What came beside the rows. Trees and traces that settings ask for are full of numbers."""
    d = diagnostic
    if (d.severity_nonlocalized or "").startswith(("LOG", "DEBUG")):
        return re.sub(r"[\d.]+", "N", names(f"{d.severity_nonlocalized} {d.message_primary}"))
    told = (d.severity_nonlocalized, d.sqlstate, d.message_primary, d.message_detail,
            d.message_hint, d.context)
    return blank(" ".join(map(str, told)), names) or ""


def look(connection: Connection, text: str, parameters: tuple[str, ...] | None,
         names: Names) -> Seen:
    """Run a statement, and keep all that came."""
    notices: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        notices.append(_notice(diagnostic, names))

    connection.add_notice_handler(note)
    values = None
    begun = time.monotonic()
    try:
        if text.startswith("COPY"):
            with connection.cursor() as cursor, cursor.copy(text.encode()) as copy:
                shown: tuple[Any, ...] = ("copied", sum(1 for _ in copy))
        else:
            with psycopg.RawCursor(connection) as cursor:
                prepare = None if parameters is None else True
                cursor.execute(text.encode(), parameters or None, prepare=prepare)
                shown, values = _results(cursor, names)
        seconds = time.monotonic() - begun
    except psycopg.Error as error:
        seconds = time.monotonic() - begun
        shown = _error(error, names)
    finally:
        connection.remove_notice_handler(note)
    return Seen(shown, tuple(notices), seconds, values)


def _error(error: psycopg.Error, names: Names) -> tuple[Any, ...]:
    d = error.diag
    if error.sqlstate is None:  # nothing came from the server, which is gone
        return LOST.shown
    told = (d.message_primary, d.message_detail, d.message_hint, d.statement_position,
            d.internal_position, d.internal_query, d.context, d.table_name, d.column_name,
            d.datatype_name, d.constraint_name)
    return ("error", d.sqlstate, d.severity_nonlocalized, *(blank(text, names) for text in told))


def _results(cursor: psycopg.RawCursor[tuple[Any, ...]],
             names: Names) -> tuple[tuple[Any, ...], Values | None]:
    """Every result of the statement; values are kept of the last one that has rows."""
    shown: list[Any] = []
    values = None
    while True:
        result = cursor.pgresult
        assert result is not None
        fields = range(result.nfields)
        columns = [(result.fname(i) or b"").decode() for i in fields]
        kinds = [result.ftype(i) for i in fields]
        rows = [tuple(_text(result.get_value(i, j)) for j in fields) for i in range(result.ntuples)]
        status = (result.command_status or b"").decode()
        masked = (tuple(_masked(columns[i], kinds[i], row[i], names) for i in fields) for row in rows)
        shown.append((
            status,
            tuple((columns[i], kinds[i] if kinds[i] < _FIRST_OWN_OID else 0, result.fmod(i))
                  for i in fields),
            # lines of a plan of which nothing is compared
            tuple(row for row in masked if status != "EXPLAIN" or row != ("",))))
        if columns:
            values = tuple(columns), tuple(rows)
        if not cursor.nextset():
            return ("rows", *shown), values


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _masked(name: str, kind: int, value: str | None, names: Names) -> str | None:
    if value is None or name.startswith("k"):
        return blank(value, names)
    if re.fullmatch(r"c\d+", name):
        return "noise"
    return "number" if kind in _NUMBERS else blank(value, names)
