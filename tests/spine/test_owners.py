"""Two owners of one stack: neither reads, sees, charges or changes what is the other's."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from tests.conftest import STARTS, run_privid, write_video

#: of footage that is registered as somebody else's; nothing of it may be told
PRIVATE = "backyard"


class Pair:
    """Olga and Oscar, each with a folder, and what the tests do with them."""

    def __init__(self, stack: Any, unique: Callable[[str], str]) -> None:
        self.stack, self.unique = stack, unique
        self.olga, self.oscar = unique("olga"), unique("oscar")
        for role in (self.olga, self.oscar):
            stack.run(f"CREATE ROLE {role} LOGIN IN ROLE privid_owner", user="privid")
            (stack.videos / role).mkdir()

    def grant(self, role: str, folder: str) -> None:
        self.stack.run("SELECT privid.grant_folder(%s, %s)", role, folder, user="privid")

    def revoke(self, role: str, folder: str) -> None:
        self.stack.run("SELECT privid.revoke_folder(%s, %s)", role, folder, user="privid")

    def film(self, path: str) -> str:
        """Ten seconds of footage that nobody else has."""
        levels = [level for level in random.Random(self.unique(path)).choices(range(200), k=10) for _ in range(10)]
        write_video(self.stack.videos / path, levels)
        return path

    def copy(self, source: str, path: str) -> str:
        shutil.copy(self.stack.videos / source, self.stack.videos / path)
        return path

    def camera(self, role: str, name: str, source: str, **options: str) -> None:
        given = {"source": source, "starts": STARTS, "rho": "1s", "k": "1", "epsilon": "10", "quantum": "20ms", **options}
        listed = sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(k), sql.Literal(v)) for k, v in given.items())
        with self.stack.connect(role) as connection:
            connection.execute(sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER privid OPTIONS ({})").format(sql.Identifier(name), listed))

    def table(self, role: str, name: str) -> None:
        """One of the owner's own, over all ten seconds of a camera of that name."""
        self.stack.run(f"CREATE SCHEMA IF NOT EXISTS {role} AUTHORIZATION {role}", user="privid")
        self.stack.executable("one", "#!/bin/sh\necho '{\"v\": 1}'\n", user=role)
        self.stack.table(name, name, "one", user=role, timeout="60ms")

    def count(self, role: str, name: str) -> Any:
        return self.stack.run(f"SELECT count(*) FROM {name}", user=role, settings={"privid.epsilon": "0.5", "privid.reuse": "off"})


@pytest.fixture
def pair(stack: Any, unique: Callable[[str], str]) -> Iterator[Pair]:
    found = Pair(stack, unique)
    yield found
    for role in (found.olga, found.oscar):  # the stack is for all tests
        for server, in stack.run("SELECT srvname FROM pg_foreign_server WHERE pg_get_userbyid(srvowner) = %s", role, user="privid"):
            stack.run(f"DROP SERVER {server} CASCADE", user="privid")


def test_an_owner_cannot_name_footage_in_a_folder_that_was_not_granted_to_it(pair: Pair) -> None:
    source = pair.film(f"{pair.olga}/{PRIVATE}.mp4")
    words = rf'source "{source}" .* does not lie in a folder of role "{pair.oscar}"'
    with pytest.raises(errors.InsufficientPrivilege, match=words) as refused:
        pair.camera(pair.oscar, pair.unique("stolen"), source)
    assert f"privid.grant_folder('{pair.oscar}', '{pair.olga}')" in (refused.value.diag.message_hint or "")


@pytest.mark.parametrize("source", ["{olga}/x.mp4", "{oscar}/../{olga}/x.mp4", "{oscar}x/x.mp4", "./{olga}//x.mp4", "*/x.mp4", "{oscar}",
                                    "x.mp4", "{oscar}/./../x.mp4", "/{oscar}/x.mp4", "[{oscar}]/x.mp4", "{oscar}?/x.mp4", ""])
def test_a_folder_is_not_left_by_any_way_of_writing_a_path(pair: Pair, source: str) -> None:
    pair.grant(pair.oscar, f"./{pair.oscar}/")
    pair.film(f"{pair.olga}/x.mp4")
    with pytest.raises(psycopg.Error, match=r"does not lie in a folder|leaves the video root|must not be empty"):
        pair.camera(pair.oscar, pair.unique("stolen"), source.format(olga=pair.olga, oscar=pair.oscar))


def test_a_link_does_not_lead_out_of_a_folder(pair: Pair) -> None:
    pair.grant(pair.oscar, pair.oscar)
    pair.film(f"{pair.olga}/x.mp4")
    (pair.stack.videos / pair.oscar / "link").symlink_to(pair.stack.videos / pair.olga)
    with pytest.raises(psycopg.Error, match="symbolic link"):
        pair.camera(pair.oscar, pair.unique("stolen"), f"{pair.oscar}/link/x.mp4")


def test_a_camera_whose_folder_was_revoked_answers_no_more_and_shows_no_raw_rows(pair: Pair) -> None:
    name = pair.unique("yard")
    pair.grant(pair.olga, pair.olga)
    pair.camera(pair.olga, name, pair.film(f"{pair.olga}/x.mp4"))
    pair.table(pair.olga, name)
    pair.count(pair.olga, name)
    pair.revoke(pair.olga, pair.olga)
    for settings in ({}, {"privid.raw": "on"}):
        for statement in (f"SELECT count(*) FROM {name}", f"EXPLAIN SELECT count(*) FROM {name}"):
            if not (settings and statement.startswith("EXPLAIN")):
                with pytest.raises(errors.InsufficientPrivilege, match="does not lie in a folder of its owner"):
                    pair.stack.run(statement, user=pair.olga, settings=settings)
    pair.grant(pair.olga, pair.olga)
    pair.count(pair.olga, name)


def test_a_camera_is_not_given_to_who_may_not_have_its_source_and_takes_its_account_along(pair: Pair) -> None:
    name = pair.unique("yard")
    pair.grant(pair.olga, pair.olga)
    pair.camera(pair.olga, name, pair.film(f"{pair.olga}/x.mp4"))
    pair.table(pair.olga, name)
    pair.count(pair.olga, name)
    with pytest.raises(errors.InsufficientPrivilege, match="does not lie in a folder"):
        pair.stack.run(f"ALTER SERVER {name} OWNER TO {pair.oscar}", user="privid")
    pair.grant(pair.oscar, pair.olga)
    pair.stack.run(f"ALTER SERVER {name} OWNER TO {pair.oscar}", user="privid")
    pair.stack.run(f"ALTER SERVER {name} OPTIONS (SET rho '2s')", user=pair.oscar)
    assert pair.stack.run("SELECT min(remaining) FROM privid.budget WHERE camera = %s", name)[0][0] == 9.5
    with pytest.raises(errors.InsufficientPrivilege, match=f'in an account of role "{pair.oscar}"'):
        pair.camera(pair.olga, pair.unique("again"), f"{pair.olga}/x.mp4")


def test_another_owner_cannot_lengthen_the_margin_of_an_account_with_a_copy(pair: Pair) -> None:
    """Neither by registering the footage nor by dropping the camera again."""
    name = pair.unique("yard")
    pair.grant(pair.olga, pair.olga)
    pair.grant(pair.oscar, pair.oscar)
    source = pair.film(f"{pair.olga}/{PRIVATE}.mp4")
    pair.camera(pair.olga, name, source)
    pair.table(pair.olga, name)
    pair.count(pair.olga, name)
    shown = "SELECT frames, remaining FROM privid.budget WHERE camera = %s ORDER BY frames"
    before = pair.stack.run(shown, name)
    copied = pair.copy(source, f"{pair.oscar}/mine.mp4")
    with pytest.raises(errors.InsufficientPrivilege, match=f'is in an account of role "{pair.olga}"') as refused:
        pair.camera(pair.oscar, pair.unique("mine"), copied, rho="366d")
    assert PRIVATE not in str(refused.value) and "privid.consent" in (refused.value.diag.message_hint or "")
    assert pair.stack.run(shown, name) == before
    pair.stack.run("SELECT privid.consent(%s, %s)", name, pair.oscar, user=pair.olga)
    for weaker, said in (({"rho": "366d"}, "rho of camera"), ({"epsilon": "11"}, "promises less"), ({"k": "0"}, "promises less"),
                         ({"rho": "0s"}, "promises less")):
        with pytest.raises(errors.InsufficientPrivilege, match=said):
            pair.camera(pair.oscar, pair.unique("mine"), copied, **weaker)
    assert pair.stack.run(shown, name) == before
    mine = pair.unique("mine")
    pair.camera(pair.oscar, mine, copied)
    pair.table(pair.oscar, mine)
    pair.count(pair.oscar, mine)
    assert min(row[1] for row in pair.stack.run(shown, name)) == min(row[1] for row in pair.stack.run(shown, mine)) == 9
    pair.stack.run("SELECT privid.withdraw_consent(%s, %s)", name, pair.oscar, user=pair.olga)
    with pytest.raises(errors.InsufficientPrivilege, match="in an account of role"):
        pair.count(pair.oscar, mine)
    told = pair.stack.run("SELECT event FROM privid.history WHERE event ~ 'consent' ORDER BY id", user=pair.oscar)
    assert told == [("consent given",), ("consent withdrawn",)]


#: what of the catalog is asked for by name
RELATIONS = """
    SELECT c.oid::regclass::text FROM pg_class c
    WHERE c.relnamespace = 'privid'::regnamespace AND c.relkind IN ('r', 'v', 'p') ORDER BY 1"""
FUNCTIONS = """
    SELECT p.oid::regprocedure::text, p.proname FROM pg_proc p
    WHERE p.pronamespace = 'privid'::regnamespace AND p.pronargs - p.pronargdefaults = 0 AND p.proretset AND p.proname <> 'release'
    ORDER BY 1"""


def test_an_owner_sees_nothing_of_another_owners_paths_history_failures_and_shares_anywhere_in_the_catalog(pair: Pair) -> None:
    name = pair.unique("yard")
    pair.grant(pair.olga, pair.olga)
    pair.camera(pair.olga, name, pair.film(f"{pair.olga}/{PRIVATE}.mp4"))
    pair.table(pair.olga, name)
    pair.count(pair.olga, name)
    pair.stack.run("SELECT privid.grant_budget(%s, 'analyst', 1)", name, user=pair.olga)
    seen: dict[str, str] = {}
    with pair.stack.connect(pair.oscar) as connection:
        found = [row[0] for row in connection.execute(RELATIONS)]
        found += [f"privid.{row[1]}()" for row in connection.execute(FUNCTIONS)]
        found += ["information_schema.foreign_server_options", "pg_catalog.pg_foreign_server",
                  "(SELECT srvname, srvoptions FROM pg_catalog.pg_foreign_server) x"]
        assert len(found) > 40
        for relation in found:
            try:
                seen[relation] = str(connection.execute(f"SELECT * FROM {relation}".encode()).fetchall())
            except errors.InsufficientPrivilege:
                continue
    assert {"privid.history", "privid.folders", "privid.cameras", "privid.releases", "privid.failures", "privid.shares"} <= set(seen)
    assert not [relation for relation, rows in seen.items() if PRIVATE in rows]
    # that there is such a camera, what it promises, what is left of it and when it is read, is public (docs/owners.md)
    public = {"privid.cameras", "privid.camera_definitions", "privid.budget", "privid.progress", "privid.read_progress()"}
    assert {relation for relation, rows in seen.items() if name in rows} <= public
    with pair.stack.connect(pair.olga) as connection:
        for relation in ("history", "cameras", "camera_definitions"):
            assert PRIVATE in str(connection.execute(f"SELECT * FROM privid.{relation}".encode()).fetchall()), relation
        for relation in ("shares", "releases", "failures"):
            assert name in str(connection.execute(f"SELECT * FROM privid.{relation}".encode()).fetchall()), relation


def test_psql_still_shows_servers_and_tables_to_those_who_may_not_see_paths(pair: Pair) -> None:
    with pair.stack.connect(pair.oscar) as connection:
        for described in (r"\des", r"\dew+", r"\det+", r"\d analyst.*", r"\d+ privid.cameras"):
            done = _psql(pair, described)
            assert "ERROR" not in done, (described, done)
        assert connection.execute("SELECT count(*) FROM information_schema.foreign_servers").fetchone()


def _psql(pair: Pair, command: str) -> str:
    done = run_privid("psql", "--data", pair.stack.data, "--", "-U", pair.oscar, "-c", command, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("statement", [
    "GRANT privid_engine TO {me}", "CREATE ROLE {me}_tool IN ROLE privid_engine", "ALTER GROUP privid_engine ADD USER {me}",
    "ALTER ROLE privid_engine PASSWORD 'x'", "ALTER ROLE privid_engine SET search_path = x", "ALTER ROLE privid_engine RENAME TO x",
    "DROP ROLE privid_engine", "GRANT {member} TO {me}", "DO $$ BEGIN GRANT privid_engine TO {me}; END $$",
    "REVOKE privid_engine FROM {member}"])
def test_a_role_that_may_create_roles_cannot_become_the_engine(pair: Pair, statement: str) -> None:
    me, member = pair.unique("maker"), pair.unique("member")
    pair.stack.run(f"CREATE ROLE {me} LOGIN CREATEROLE; CREATE ROLE {member} IN ROLE privid_engine", user="privid")
    with pytest.raises(errors.InsufficientPrivilege, match="must be superuser to grant or alter role"):
        pair.stack.run(statement.format(me=me, member=member), user=me)
    pair.stack.run(f"CREATE ROLE {me}_other LOGIN IN ROLE privid_analyst; DROP ROLE {me}_other", user=me)  # what CREATEROLE is for
    pair.stack.run(f"DROP ROLE {me}, {member}", user="privid")


@pytest.mark.parametrize("statement", [
    "DELETE FROM privid.ledger", "UPDATE privid.recordings SET r_star = 0", "TRUNCATE privid.release_log CASCADE",
    "INSERT INTO privid.folder_grants VALUES ('x', '.', 'x')", "UPDATE privid.history_log SET who = 'x'",
    "INSERT INTO privid.quota_store (role, jobs, set_by) VALUES ('x', 1, 'x')", "DELETE FROM privid.timetable",
    "DELETE FROM privid.program_failures", "UPDATE privid.quota_use SET jobs = 0", "DELETE FROM privid.quota_turns"])
def test_a_role_that_may_write_all_data_does_not_write_the_ledger(pair: Pair, statement: str) -> None:
    me = pair.unique("writer")
    pair.stack.run(f"CREATE ROLE {me} LOGIN IN ROLE pg_write_all_data", user="privid")
    with pytest.raises(errors.InsufficientPrivilege):
        pair.stack.run(statement, user=me)
    pair.stack.run(f"DROP ROLE {me}", user="privid")
