"""Small statements in which little stands but time: bins, cells of a list, spans, and what of them is there at all.

A time is the column chunk, a bin of it, or one thing before a moment and another after it, and a third after a later one: which may be no
time, or none that ends, or one at an end of the type. A statement has ends of one kind.
"""

from __future__ import annotations

from .calculus_grammar import Agg
from .calculus_tape import Tape
from .calculus_world import KINDS, PLATES

__all__ = ["Times"]

#: what stands on both sides of the times that chunks have
_ENDS = (("'-infinity'::timestamptz", "'infinity'::timestamptz"), ("NULL::timestamptz", "'2026-03-01 06:00+00'::timestamptz"),
         ("'4714-11-24 00:00:00+00 BC'::timestamptz", "'294276-12-31 23:59:59+00'::timestamptz"))

#: what has no value somewhere
_PARTIAL = ("1 / ({})", "sqrt(({})::float8)", "ln(({})::float8)")

#: keys, what is aggregated, and the rest from FROM on
Parts = tuple[tuple[str, ...], Agg, str]


class Times:
    """Draws such statements from a tape."""

    def __init__(self, rng: Tape) -> None:
        self.rng = rng
        self.ends = _ENDS[0]

    def draw(self) -> Parts:
        self.ends = self.rng.choice(_ENDS)
        return self.rng.choice((self.spans, self.spans, self.bins, self.cells, self.there))()

    def table(self) -> str:
        return f"@{self.rng.choice(KINDS[self.rng.choice(sorted(KINDS))])}@"

    def moment(self, chunk: str) -> str:
        """A time that is computed from chunk alone."""
        first, second = (f"'2026-03-01 06:00:0{second}+00'" for second in sorted(self.rng.sample((0.5, 1, 1.5, 2), 2)))
        arms = self.rng.sample((chunk, *self.ends), 3)
        either = f"CASE WHEN {chunk} < {first} THEN {arms[0]} ELSE {arms[1]} END"
        third = f"CASE WHEN {chunk} < {first} THEN {arms[0]} WHEN {chunk} < {second} THEN {arms[1]} ELSE {arms[2]} END"
        return self.rng.choice((chunk, f"date_trunc('second', {chunk})", f"date_bin('2 seconds', {chunk}, '2026-03-01 06:00+00')",
                                either, third, third))

    def source(self) -> str:
        """Rows with a time t: of one table, or of two, end to end; all of them, or some."""
        where = f" WHERE v {self.rng.choice(('>', '=', '<'))} {self.rng.choice((0, 1))}" if self.rng.random() < 0.2 else ""
        parts = [f"SELECT {self.moment('chunk')} AS t, plate, v FROM {self.table()} q{where}" for _ in range(self.rng.choice((1, 2, 2)))]
        return f"({' UNION ALL '.join(parts)}) q"

    def total(self, n: str) -> Agg:
        low, high = self.rng.choice(((0, 0.5), (0, 1), (0, 3), (1, 3)))
        return self.rng.choice((Agg("count", n), Agg("sum", f"range({n}, {low}, {high})"), Agg("sum", f"range({n}, {low}, {high})")))

    def spans(self) -> Parts:
        """From first to last seen."""
        span = "extract(epoch FROM max(t) - min(t))"
        having = f" HAVING {span} {self.rng.choice(('>', '<='))} {self.rng.choice((0, 0.5, 1))}" if self.rng.random() < 0.3 else ""
        return (), self.total("n"), f"FROM (SELECT plate, {span} AS n FROM {self.source()} GROUP BY plate{having}) q"

    def bins(self) -> Parts:
        """By time: shown, or added up over all of it."""
        if self.rng.random() < 0.5:
            return ("t",), self.rng.choice((Agg("count"), Agg("count", "v"), Agg("sum", "range(v, 0, 3)"))), f"FROM {self.source()}"
        made = self.rng.choice(("count(*)", "count(DISTINCT plate)", "max(range(v, 0, 3))", "avg(range(v, 0, 3))"))
        return (), self.total("n"), f"FROM (SELECT t, {made} AS n FROM {self.source()} GROUP BY t) q"

    def cells(self) -> Parts:
        """Of listed keys, at each time."""
        second = f"extract(second FROM q.chunk) - {self.rng.choice((0, 1, 2))}"
        cell = self.rng.choice((self.moment("q.chunk"), *(form.format(second) for form in _PARTIAL)))
        keys = ", ".join(f"({plate!r})" for plate in self.rng.sample(list(PLATES), 4))
        shown = self.rng.choice((Agg("count"), Agg("count", "q.v"), Agg("sum", "range(q.v, 0, 3)")))
        return (cell, "k.key"), shown, f"FROM (VALUES {keys}) AS k(key) LEFT JOIN {self.table()} q ON q.plate = k.key"

    def there(self) -> Parts:
        """Which times there are."""
        return (), Agg("count"), f"FROM (SELECT DISTINCT t FROM {self.source()}) q"
