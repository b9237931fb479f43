"""Who sees and does what: docs/authority.md says it, and nothing else is so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import RunningStack

from .attempts import everything
from .city import KINDS, City
from .page import PAGE, RIGHTS, SIGHTS, page
from .sight import Cell, look

Seen = dict[str, dict[str, Cell]]


@pytest.fixture(scope="module")
def city(stack: RunningStack) -> Iterator[City]:
    made = City(stack)
    made.build()
    yield made
    made.tear_down()


@pytest.fixture(scope="module")
def seen(city: City) -> Seen:
    return look(city)


@pytest.fixture(scope="module")
def tried(city: City, seen: Seen, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return everything(city, tmp_path_factory.mktemp("commands"))


def test_the_page_says_what_every_role_sees_and_changes_of_others(stack: RunningStack, seen: Seen, tried: Seen) -> None:
    written = PAGE.read_text()
    told = written[written.index(SIGHTS):written.index(RIGHTS) - 1]  # which test_visibility.py measures
    assert written == page(stack, seen, tried, told), "python -m tests.authority.page writes it anew; read what has changed"


def test_nobody_changes_what_is_anothers(seen: Seen) -> None:
    for name, cells in seen.items():
        for viewer, cell in cells.items():
            assert not cell.changes or viewer in ("owner", "analyst"), (name, viewer, cell)


def test_nobody_changes_what_is_anothers_by_any_statement_or_command(tried: Seen) -> None:
    """Whoever may create roles becomes anybody, which limitations.md says."""
    for name, cells in tried.items():
        for viewer, cell in cells.items():
            becoming = viewer == "maker" and cell.changes == ("role",)
            assert not cell.changes or becoming or viewer in ("owner", "analyst"), (name, viewer, cell)


def test_no_refusal_tells_what_is_not_public(tried: Seen) -> None:
    for name, cells in tried.items():
        for viewer, cell in cells.items():
            own = {"owner": set(KINDS), "analyst": set(KINDS) - {"source"}, "reader": set(KINDS)}.get(viewer, set())
            assert set(cell.sees) <= {"camera", "owner", "mask", "region"} | own, (name, viewer, cell)


def test_questions_and_programs_are_seen_by_those_alone_whose_they_are(seen: Seen) -> None:
    """An owner sees what is asked of his camera; who reads all data reads it."""
    for name, cells in seen.items():
        for viewer, cell in cells.items():
            if {"question", "program", "file", "table"} & set(cell.sees):
                # PostgreSQL shows definitions to whoever may write the tables
                known = (*("writer",) * name.startswith("information_schema.foreign_table"), "analyst", "owner", "reader")
                assert viewer in known, (name, viewer, cell)


def test_functions_with_rights_of_their_own_say_what_they_do(stack: RunningStack) -> None:
    rows = stack.run("SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang "
                     "WHERE p.pronamespace = 'privid'::regnamespace AND (p.prosecdef OR l.lanname = 'privid') "
                     "AND obj_description(p.oid, 'pg_proc') IS NULL", user="privid")
    assert rows == []
