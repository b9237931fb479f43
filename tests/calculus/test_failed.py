"""The column failed: filled by the system, and yet as private as what a program prints, because the video decides how a run ends."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from privid.calculus import deparse
from privid.calculus.certificate import Place
from privid.calculus.rules import base_table
from privid.errors import NoRule
from privid.model import Column, Evaluate, Key, Plan, Span, Table

from .builders import Json, analyse, count, request, select, table

MOST, CHUNKS = 2, 3
FAILED = Column("failed", 7, "boolean", "boolean", False, None, tells_failure=True)
COLUMN: Json = {"e": "col", "rel": 1, "col": 7, "name": "failed", "type": "boolean", "loc": -1}
WELL: Json = {"e": "not", "args": [COLUMN], "type": "boolean", "loc": -1}

#: what is asked, and what a chunk adds to each group of the answer: a failed one has one row, another up to MOST
Ended = int | None  # rows of a run, None: it failed
QUESTIONS: dict[str, tuple[Json, Callable[[Ended], dict[Any, int]]]] = {
    "count(*) FILTER (WHERE failed)": (select([count(filter=COLUMN)]), lambda ended: {(): int(ended is None)}),
    "count(*) WHERE failed": (select([count()], where=COLUMN), lambda ended: {(): int(ended is None)}),
    "count(*) WHERE NOT failed": (select([count()], where=WELL), lambda ended: {(): ended or 0}),
    "count(*) GROUP BY failed": (select([count()], by=[COLUMN]), lambda ended: {ended is None: 1 if ended is None else ended}),
}


def nowhere(expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
    raise AssertionError(f"{expressions} were taken for public")


def plan(question: Json, column: Column = FAILED, evaluate: Evaluate = nowhere) -> Plan:
    asked = table(chunks=CHUNKS, size=2, step=2, r=2, max_rows=MOST)
    return analyse(request(question), [replace(asked, columns=(*asked.columns, column))], Fraction(1), evaluate)


def most_changed(added: Callable[[Ended], dict[Any, int]]) -> int:
    """Over all videos and all neighbours, which differ in the two chunks that a segment of two frames meets."""
    ends = (None, *range(MOST + 1))

    def answer(video: Sequence[Ended]) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for ended in video:
            found.update(added(ended))
        return found

    def distance(one: Counter[Any], other: Counter[Any]) -> int:
        return sum(abs(one[key] - other[key]) for key in {*one, *other})

    pairs = itertools.product(itertools.product(ends, repeat=2), repeat=2)
    return max(distance(answer([*one, 1]), answer([*other, 1])) for one, other in pairs)


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_neighbour_changes_how_many_failed_by_more_than_the_noise_is_made_for(question: str) -> None:
    asked, added = QUESTIONS[question]
    found = plan(asked)
    assert most_changed(added) <= found.outputs[0].sensitivity
    assert found.outputs[0].scale > 0


def test_of_its_values_the_calculus_knows_what_it_knows_of_a_boolean_that_a_program_prints() -> None:
    """So whatever the search finds of those (tests/verify) holds of it."""
    printed = Column("red", 7, "boolean", "boolean", False, False)
    known = [base_table.certify(replace(asked := table(), columns=(*asked.columns, column)), 0, None).columns[7]
             for column in (FAILED, printed)]
    assert known[0] == known[1] and known[0].place is Place.OUTPUT and not known[0].nullable


@pytest.mark.parametrize("question", QUESTIONS)
def test_which_chunks_are_read_and_charged_does_not_depend_on_which_failed(question: str) -> None:
    assert [use.chunks for use in plan(QUESTIONS[question][0]).uses] == [((0, CHUNKS),)]


def test_groups_by_failed_are_both_there_whatever_happened() -> None:
    assert set(plan(QUESTIONS["count(*) GROUP BY failed"][0]).keys) == {("f",), ("t",)}


def as_public(expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
    """What a calculus would be told that takes the column for public: that the first chunk failed."""
    failed = [j == 0 for j in range(*span)]
    return [tuple(str(one != ("NOT" in text)).lower()[0] for text in expressions) for one in failed]


def test_were_it_judged_as_public_the_comparison_above_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    public = replace(FAILED, trusted=True)
    for asked, _ in QUESTIONS.values():  # a second lock: nothing evaluates it over chunks
        with pytest.raises(NoRule):
            plan(asked, public)
    monkeypatch.setattr(deparse, "_COLUMNS", {"chunk", "region", "failed"})
    assert [use.chunks for use in plan(QUESTIONS["count(*) WHERE failed"][0], public, as_public).uses] == [((0, 1),)]
    asked, added = QUESTIONS["count(*) GROUP BY failed"]
    assert most_changed(added) > plan(asked, public, as_public).outputs[0].sensitivity


def test_declaring_the_column_makes_no_other_release_of_what_was_asked_before() -> None:
    asked = table(chunks=CHUNKS)
    wider = replace(asked, columns=(*asked.columns, FAILED))
    one, other = (analyse(request(select([count()])), [t], Fraction(1), nowhere).canonical for t in (asked, wider))
    assert one == other != plan(QUESTIONS["count(*) WHERE failed"][0]).canonical
