"""What a release adds noise to, and what one segment's change costs it: read off the plan, as the engine reads it.

A count or a sum gets noise itself. An average is a noisy count and a noisy sum around the middle of the range; a variance has a noisy
sum of squares besides. An argmax shows which candidate's noisy score is largest, so what counts is how far scores move apart; so does a
quantile, whose scores are distances in ranks. The first or last chunk is public: it is that of the chunks that are read, and so that of
the rows where every chunk has some.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privid.model import Collected, Output, Plan, Quantile

from .calculus_grammar import Query

__all__ = ["Answer", "Contest", "Noised", "Part", "Public", "Ranked", "change", "collected", "parts", "public"]

#: key -> what is collected for it
Answer = dict[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class Noised:
    """One number per key that noise is added to: a combination of collected columns, and the scale of its noise."""

    terms: tuple[tuple[int, Fraction], ...]
    scale: Fraction

    @property
    def measure(self) -> Hashable:
        """What its change is a matter of, whatever the noise."""
        return self.terms


@dataclass(frozen=True)
class Contest:
    """Scores of which only the winner is shown, in each cell of the other keys."""

    column: int
    of: tuple[int, ...]
    candidates: tuple[tuple[Any, ...], ...]
    scale: Fraction

    @property
    def measure(self) -> Hashable:
        return self.column, self.of, self.candidates


@dataclass(frozen=True)
class Ranked:
    """Candidates of each key, of which one is shown: its score is the distance of its ranks from the wanted one."""

    column: int
    quantile: Quantile
    scale: Fraction

    @property
    def measure(self) -> Hashable:
        return self.column, self.quantile

    def scores(self, row: tuple[Any, ...] | None) -> list[int]:
        """As the rule has them: minus max(0, q N - #{v <= c}, #{v < c} - q N), in whole numbers: times the denominator of q."""
        digits, fraction = self.quantile.digits, self.quantile.fraction
        packed = str(int(_value(row, self.column))).zfill(digits * len(self.quantile.candidates))
        counts = [int(packed[i - digits:i]) for i in range(len(packed), 0, -digits)]
        below, per, found = 0, fraction.denominator, list[int]()
        wanted = fraction.numerator * sum(counts)
        for count in counts:
            found.append(-max(0, wanted - (below + count) * per, below * per - wanted))
            below += count
        return found

    def apart(self, one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> Fraction:
        """By how much scores move against each other."""
        moved = [b - a for a, b in zip(self.scores(one), self.scores(other), strict=True)]
        return Fraction(max(moved) - min(moved), self.quantile.fraction.denominator)


Part = Noised | Contest | Ranked


@dataclass(frozen=True)
class Public:
    """A value for each key that is said to be the same whatever the video shows: the least or the greatest time of a chunk, or the
    number of groups."""

    column: int
    values: Mapping[tuple[Any, ...], str | None]
    greatest: bool

    def contradicted(self, answer: Answer, full: bool) -> str | None:
        """What PostgreSQL finds otherwise among the rows, if anything; `full`: every chunk that is read has some."""
        for key, said in self.values.items():
            found = answer[key][self.column] if key in answer else None
            if found == said or (found is None and not full):
                continue
            if full or said is None or found is None or (_size(found) > _size(said) if self.greatest else _size(found) < _size(said)):
                return f"{said}, but {found} under {key}"
        return None


def _size(text: str) -> tuple[int, str]:
    """Numbers of groups by what they are, times by their text."""
    return (int(text), "") if text.isdigit() else (0, text)


def collected(plan: Plan, query: Query) -> list[str]:
    """The columns of the inner query, after its keys; then what is public, as PostgreSQL has it."""
    shown = [a.sql() for a, output in zip(query.aggs, plan.outputs, strict=True) if output.public is not None]
    wanted = plan.columns or [Collected(i) for i, output in enumerate(plan.outputs) if output.public is None]
    return [*(_column(c, query) for c in wanted), *(f"({sql})::text" for sql in shown)]


def public(plan: Plan) -> list[tuple[Output, Public]]:
    """What is said to be public, with where `collected` has put it."""
    first = len(plan.columns) or sum(1 for output in plan.outputs if output.public is None)
    said = [output for output in plan.outputs if output.public is not None]
    return [(output, Public(first + i, dict(zip(plan.keys, output.public or (), strict=True)), output.label.startswith(("max(", "count("))))
            for i, output in enumerate(said)]


def _column(wanted: Collected, query: Query) -> str:
    aggregate = query.aggs[wanted.agg]
    argument = aggregate.arg or "*"
    if wanted.what == "value":
        return aggregate.sql()
    if wanted.low is not None:
        argument = f"range(({argument})::float8, {wanted.low}, {wanted.high})"
    if wanted.what == "count":
        return aggregate.sql("count", argument)
    if wanted.what == "bins":
        edges = f"'{{{','.join(wanted.edges)}}}'::numeric[]"
        return aggregate.sql("sum", f"('1e' || (width_bucket(({argument})::numeric, {edges}) * {wanted.digits}))::numeric")
    squared = f"({argument})::numeric * ({argument})::numeric"
    return aggregate.sql("sum", squared if wanted.what == "squares" else f"({argument})::numeric")


def parts(plan: Plan) -> list[list[Part]]:
    """For each output, what of it gets noise."""
    return [_parts(output, plan, output.collects or (i,)) if output.public is None else [] for i, output in enumerate(plan.outputs)]


def _parts(output: Output, plan: Plan, places: Sequence[int]) -> list[Part]:
    if plan.argmax is not None:
        return [Contest(places[0], plan.argmax, plan.keys, output.scale)]
    if output.quantile is not None:
        return [Ranked(places[0], output.quantile, output.scale)]
    if len(places) == 1:
        return [Noised(((places[0], Fraction(1)),), output.scale)]
    assert output.low is not None and output.high is not None
    if output.low == output.high:
        return []  # the answer is that value, whatever the rows
    middle, half = (output.low + output.high) / 2, (output.high - output.low) / 2
    count, total = places[0], places[1]
    found: list[Part] = [Noised(((count, Fraction(1)),), output.scales[0]),
                         Noised(((total, Fraction(1)), (count, -middle)), output.scales[1])]
    if len(places) == 3:
        # Σ((a - mid)² - h²/2)
        found.append(Noised(((places[2], Fraction(1)), (total, -2 * middle), (count, middle**2 - half**2 / 2)), output.scales[2]))
    return found


def change(one: Answer, other: Answer, part: Part) -> Fraction:
    """By how much it changes, over all keys together; a key that is missing counts 0."""
    keys = {*one, *other}
    if isinstance(part, Noised):
        changed = [key for key in keys if one.get(key) != other.get(key)]
        return sum((abs(_difference(one.get(key), other.get(key), part.terms)) for key in changed), Fraction(0))
    if isinstance(part, Ranked):
        return sum((part.apart(one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)), Fraction(0))
    # as many candidates as differ in number from those that occur have score 0 before and after
    term = ((part.column, Fraction(1)),)
    moved: dict[tuple[Any, ...], list[Fraction]] = {}
    for key in keys:
        cell = tuple(value for i, value in enumerate(key) if i not in part.of)
        moved.setdefault(cell, []).append(_difference(one.get(key), other.get(key), term))
    cells = len({tuple(value for i, value in enumerate(key) if i not in part.of) for key in part.candidates})
    each = len(part.candidates) // max(cells, 1)
    return sum((max(found + [Fraction(0)] * (len(found) < each)) - min(found + [Fraction(0)] * (len(found) < each))
                for found in moved.values()), Fraction(0))


def _difference(a: tuple[Any, ...] | None, b: tuple[Any, ...] | None, terms: Sequence[tuple[int, Fraction]]) -> Fraction:
    return sum(((_value(a, i) - _value(b, i)) * factor for i, factor in terms), Fraction(0))


def _value(row: tuple[Any, ...] | None, i: int) -> Fraction:
    return Fraction(row[i]) if row is not None and row[i] is not None else Fraction(0)
