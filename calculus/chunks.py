"""Values of trusted expressions for chunks, computed by PostgreSQL, as runs of chunks that share them."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from privid.model import Evaluate, Key, Run, SetWise, Span, Table, TableUse

from .deparse import deparse_all
from .solve import solve
from .tree import Col, Expr, walk
from .weight import Keys

__all__ = ["runs", "spans_of"]

#: chunks of one call, so that neither side holds everything at once
BATCH = 100_000
#: spans closer than this are evaluated in one call; the chunks between are dropped
GAP = 1_000


def runs(expressions: Sequence[Expr], use: TableUse, evaluate: Evaluate) -> Iterator[tuple[int, int, int, Key]]:
    """What runs of a table, in order of time: chunks from the first to before the last, their region, and the text form of the expressions,
    which they share. A key may go on in the run after it."""
    table, names = use.table, use.table.region_names
    # what does not look at the region is the same in all of them
    asked = names if len(names) > 1 and any(_is_region(node) for e in expressions for node in walk(e)) else names[:1]
    solved = solve(expressions, table, use.chunks, asked, evaluate) if isinstance(evaluate, SetWise) else None
    sql = deparse_all(expressions)
    if solved is not None:
        for lo, hi, keys in solved:
            yield from _placed(use, lo, hi, keys * (len(names) // len(keys)))
    elif len(asked) == 1:
        for lo, hi, key in _evaluated(sql, table, use.chunks, asked[0], evaluate):
            yield from _placed(use, lo, hi, [key] * len(names))
    else:
        # one region after the other: each of them holds a session while it is read
        known = Keys(expressions[0].loc, most=None)
        by_region = [[(lo, hi, region, known.one(key)) for lo, hi, key in _evaluated(sql, table, spans, names[region], evaluate)]
                     for region, spans in enumerate(use.by_region)]
        yield from heapq.merge(*by_region, key=lambda run: (run[0], run[2]))


def _placed(use: TableUse, lo: int, hi: int, keys: Sequence[Key]) -> Iterator[tuple[int, int, int, Key]]:
    """A run of chunks in the regions in which they run."""
    if use.regions is None:
        yield from ((lo, hi, region, key) for region, key in enumerate(keys))
    else:
        pieces = [(first, last, region) for region, spans in enumerate(use.regions) for first, last in _within(spans, lo, hi)]
        yield from ((first, last, region, keys[region]) for first, last, region in sorted(pieces))


def _within(spans: Sequence[Span], lo: int, hi: int) -> Iterator[Span]:
    """The part of the spans that lies between."""
    at = max(bisect_right(spans, lo, key=lambda span: span[0]) - 1, 0)
    while at < len(spans) and spans[at][0] < hi:
        first, last = max(spans[at][0], lo), min(spans[at][1], hi)
        if first < last:
            yield first, last
        at += 1


def _evaluated(sql: Sequence[str], table: Table, spans: Sequence[Span], region: str, evaluate: Evaluate) -> Iterator[Run]:
    """Every chunk by itself, neighbours of equal values together."""
    if isinstance(evaluate, SetWise):
        yield from evaluate.runs(sql, table, spans, region)
        return
    for lo, hi, wanted in _calls(spans):
        for first in range(lo, hi, BATCH):
            last = min(first + BATCH, hi)
            found = evaluate(sql, table, (first, last), region) if region else evaluate(sql, table, (first, last))
            if len(found) != last - first:
                raise RuntimeError(f"{last - first} chunks were evaluated but {len(found)} rows came back")
            for begin, end in _within(wanted, first, last):
                yield from _alike(begin, found[begin - first:end - first])


def _alike(first: int, keys: Sequence[Key]) -> Iterator[Run]:
    begin = 0
    for n in range(1, len(keys) + 1):
        if n == len(keys) or keys[n] != keys[begin]:
            yield first + begin, first + n, keys[begin]
            begin = n


def _is_region(node: Expr) -> bool:
    return isinstance(node, Col) and node.name == "region"


def spans_of(chunks: Iterable[Span]) -> tuple[Span, ...]:
    """Ascending spans, those that touch put together.

    >>> spans_of([(0, 2), (2, 3), (5, 6)])
    ((0, 3), (5, 6))
    """
    spans: list[Span] = []
    for lo, hi in chunks:
        if spans and spans[-1][1] == lo:
            spans[-1] = (spans[-1][0], hi)
        else:
            spans.append((lo, hi))
    return tuple(spans)


def _calls(spans: Sequence[Span]) -> Iterator[tuple[int, int, list[Span]]]:
    """Near spans together: what is evaluated, and which of it are wanted."""
    together: list[Span] = []
    for span in spans:
        if together and span[0] - together[-1][1] > GAP:
            yield together[0][0], together[-1][1], together
            together = []
        together.append(span)
    if together:
        yield together[0][0], together[-1][1], together
