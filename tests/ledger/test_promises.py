"""A promise counts while who made it owns the camera: not when it is committed late, nor on a camera that is another's by then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from privid.engine.scenes import Scenes
from privid.errors import InvalidValue, PermissionDenied
from privid.ledger import Claim
from tests.ledger.postgres import Database, Server, camera, record

MASK = """SELECT privid.create_mask('campus', '{}', '{{"((0,0),(1,0),(1,1))"}}', '0s')"""
REGIONS = """SELECT privid.create_regions('campus', '{}', '{{"all": "((0,0),(64,0),(64,48))"}}', 'hard')"""
SHARE, CONSENT = "SELECT privid.grant_budget('campus', 'ben', {})", "SELECT privid.consent('campus', 'nobody')"
PROMISES = (MASK.format("late"), REGIONS.format("late"), SHARE.format(1), CONSENT)
#: how the camera becomes oscar's
TAKEN = {"dropped": ("DROP SERVER campus",), "noted": ("ALTER SERVER campus OWNER TO oscar",),
         "unseen": ("REASSIGN OWNED BY olga TO oscar",),
         "by many": ("REASSIGN OWNED BY olga TO privid_owner", "REASSIGN OWNED BY privid_owner TO oscar")}


@pytest.fixture
def campus(database: Database) -> Database:
    database.create_server(camera())
    database.ledger.register(camera())
    return database


def take(database: Database, how: str) -> None:
    for statement in TAKEN[how]:
        database.rows(statement)
    if how == "dropped":
        database.create_server(camera(files="z", owner="oscar"))
        database.ledger.register(camera(files="z", owner="oscar"))
    database.ledger.register(camera("else", files="y", owner="oscar"))  # so that the engine notes what nobody saw


@contextmanager
def open_transaction(database: Database, user: str, level: psycopg.IsolationLevel | None = None) -> Iterator[psycopg.Connection[Any]]:
    with database.connect(user) as conn:
        conn.autocommit, conn.isolation_level = False, level
        conn.execute("SELECT count(*) FROM pg_class")
        yield conn


def holding(database: Database) -> set[str]:
    """What is promised of the camera, as everybody and the engine see it."""
    found = {f"{kind} {name}" for kind in ("mask", "regions") for name, in database.rows(
        f"SELECT DISTINCT name FROM privid.{kind.rstrip('s')}s WHERE camera = 'campus'")}
    scenes = Scenes(database.ledger)
    for kind, look in (("mask", scenes.mask), ("regions", scenes.regions)):
        for name in ("early", "late"):
            try:
                look("campus", name)
            except InvalidValue:
                assert f"{kind} {name}" not in found
            else:
                assert f"{kind} {name}" in found
    shares = database.rows("SELECT role FROM privid.shares WHERE camera = 'campus'")
    consents = database.rows("SELECT role FROM privid.consents WHERE role = 'nobody'")
    assert database.rows("SELECT privid.uses_account(1, 'nobody')") == [(bool(consents),)]
    return found | {f"share {role}" for role, in shares} | {f"consent {role}" for role, in consents}


@pytest.mark.parametrize("how", TAKEN)
@pytest.mark.parametrize("promise", PROMISES)
def test_what_is_committed_after_the_camera_is_anothers_counts_nowhere(campus: Database, promise: str, how: str) -> None:
    with open_transaction(campus, "olga") as olga:
        olga.execute(promise.encode())
        take(campus, how)
        olga.commit()
    assert not [one for one in holding(campus) if "consent" not in one]
    owner = campus.rows("SELECT privid.account_owner(1)")
    if owner != [("olga",)]:  # otherwise she agrees to what is hers
        assert holding(campus) == set()
    if how == "dropped":  # nobody has a share, so all may consume
        campus.ledger.charge([Claim(camera(files="z", owner="oscar"), [(0, 10)], Fraction(1, 2))], record(role="ana"))


@pytest.mark.parametrize("how", TAKEN)
@pytest.mark.parametrize("promise", [*PROMISES, "SELECT privid.drop_mask('campus', 'early')",
                                     "SELECT privid.drop_regions('campus', 'early')",
                                     "SELECT privid.revoke_budget('campus', 'ana')", "SELECT privid.withdraw_consent('campus', 'ben')"])
def test_a_transaction_that_sees_the_owner_of_then_promises_and_takes_back_nothing(campus: Database, promise: str, how: str) -> None:
    for statement in (MASK.format("early"), REGIONS.format("early"), "SELECT privid.grant_budget('campus', 'ana', 1)",
                      "SELECT privid.consent('campus', 'ben')"):
        campus.rows(statement, user="olga")
    with open_transaction(campus, "olga", psycopg.IsolationLevel.REPEATABLE_READ) as olga:
        take(campus, how)
        before = holding(campus)
        with pytest.raises(errors.SerializationFailure, match='camera "campus" is not what this transaction takes it for'):
            olga.execute(promise.encode())
        olga.rollback()
    assert holding(campus) == before == ({"mask early", "regions early", "share ana"} if how == "noted" else set())


def test_a_transaction_that_sees_the_camera_as_it_is_promises_at_any_level_and_nobody_waits_for_it(campus: Database) -> None:
    with open_transaction(campus, "olga", psycopg.IsolationLevel.SERIALIZABLE) as olga:
        for promise in PROMISES:
            olga.execute(promise.encode())
        with campus.connect() as other:
            other.execute("SET statement_timeout = '3s'")
            other.execute("REASSIGN OWNED BY olga TO oscar")
            other.execute("REASSIGN OWNED BY oscar TO olga")
        olga.commit()
    assert holding(campus) == {"mask late", "regions late", "share ben", "consent nobody"}


def test_a_camera_that_is_given_away_takes_along_what_was_promised_of_it(campus: Database) -> None:
    for statement in (MASK.format("early"), REGIONS.format("early"), SHARE.format(1), CONSENT):
        campus.rows(statement, user="olga")
    kept = {"mask early", "regions early", "share ben", "consent nobody"}
    with open_transaction(campus, "olga") as olga:
        olga.execute(MASK.format("late").encode())
        take(campus, "noted")
        olga.commit()
    assert holding(campus) == kept
    assert campus.rows("SELECT role FROM privid.consents", user="oscar") == [("nobody",)]
    campus.rows("SELECT privid.drop_mask('campus', 'early'), privid.revoke_budget('campus', 'ben')", user="oscar")
    campus.rows("SELECT privid.withdraw_consent('campus', 'nobody')", user="oscar")
    assert holding(campus) == {"regions early"}
    with pytest.raises(errors.DuplicateObject, match='mask "early" of camera "campus" was withdrawn'):
        campus.rows(MASK.format("early"), user="oscar")


def test_what_moves_without_a_command_that_is_seen_leaves_promises_behind_until_it_is_back(campus: Database) -> None:
    for statement in (MASK.format("early"), SHARE.format(1)):
        campus.rows(statement, user="olga")
    take(campus, "unseen")
    assert holding(campus) == set()
    campus.rows(SHARE.format("0.5"), user="oscar")
    campus.rows("REASSIGN OWNED BY oscar TO olga")
    assert holding(campus) == {"mask early", "share ben"}
    assert campus.rows("SELECT epsilon FROM privid.shares") == [(1,)]
    campus.rows("ALTER SERVER campus OWNER TO oscar")
    assert holding(campus) == {"mask early", "share ben"}
    assert campus.rows("SELECT epsilon FROM privid.shares") == [(Decimal("0.5"),)]  # what oscar has promised goes first
    assert campus.rows("SELECT owner, created_by FROM privid.mask_store") == [("oscar", "olga")]


def test_a_role_that_stands_for_many_neither_gives_nor_takes_promises(campus: Database) -> None:
    campus.rows(MASK.format("early"), user="olga")
    campus.rows("ALTER SERVER campus OWNER TO privid_owner")
    assert holding(campus) == set()
    campus.rows("ALTER SERVER campus OWNER TO oscar")
    assert holding(campus) == set() and campus.rows("SELECT privid.account_owner(1)") == [("olga",)]
    campus.rows("ALTER SERVER campus OWNER TO olga")
    assert holding(campus) == {"mask early"}


def test_a_camera_is_not_given_away_by_who_may_not_see_whose_it_is(campus: Database) -> None:
    """Or an account would go to who saw it in its first owner's hands."""
    with open_transaction(campus, "postgres", psycopg.IsolationLevel.REPEATABLE_READ) as late:
        for statement in TAKEN["by many"]:
            campus.rows(statement)
        with pytest.raises(errors.SerializationFailure, match='camera "campus" is not what this transaction takes it for'):
            late.execute("ALTER SERVER campus OWNER TO postgres")
        late.rollback()
    assert campus.rows("SELECT privid.account_owner(1)") == [("olga",)]


def test_nobody_waits_for_a_name_that_another_has_taken_in_an_open_transaction(campus: Database) -> None:
    with open_transaction(campus, "olga") as olga:
        for promise in PROMISES:
            olga.execute(promise.encode())
        take(campus, "dropped")
        with campus.connect("oscar") as oscar:
            oscar.execute("SET statement_timeout = '3s'")
            for promise in PROMISES[:3]:
                oscar.execute(promise.encode())
            oscar.execute("ALTER SERVER campus RENAME TO plaza")
            oscar.execute("DROP SERVER plaza")
        olga.commit()


@pytest.mark.parametrize("how", ["noted", "unseen", "by many"])
def test_both_ways_through_a_role_that_stands_for_many_leave_the_account_where_it_is(campus: Database, how: str) -> None:
    statements = {**TAKEN, "noted": ("ALTER SERVER campus OWNER TO privid_owner", "ALTER SERVER campus OWNER TO oscar")}[how]
    for statement in statements:
        campus.rows(statement)
    with pytest.raises(PermissionDenied, match='in an account of role "olga"'):
        campus.ledger.register(camera(owner="oscar"))
    assert campus.rows("SELECT privid.account_owner(1)") == [("olga",)]
    campus.rows("ALTER SERVER campus OWNER TO olga")  # how it is mended
    campus.rows("ALTER SERVER campus OWNER TO oscar")
    assert campus.ledger.register(camera(owner="oscar")) == 1


@pytest.mark.parametrize("commits", ["before it is written down", "after that", "when it has come back"])
def test_a_gift_that_is_committed_late_takes_no_account_from_who_has_it_by_then(campus: Database, commits: str) -> None:
    def owner() -> str:
        return str(campus.rows("SELECT privid.account_owner(1)")[0][0])

    with open_transaction(campus, "postgres") as late:
        late.execute("INSERT INTO privid.account_gifts (recording, giver, owner) VALUES (1, 'olga', 'nobody')")
        campus.rows("ALTER SERVER campus OWNER TO oscar")
        if commits == "before it is written down":
            late.commit()
        assert owner() == "oscar"
        campus.ledger.register(camera(files="ab", owner="oscar"))
        assert campus.rows("SELECT owner, gift > 0 FROM privid.recordings WHERE id = 1") == [("oscar", True)]
        if commits == "after that":
            late.commit()
        assert owner() == "oscar"
        campus.rows("ALTER SERVER campus OWNER TO olga")
        late.commit()
        assert owner() == "olga"
    campus.ledger.register(camera(files="abc", owner="olga"))
    assert campus.rows("SELECT owner FROM privid.recordings WHERE id = 1") == [("olga",)]


@pytest.mark.parametrize("promise", [
    "INSERT INTO privid.mask_store (camera, name, rho, pieces, shapes, image, created_by) "
    "VALUES ('campus', 'late', '0s', 1, '{}', 'x', 'olga')",
    "INSERT INTO privid.share_grants (camera, role, epsilon, granted_by) VALUES ('campus', 'ben', 1, 'olga')",
    "UPDATE privid.mask_store SET withdrawn = true", "UPDATE privid.region_store SET withdrawn = true",
    "UPDATE privid.share_grants SET epsilon = 2"])
def test_who_lost_the_camera_since_it_was_looked_at_signs_nothing(campus: Database, promise: str) -> None:
    """As in a function that has looked, and promises a moment later."""
    campus.rows("ALTER SERVER campus OWNER TO oscar")
    for one in (MASK, REGIONS):
        campus.rows(one.format("early"), user="oscar")
    campus.rows(SHARE.format(1).replace("ben", "public"), user="oscar")
    campus.rows(f"CREATE FUNCTION late() RETURNS void LANGUAGE privid AS $$ BEGIN {promise}; END $$")
    campus.rows("GRANT EXECUTE ON FUNCTION late() TO PUBLIC")
    with pytest.raises(errors.InsufficientPrivilege, match='must be owner of camera "campus"'):
        campus.rows("SELECT late()", user="olga")
    campus.rows("DROP FUNCTION late()")


def test_promises_of_a_restored_database_count_also_when_its_cameras_have_got_their_numbers(campus: Database) -> None:
    for statement in (MASK.format("early"), REGIONS.format("early"), SHARE.format(1)):
        campus.rows(statement, user="olga")
    campus.rows("UPDATE privid.camera_state SET server_oid = 77")  # carries what belongs to it, as a dump has both
    assert campus.rows("SELECT DISTINCT server_oid::int FROM privid.mask_store") == [(77,)]
    assert holding(campus) == {"mask early", "regions early", "share ben"}
    campus.rows("SELECT privid.reconcile_cameras()")
    assert holding(campus) == {"mask early", "regions early", "share ben"}
    assert campus.rows("SELECT m.server_oid = s.oid FROM privid.mask_store m, pg_foreign_server s WHERE s.srvname = 'campus'") == [(True,)]


def test_promises_are_of_the_cameras_owner_when_the_extension_is_updated(server: Server) -> None:
    name = next(server.names)
    with server.connect("postgres") as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with server.connect(name) as old:
        old.execute("CREATE EXTENSION privid VERSION '0.3.0'")
        old.execute("SET ROLE olga")
        old.execute("CREATE SERVER campus FOREIGN DATA WRAPPER privid OPTIONS (source 'a.mp4', rho '1s', k '1', epsilon '1')")
        for statement in (MASK.format("early"), REGIONS.format("early"), SHARE.format(1)):
            old.execute(statement.encode())
        old.execute("RESET ROLE")
        old.execute("ALTER SERVER campus OWNER TO oscar")  # in 0.3.0 with all that is promised
        old.execute("INSERT INTO privid.mask_store (camera, name, rho, pieces, shapes, created_by) "
                    "VALUES ('gone', 'm', '0s', 1, ARRAY[polygon '((0,0),(1,0),(1,1))'], 'olga')")
        old.execute("ALTER EXTENSION privid UPDATE")
        for table in ("mask_store", "region_store", "share_grants"):
            assert old.execute(f"SELECT p.camera, p.owner, s.srvname FROM privid.{table} p, pg_foreign_server s WHERE s.oid = p.server_oid"
                               .encode()).fetchall() == [("campus", "oscar", "campus")]
        for view in ("masks", "regions", "shares"):
            assert old.execute(f"SELECT camera FROM privid.{view}".encode()).fetchall() == [("campus",)]
