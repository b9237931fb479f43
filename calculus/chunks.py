"""Values of trusted expressions for chunks, computed by PostgreSQL, and runs of chunk indices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from privid.errors import NoRule
from privid.model import Evaluate, Key, Span, TableUse

from .deparse import deparse
from .tree import Col, Expr, position, walk

__all__ = ["MAX_CHUNKS", "spans_of", "values"]

#: more chunks than this are not evaluated one by one
MAX_CHUNKS = 2_000_000
#: chunks of one call, so that neither side holds everything at once
BATCH = 100_000
#: runs closer than this are evaluated in one call; the chunks between are dropped
GAP = 1_000


def values(expressions: Sequence[Expr], use: TableUse, evaluate: Evaluate) -> Iterator[tuple[int, int, Key]]:
    """Each run of a table, in order of time: its chunk, its region, and the text form of the expressions."""
    table = use.table
    if use.count > MAX_CHUNKS:
        raise NoRule(f'condition or grouping on trusted columns has no rule for the {use.count} chunks of "{table.name}"',
                     detail=f"At most {MAX_CHUNKS} chunks are evaluated one by one.", position=position(expressions[0].loc),
                     hint='Choose a shorter window with the options "begin" and "end", or longer chunks.')
    sql = [deparse(e) for e in expressions]
    names = table.region_names
    # what does not look at the region is the same in all of them
    asked = names if len(names) == 1 or any(_is_region(node) for e in expressions for node in walk(e)) else names[:1]
    for lo, hi, wanted in _calls(use.chunks):
        for first in range(lo, hi, BATCH):
            last = min(first + BATCH, hi)
            rows = [evaluate(sql, table, (first, last), name) if name else evaluate(sql, table, (first, last)) for name in asked]
            if any(len(found) != last - first for found in rows):
                raise RuntimeError(f"{last - first} chunks were evaluated but {[len(found) for found in rows]} rows came back")
            if len(asked) < len(names):
                rows *= len(names)
            if use.regions is None:
                yield from ((j, region, found[j - first]) for j in _members(wanted, first, last) for region, found in enumerate(rows))
            else:
                members = [set(_members(spans, first, last)) for spans in use.regions]
                yield from ((j, region, rows[region][j - first]) for j in _members(wanted, first, last)
                            for region in range(len(names)) if j in members[region])


def _is_region(node: Expr) -> bool:
    return isinstance(node, Col) and node.name == "region"


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
