"""Shares: an owner hands out parts of a budget, as GRANT hands out rights."""

from __future__ import annotations

from fractions import Fraction

import psycopg
import pytest
from psycopg import errors

from privid.errors import BudgetExhausted, PermissionDenied
from privid.ledger import Claim
from privid.model import Span
from tests.ledger.postgres import Database, camera, record

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
CAMPUS = camera(r=1)


@pytest.fixture(autouse=True)
def campus(database: Database) -> None:
    database.create_server(CAMPUS)
    database.ledger.register(CAMPUS)
    database.rows("DROP ROLE IF EXISTS team")
    database.rows("CREATE ROLE team ROLE ana, ben")


def charge(database: Database, role: str, epsilon: Fraction, span: Span = (0, 10)) -> int:
    return database.ledger.charge([Claim(CAMPUS, [span], epsilon)], record(role=role))


def grant(database: Database, role: str, epsilon: str, user: str = "olga") -> None:
    database.rows("SELECT privid.grant_budget('campus', %s, %s::numeric)", role, epsilon, user=user)


def test_a_camera_without_shares_is_open_to_all(database: Database) -> None:
    charge(database, "ana", Fraction(1))


def test_a_role_can_consume_its_share_and_not_more(database: Database) -> None:
    grant(database, "ana", "0.5")
    charge(database, "ana", QUARTER)
    charge(database, "ana", QUARTER)
    with pytest.raises(BudgetExhausted, match='share of role "ana" in the budget of camera "campus"') as refused:
        charge(database, "ana", Fraction(1, 1000))
    assert "epsilon 0.001 requested, 0 remaining" in refused.value.message
    charge(database, "ana", HALF, (10, 20))  # a share is per frame, like the budget it is a part of
    assert database.ledger.remaining(CAMPUS, [(0, 10)]) == HALF
    assert database.ledger.remaining(CAMPUS, [(0, 10)], role="ana") == 0


def test_from_the_first_grant_on_nobody_without_a_share_can_consume_anything_but_the_owner(database: Database) -> None:
    grant(database, "ana", "0.5")
    with pytest.raises(PermissionDenied, match='role "ben" has no share'):
        charge(database, "ben", QUARTER)
    charge(database, "olga", QUARTER)
    assert database.ledger.remaining(CAMPUS, [(0, 10)], role="ben") == 0


def test_a_share_is_no_claim_on_what_others_have_consumed(database: Database) -> None:
    grant(database, "ana", "0.75")
    grant(database, "ben", "0.75")
    charge(database, "ana", Fraction("0.75"))
    with pytest.raises(BudgetExhausted, match='budget of camera "campus" does not allow'):
        charge(database, "ben", Fraction("0.75"))
    charge(database, "ben", QUARTER)


def test_the_members_of_a_role_consume_its_share_together(database: Database) -> None:
    grant(database, "team", "0.5")
    charge(database, "ana", QUARTER)
    charge(database, "ben", QUARTER)
    with pytest.raises(BudgetExhausted, match='share of role "team"'):
        charge(database, "ana", QUARTER)


def test_a_share_of_ones_own_counts_in_place_of_the_teams(database: Database) -> None:
    grant(database, "team", "0.75")
    grant(database, "ana", "0.25")
    charge(database, "ana", QUARTER)
    with pytest.raises(BudgetExhausted, match='share of role "ana"'):
        charge(database, "ana", QUARTER)
    shown = "SELECT role, epsilon, spent, remaining FROM privid.shares ORDER BY role"
    both = [("ana", QUARTER, QUARTER, 0), ("team", Fraction(3, 4), 0, Fraction(3, 4))]
    assert database.rows(shown, user="ana") == database.rows(shown, user="olga") == both
    assert database.rows(shown, user="oscar") == database.rows(shown, user="nobody") == []


def test_a_share_for_the_public_is_for_all_together(database: Database) -> None:
    grant(database, "public", "0.5")
    charge(database, "ana", HALF)
    with pytest.raises(BudgetExhausted, match='share of role "public"'):
        charge(database, "nobody", QUARTER)


def test_what_was_consumed_before_the_grant_counts(database: Database) -> None:
    charge(database, "ana", QUARTER)
    charge(database, "ben", QUARTER)
    grant(database, "ana", "0.5")
    assert database.ledger.remaining(CAMPUS, [(0, 10)], role="ana") == QUARTER
    charge(database, "ana", QUARTER)
    with pytest.raises(BudgetExhausted):
        charge(database, "ana", QUARTER)


def test_a_revoked_share_ends_and_comes_back_with_what_was_consumed(database: Database) -> None:
    grant(database, "ana", "0.5")
    charge(database, "ana", QUARTER)
    database.rows("SELECT privid.revoke_budget('campus', 'ana')", user="olga")
    assert database.rows("SELECT * FROM privid.shares") == []
    with pytest.raises(PermissionDenied):
        charge(database, "ana", QUARTER)
    with pytest.raises(psycopg.errors.UndefinedObject):
        database.rows("SELECT privid.revoke_budget('campus', 'ana')", user="olga")
    grant(database, "ana", "0.5")
    charge(database, "ana", QUARTER)
    with pytest.raises(BudgetExhausted):
        charge(database, "ana", QUARTER)


def test_a_renamed_camera_keeps_its_shares(database: Database) -> None:
    grant(database, "ana", "0.5")
    database.rows("ALTER SERVER campus RENAME TO square", user="olga")
    assert database.rows("SELECT camera, role FROM privid.shares") == [("square", "ana")]


def test_only_the_owner_can_grant_and_only_within_the_cameras_epsilon(database: Database) -> None:
    for user in ("ana", "nobody"):
        with pytest.raises(errors.InsufficientPrivilege):
            grant(database, "ana", "0.5", user)
    with pytest.raises(errors.InsufficientPrivilege, match='must be owner of camera "campus"'):
        grant(database, "ana", "0.5", "oscar")
    with pytest.raises(errors.InsufficientPrivilege):
        database.rows("INSERT INTO privid.share_grants (camera, role, epsilon) VALUES ('campus', 'ana', 1)", user="oscar")
    for epsilon in ("0", "-1", "1.01", "NaN"):
        with pytest.raises(errors.InvalidParameterValue):
            grant(database, "ana", epsilon)
    for camera_name, role in (("nowhere", "ana"), ("campus", "nemo")):
        with pytest.raises(errors.UndefinedObject):
            database.rows("SELECT privid.grant_budget(%s, %s, 0.5)", camera_name, role, user="olga")


def test_the_share_under_which_a_release_was_charged_is_told(database: Database) -> None:
    grant(database, "team", "0.5")
    charge(database, "ana", QUARTER)
    assert database.rows("SELECT who, share, rule FROM privid.releases", user="ana") == [("ana", "team", "simple")]
