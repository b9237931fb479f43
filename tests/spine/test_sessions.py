"""Nobody takes all sessions, and nobody fills the table of locks with a function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from tests.conftest import RunningStack

from .conftest import World

Connection = psycopg.Connection[tuple[Any, ...]]

#: of the server; what is kept for the engine and for superusers
ALL, KEPT = 250, 16 + 3
GREEDY = [f"greedy_{number}" for number in range(8)]


@pytest.fixture
def greedy(stack: RunningStack) -> Iterator[list[str]]:
    for role in GREEDY:
        stack.run(f"CREATE ROLE {role} LOGIN IN ROLE privid_analyst", user="privid")
    yield GREEDY
    for role in GREEDY:
        stack.run(f"DROP ROLE {role}", user="privid")


def take(stack: RunningStack, role: str, held: ExitStack, most: int = 400) -> tuple[int, str]:
    """As many sessions as the role gets, and why it gets no more."""
    for number in range(most):
        try:
            held.enter_context(stack.connect(role))
        except psycopg.OperationalError as refused:
            return number, str(refused)
    return most, ""


def test_a_role_gets_no_more_sessions_than_are_left_for_others(stack: RunningStack, greedy: list[str]) -> None:
    with ExitStack() as held:
        got, why = take(stack, greedy[0], held)
        assert ALL / 4 < got <= (ALL - KEPT) / 2 + 1
        assert f'too many sessions of role "{greedy[0]}"' in why
        assert take(stack, greedy[1], held)[0] > (ALL - KEPT) / 8


def test_the_engine_answers_and_owners_decide_while_many_roles_take_what_they_get(world: World, greedy: list[str]) -> None:
    stack = world.stack
    with ExitStack() as held, stack.connect("owner") as owner, stack.connect("analyst") as analyst:
        for role in greedy:
            take(stack, role, held)
        # most of the time nobody gets one more, but what PostgreSQL keeps is still there
        stack.restart_engine()
        with stack.connect("privid") as superuser:
            assert superuser.execute("SELECT 1").fetchone() == (1,)
        owner.execute("ALTER SERVER calm OPTIONS (SET epsilon '100001')")
        assert analyst.execute("SELECT count(*) FROM open_calm").fetchall() == analyst.execute("SELECT count(*) FROM truth").fetchall()
        owner.execute("ALTER SERVER calm OPTIONS (SET epsilon '100000')")


def test_the_last_sessions_are_the_engines_also_where_a_role_is_not_of_privid(world: World) -> None:
    stack = world.stack
    stack.run("CREATE ROLE passer_by LOGIN", user="privid")
    with ExitStack() as held, stack.connect("analyst") as analyst:
        got, why = take(stack, "passer_by", held)
        assert got > ALL / 2 and "remaining sessions are reserved for the engine of privid" in why
        stack.restart_engine()
        assert analyst.execute("SELECT count(*) FROM open_calm").fetchall() == analyst.execute("SELECT count(*) FROM truth").fetchall()
    stack.run("DROP ROLE passer_by", user="privid")


def test_advisory_locks_are_nobodys_but_who_is_granted_them(stack: RunningStack) -> None:
    for call in ("pg_advisory_lock(1)", "pg_try_advisory_lock(1)", "pg_advisory_xact_lock_shared(1, 2)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stack.run(f"SELECT {call}")
    stack.run("GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO analyst", user="privid")
    stack.run("SELECT pg_advisory_lock(1)")
    stack.run("REVOKE EXECUTE ON FUNCTION pg_advisory_lock(bigint) FROM analyst", user="privid")
