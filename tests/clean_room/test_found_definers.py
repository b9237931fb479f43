"""SECURITY DEFINER code has the rights of its owner and none of its caller's, with functions and views of the extension too."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.conftest import RunningStack

from .pair import Pair

MALLORY = "mallory"
DEPUTY = "deputy"

#: what the extension's functions that run with its owner's rights decide by, and who else may call them
CALLER, NOBODY = "whoever calls", "nothing of who asks"
DECIDED_BY = {
    "read_releases": (CALLER, {"public"}),
    "read_failures": (CALLER, {"public"}),
    "read_budget": (CALLER, {"public"}),
    "read_progress": (CALLER, {"public"}),
    "available": (CALLER, {"public"}),
    "exposure": (CALLER, {"public"}),
    "verify_history": (NOBODY, {"public"}),
    "remove": (CALLER, {"privid_analyst", "privid_owner"}),
    "detach": (CALLER, {"privid_analyst", "privid_owner"}),
    "create_mask": (CALLER, {"privid_owner"}),
    "create_regions": (CALLER, {"privid_owner"}),
    "drop_mask": (CALLER, {"privid_owner"}),
    "drop_regions": (CALLER, {"privid_owner"}),
    "write_history": (NOBODY, {"privid_engine"}),
    "reconcile_cameras": (NOBODY, {"privid_engine"}),
    "carry_masks": (NOBODY, set()),
    "note_definitions": (CALLER, set()),
    "note_unseen": (CALLER, set()),
    "note_drops": (CALLER, set()),
    "grant_budget": (CALLER, {"privid_owner"}),
    "revoke_budget": (CALLER, {"privid_owner"}),
    "upload": (CALLER, {"privid_analyst", "privid_owner"}),
    "attach": (CALLER, {"privid_analyst", "privid_owner"}),
    "read_executables": (CALLER, {"privid_analyst", "privid_owner"}),
    "read_attachments": (CALLER, {"privid_analyst", "privid_owner"}),
    "set_quota": (CALLER, set()),
    "reset_quota": (CALLER, set()),
    "read_quotas": (CALLER, {"public"}),
    "check_tables": (CALLER, set()),
    "grant_folder": (CALLER, set()),
    "revoke_folder": (CALLER, set()),
    "read_folders": (CALLER, {"public"}),
    "check_source": (CALLER, set()),
    "consent": (CALLER, {"privid_owner"}),
    "withdraw_consent": (CALLER, {"privid_owner"}),
    "read_consents": (CALLER, {"public"}),
    "read_shares": (CALLER, {"public"}),
    "note_readers": (NOBODY, set()),
    "read_history": (CALLER, {"privid_owner"}),
}


@pytest.fixture(scope="module", autouse=True)
def mallory(pair: Pair) -> Iterator[None]:
    """An analyst and owner of cameras, to whose code others trust themselves; and somebody who stands in for the role owner."""
    pair.stack.run(f"""
        CREATE ROLE {MALLORY} LOGIN IN ROLE privid_analyst, privid_owner;
        CREATE ROLE {DEPUTY} LOGIN IN ROLE owner;
        CREATE SCHEMA {MALLORY} AUTHORIZATION {MALLORY};
        GRANT USAGE ON SCHEMA {MALLORY} TO PUBLIC;
        SELECT privid.grant_folder('{MALLORY}', '.')""", user="privid")
    lend(pair.stack, "releases", "bigint", "SELECT count(*) FROM privid.releases")
    lend(pair.stack, "failures", "bigint", "SELECT count(*) FROM privid.failures")
    pair.warm("t")
    yield
    pair.stack.run(f"DROP SCHEMA {MALLORY} CASCADE; DROP ROLE {MALLORY}, {DEPUTY}", user="privid")


def lend(stack: RunningStack, name: str, returns: str, body: str, user: str = MALLORY) -> None:
    """A function that has its owner's rights, whoever calls it."""
    stack.run(f"""CREATE FUNCTION {user}.{name}() RETURNS {returns} LANGUAGE plpgsql SECURITY DEFINER SET search_path = {user} AS
                  $$ BEGIN RETURN ({body}); END $$; GRANT USAGE ON SCHEMA {user} TO PUBLIC""", user=user)


@pytest.mark.parametrize("who", ["analyst", "owner", DEPUTY, "privid"])
def test_code_of_another_reads_no_release_of_its_caller(stack: RunningStack, who: str) -> None:
    assert stack.run("SELECT count(*) > 0 FROM privid.releases", user=who) == [(True,)]
    assert stack.run("SELECT mallory.releases()", user=who) == [(0,)]


@pytest.mark.parametrize("who", ["owner", DEPUTY, "privid"])
def test_code_of_an_analyst_reads_no_failures_though_an_owner_calls_it(stack: RunningStack, who: str) -> None:
    assert stack.run("SELECT count(*) > 0 FROM privid.failures", user=who) == [(True,)]
    assert stack.run("SELECT mallory.failures()", user=who) == [(0,)]


def test_code_of_another_removes_nothing_of_its_caller(stack: RunningStack) -> None:
    stack.executable("prey", b"#!/bin/sh\n")
    stack.run("SELECT privid.attach('prey', 'file', 'x')")
    lend(stack, "remove", "text", "SELECT privid.remove('prey')::text")
    lend(stack, "detach", "text", "SELECT privid.detach('prey', 'file')::text")
    for call in ("remove", "detach"):
        with pytest.raises(psycopg.Error, match=r"does not exist|has no file"):
            stack.run(f"SELECT mallory.{call}()")
    assert stack.run("SELECT executable, name FROM privid.attachments WHERE executable = 'prey'") == [("prey", "file")]
    stack.executable("prey", b"#!/bin/sh\n", user=MALLORY)
    stack.run("SELECT mallory.remove()")
    assert stack.run("SELECT name FROM privid.executables", user=MALLORY) == []
    stack.run("SELECT privid.detach('prey', 'file'), privid.remove('prey')")


@pytest.mark.parametrize("call", [
    """privid.create_mask('event_a', 'hers', '{"((0,0),(9,0),(9,9))"}', '0s')""", "privid.drop_mask('event_a', 'his')",
    """privid.create_regions('event_a', 'hers', '{"all": "((0,0),(64,0),(64,48),(0,48))"}')""",
    "privid.drop_regions('event_a', 'his')", "privid.create_grid('event_a', 'hers', 2, 2, 32, 24, 8, 8, 10)",
    "privid.grant_budget('event_a', 'public', 1)",
])
def test_code_of_another_promises_nothing_of_its_callers_camera(stack: RunningStack, call: str) -> None:
    stack.run(f"""CREATE OR REPLACE FUNCTION mallory.promise() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
                  $$ BEGIN PERFORM {call}; END $$""", user=MALLORY)
    for who in ("owner", "privid"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner of camera"):
            stack.run("SELECT mallory.promise()", user=who)


def test_code_of_another_hides_nothing_from_history_though_a_superuser_calls_it(stack: RunningStack) -> None:
    """A superuser's restoring is not written there, because it brings its history along."""
    stack.run("SELECT privid.consent('event_a', 'mallory')", user="owner")
    stack.run("""CREATE FUNCTION mallory.hide() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET check_function_bodies = off AS $$ BEGIN
                   CREATE SERVER hidden FOREIGN DATA WRAPPER privid
                     OPTIONS (source 'event_a.mp4', starts '2026-03-01 06:00+00', rho '1s', k '1', epsilon '1000000', quantum '5ms');
                   PERFORM privid.grant_budget('hidden', 'public', 1);
                   DROP SERVER hidden;
                 END $$""", user=MALLORY)
    stack.run("SELECT mallory.hide()", user="privid")
    assert stack.run("SELECT who, event FROM privid.history WHERE camera = 'hidden' AND chain <> 'engine' ORDER BY id", user=MALLORY) == [
        (MALLORY, "created"), (MALLORY, "share granted"), (MALLORY, "dropped")]


def test_a_release_in_such_code_is_its_owners(pair: Pair) -> None:
    for user in ("analyst", MALLORY):
        lend(pair.stack, "plates", "bigint", "SELECT count(*) FROM event_a.t", user=user)
    mine = "SELECT count(*) FROM privid.releases"
    before = pair.stack.run(mine)[0][0]
    pair.stack.run("SELECT analyst.plates()", user=MALLORY, settings={"privid.reuse": "off"})
    assert pair.stack.run(mine) == [(before + 1,)]
    assert pair.stack.run("SELECT who, query LIKE '%event_a.t%' FROM privid.releases ORDER BY id DESC LIMIT 1") == [("analyst", True)]
    assert pair.stack.run(mine, user=MALLORY) == [(0,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        pair.stack.run("SELECT mallory.plates()", settings={"privid.reuse": "off"})
    pair.stack.run("DROP FUNCTION analyst.plates()")


@pytest.mark.parametrize("hold", ["", "WITH HOLD"])
def test_a_cursor_that_such_code_leaves_open_is_its_owners(pair: Pair, hold: str) -> None:
    """It is asked when somebody fetches, or at the end of the transaction; PostgreSQL checks rights on tables when it is opened."""
    pair.stack.run(f"""CREATE FUNCTION analyst.leave() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
                       $$ BEGIN EXECUTE 'DECLARE left_open CURSOR {hold} FOR SELECT count(*) FROM event_a.t'; END $$""")
    latest = "SELECT id, who FROM privid.releases ORDER BY id DESC LIMIT 1"
    (before, _), = pair.stack.run(latest)
    with pair.stack.connect(MALLORY, autocommit=False) as session:
        session.execute(b"SET privid.reuse = off")
        session.execute(b"SELECT analyst.leave()")
        if hold:
            session.commit()
        session.execute(b"FETCH left_open")
        assert session.execute(b"SELECT current_user::text").fetchall() == [(MALLORY,)]
    assert pair.stack.run(latest) == [(before + 1, "analyst")]
    pair.stack.run("DROP FUNCTION analyst.leave()")


def test_whoever_lends_his_rights_lends_them_to_read_his_own(stack: RunningStack) -> None:
    lend(stack, "mine", "bigint", "SELECT count(*) FROM privid.releases", user="analyst")
    expected = stack.run("SELECT count(*) FROM privid.releases")
    assert expected > [(0,)]
    assert stack.run("SELECT analyst.mine()", user=MALLORY) == expected
    lend(stack, "between", "bigint", "SELECT analyst.mine()")  # code in code
    assert stack.run("SELECT mallory.between()", user="owner") == expected
    stack.run("DROP FUNCTION analyst.mine() CASCADE")


def test_the_current_role_asks_however_it_became_so(stack: RunningStack) -> None:
    asked = b"SELECT count(*), privid.invoker(), (SELECT count(*) FROM mallory.view) FROM privid.releases"
    stack.run("CREATE VIEW mallory.view AS SELECT * FROM privid.releases; GRANT SELECT ON mallory.view TO PUBLIC", user=MALLORY)
    (number,), = stack.run("SELECT count(*) FROM privid.releases")
    with stack.connect("privid") as session:
        for statement in (b"SET ROLE analyst", b"SET SESSION AUTHORIZATION analyst"):
            session.execute(statement)
            assert session.execute(asked).fetchall() == [(number, "analyst", number)]  # functions in a view are the reader's
            assert session.execute(b"SELECT mallory.releases()").fetchall() == [(0,)]
        session.execute(b"RESET SESSION AUTHORIZATION")
        assert session.execute(b"SELECT privid.invoker()").fetchall() == [("privid",)]


def test_an_error_inside_leaves_nobody_behind_who_asks(stack: RunningStack) -> None:
    with stack.connect(MALLORY) as session:
        session.execute(b"DO $$ BEGIN PERFORM privid.remove('nothing'); EXCEPTION WHEN OTHERS THEN NULL; END $$")
        with pytest.raises(psycopg.Error, match="does not exist"):
            session.execute(b"SELECT privid.remove('nothing')")
        assert session.execute(b"SELECT privid.invoker(), current_user::text").fetchall() == [(MALLORY, MALLORY)]


def test_every_function_with_rights_of_its_own_is_known_by_what_it_decides(stack: RunningStack) -> None:
    found = {name: (CALLER if knows else NOBODY, set(callers)) for name, knows, callers in stack.run("""
        SELECT p.proname, l.lanname = 'privid',
               ARRAY(SELECT coalesce(r.rolname, 'public') FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                     LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE a.grantee <> p.proowner)
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
        WHERE p.pronamespace = 'privid'::regnamespace AND (p.prosecdef OR l.lanname = 'privid')""", user="privid")}
    assert found == DECIDED_BY


def test_no_function_takes_the_session_for_its_caller_or_itself(stack: RunningStack) -> None:
    assert stack.run(r"""
        SELECT p.proname FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang,
               LATERAL (SELECT lower(coalesce(pg_get_function_sqlbody(p.oid), p.prosrc)) AS text) body
        WHERE p.pronamespace = 'privid'::regnamespace
          AND (body.text ~ $$session_user|current_setting\('role'$$
               OR ((p.prosecdef OR l.lanname = 'privid') AND body.text ~ '\m(current_user|current_role|user)\M'))""", user="privid") == []


def test_no_view_and_no_policy_takes_the_session_for_whoever_asks(stack: RunningStack) -> None:
    assert stack.run("""
        SELECT name FROM (SELECT viewname, definition FROM pg_views WHERE schemaname = 'privid' UNION ALL
                          SELECT policyname, concat(qual, with_check) FROM pg_policies WHERE schemaname = 'privid') d(name, text)
        WHERE d.text ~* 'session_user|current_setting'""", user="privid") == []


def test_nobody_makes_functions_that_have_the_extensions_rights(stack: RunningStack) -> None:
    for who in ("analyst", "owner", MALLORY):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stack.run("CREATE FUNCTION seize() RETURNS void LANGUAGE privid AS $$ BEGIN END $$", user=who)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stack.run("SELECT privid.call_handler()", user=who)
