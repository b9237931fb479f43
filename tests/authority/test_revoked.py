"""Who has lost the right to use a camera gets no answer of it, not even one that was given before, by whatever way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.conftest import BRIGHTNESS, RunningStack, write_video

CAMERA, ANA, BEN, TEAM = "lost_camera", "lost_ana", "lost_ben", "lost_team"
ASK = f"SELECT count(*) FROM {ANA}.people"
DENIED = f"permission denied for foreign server {CAMERA}"


@pytest.fixture(scope="module")
def city(stack: RunningStack) -> Iterator[RunningStack]:
    """A camera over which ana has been answered; ben is a colleague of hers."""
    write_video(stack.videos / "lost.mp4", [77] * 20)
    stack.camera(CAMERA, "lost.mp4", rho="1s")
    stack.run(f"CREATE ROLE {TEAM}", user="privid")
    for role in (ANA, BEN):
        stack.run(f"CREATE ROLE {role} LOGIN IN ROLE privid_analyst; CREATE SCHEMA AUTHORIZATION {role}; "
                  f"GRANT USAGE ON SCHEMA {role} TO PUBLIC", user="privid")
    _grant(stack, ANA, BEN)
    stack.executable("look", BRIGHTNESS, user=ANA)
    stack.table("people", CAMERA, "look", user=ANA, end="2026-03-01 06:00:02+00")
    stack.run(f"GRANT SELECT ON people TO {BEN}", user=ANA)
    stack.run(ASK, user=ANA)
    stack.run(f"CREATE VIEW shown AS {ASK}; GRANT SELECT ON shown TO PUBLIC; "
              f"CREATE FUNCTION lent() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS '{ASK}'; "
              f"CREATE FUNCTION called() RETURNS bigint LANGUAGE sql AS '{ASK}'", user=BEN)
    yield stack
    stack.run(f"DROP SERVER {CAMERA} CASCADE", user="owner")
    stack.run(f"DELETE FROM privid.executable_store WHERE owner = '{ANA}'; DROP OWNED BY {ANA}, {BEN}, {TEAM} CASCADE; "
              f"DROP ROLE {ANA}, {BEN}, {TEAM}", user="privid")


def _grant(stack: RunningStack, *roles: str) -> None:
    stack.run(f"GRANT USAGE ON FOREIGN SERVER {CAMERA} TO {', '.join(roles)}", user="owner")


def _revoke(stack: RunningStack, *roles: str) -> None:
    stack.run(f"REVOKE USAGE ON FOREIGN SERVER {CAMERA} FROM {', '.join(roles)}", user="owner")


@pytest.fixture
def revoked(city: RunningStack) -> Iterator[RunningStack]:
    """Ana has lost the right."""
    _revoke(city, ANA)
    yield city
    _grant(city, ANA)


def refused(stack: RunningStack, statement: str, user: str = ANA) -> None:
    count = "SELECT count(*) FROM privid.release_log"
    before = stack.run(count, user="privid")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=DENIED):
        if statement.startswith("COPY"):
            with stack.connect(user) as session, session.cursor().copy(statement.encode()) as copy:
                list(copy)
        stack.run(statement, user=user)
    assert stack.run(count, user="privid") == before


def test_who_has_the_right_is_answered_again(city: RunningStack) -> None:
    count = "SELECT count(*) FROM privid.release_log"
    before = city.run(count, user="privid")
    answer = city.run(ASK, user=ANA)
    for user, statement in ((ANA, f"SELECT * FROM {BEN}.shown"), (BEN, ASK), (ANA, f"SELECT {BEN}.called()")):
        assert city.run(statement, user=user) == answer
    assert city.run(count, user="privid") == before


@pytest.mark.parametrize("statement", [
    ASK, f"EXPLAIN {ASK}", f"EXPLAIN ANALYZE {ASK}", f"SELECT * FROM {BEN}.shown", f"EXPLAIN SELECT * FROM {BEN}.shown",
    f"SELECT {BEN}.called()", f"COPY ({ASK}) TO STDOUT", f"CREATE TABLE kept AS {ASK}", f"CREATE MATERIALIZED VIEW mine AS {ASK}",
    f"DO $$ BEGIN PERFORM count(*) FROM {ANA}.people; END $$", f"SELECT * FROM privid.explain('{ASK}', 'public')",
    f"BEGIN; DECLARE c CURSOR FOR {ASK}; FETCH c; COMMIT"])
def test_a_stored_answer_is_refused_however_it_is_asked_for(revoked: RunningStack, statement: str) -> None:
    refused(revoked, statement)


def test_a_preview_says_that_it_is_refused(revoked: RunningStack) -> None:
    assert revoked.run("SELECT affordable, note FROM privid.afford(%s)", ASK, user=ANA) == [(False, DENIED)]


def test_a_role_of_a_team_cannot_take_the_right_of_the_session(revoked: RunningStack) -> None:
    """Whatever the session was when it began, who asks is the current role."""
    with revoked.connect("privid") as session:
        session.execute(f"SET ROLE {ANA}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match=DENIED):
            session.execute(ASK.encode())


def test_what_is_prepared_or_open_before_is_refused_afterwards(city: RunningStack) -> None:
    with city.connect(ANA) as session:
        session.execute(f"PREPARE asked AS {ASK}".encode())
        for _ in range(7):  # beyond where PostgreSQL makes one plan for all executions
            session.execute("EXECUTE asked")
        session.execute(f"CREATE OR REPLACE FUNCTION cached() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN ({ASK}); END'".encode())
        session.execute("SELECT cached()")
        _revoke(city, ANA)
        try:
            for statement in ("EXECUTE asked", "SELECT cached()", ASK):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match=DENIED):
                    session.execute(statement.encode())
        finally:
            _grant(city, ANA)
        session.execute("EXECUTE asked")


def test_a_transaction_that_began_before_is_refused_afterwards(city: RunningStack) -> None:
    with city.connect(ANA, autocommit=False) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute(ASK.encode())
        _revoke(city, ANA)
        try:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=DENIED):
                session.execute(ASK.encode())
        finally:
            session.rollback()
            _grant(city, ANA)


def test_what_somebody_lends_is_his_own_release_and_ends_with_his_right(revoked: RunningStack) -> None:
    """SECURITY DEFINER code asks as its owner, who answers for it; nothing says that the caller asked."""
    assert revoked.run(f"SELECT {BEN}.lent()", user=ANA)
    _revoke(revoked, BEN)
    try:
        refused(revoked, f"SELECT {BEN}.lent()")
        refused(revoked, f"SELECT * FROM {BEN}.shown")
    finally:
        _grant(revoked, BEN)


def test_her_own_view_and_function_are_nobodys_way_in(revoked: RunningStack) -> None:
    revoked.run(f"CREATE OR REPLACE VIEW mine_too AS {ASK}; GRANT SELECT ON mine_too TO PUBLIC; CREATE OR REPLACE FUNCTION lends() "
                f"RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN ({ASK}); END'", user=ANA)
    for statement in (f"SELECT * FROM {ANA}.mine_too", f"SELECT {ANA}.lends()"):
        for user in (ANA, BEN):
            refused(revoked, statement, user)


def _by_membership(stack: RunningStack) -> None:
    stack.run(f"REVOKE {TEAM} FROM {ANA}", user="privid")


def _of_the_team(stack: RunningStack) -> None:
    _revoke(stack, TEAM)


def _without_inheritance(stack: RunningStack) -> None:
    stack.run(f"ALTER ROLE {ANA} NOINHERIT", user="privid")


@pytest.mark.parametrize("lose", [_by_membership, _of_the_team, _without_inheritance])
def test_a_right_by_membership_ends_with_it(revoked: RunningStack, lose: Callable[[RunningStack], None]) -> None:
    _grant(revoked, TEAM)
    revoked.run(f"GRANT {TEAM} TO {ANA}", user="privid")
    try:
        assert revoked.run(ASK, user=ANA)
        lose(revoked)
        refused(revoked, ASK)
    finally:
        revoked.run(f"ALTER ROLE {ANA} INHERIT; REVOKE {TEAM} FROM {ANA}", user="privid")
        _revoke(revoked, TEAM)


def test_a_table_that_she_kept_gives_no_answer_and_no_rows_and_cannot_be_made_again(revoked: RunningStack) -> None:
    assert revoked.run("SELECT relowner::regrole::text FROM pg_class WHERE oid = %s::regclass", f"{ANA}.people", user=ANA) == [(ANA,)]
    for change in ("ALTER FOREIGN TABLE people OPTIONS (SET max_rows '2')", "ALTER FOREIGN TABLE people RENAME TO persons"):
        revoked.run(change, user=ANA)
    refused(revoked, f"SELECT count(*) FROM {ANA}.persons")
    revoked.run("ALTER FOREIGN TABLE persons RENAME TO people; ALTER FOREIGN TABLE people OPTIONS (SET max_rows '1')", user=ANA)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=DENIED):
        revoked.table("another", CAMERA, "look", user=ANA)


def test_the_log_shows_what_was_asked_and_charged_and_no_answer(city: RunningStack) -> None:
    shown = f"SELECT camera, state, epsilon > 0, answer IS NULL FROM privid.releases WHERE camera = '{CAMERA}' ORDER BY id LIMIT 1"
    assert city.run(shown, user=ANA) == [(CAMERA, "answered", True, False)]
    _revoke(city, ANA)
    try:
        assert city.run(shown, user=ANA) == [(CAMERA, "answered", True, True)]
        assert city.run(shown, user="owner") == [(CAMERA, "answered", True, False)]
    finally:
        _grant(city, ANA)


def test_a_right_that_a_camera_of_another_name_does_not_give_is_gone(city: RunningStack) -> None:
    city.run(f"ALTER SERVER {CAMERA} RENAME TO lost_elsewhere", user="owner")
    try:
        _revoke_of(city, "lost_elsewhere")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for foreign server lost_elsewhere"):
            city.run(ASK, user=ANA)
    finally:
        city.run(f"ALTER SERVER lost_elsewhere RENAME TO {CAMERA}", user="owner")
        _grant(city, ANA)


def _revoke_of(stack: RunningStack, camera: str) -> None:
    stack.run(f"REVOKE USAGE ON FOREIGN SERVER {camera} FROM {ANA}", user="owner")
