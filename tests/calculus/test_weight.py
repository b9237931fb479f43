"""What short statements make of themselves is weighed before it is made: expressions with subqueries inlined, and keys."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from privid.calculus.weight import MAX_BYTES, MAX_KEY_BYTES, Keys, of_key, of_product, of_value
from privid.errors import NoRule
from privid.model import Evaluate, Key, Span, Table

from .builders import (
    Json,
    aggregate,
    analyse,
    both,
    call,
    col,
    const,
    count,
    either,
    equal,
    grouped,
    in_list,
    join,
    position,
    request,
    rows,
    scan,
    select,
    subquery,
    table,
    trunc,
    union_all,
)

P = position(1, "text", "p")
LONG = call("||(text,text)", col("plate"), const("x" * 8000, "text"), type_="text")


def nullif(one: Json, other: Json) -> Json:
    return {"e": "nullif", "fn": "pg_catalog.=(text,text)", "args": [one, other], "type": "text", "loc": -1}


def doubled(levels: int) -> Json:
    inner = select(targets=[("p", LONG)])
    for _ in range(levels):
        inner = select(targets=[("p", nullif(P, P))], source=subquery(inner))
    return inner


def longer(levels: int) -> Json:
    """Each level is only somewhat longer than the one below: it is all of them that are much."""
    inner = select(targets=[("p", doubled(8)["targets"][0]["expr"])], source=doubled(8)["from"][0])
    for n in range(levels):
        inner = select(targets=[("p", nullif(P, const(str(n), "text")))], source=subquery(inner))
    return select([count(P)], source=subquery(inner))


def pushed(parts: int) -> Json:
    """A condition goes down to every part."""
    union = union_all(*(rows(col("plate"), source=scan()) for _ in range(parts)), types=["text"])
    conditions = [call("=(text,text)", P, const(f"{n}" + "x" * 8000, "text")) for n in range(100)]
    return select([count()], source=subquery(union), where=either(*conditions))


def joined() -> Json:
    """And to each side of a join, in the terms of that side."""
    sides = subquery(doubled(6), 1), subquery(doubled(6), 2)
    other = position(1, "text", "p", rel=2)
    where = both(*(call("<>(text,text)", P, const(str(n), "text")) for n in range(40)))
    return select([count()], source=join("inner", *sides, equal(P, other)), where=where)


STATEMENTS: dict[str, Callable[[], Json]] = {
    "14 levels": lambda: select([count(P)], source=subquery(doubled(14))),
    "eight levels, and many aggregates": lambda: select(
        [count(nullif(P, const(str(n), "text"))) for n in range(20)], source=subquery(doubled(8))),
    "many levels of some length": lambda: longer(40),
    "many parts": lambda: pushed(100),
    "two sides": joined,
}


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_expressions_that_are_long_once_inlined_are_refused_before_they_are_made(evaluate: Evaluate, statement: Callable[[], Json]) -> None:
    asked = request(statement())
    began = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(NoRule, match="too long") as caught:
            analyse(asked, [table()], Fraction(1), evaluate)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.hint and f"{MAX_BYTES >> 20} MiB" in str(caught.value.detail)
    assert time.monotonic() - began < 20 and peak < 50 << 20


def test_expressions_over_chunks_are_weighed_together(evaluate: Evaluate) -> None:
    """In the statement that evaluates them each stands four times."""
    asked = request(select([count()], by=[trunc("hour")], where=either(*(equal(col("region"), const(f"{n}" + "x" * 8000, "text"))
                                                                         for n in range(600)))))
    with pytest.raises(NoRule, match="too long"):
        analyse(asked, [table()], Fraction(1), evaluate)


# Keys

#: 150 letters of four bytes each, which are twelve as JSON
TEXTS = [f"{n:03}" + "\U0001d49c" * 150 for n in range(300)]


P2 = position(2, "text", "p2")


def test_a_product_of_keys_is_weighed_before_it_is_made(evaluate: Evaluate) -> None:
    """Found by attack: 800 kB of statement, 40,000 keys, and gigabytes of what they are compared and kept in."""
    first = position(1, "text", "p")
    where = both(in_list(first, TEXTS), in_list(P2, TEXTS))
    asked = request(select([count()], by=[first, P2], source=subquery(rows(col("plate"), col("plate"))), where=where))
    began = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(NoRule, match="of more than 32 MiB together") as caught:
            analyse(asked, [table()], Fraction(1), evaluate)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.hint and time.monotonic() - began < 20


def cells_of(width: int) -> Any:
    """An evaluator for which every chunk is a cell of its own, its values so wide."""
    def evaluate(expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
        return [tuple(f"{j}" + "x" * width for _ in expressions) for j in range(*span)]

    return evaluate


def test_wide_cells_are_weighed_as_they_are_found() -> None:
    """Found by attack: 24 columns of 8,000 letters, on 600 chunks."""
    columns = [trunc("second")] * 24
    with pytest.raises(NoRule, match="of more than 32 MiB together"):
        analyse(request(select([count()], by=columns)), [table(chunks=600)], Fraction(1), cells_of(8000))
    assert len(analyse(request(select([count()], by=columns[:1])), [table(chunks=600)], Fraction(1), cells_of(8000)).keys) == 600


def test_the_cells_of_a_subquery_are_counted_without_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privid.calculus.chunks.BATCH", 1000)
    asked = request(select([count()], source=subquery(grouped([count()], by=[trunc("second")]))))
    tracemalloc.start()
    try:
        plan = analyse(asked, [table(chunks=20_000)], Fraction(1), cells_of(4000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert plan.outputs[0].sensitivity > 0 and peak < 30 << 20  # their texts are 80 MB


def test_a_subquery_with_too_many_cells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privid.calculus.rules.group_bins.MAX_RUNS", 1000)
    asked = request(select([count()], source=subquery(grouped([count()], by=[trunc("second")]))))
    with pytest.raises(NoRule, match="more than 1000 times") as caught:
        analyse(asked, [table(chunks=1001)], Fraction(1), cells_of(1))
    assert caught.value.hint
    analyse(asked, [table(chunks=1000)], Fraction(1), cells_of(1))


def test_what_a_product_weighs_is_what_its_keys_weigh() -> None:
    parts: list[list[Key]] = [[("a",), ("bc",), (None,)], [("\U0001d49c", "x"), ("\x01", None)], [("1",)]]
    made = [tuple(text for key in choice for text in key) for choice in product(*parts)]
    assert of_product(parts) == sum(map(of_key, made))
    assert of_product([[], [("a",)]]) == 0 and of_product([[()]]) == 0


def test_equal_keys_weigh_once() -> None:
    keys = Keys()
    first = keys.one(("a" * 100,))
    assert keys.one(("a" * 100,)) is first and keys.bytes == of_value("a" * 100) == len(json.dumps("a" * 100)) + 64
    with pytest.raises(NoRule, match="of more than 32 MiB together"):
        keys.one(("a" * MAX_KEY_BYTES,))


def test_public_values_of_many_aggregates_are_weighed_together() -> None:
    """Each has one for every group, without any row."""
    extremes = [aggregate("max(timestamptz)", trunc("hour"), type_="timestamptz") for _ in range(60)]

    def moments(expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
        return [tuple(str(j) for _ in expressions) for j in range(*span)]

    with pytest.raises(NoRule, match="of more than 32 MiB together"):
        analyse(request(select(extremes, by=[trunc("minute")])), [table(chunks=10_000)], Fraction(1), moments)
    assert analyse(request(select(extremes[:3], by=[trunc("minute")])), [table(chunks=10_000)], Fraction(1), moments).outputs[0].public
