"""What one analyst sees of another is what the camera's owner has decided, and what docs/authority.md says."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.conftest import RunningStack

from .page import PAGE, sights
from .visibility import SETTINGS, Street, measure


@pytest.fixture(scope="module")
def streets(stack: RunningStack) -> Iterator[dict[str, Street]]:
    made = {setting: Street(stack, setting) for setting in SETTINGS}
    for street in made.values():
        street.build()
    yield made
    for street in made.values():
        street.tear_down()


@pytest.fixture(scope="module")
def seen(streets: dict[str, Street]) -> dict[str, dict[str, bool]]:
    return {setting: measure(street) for setting, street in streets.items()}


def test_the_page_says_what_one_analyst_sees_of_another(seen: dict[str, dict[str, bool]]) -> None:
    assert sights(seen) in PAGE.read_text(), sights(seen)


def test_where_each_sees_his_own_a_forecast_and_the_run_agree_and_depend_on_nobody_else(
        streets: dict[str, Street], stack: RunningStack) -> None:
    street, later = streets["own"], "SELECT count(*) FROM {first}.later"
    stack.run("DROP FOREIGN TABLE IF EXISTS later", user=street.first)
    stack.table("later", street.camera, "look", user=street.first, end="2026-03-01 06:00:04+00", timeout="300ms")
    stack.run(f"GRANT SELECT ON later TO {street.second}", user=street.first)
    took = "SELECT extract(epoch FROM duration)::float8 FROM privid.releases ORDER BY id DESC LIMIT 1"
    stack.run(f"GRANT USAGE ON SCHEMA {street.first} TO owner; GRANT SELECT ON later TO owner", user=street.first)
    for role in (street.first, street.second, "owner"):  # what the owner looks at is nobody's business either
        forecast = street.plan(role, later)
        assert (forecast["Slots"], forecast["Answered Before"]) == (4, False), role
        street.ask(role, later, "0.1")
        assert stack.run(took, user=role)[0][0] > 0.3, role
        assert street.plan(role, later)["Slots"] == 0, role
        assert any("reused" in told for told in street.ask(role, later, "0.1")), role


@pytest.mark.parametrize("value", ["", "none", "OWN", " own", "own,open", "on"])
def test_a_visibility_that_does_not_exist_is_refused_where_it_is_typed(streets: dict[str, Street], stack: RunningStack, value: str) -> None:
    with pytest.raises(psycopg.Error, match='invalid value for option "visibility"') as refused:
        stack.run(f"ALTER SERVER {streets['own'].camera} OPTIONS (SET visibility '{value}')", user="owner")
    assert refused.value.diag.message_hint == "Write open, or own if an analyst is to see nothing of what others did."


def test_nobody_but_the_owner_decides_it(streets: dict[str, Street], stack: RunningStack) -> None:
    for role in (streets["own"].first, "analyst"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stack.run(f"ALTER SERVER {streets['own'].camera} OPTIONS (SET visibility 'open')", user=role)
