"""Output that is made to be felt, and what there is to feel it by: when later slots begin, when rows are there, the engine's own work."""

from __future__ import annotations

import json
import os
import random
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

from scipy import stats

from privid.engine.kept import Cell, Entry, write_cell
from privid.engine.reading import Readings, reading_time
from privid.engine.rows import encode_columns
from privid.engine.timetable import NANO
from privid.model import Column, Table
from privid.sandbox.hands import Stop
from privid.sandbox.printed import Printed
from privid.sandbox.program import Program
from privid.sandbox.rows import default_row, parse_rows
from privid.sandbox.run import Outcome, RunResult

from .test_runner import TimeKeeper, Workshop

__all__ = ["COLUMNS", "HOSTILE", "Felt", "feel", "fuzzed", "in_the_engine", "p_values"]

#: lines of up to 128 KiB
COLUMNS = (Column("n", 1, "float8", "float8", False, 0.0), *(Column(f"word{i}", 2 + i, "text", "text", False, "none") for i in range(21)))
_LONG = 1 << 20


@cache
def _million() -> bytes:
    return b"{" + b",".join(b'"%d":1' % number for number in range(1_000_000)) + b"}\n"


#: whole outputs, each of a kind that has held some parser up
HOSTILE: dict[str, Callable[[random.Random], bytes]] = {
    "nothing": lambda chance: b"",
    "a line of a mebibyte": lambda chance: b'{"word0":"' + b"x" * _LONG + b'"}\n',
    "no line at all": lambda chance: bytes([chance.randrange(256)]) * _LONG,
    "deep lists": lambda chance: (b"[" * 60_000 + b"]" * 60_000 + b"\n") * 9,
    "deep objects": lambda chance: (b'{"n":' * 25_000 + b"1" + b"}" * 25_000 + b"\n") * 9,
    "never closed": lambda chance: (b'{"n":[' * 20_000 + b"\n") * 9,
    "a million keys": lambda chance: _million(),
    "as many keys as fit": lambda chance: (b"{" + b",".join(b'"%d":1' % i for i in range(12_000)) + b"}\n") * 9,
    "one key often": lambda chance: (b"{" + b'"n":1,' * 20_000 + b'"n":2}\n') * 9,
    "numbers without end": lambda chance: (b'{"n":' + b"9" * 120_000 + b"}\n") * 9,
    "tiny numbers": lambda chance: (b'{"j":[' + b"2.2250738585072011e-308," * 5_000 + b"1]}\n") * 9,
    "huge exponents": lambda chance: (b'{"n":1e' + b"9" * 1_000 + b"}\n") * 9 + b'{"n":-1E+309}\n{"n":NaN}\n{"n":-Infinity}\n',
    "not UTF-8": lambda chance: b'{"word0":"' + chance.randbytes(100_000).replace(b"\n", b"") + b'"}\n',
    "halves of pairs": lambda chance: (b'{"word0":"' + b"\\ud800" * 20_000 + b'"}\n') * 9,
    "NUL": lambda chance: (b'{"word0":"' + b"\\u0000" * 20_000 + b'"}\n') * 9,
    "escapes": lambda chance: (b'{"word0":"' + b"\\u00e9" * 20_000 + b'"}\n') * 9,
    "blank lines": lambda chance: b" \n" * 500_000,
    "a byte order mark": lambda chance: b"\xef\xbb\xbf" + b'{"n":1}\n',
    "noise": lambda chance: chance.randbytes(chance.randrange(1, 200_000)),
}


def fuzzed(chance: random.Random) -> bytes:
    """One of a kind, or pieces of two, with some bytes changed."""
    made = chance.choice(list(HOSTILE.values()))(chance)
    if chance.random() < 0.5:
        other = chance.choice(list(HOSTILE.values()))(chance)
        made = made[:chance.randrange(len(made) + 1)] + other[chance.randrange(len(other) + 1):]
    changed = bytearray(made)
    for _ in range(chance.choice([0, 1, 5, 200]) if changed else 0):
        changed[chance.randrange(len(changed))] = chance.choice(b'{}[]":,\\\n0\xff\x80e-')
    return bytes(changed)


@dataclass(frozen=True)
class Felt:
    """Of one slot: whether the one before it had printed something hostile, and what is felt of that."""

    hostile: bool
    begin: float  # seconds after the beginning by the timetable
    answer: float  # and the rows of the slot before, after the end of their slot
    work: int  # nanoseconds of processor time of the engine from the end of that slot on


class _Printer(TimeKeeper):
    """A lane whose programs print what they are told to."""

    guard = 0.02

    def __init__(self, outputs: Sequence[bytes]) -> None:
        super().__init__()
        self._outputs = [Printed.of(output) for output in outputs]  # they go away at the end, as files of runs do by other hands
        self.started: list[float] = []
        self.work: list[int] = []

    def run(self, program: Program, chunk_dir: Path, begin: float, end: float, stop: Stop | None) -> RunResult:
        time.sleep(max(0.0, begin - time.monotonic()))
        self.started.append(time.monotonic() - begin)
        select.select([] if stop is None else [stop], [], [], max(0.0, end - time.monotonic()))
        self.work.append(time.process_time_ns())
        return RunResult(Outcome.OK, Printed(self._outputs[len(self.started) - 1].fileno()), b"")


def feel(directory: Path, hostile: Sequence[bool], chance: random.Random) -> list[Felt]:
    """As many slots in one lane, each of which prints one way or the other."""
    plain = json.dumps({column.name: 1 if column.type == "float8" else "a" for column in COLUMNS}).encode() + b"\n"
    slow = [HOSTILE[name] for name in ("as many keys as fit", "one key often", "tiny numbers", "deep objects", "escapes")]
    lane = _Printer([chance.choice(slow)(chance) if one else plain for one in hostile])
    workshop = Workshop(directory, 1, [lane], max(60, len(hostile)))
    try:
        table = replace(workshop.table(len(hostile)), columns=COLUMNS, max_rows=4)
        table = replace(table, timeout=Fraction(reading_time(table), NANO) + Fraction(1, 50))
        job = workshop.submit_runs(table, [(i, 0) for i in range(len(hostile))], [b"%d" % i for i in range(len(hostile))])
        answered = []
        for slot in job.own:
            slot.wait()
            answered.append((time.monotonic_ns() - slot.place.end) / NANO)
    finally:
        workshop.runner.stop()
        workshop.readings.close()
        workshop.cache.close()
    return [Felt(hostile[i], lane.started[i + 1], answered[i], lane.work[i + 1] - lane.work[i]) for i in range(len(hostile) - 1)]


def p_values(found: Sequence[Felt]) -> dict[str, float]:
    """Of each, how likely it is that both ways differ so by chance (Mann-Whitney)."""
    def p(measure: Callable[[Felt], float]) -> float:
        one, other = ([measure(felt) for felt in found if felt.hostile is way] for way in (False, True))
        return float(stats.mannwhitneyu(one, other, alternative="two-sided").pvalue)

    return {"beginning of the next slot": p(lambda felt: felt.begin), "moment of the rows": p(lambda felt: felt.answer),
            "processor time of the engine": p(lambda felt: felt.work)}


def in_the_engine(readings: Readings, cell: Cell, table: Table, printed: Printed | None) -> bool:
    """As it once was: the engine parses what was printed itself."""
    rows = [default_row(table.untrusted)] if printed is None else parse_rows(printed.content(), table.untrusted, table.max_rows)
    file = cell.open(readings._segments)
    write_cell(file, cell.offset, cell.size, Entry(len(rows), encode_columns(table.untrusted, rows)))
    os.close(file)
    return False
