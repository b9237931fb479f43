"""Values of trusted expressions for chunks, computed by PostgreSQL, and runs of chunk indices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from privid.errors import NoRule
from privid.model import Evaluate, Key, Span, Table

from .deparse import deparse
from .tree import Expr, position

__all__ = ["MAX_CHUNKS", "spans_of", "values"]

#: more chunks than this are not evaluated one by one
MAX_CHUNKS = 2_000_000
#: chunks of one call, so that neither side holds everything at once
BATCH = 100_000
#: runs closer than this are evaluated in one call; the chunks between are dropped
GAP = 1_000


def values(expressions: Sequence[Expr], table: Table, spans: Sequence[Span], evaluate: Evaluate) -> Iterator[tuple[int, Key]]:
    """Each chunk of the spans, in order, with the text form of the expressions."""
    if sum(hi - lo for lo, hi in spans) > MAX_CHUNKS:
        raise NoRule(f'condition or grouping on trusted columns has no rule for the {table.grid.count} chunks of "{table.name}"',
                     detail=f"At most {MAX_CHUNKS} chunks are evaluated one by one.", position=position(expressions[0].loc),
                     hint='Choose a shorter window with the options "begin" and "end", or longer chunks.')
    sql = [deparse(e) for e in expressions]
    for lo, hi, wanted in _calls(spans):
        for first in range(lo, hi, BATCH):
            last = min(first + BATCH, hi)
            rows = evaluate(sql, table, (first, last))
            if len(rows) != last - first:
                raise RuntimeError(f"{last - first} chunks were evaluated but {len(rows)} rows came back")
            within = _members(wanted, first, last)
            yield from ((j, rows[j - first]) for j in within)


def spans_of(chunks: Iterable[int]) -> tuple[Span, ...]:
    """Ascending indices as runs.

    >>> spans_of([0, 1, 2, 5])
    ((0, 3), (5, 6))
    """
    spans: list[Span] = []
    for j in chunks:
        if spans and spans[-1][1] == j:
            spans[-1] = (spans[-1][0], j + 1)
        else:
            spans.append((j, j + 1))
    return tuple(spans)


def _calls(spans: Sequence[Span]) -> Iterator[tuple[int, int, list[Span]]]:
    """Near runs together: what is evaluated, and which runs are wanted of it."""
    together: list[Span] = []
    for span in spans:
        if together and span[0] - together[-1][1] > GAP:
            yield together[0][0], together[-1][1], together
            together = []
        together.append(span)
    if together:
        yield together[0][0], together[-1][1], together


def _members(spans: Sequence[Span], first: int, last: int) -> Iterator[int]:
    for lo, hi in spans:
        yield from range(max(lo, first), min(hi, last))
