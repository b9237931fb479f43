"""What a role sees of an account: all of it, or what remains beside its own releases and under its own shares."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from privid.errors import BudgetExhausted
from privid.ledger import Claim
from privid.model import Camera
from tests.ledger.postgres import Database, camera, record

TENTH = Fraction(1, 10)
READS = "SELECT frames::text, remaining::text FROM privid.budget WHERE camera = %s ORDER BY begins"


def reserved(name: str = "campus", files: str = "a", owner: str = "olga") -> Camera:
    """A camera that shows each role its own."""
    return replace(camera(name, files=files, owner=owner), visibility="own")


@pytest.fixture
def campus(database: Database) -> Camera:
    made = reserved()
    database.create_server(made)
    return made


def charge(database: Database, one: Camera, role: str, epsilon: Fraction, lo: int = 10, hi: int = 20) -> int:
    return database.ledger.charge([Claim(one, [(lo, hi)], epsilon)], record(role=role))


def left(database: Database, one: Camera, role: str) -> Fraction:
    return database.ledger.remaining(one, [(10, 20)], role=role)


def test_what_others_were_charged_is_seen_by_the_owner_alone(database: Database, campus: Camera) -> None:
    charge(database, campus, "ana", 3 * TENTH)
    charge(database, campus, "ben", 4 * TENTH, 15, 30)
    assert database.rows(READS, "campus", user="ana") == [("[-3,7)", "1"), ("[7,20)", "0.7"), ("[20,100)", "1")]
    assert database.rows(READS, "campus", user="ben") == [("[-3,12)", "1"), ("[12,30)", "0.6"), ("[30,100)", "1")]
    assert database.rows(READS, "campus", user="oscar") == database.rows(READS, "campus", user="nobody") == [("[-3,100)", "1")]
    whole = [("[-3,7)", "1"), ("[7,12)", "0.7"), ("[12,20)", "0.3"), ("[20,30)", "0.6"), ("[30,100)", "1")]
    assert database.rows(READS, "campus", user="olga") == database.rows(READS, "campus") == whole
    assert [left(database, campus, role) for role in ("ana", "ben", "oscar", "olga", "postgres")] == [
        7 * TENTH, 6 * TENTH, 1, 3 * TENTH, 3 * TENTH]
    exposed = "SELECT epsilon_so_far, detection_so_far IS NULL FROM privid.exposure('campus', '0.4s')"
    assert database.rows(exposed, user="olga") == [(7 * TENTH, False)]
    assert database.rows(exposed, user="ana") == [(None, True)]
    free = "SELECT frames::text FROM privid.available('campus', 0.65)"
    assert database.rows(free, user="olga") == [("[0,12)",), ("[33,100)",)]
    assert database.rows(free, user="ana") == [("[0,100)",)] and database.rows(free, user="ben") == [("[0,12)",), ("[33,100)",)]


def test_the_function_of_another_shows_no_more_than_that_other_sees(database: Database, campus: Camera) -> None:
    charge(database, campus, "ben", 4 * TENTH)
    database.rows("CREATE SCHEMA lent; GRANT ALL ON SCHEMA lent TO PUBLIC")
    database.rows("CREATE VIEW lent.budget AS SELECT * FROM privid.budget; GRANT SELECT ON lent.budget TO PUBLIC", user="olga")
    assert database.rows("SELECT min(remaining) FROM lent.budget", user="ana") == [(1,)]
    database.rows("SET SESSION AUTHORIZATION olga; CREATE FUNCTION lent.left() RETURNS numeric LANGUAGE sql SECURITY DEFINER AS "
                  "'SELECT min(remaining) FROM privid.budget'")
    assert database.rows("SELECT lent.left()", user="ana") == [(6 * TENTH,)]  # which olga has lent


def test_a_refusal_says_nothing_of_others_but_that_there_were_some(database: Database, campus: Camera) -> None:
    charge(database, campus, "ben", 7 * TENTH)
    with pytest.raises(BudgetExhausted) as refused:
        charge(database, campus, "ana", 4 * TENTH)
    said = f"{refused.value.message} {refused.value.detail} {refused.value.hint}"
    assert "0.3" not in said and "between" not in said and "Releases of others" in said
    charge(database, campus, "ana", 2 * TENTH)
    with pytest.raises(BudgetExhausted, match=r"0\.9 requested, 0\.8 remaining beside your own releases"):
        charge(database, campus, "ana", 9 * TENTH)
    with pytest.raises(BudgetExhausted, match=r"0\.4 requested, 0\.1 remaining$"):
        charge(database, campus, "olga", 4 * TENTH)


def test_whoever_has_a_share_that_nobody_else_can_consume_is_never_refused_because_of_others(database: Database, campus: Camera) -> None:
    for role in ("ana", "ben"):
        database.rows("SELECT privid.grant_budget('campus', %s, 0.5)", role, user="olga")
    assert left(database, campus, "ana") == Fraction(1, 2)
    charge(database, campus, "ben", 5 * TENTH)
    assert left(database, campus, "ana") == Fraction(1, 2)
    assert database.rows(READS, "campus", user="ana") == [("[-3,100)", "0.5")]
    assert database.rows("SELECT role, spent, remaining FROM privid.shares", user="ana") == [("ana", 0, Fraction(1, 2))]
    charge(database, campus, "ana", 5 * TENTH)
    assert (left(database, campus, "ana"), left(database, campus, "ben")) == (0, 0)


def test_a_share_of_public_shows_each_what_he_himself_consumed_of_it(database: Database, campus: Camera) -> None:
    database.rows("SELECT privid.grant_budget('campus', 'public', 0.5)", user="olga")
    charge(database, campus, "ben", 4 * TENTH)
    assert (left(database, campus, "ana"), left(database, campus, "ben"), left(database, campus, "olga")) == (
        Fraction(1, 2), TENTH, 6 * TENTH)
    shown = "SELECT role, epsilon, spent, remaining FROM privid.shares"
    assert database.rows(shown, user="ana") == database.rows(shown, user="ben") == [("public", Fraction(1, 2), None, None)]
    assert database.rows(shown, user="olga") == [("public", Fraction(1, 2), 4 * TENTH, TENTH)]
    with pytest.raises(BudgetExhausted) as refused:
        charge(database, campus, "ana", 2 * TENTH)
    assert refused.value.message.endswith("does not allow this release: epsilon 0.2 requested")
    assert "privid.shares" not in str(refused.value.hint)


def test_an_account_shows_what_the_most_reserved_camera_over_it_does(database: Database, campus: Camera) -> None:
    copy = camera("copy")
    database.create_server(copy)
    charge(database, campus, "ben", 4 * TENTH)
    database.ledger.register(copy)
    assert database.rows(READS, "copy", user="ana") == [("[-3,100)", "1")] and left(database, copy, "ana") == 1
    database.rows("ALTER SERVER campus OPTIONS (SET visibility 'open')", user="olga")
    assert database.rows(READS, "copy", user="ana") == database.rows(READS, "campus", user="ana") == [
        ("[-3,7)", "1"), ("[7,20)", "0.6"), ("[20,100)", "1")]


def test_what_is_decided_is_shown_to_all_and_written_to_history(database: Database, campus: Camera) -> None:
    assert database.rows("SELECT visibility FROM privid.cameras", user="nobody") == [("own",)]
    database.rows("ALTER SERVER campus OPTIONS (SET visibility 'open')", user="olga")
    assert database.rows("SELECT visibility FROM privid.cameras", user="nobody") == [("open",)]
    database.rows("ALTER SERVER campus OPTIONS (DROP visibility)", user="olga")
    assert database.rows("SELECT visibility FROM privid.cameras", user="nobody") == [("open",)]
    assert database.rows("SELECT who, details -> 'visibility' FROM privid.history WHERE event = 'altered' ORDER BY id", user="olga") == [
        ("olga", {"from": "own", "to": "open"}), ("olga", {"from": "open", "to": None})]


def test_an_answer_is_shown_as_long_as_one_may_use_every_camera_that_was_read(database: Database, campus: Camera) -> None:
    other = camera("harbour", files="b", owner="oscar")
    database.create_server(other)
    for name, owner in (("campus", "olga"), ("harbour", "oscar")):
        database.rows(f"GRANT USAGE ON FOREIGN SERVER {name} TO ana, ben", user=owner)
    release = database.ledger.charge([Claim(campus, [(0, 10)], TENTH), Claim(other, [(0, 10)], TENTH)], record(role="ana"))
    database.ledger.answered(release, [["17"]], 0.5)

    def shown(user: str = "ana") -> list[tuple[str, object]]:
        return database.rows("SELECT camera, answer FROM privid.releases ORDER BY camera", user=user)

    whole, nothing = [("campus", [["17"]]), ("harbour", [["17"]])], [("campus", None), ("harbour", None)]
    assert shown() == whole and shown("ben") == []
    database.rows("REVOKE USAGE ON FOREIGN SERVER harbour FROM ana", user="oscar")
    assert shown() == nothing and shown("postgres") == whole
    assert shown("oscar") == whole[1:] and shown("olga") == whole[:1]  # what is asked of a camera is its owner's to see
    database.rows("GRANT USAGE ON FOREIGN SERVER harbour TO ana", user="oscar")
    database.rows("ALTER SERVER harbour RENAME TO port", user="oscar")
    assert shown() == whole
    database.rows("DROP SERVER port CASCADE", user="oscar")
    assert shown() == nothing


SEEN = "SELECT min(remaining) FROM privid.budget WHERE camera = %s"


def shared_with_oscar(database: Database, mine: str, his: str) -> None:
    """Olga's campus and oscar's copy over the same footage, with these visibilities, until she takes her consent back."""
    for one in (replace(camera(), visibility=mine), replace(camera("copy", owner="oscar"), visibility=his)):
        database.create_server(one)
    database.ledger.register(camera())
    database.rows("SELECT privid.consent('campus', 'oscar')", user="olga")
    database.ledger.register(camera("copy", owner="oscar"))
    charge(database, replace(camera(), visibility=mine), "ana", 3 * TENTH)
    exposed = "SELECT 1 - epsilon_so_far FROM privid.exposure('copy', '0.4s')"
    assert database.rows(SEEN, "copy", user="oscar") == database.rows(exposed, user="oscar") == [(7 * TENTH,)]
    database.rows("SELECT privid.withdraw_consent('campus', 'oscar')", user="olga")
    assert database.rows(exposed, user="oscar") == [(None,)]


@pytest.mark.parametrize("role", ["oscar", "ben", "nobody", "postgres"])
def test_who_has_no_consent_any_more_sees_nothing_of_the_account(database: Database, role: str) -> None:
    shared_with_oscar(database, "own", "open")
    assert database.rows(SEEN, "copy", user=role) == [(None,)]
    assert database.rows("SELECT * FROM privid.available('copy', 0.1)", user=role) == []
    assert database.rows(SEEN, "campus", user="olga") == [(7 * TENTH,)]


def test_who_has_no_consent_any_more_hides_nothing_of_the_account(database: Database) -> None:
    shared_with_oscar(database, "open", "own")
    assert database.rows(SEEN, "campus", user="ben") == [(7 * TENTH,)]
    assert database.rows("SELECT privid.shows_all('campus', 'ben'), privid.shows_all('copy', 'ben')") == [(True, False)]


@pytest.mark.parametrize(("old", "new"), [("own", "open"), ("open", "own")])
def test_a_name_that_another_camera_had_neither_shows_nor_hides_what_was_charged_to_it(database: Database, old: str, new: str) -> None:
    made = replace(camera(), visibility=old)
    database.create_server(made)
    charge(database, made, "ana", 3 * TENTH)
    database.rows("ALTER SERVER campus RENAME TO plaza", user="olga")
    database.ledger.register(replace(made, name="plaza"))
    # while there is no engine that looks at what it shows
    database.create_server(replace(camera(files="z", owner="oscar"), visibility=new))
    for role in ("oscar", "ben"):
        assert database.rows(SEEN, "campus", user=role) == [(None,)]
    assert database.rows(SEEN, "plaza", user="ben") == [(1 if old == "own" else 7 * TENTH,)]
