"""Who sees and does what: docs/authority.md says it, and nothing else is so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import RunningStack

from .city import City
from .page import PAGE, page
from .sight import Cell, look

Seen = dict[str, dict[str, Cell]]


@pytest.fixture(scope="module")
def seen(stack: RunningStack) -> Iterator[Seen]:
    city = City(stack)
    city.build()
    yield look(city)
    city.tear_down()


def test_the_page_says_what_every_role_sees_and_changes_of_others(stack: RunningStack, seen: Seen) -> None:
    assert PAGE.read_text() == page(stack, seen), "python -m tests.authority.page writes it anew; read what has changed"


def test_nobody_changes_what_is_anothers(seen: Seen) -> None:
    for name, cells in seen.items():
        for viewer, cell in cells.items():
            assert not cell.changes or viewer in ("owner", "analyst"), (name, viewer, cell)


def test_questions_and_programs_are_seen_by_those_alone_whose_they_are(seen: Seen) -> None:
    """An owner sees what is asked of his camera; who reads all data reads it."""
    for name, cells in seen.items():
        for viewer, cell in cells.items():
            if {"question", "program", "file", "table"} & set(cell.sees):
                assert viewer in ("analyst", "owner", "reader"), (name, viewer, cell)


def test_functions_with_rights_of_their_own_say_what_they_do(stack: RunningStack) -> None:
    rows = stack.run("SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang "
                     "WHERE p.pronamespace = 'privid'::regnamespace AND (p.prosecdef OR l.lanname = 'privid') "
                     "AND obj_description(p.oid, 'pg_proc') IS NULL", user="privid")
    assert rows == []
