"""Accounts and folders of two owners: neither charges, changes or sees what is the other's, whatever they try and in whatever order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from privid.engine.folders import confirm_folder
from privid.errors import PermissionDenied, PrividError
from privid.ledger import Claim, Connection
from privid.model import Camera
from tests.ledger.postgres import Database, Server, camera, record

HALF = Fraction(1, 2)


def charge(database: Database, footage: Camera, epsilon: Fraction = HALF) -> int:
    return database.ledger.charge([Claim(footage, [(0, 10)], epsilon)], record(role=footage.owner))


def margin(database: Database) -> list[tuple[Any, ...]]:
    return database.rows("SELECT id, owner, k, r_star FROM privid.recordings ORDER BY id")


@pytest.mark.parametrize("name", ["copy", "campus"])
@pytest.mark.parametrize("policy", [{"r": 10_000}, {}, {"epsilon": "1000"}, {"k": 0}])
def test_another_owners_camera_over_a_copy_changes_no_account(database: Database, name: str, policy: dict[str, Any]) -> None:
    campus = camera(files="a")
    charge(database, campus)
    before = margin(database)
    for files in ("a", "ab", "ba"):
        copied = camera(name, files=files, owner="oscar", **policy)
        with pytest.raises(PermissionDenied, match=r'footage of camera ".*" is in an account of role "olga"'):
            database.ledger.register(copied)
        with pytest.raises(PermissionDenied):
            charge(database, copied)
    assert margin(database) == before and database.ledger.remaining(campus, [(0, 10)]) == HALF


def test_consent_lets_another_owner_share_the_account_and_change_nothing_of_it(database: Database) -> None:
    campus, copied = camera(), camera("copy", owner="oscar")
    for one in (campus, copied):
        database.create_server(one)
    charge(database, campus, Fraction(1, 4))
    with pytest.raises(errors.InsufficientPrivilege, match='must be owner of camera "campus"'):
        database.rows("SELECT privid.consent('campus', 'oscar')", user="oscar")
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="has not been seen yet"):
        database.rows("SELECT privid.consent('copy', 'olga')", user="oscar")
    database.rows("SELECT privid.consent('campus', 'oscar')", user="olga")
    before = margin(database)
    for policy in ({"r": 5}, {"r": 3}, {"epsilon": "1.01"}, {"k": 0}, {"r": 0}):
        with pytest.raises(PermissionDenied):
            charge(database, camera("copy", owner="oscar", **policy))
    charge(database, camera("copy", owner="oscar", k=2, epsilon="2"), Fraction(1, 2))
    assert margin(database) == before and database.ledger.remaining(campus, [(0, 10)]) == HALF
    assert database.rows("SELECT owner, role, given_by FROM privid.consents", user="oscar") == [("olga", "oscar", "olga")]
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner of the account"):
        database.rows("SELECT privid.consent('copy', 'ben')", user="oscar")
    database.ledger.register(camera(epsilon="0.5"))  # the owner promises more, and so must whoever shares
    with pytest.raises(PermissionDenied, match="promises less"):
        charge(database, copied, Fraction(1, 10))
    database.rows("SELECT privid.withdraw_consent('campus', 'oscar')", user="olga")
    with pytest.raises(PermissionDenied, match="in an account of role"):
        charge(database, copied, Fraction(1, 10))


def test_a_charge_sees_a_consent_that_was_withdrawn_meanwhile(database: Database) -> None:
    for one in (camera(), camera("copy", owner="oscar")):
        database.create_server(one)
    database.ledger.register(camera())
    database.rows("SELECT privid.consent('campus', 'oscar')", user="olga")

    def withdraw(_conn: Connection) -> None:
        database.rows("SELECT privid.withdraw_consent('campus', 'oscar')", user="olga")

    with pytest.raises(PermissionDenied, match="in an account of role"):
        database.ledger.charge([Claim(camera("copy", owner="oscar"), [(0, 10)], HALF)], record(role="oscar"), withdraw)


def test_a_camera_that_is_given_away_takes_its_account_along_where_that_is_seen(database: Database) -> None:
    database.create_server(camera())
    charge(database, camera())
    for owner in ("oscar", "olga"):
        database.rows(f"ALTER SERVER campus OWNER TO {owner}")
        assert database.ledger.remaining(camera(owner=owner), [(0, 10)]) == HALF
        assert [row[1] for row in margin(database)] == [owner]
    database.rows("REASSIGN OWNED BY olga TO oscar")
    with pytest.raises(PermissionDenied, match='in an account of role "olga"'):
        database.ledger.remaining(camera(owner="oscar"), [(0, 10)])
    assert [row[1] for row in margin(database)] == ["olga"]


def test_who_gives_one_of_several_cameras_away_keeps_the_account_and_agrees_to_share_it(database: Database) -> None:
    for name in ("campus", "other"):
        database.create_server(camera(name))
        database.ledger.register(camera(name))
    database.rows("ALTER SERVER campus OWNER TO oscar")
    charge(database, camera(owner="oscar"))
    assert database.ledger.remaining(camera("other"), [(0, 10)]) == HALF and [row[1] for row in margin(database)] == ["olga"]


def test_the_name_of_another_owners_dropped_camera_says_nothing_about_its_footage(database: Database) -> None:
    charge(database, camera(files="a"))
    assert database.ledger.register(camera(files="z", owner="oscar")) == 2
    assert margin(database)[0][1] == "olga" and margin(database)[1][1] == "oscar"


def test_a_superuser_may_have_a_camera_over_any_footage(database: Database) -> None:
    charge(database, camera())
    assert database.ledger.remaining(camera("all", owner="postgres"), [(0, 10)]) == HALF


def test_new_content_lies_in_an_account_of_the_cameras_owner_or_in_one_of_its_own(database: Database) -> None:
    """Names, paths and known files lead to another's account by consent, but to no place in it for what its owner has not shown."""
    for one in (camera("yard", files="a"), camera("gate", files="ab", owner="oscar")):
        database.create_server(one)
    database.ledger.register(camera("yard", files="a"))
    database.ledger.register(camera("plaza", files="a"))  # of a transaction that was rolled back
    database.rows("SELECT privid.consent('yard', 'oscar')", user="olga")
    before = margin(database)
    assert database.ledger.register(camera("plaza", files="z", owner="oscar")) == 2
    for files in ("ab", "ba"):
        with pytest.raises(PermissionDenied, match="which cameras of that role have not shown"):
            database.ledger.register(camera("gate", files=files, owner="oscar"))
    path = camera("gate", files="c", owner="oscar")
    moved = replace(path, footage=replace(path.footage, files=(replace(path.footage.files[0], path="a.mp4"),)))
    for rate in (10, 5):
        with pytest.raises(PermissionDenied, match="which cameras of that role have not shown"):
            database.ledger.register(replace(moved, footage=replace(moved.footage, fps=Fraction(rate))))
    assert margin(database)[:1] == before and database.rows("SELECT count(*) FROM privid.recording_files WHERE recording = 1") == [(1,)]
    database.ledger.register(camera("yard", files="ab"))
    assert database.ledger.register(camera("gate", files="ab", owner="oscar")) == 1


def test_new_content_of_a_camera_that_was_given_away_lies_where_the_old_did(database: Database) -> None:
    """Also when its new owner's other camera was first to be seen."""
    for second in (False, True):
        name = f"campus{int(second)}"
        files = "xy"[second]
        database.create_server(camera(name, files=files))
        recording = database.ledger.register(camera(name, files=files))
        database.rows(f"ALTER SERVER {name} OWNER TO oscar")
        if second:
            assert database.ledger.register(camera("other", files=files, owner="oscar")) == recording
        assert database.ledger.register(camera(name, files="pq"[second], owner="oscar")) == recording


def test_who_shares_an_account_counts_its_frames_as_its_owner_does(database: Database) -> None:
    """A lower rate would make of the same rho fewer frames; where a file has one frame, any agrees with it."""
    database.create_server(camera())
    database.ledger.register(camera())
    database.rows("SELECT privid.consent('campus', 'oscar')", user="olga")
    slow = replace(camera("copy", owner="oscar"), rho=camera().rho)
    with pytest.raises(PermissionDenied, match="5 frames per second, but the account"):
        database.ledger.register(replace(slow, footage=replace(slow.footage, fps=Fraction(5))))
    database.ledger.register(slow)


def test_a_mask_changes_nothing_of_what_another_role_promised(database: Database) -> None:
    database.create_server(camera())
    database.ledger.register(camera())
    database.rows("SELECT privid.consent('campus', 'oscar')", user="olga")
    masked = Claim(camera("copy", owner="oscar"), [], Fraction(0), scenes=['mask "m"'])
    for act in (lambda: database.ledger.permit([masked]), lambda: database.ledger.charge([masked], record(role="oscar"))):
        with pytest.raises(PermissionDenied, match='mask "m" of camera "copy" cannot be used over the account of role "olga"'):
            act()
    database.ledger.permit([replace(masked, scenes=[]), replace(masked, camera=camera())])


@pytest.mark.parametrize("path", ["/etc", "..", "a/../b", "a/*", "b?", "[c]", "a\nb", None, "x" * 5000])
def test_a_folder_that_is_no_path_below_the_root_cannot_be_granted(database: Database, path: str | None) -> None:
    with pytest.raises(errors.InvalidParameterValue, match="invalid folder"):
        database.rows("SELECT privid.grant_folder('olga', %s)", path)


@pytest.mark.parametrize("user", ["olga", "ana", "nobody", "privid_engine"])
@pytest.mark.parametrize("function", ["grant_folder", "revoke_folder"])
def test_folders_are_granted_by_superusers_alone(database: Database, user: str, function: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        database.rows(f"SELECT privid.{function}('privid_owner', '.')", user=user)


def test_history_tells_each_owner_of_its_own_cameras_and_a_superuser_of_all(database: Database) -> None:
    database.create_server(camera())
    database.create_server(camera("harbour", files="b", owner="oscar"))
    charge(database, camera())
    charge(database, camera("harbour", files="b", owner="oscar"))
    seen = {user: {row[0] for row in database.rows("SELECT camera FROM privid.history", user=user)}
            for user in ("olga", "oscar", "postgres")}
    assert seen == {"olga": {"campus"}, "oscar": {"harbour"}, "postgres": {"campus", "harbour"}}
    database.rows("ALTER SERVER campus OWNER TO oscar")
    given = "SELECT count(*) FROM privid.history WHERE camera = 'campus'"
    assert database.rows(given, user="olga") == [(3,)] and database.rows(given, user="oscar") == [(1,)]
    assert database.rows("SELECT * FROM privid.verify_history()") == []


@pytest.fixture
def old(server: Server) -> Iterator[psycopg.Connection[Any]]:
    """A database with the extension in version 0.3.0."""
    name = next(server.names)
    with server.connect("postgres") as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with server.connect(name) as conn:
        conn.execute("CREATE EXTENSION privid VERSION '0.3.0'")
        yield conn


def test_owners_keep_folders_and_accounts_when_the_extension_is_updated(old: psycopg.Connection[Any]) -> None:
    for role, name, source in (("olga", "campus", "campus/north/*.mp4"), ("olga", "gate", "./gate//a.mp4"), ("oscar", "copy", "all.mp4"),
                               ("postgres", "whole", "x/y.mp4"), ("oscar", "yard", "ya*d/1/b.mp4")):
        old.execute(f"SET SESSION AUTHORIZATION {role}".encode())
        old.execute(f"CREATE SERVER {name} FOREIGN DATA WRAPPER privid OPTIONS (source '{source}', rho '1s', k '1', epsilon '1')".encode())
        old.execute("RESET SESSION AUTHORIZATION")
    for number in (1, 2, 3):
        old.execute("INSERT INTO privid.recordings (k, r_star, format) VALUES (1, 10, 3)")
        old.execute("INSERT INTO privid.recording_files VALUES (repeat(%s, 64), %s, 0, 100, 'x')", (str(number), number))
    row = "INSERT INTO privid.footage VALUES (%s, 'd', %s, 0, 100, 10, 1, 64, 48, now(), 1, 1, 1)"
    for name, number in (("copy", 1), ("campus", 1), ("gate", 2)):
        old.execute(row.encode(), (name, number))
    for name, number in (("campus", 1), ("gate", 2)):
        old.execute("SELECT privid.write_history('engine', 'engine', %s, 'footage registered', jsonb_build_object('recording', %s::int))",
                    (name, number))
    old.execute("DROP SERVER gate")
    old.execute("ALTER EXTENSION privid UPDATE")
    assert old.execute("SELECT role, folder, granted_by FROM privid.folders").fetchall() == [
        ("olga", "campus/north", "upgrade"), ("oscar", ".", "upgrade")]
    assert old.execute("SELECT id, owner FROM privid.recordings ORDER BY id").fetchall() == [(1, "olga"), (2, "olga"), (3, None)]
    assert old.execute("SELECT recording, role FROM privid.consents").fetchall() == [(1, "oscar")]
    for role, cameras in (("olga", {"campus", "gate"}), ("oscar", {"copy", "yard"})):
        old.execute(f"SET ROLE {role}".encode())
        assert {row[0] for row in old.execute("SELECT camera FROM privid.history")} == cameras
        old.execute("RESET ROLE")
    assert old.execute("SELECT * FROM privid.verify_history()").fetchall() == []


def test_what_the_group_of_all_owners_has_is_nobodys_when_the_extension_is_updated(old: psycopg.Connection[Any]) -> None:
    """Neither is every owner an owner of it, nor has any consent as a member."""
    for role, name in (("privid_owner", "crowd"), ("olga", "campus")):
        old.execute(f"SET ROLE {role}".encode())
        old.execute(f"CREATE SERVER {name} FOREIGN DATA WRAPPER privid OPTIONS (source 'a/b.mp4', rho '1s', k '1', epsilon '1')".encode())
        old.execute("RESET ROLE")
    row = "INSERT INTO privid.footage VALUES (%s, 'd', %s, 0, 100, 10, 1, 64, 48, now(), 1, 1, 1)"
    for number, names in ((1, ("crowd",)), (2, ("campus", "crowd2"))):
        old.execute("INSERT INTO privid.recordings (k, r_star, format) VALUES (1, 10, 3)")
        old.execute("SELECT privid.write_history('engine', 'engine', %s, 'footage registered', jsonb_build_object('recording', %s::int))",
                    (names[0], number))
        for name in names:
            old.execute(row.encode(), (name, number))
    old.execute("CREATE SERVER crowd2 FOREIGN DATA WRAPPER privid OPTIONS (source 'a/b.mp4', rho '1s', k '1', epsilon '1')")
    old.execute("ALTER SERVER crowd2 OWNER TO privid_owner")
    old.execute("ALTER EXTENSION privid UPDATE")
    assert old.execute("SELECT id, owner FROM privid.recordings ORDER BY id").fetchall() == [(1, None), (2, "olga")]
    assert old.execute("SELECT recording, role FROM privid.consents").fetchall() == []
    assert old.execute("SELECT privid.uses_account(2, 'oscar'), privid.uses_account(2, 'olga')").fetchall() == [(False, True)]


class Model:
    """What the rules say must be so, kept beside the database."""

    def __init__(self) -> None:
        self.folders: set[tuple[str, str]] = set()
        self.cameras: dict[str, tuple[str, str, str]] = {}  # owner, folder, files
        self.owner: dict[str, str] = {}  # of the account of a file
        self.consents: set[tuple[str, str]] = set()  # file, role

    def lies(self, owner: str, folder: str) -> bool:
        return any(role == owner and (granted == "." or f"{folder}/".startswith(f"{granted}/")) for role, granted in self.folders)

    def shares(self, owner: str, file: str) -> bool:
        return self.owner.get(file, owner) == owner or (file, owner) in self.consents


def attempt(database: Database, statement: str, user: str = "postgres") -> bool:
    """Whether it was allowed."""
    try:
        database.rows(statement, user=user)
    except errors.InsufficientPrivilege:
        return False
    return True


@pytest.mark.parametrize("seed", [1, 2])
def test_nobody_sees_or_changes_what_the_rules_forbid_in_any_order_of_grants_and_releases(database: Database, seed: int) -> None:
    """Forty random steps of two owners; after each, what both see and what the accounts promise is what the rules say."""
    chosen, model = random.Random(seed), Model()
    owners, folders, files = ("olga", "oscar"), ("a", "a/b", "ab", "c"), "xyz"
    database.rows("SELECT privid.revoke_folder('privid_owner', '.')")
    for who, folder in (("olga", "a"), ("oscar", "c")):
        database.rows("SELECT privid.grant_folder(%s, %s)", who, folder)
        model.folders.add((who, folder))
    try:
        for step in range(40):
            one_step(database, model, chosen, step, owners, folders, files)
            compare(database, model, owners)
    finally:
        database.rows("DELETE FROM privid.folder_grants")
        database.rows("SELECT privid.grant_folder('privid_owner', '.')")
    assert database.rows("SELECT * FROM privid.verify_history()") == [] and model.owner


def one_step(database: Database, model: Model, chosen: random.Random, step: int, owners: tuple[str, ...], folders: tuple[str, ...],
             files: str) -> None:
    who, folder, file = chosen.choice(owners), chosen.choice([*folders, "."]), chosen.choice(files)
    other = next(role for role in owners if role != who)
    match chosen.choice(["grant", "grant", "revoke", "create", "create", "create", "release", "release", "release", "consent", "withdraw",
                         "drop", "alter"]):
        case "grant":
            database.rows("SELECT privid.grant_folder(%s, %s)", who, folder)
            model.folders.add((who, folder))
        case "revoke" if (who, folder) in model.folders:
            database.rows("SELECT privid.revoke_folder(%s, %s)", who, folder)
            model.folders.remove((who, folder))
        case "create":
            place, name = chosen.choice([*folders, *2 * [one for one in folders if model.lies(who, one)]]), f"camera{step}"
            source = f"{place}/{file}-{who}.mp4"
            allowed = attempt(database, f"CREATE SERVER {name} FOREIGN DATA WRAPPER privid OPTIONS (source '{source}')", who)
            assert allowed == model.lies(who, place)
            if allowed:
                model.cameras[name] = (who, place, file)
        case "release" if model.cameras:
            release(database, model, chosen.choice(sorted(model.cameras)), chosen)
        case "consent" | "withdraw" as event if model.cameras:
            name = chosen.choice(sorted(model.cameras))
            owner, _, shown = model.cameras[name]
            if not database.rows("SELECT 1 FROM privid.footage WHERE camera = %s", name):
                return
            if event == "withdraw" and (shown, other) not in model.consents:
                return
            function = "consent" if event == "consent" else "withdraw_consent"
            if attempt(database, f"SELECT privid.{function}('{name}', '{other}')", who):
                assert who == owner == model.owner[shown]
                (model.consents.add if event == "consent" else model.consents.discard)((shown, other))
            else:
                assert who != owner or who != model.owner[shown]
        case "drop" | "alter" as event if model.cameras:
            name = chosen.choice(sorted(model.cameras))
            changed = "DROP SERVER {}" if event == "drop" else "ALTER SERVER {} OPTIONS (ADD fps '10')"
            try:
                allowed = attempt(database, changed.format(name), who)
            except errors.DuplicateObject:
                return
            owner, place, _ = model.cameras[name]
            assert allowed == (who == owner and (event == "drop" or model.lies(owner, place)))
            if allowed and event == "drop":
                del model.cameras[name]


def release(database: Database, model: Model, name: str, chosen: random.Random) -> None:
    """Of a camera whose policy is now and then not what it should be."""
    owner, folder, file = model.cameras[name]
    r = chosen.choice([4, 4, 4, 9, 2])
    footage = camera(name, files=file, owner=owner, r=r, epsilon="1000")
    known = model.owner.get(file)
    before = {row[0]: row[1:] for row in margin(database)}
    place = partial(confirm_folder, camera=name, owner=owner, source=f"{folder}/{file}-{owner}.mp4")
    try:
        charge_at(database, footage, place)
    except PrividError as error:
        assert isinstance(error, PermissionDenied)
        assert not model.lies(owner, folder) or not model.shares(owner, file) or known not in (None, owner)
    else:
        assert model.lies(owner, folder) and model.shares(owner, file)
    if known is None and model.shares(owner, file) and database.rows("SELECT 1 FROM privid.footage WHERE camera = %s", name):
        model.owner[file] = owner
    if known not in (None, owner):
        assert {row[0]: row[1:] for row in margin(database)} == before


def charge_at(database: Database, footage: Camera, confirm: Any) -> None:
    database.ledger.charge([Claim(footage, [(0, 10)], Fraction(1, 1000))], record(role=footage.owner), confirm)


def compare(database: Database, model: Model, owners: tuple[str, ...]) -> None:
    for who in owners:
        seen = database.rows("SELECT camera, source FROM privid.cameras WHERE source IS NOT NULL", user=who)
        assert {row[0] for row in seen} == {name for name, (owner, _, _) in model.cameras.items() if owner == who}
        told = str([database.rows(f"SELECT * FROM privid.{view}", user=who) for view in ("history", "folders", "releases", "shares")])
        strangers = [f"/{file}-{other}.mp4" for other in owners if other != who for file in "xyz"]
        assert not [path for path in strangers if path in told]
        granted = set(database.rows("SELECT role, folder FROM privid.folders", user=who))
        assert granted == {grant for grant in model.folders if grant[0] == who}
