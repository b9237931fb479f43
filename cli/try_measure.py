"""What `privid try` measures of each run, and the summary that it makes of all of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median
from typing import Any

from privid.engine.definitions import MAX_ROWS, MIN_TIMEOUT
from privid.fdw.wrapper import ChunkRun
from privid.model import SYSTEM_COLUMNS, Column
from privid.quantities import show_duration
from privid.sandbox.rows import MAX_LINE_BYTES, MAX_TEXT, line_limit, parse_rows
from privid.sandbox.run import Limits

__all__ = ["ENDINGS", "Measured", "duration", "lines_of", "measure", "milliseconds", "suggested_timeout", "summary"]

ENDINGS = {"crashed": "crashed", "timed out": "did not end in time", "flooded": "wrote too much", "cancelled": "was ended"}
#: margins of what is suggested: the server may be busier than this machine, and other chunks may hold more
TIME_MARGIN, ROW_MARGIN = 2, Fraction(5, 4)
#: seconds; shorter slots are all start and no program
_LEAST_TIMEOUT = max(MIN_TIMEOUT, Fraction(1, 100))
_MIB = 1 << 20


@dataclass(frozen=True)
class Measured:
    """One run."""

    outcome: str
    seconds: float
    rows: int  # printed; what is not a JSON object is one, too: a table holds defaults for it
    memory: int | None = None
    why_cold: str | None = None
    not_objects: int = 0  # or longer than a line may be
    long_texts: int = 0
    #: of the rows within max_rows, with declared columns: column and what happened to its value, and how often
    fates: Counter[tuple[str, str]] = field(default_factory=Counter)
    undeclared: frozenset[str] = frozenset()

    @property
    def well(self) -> bool:
        return self.outcome == "ok"


def measure(run: ChunkRun, columns: Sequence[Column], max_rows: int) -> Measured:
    """A run, and with columns what a table that has them would keep of its output."""
    result = run.result
    lines = lines_of(result.stdout) if run.well else []
    fates: Counter[tuple[str, str]] = Counter()
    undeclared: set[str] = set()
    not_objects = long_texts = 0
    longest = line_limit(columns) if columns else MAX_LINE_BYTES
    for line in lines[:max_rows]:
        fields = _fields(line) if len(line) <= longest else None
        if fields is None:
            not_objects += 1
            continue
        if columns:
            fates.update(_fates(line, fields, columns))
            undeclared.update(fields.keys() - {column.name for column in columns} - SYSTEM_COLUMNS.keys())
        else:
            long_texts += sum(1 for value in fields.values() if isinstance(value, str) and len(value) > MAX_TEXT)
    return Measured(result.outcome.value, result.ended - result.started, len(lines), result.memory, run.why_cold, not_objects, long_texts,
                    fates, frozenset(undeclared))


def lines_of(stdout: bytes) -> list[bytes]:
    """What a table takes for rows: lines that hold something."""
    return [line for line in stdout.split(b"\n") if line.strip()]


def _fields(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line.decode(errors="replace"), parse_int=float)
    except (ValueError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


def _fates(line: bytes, fields: dict[str, Any], columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """The columns whose value is not what the program printed, and why."""
    row = parse_rows(line, columns, 1)[0]
    for column, kept in zip(columns, row, strict=True):
        fate = _fate(column, fields[column.name], kept) if column.name in fields else "missing"
        if fate is not None:
            yield column.name, fate


def _fate(column: Column, printed: Any, kept: str | float | bool) -> str | None:
    match column.type, printed:
        case "text", str() if column.keys is not None:
            return None if kept == printed else "not among its keys"
        case "text", str():
            return None if kept == printed else f"cut to what can be stored, {MAX_TEXT} characters"
        case "boolean", bool():
            return None
        case "float8", float() if not math.isnan(printed):
            outside = column.bounds is not None and not column.bounds[0] <= printed <= column.bounds[1]
            return "moved to its low or high" if outside else None
    return "of another type"


# The summary

def summary(runs: Sequence[Measured], table: dict[str, str], max_rows: int | None) -> Iterator[str]:
    """Lines for people: what happened, and options to paste. `table` has the options that are not to be found out."""
    well = [run for run in runs if run.well]
    failed = Counter(run.outcome for run in runs if not run.well)
    yield (f"{_count(len(runs), 'chunk')} of {table['chunk']}: {len(well)} ended well"
           + "".join(f", {number} {ENDINGS[outcome]}" for outcome, number in failed.items()))
    if well:
        yield f"time per chunk: {_spread([run.seconds for run in well], milliseconds)}"
        yield f"rows per chunk: {_spread([run.rows for run in well], '{:g}'.format)}; {sum(run.rows for run in well)} in all"
        yield from _no_rows(well)
        yield from _cut(well, max_rows)
    yield from _memory(runs)
    yield from _starts(runs)
    yield from _suggestion(runs, table)


def _no_rows(well: Sequence[Measured]) -> Iterator[str]:
    empty = sum(1 for run in well if not run.rows)
    if empty == len(well):
        yield f"NO ROWS: the program printed none in any of the {_count(len(well), 'chunk')}"
    elif 2 * empty > len(well):
        yield f"NO ROWS in most chunks: the program printed none in {empty} of {len(well)}"


def _cut(well: Sequence[Measured], max_rows: int | None) -> Iterator[str]:
    """What of the output a table would not hold as it was printed."""
    over = [run.rows - max_rows for run in well if max_rows is not None and run.rows > max_rows]
    if over:
        yield f"cut: {_count(sum(over), 'row')} in {_count(len(over), 'chunk')}, more than --max-rows {max_rows}"
    if not_objects := sum(run.not_objects for run in well):
        yield f"cut: {_count(not_objects, 'line')} that are not JSON objects, or too long, each a row of defaults in a table"
    if long_texts := sum(run.long_texts for run in well):
        yield f"cut: {_count(long_texts, 'text')} longer than {MAX_TEXT} characters"
    rows = sum(min(run.rows, max_rows or MAX_ROWS) - run.not_objects for run in well)
    for (column, fate), number in sorted(sum((run.fates for run in well), Counter()).items()):
        replaced = "" if fate.startswith(("cut", "moved")) else ", the default in their place"
        yield f'column "{column}": {number} of {_count(rows, "value")} {fate}{replaced}'
    if undeclared := sorted(frozenset().union(*(run.undeclared for run in well))):
        yield f"printed, but not among --columns: {', '.join(undeclared[:10])}{', ...' if len(undeclared) > 10 else ''}"


def _memory(runs: Sequence[Measured]) -> Iterator[str]:
    found = [run.memory for run in runs if run.memory is not None]
    if found:
        beside = ", beside what importing the module took" if any(run.why_cold is None for run in runs) else ""
        yield f"memory: at most {math.ceil(max(found) / _MIB)} of {Limits().memory // _MIB} MiB{beside}"


def _starts(runs: Sequence[Measured]) -> Iterator[str]:
    cold = Counter(run.why_cold for run in runs if run.why_cold is not None)
    warm = len(runs) - cold.total()
    if warm:
        yield f"started warm: {warm} of {len(runs)}"
    for why, number in cold.items():
        yield f"started cold: {number} of {len(runs)}; {why}"


def _suggestion(runs: Sequence[Measured], table: dict[str, str]) -> Iterator[str]:
    well = [run for run in runs if run.well]
    if late := sum(1 for run in runs if run.outcome == "timed out"):
        yield f"no suggestion: {_count(late, 'chunk')} did not end within {table['timeout']}; try a longer --timeout"
    elif not any(run.rows for run in well):
        yield "no suggestion: there are no rows"
    else:
        most, least = max(run.rows for run in well), min(run.rows for run in well)
        rows = most if most == least else min(MAX_ROWS, math.ceil(ROW_MARGIN * most))
        margin = ("as many rows as every chunk had" if most == least else
                  f"{float(100 * (ROW_MARGIN - 1)):g} % more rows than the fullest had")
        timeout = suggested_timeout(max(run.seconds for run in well))
        yield f"suggested table options ({TIME_MARGIN} times what the slowest chunk took, {margin}):"
        options = {**table, "timeout": timeout, "max_rows": str(rows)}
        yield "  " + ", ".join(f"{name} '{value}'" for name, value in options.items())


def suggested_timeout(slowest: float) -> str:
    """With the margin, rounded up to two digits.

    >>> suggested_timeout(0.123), suggested_timeout(0.0001), suggested_timeout(7.77)
    ('250ms', '10ms', '16s')
    """
    wanted = max(TIME_MARGIN * slowest * 1000, float(_LEAST_TIMEOUT * 1000))
    unit = 10 ** (math.floor(math.log10(wanted)) - 1)
    return duration(Fraction(math.ceil(wanted / unit - 1e-9) * Fraction(unit), 1000))


def duration(seconds: Fraction) -> str:
    """As options have it: 5s, 250ms.

    >>> duration(Fraction(5)), duration(Fraction(1, 30))
    ('5s', '1/30s')
    """
    return show_duration(seconds).replace(" ", "")


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    if min(values) == max(values):
        return f"{show(values[0])} in {'each' if len(values) > 1 else 'the only one'}"
    return f"least {show(min(values))}, median {show(median(values))}, most {show(max(values))}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
