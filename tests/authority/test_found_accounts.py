"""Accounts of owners who share, or could: none is captured, drained, asked through or read by another with names, copies and consent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tests.authority.found_owners import ANA, ANNA, BERT, MAL, MASK, Found
from tests.conftest import STARTS

CARL = "found_carl"
REGIONS = """SELECT privid.create_regions('{}', '{}', '{{"all": "((0,0),(64,0),(64,48),(0,48))"}}', 'hard')"""


class Shared:
    """Anna's camera, a copy of whose footage Bert has, and Bert's camera over it by her consent."""

    def __init__(self, found: Found) -> None:
        self.found, self.name = found, found.film(ANNA)
        self.copy = f"{self.name}_copy"
        videos = found.stack.videos
        shutil.copy(videos / ANNA / f"{self.name}.mp4", videos / BERT / f"{self.name}.mp4")
        found.camera(ANNA, self.name, self.name, epsilon="10")
        found.run(ANNA, "SELECT privid.consent(%s, %s)", self.name, BERT)

    def second(self) -> None:
        self.found.camera(BERT, self.copy, self.name, epsilon="10")

    def table(self, user: str, camera: str, table: str | None = None, **options: str) -> None:
        owner = self.found.run("privid", "SELECT owner FROM privid.cameras WHERE camera = %s", camera)[0][0]
        self.found.run(owner, f"GRANT USAGE ON FOREIGN SERVER {camera} TO {user}")
        self.found.stack.table(table or f"t_{camera}", camera, "one", user=user, **{"end": "2026-03-01 06:00:02+00", **options})

    def ask(self, user: str, what: str, table: str, **settings: str) -> Any:
        return self.found.stack.run(f"SELECT {what} FROM {table}", user=user, settings={"statement_timeout": "9s", **settings})[0][0]

    def left(self, camera: str) -> Any:
        return self.found.run("privid", "SELECT min(remaining) FROM privid.budget WHERE camera = %s", camera)[0][0]

    def account(self, camera: str) -> tuple[Any, ...]:
        asked = "SELECT recording, privid.account_owner(recording) FROM privid.footage WHERE camera = %s"
        return self.found.run("privid", asked, camera)[0]


@pytest.fixture
def shared(found: Found) -> Iterator[Shared]:
    yield Shared(found)


@pytest.mark.parametrize("how", ["consent", "everybody", "member", "reassigned"])
def test_no_name_consent_membership_or_group_places_an_owners_new_footage_in_anothers_account(shared: Shared, how: str) -> None:
    found, plaza = shared.found, shared.found.film(ANNA)
    who = BERT
    if how == "reassigned":
        who = CARL
        found.run("privid", f"CREATE ROLE {CARL} LOGIN IN ROLE privid_owner")
        (found.stack.videos / CARL).mkdir(exist_ok=True)
        found.run("privid", "SELECT privid.grant_folder(%s, %s)", CARL, CARL)
    theirs, last = found.film(who), found.film(who)
    try:
        found.camera(who, theirs, theirs, rho="100ms", epsilon="100000")
        with found.open(who) as conn:
            conn.execute(f"CREATE SERVER {plaza} {found.definition(who, theirs, rho='1h')}".encode())
            conn.rollback()
        if how == "consent":
            found.run(who, "SELECT privid.consent(%s, %s)", theirs, ANNA)
        elif how == "everybody":
            for role in ("privid_owner", "privid_analyst", "privid_engine"):
                with pytest.raises(errors.InvalidParameterValue, match=f'role "{role}" stands for many'):
                    found.run(who, "SELECT privid.consent(%s, %s)", theirs, role)
        elif how == "member":
            found.run("privid", f"GRANT {who} TO {ANNA}")
        else:
            found.run(who, f"REASSIGN OWNED BY {who} TO privid_owner")
            found.camera(who, last, last)
            assert shared.account(theirs)[1] == who
        found.camera(ANNA, plaza, plaza, epsilon="5")
        assert shared.account(plaza)[1] == ANNA and shared.account(plaza)[0] != shared.account(theirs)[0]
        if how == "reassigned":
            found.run("privid", "SELECT privid.grant_folder('privid_owner', %s)", CARL)
            with pytest.raises(errors.InsufficientPrivilege, match='role "privid_owner" stands for many'):
                found.run("privid", f"ALTER SERVER {theirs} OPTIONS (SET rho '200ms')")
            found.run("privid", "SELECT privid.revoke_folder('privid_owner', %s)", CARL)
            found.run("privid", f"ALTER SERVER {theirs} OWNER TO {who}")
            found.run(who, f"ALTER SERVER {theirs} OPTIONS (SET rho '200ms')")
    finally:
        if how == "member":
            found.run("privid", f"REVOKE {who} FROM {ANNA}")
        if how == "reassigned":
            for name in (theirs, last):
                found.run("privid", f"DROP SERVER IF EXISTS {name} CASCADE")
            found.run("privid", "SELECT privid.revoke_folder(%s, %s)", CARL, CARL)
            found.run("privid", f"DROP OWNED BY {CARL}; DROP ROLE {CARL}")


@pytest.mark.parametrize("made", ["mask", "regions"])
def test_nothing_that_lowers_noise_is_offered_over_anothers_account(shared: Shared, made: str) -> None:
    """Neither when it is offered, nor when a table uses it or a release reads it, also if it was offered over footage of one's own."""
    found, own = shared.found, shared.found.film(BERT)
    offer = {"mask": MASK.replace("'1s'", "'0s'"), "regions": REGIONS}[made]
    shared.second()
    with pytest.raises(errors.InsufficientPrivilege, match="is another role's"):
        found.run(BERT, offer.format(shared.copy, "all"))
    camera = found.name()
    found.camera(BERT, camera, own, epsilon="10")
    found.run(BERT, offer.format(camera, "all"))
    shared.table(MAL, camera, **{made: "all"})
    shared.ask(MAL, "count(*)", f"t_{camera}")
    found.run(BERT, f"ALTER SERVER {camera} OPTIONS (SET source '{BERT}/{shared.name}.mp4')")
    before = shared.left(shared.name)
    for statement in ("SELECT count(*) FROM {}", "SELECT sum(range(v, 0, 255)) FROM {}", "EXPLAIN SELECT count(*) FROM {}",
                      "CREATE FOREIGN TABLE {}b (chunk timestamptz, v float8 DEFAULT 0) SERVER " + camera + f" OPTIONS (executable 'one', "
                      f"begin '{STARTS}', \"end\" '2026-03-01 06:00:01+00', chunk '1s', timeout '200ms', max_rows '1', {made} 'all')"):
        words = f'all" of camera "{camera}" cannot be used over the account of role "{ANNA}"'
        with pytest.raises(errors.InsufficientPrivilege, match=words):
            found.stack.run(statement.format(f"t_{camera}"), user=MAL)
    assert shared.left(shared.name) == before
    shared.table(MAL, camera, f"plain_{camera}")
    shared.ask(MAL, "count(*)", f"plain_{camera}")


def test_a_stored_answer_is_given_to_nobody_who_could_not_ask_afresh(shared: Shared) -> None:
    shared.second()
    shared.table(MAL, shared.copy)
    shared.ask(MAL, "count(*)", f"t_{shared.copy}")
    shared.found.run(ANNA, "SELECT privid.withdraw_consent(%s, %s)", shared.name, BERT)
    for reuse in ("on", "off"):
        with pytest.raises(errors.InsufficientPrivilege, match="in an account of role"):
            shared.ask(MAL, "count(*)", f"t_{shared.copy}", **{"privid.reuse": reuse})


def test_an_answer_is_not_given_again_through_another_owners_camera_that_has_taken_the_name(shared: Shared) -> None:
    found = shared.found
    shared.table(ANA, shared.name)
    shared.ask(ANA, "count(*)", f"t_{shared.name}", **{"privid.epsilon": "0.5"})
    found.run(ANNA, f"ALTER SERVER {shared.name} RENAME TO {shared.name}_before")
    found.camera(BERT, shared.name, shared.name, epsilon="10")
    shared.table(MAL, shared.name)
    before = shared.left(shared.name)
    shared.ask(MAL, "count(*)", f"t_{shared.name}", **{"privid.epsilon": "0.5"})
    assert shared.left(shared.name) < before


def test_consent_is_to_what_the_accounts_owner_has_registered_and_to_no_other_file(shared: Shared) -> None:
    """Later ones, earlier ones, or others in their place."""
    found, name, videos = shared.found, shared.name, shared.found.stack.videos
    more = found.film(BERT)
    for folder in (ANNA, BERT):
        (videos / folder / name).mkdir()
        shutil.copy(videos / folder / f"{name}.mp4", videos / folder / name / "d1.mp4")
    shutil.copy(videos / BERT / f"{more}.mp4", videos / BERT / name / "d2.mp4")
    before = found.run("privid", "SELECT * FROM privid.budget WHERE camera = %s", name)
    with pytest.raises(errors.InsufficientPrivilege, match="which cameras of that role have not shown") as refused:
        found.camera(BERT, shared.copy, f"{name}/*", epsilon="10")
    assert f"{BERT}/{name}/d2.mp4" in (refused.value.diag.message_detail or "")
    shutil.copy(videos / BERT / f"{more}.mp4", videos / ANNA / name / "d2.mp4")
    found.run(ANNA, f"ALTER SERVER {name} OPTIONS (SET source '{ANNA}/{name}/*.mp4')")
    found.camera(BERT, shared.copy, f"{name}/*", epsilon="10")
    assert found.run("privid", "SELECT count(*) FROM privid.budget WHERE camera = %s", name)[0][0] >= len(before)


def test_what_a_role_consumed_of_a_shared_account_is_seen_by_the_accounts_owner_and_that_role(shared: Shared) -> None:
    found = shared.found
    shared.second()
    shared.table(ANA, shared.name)
    shared.ask(ANA, "count(*)", f"t_{shared.name}", **{"privid.epsilon": "0.7"})
    for role in (ANA, MAL, "public"):
        found.run(ANNA, "SELECT privid.grant_budget(%s, %s, 3)", shared.name, role)
        found.run(BERT, "SELECT privid.grant_budget(%s, %s, 3)", shared.copy, role)
    shared.ask(ANA, "count(v)", f"t_{shared.name}", **{"privid.epsilon": "0.2"})
    found.run(ANNA, f"ALTER SERVER {shared.name} OPTIONS (ADD visibility 'own')")
    told = "SELECT role, spent, remaining FROM privid.shares WHERE camera = %s ORDER BY role"
    assert found.run(BERT, told, shared.copy) == [(ANA, None, None), (MAL, None, None), ("public", None, None)]
    assert float(found.run(ANNA, told, shared.name)[0][1]) == pytest.approx(0.9)
    assert [float(row[1]) for row in found.run(ANA, told, shared.copy) if row[0] == ANA] == [pytest.approx(0.9)]


@pytest.mark.parametrize("again", [BERT, ANNA])
def test_an_answer_is_shown_again_where_the_same_owner_has_a_camera_of_that_name_alone(shared: Shared, again: str) -> None:
    found, name = shared.found, shared.name
    shared.table(ANA, name)
    shared.ask(ANA, "count(*)", f"t_{name}")
    seen = "SELECT answer IS NOT NULL FROM privid.releases WHERE camera = %s"
    assert found.run(ANA, seen, name) == [(True,)]
    found.run(ANNA, f"DROP SERVER {name} CASCADE")
    assert found.run(ANA, seen, name) == [(False,)]
    found.camera(again, name, name if again == ANNA else found.film(BERT), epsilon="10")
    found.run(again, f"GRANT USAGE ON FOREIGN SERVER {name} TO {ANA}")
    assert found.run(ANA, seen, name) == [(again == ANNA,)]


def test_errors_about_an_account_name_its_owner_and_no_file_of_it(shared: Shared) -> None:
    shared.second()
    with pytest.raises(psycopg.Error) as refused:
        shared.found.run(BERT, MASK.format(shared.copy, "m"))
    assert ".mp4" not in str(refused.value) and ANNA in str(refused.value)
