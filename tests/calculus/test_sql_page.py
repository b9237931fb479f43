"""The page that tells which SQL is answered is the one that the tests would write."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from privid.errors import PrividError
from privid.model import Key, Span, Table

from .builders import analyse, request, table
from .sql_page import PAGE, page
from .test_refusals import REFUSED


def nothing(expressions: Sequence[str], table_: Table, span: Span, region: str = "", /) -> list[Key]:
    return [tuple("x" for _ in expressions) for _ in range(*span)]


def refusals() -> list[tuple[str, str, str]]:
    """What each refused form is told."""
    found = []
    for what, statement, error, *_ in REFUSED:
        try:
            analyse(request(statement), [table()], Fraction(1), nothing)
        except PrividError as told:
            assert type(told) is error
            found.append((what, told.message, told.hint or ""))
    return found


def test_the_page_lists_every_accepted_and_every_refused_form() -> None:
    assert PAGE.read_text() == page(refusals()), "python -m tests.calculus.sql_page writes it anew"


def test_every_refused_form_is_refused() -> None:
    assert [row[0] for row in refusals()] == [case[0] for case in REFUSED]
