"""Owners and strangers of one stack: nobody's open transaction holds up anybody else, and nothing of another's is seen or left behind."""

from __future__ import annotations

import json
import shutil
import time

import psycopg
import pytest
from psycopg import errors

from tests.authority.found_owners import ANA, ANNA, BERT, LOT, MAL, MASK, NOBODY, STREET, TEAM, Found
from tests.conftest import STARTS

#: what an owner can do in a transaction; after it, the engine must find nothing locked
OWNERS_DO = (
    "SELECT privid.consent('{lot}', '{team}')", "SELECT privid.withdraw_consent('{lot}', '{team}')",
    "ALTER SERVER {lot} OWNER TO {team}", "ALTER SERVER {lot} OWNER TO {bert}",
    "SELECT privid.grant_budget('{lot}', '{mal}', 9)", "SELECT privid.revoke_budget('{lot}', '{mal}')",
    MASK.format(LOT, "m").replace("{", "{{").replace("}", "}}"), "SELECT privid.drop_mask('{lot}', 'm')",
    "ALTER SERVER {lot} RENAME TO other", "ALTER SERVER other RENAME TO {lot}", "ALTER SERVER {lot} OPTIONS (SET rho '900ms')",
    "REASSIGN OWNED BY {bert} TO {team}", "SELECT privid.grant_budget('{lot}', '{mal}', 9)", "DROP SERVER {lot} CASCADE")


def test_nothing_that_an_owner_does_in_an_open_transaction_locks_what_the_engine_locks(found: Found) -> None:
    with found.open(BERT) as bert:
        for statement in OWNERS_DO:
            bert.execute(statement.format(lot=LOT, team=TEAM, bert=BERT, mal=MAL).encode())
            with found.open("privid") as engine:
                engine.execute("SELECT FROM privid.recordings FOR UPDATE NOWAIT")
                engine.execute("LOCK TABLE privid.footage IN SHARE ROW EXCLUSIVE MODE NOWAIT")
                engine.execute("SELECT FROM privid.history_chains WHERE chain IN ('engine', 'unseen') FOR UPDATE NOWAIT")
                engine.rollback()
        bert.rollback()


def test_releases_go_on_while_an_owner_leaves_a_transaction_open(found: Found) -> None:
    with found.open(BERT) as bert:
        bert.execute("SELECT privid.consent(%s, %s)", (LOT, ANNA))
        begun = time.monotonic()
        found.run(MAL, "SELECT count(*) FROM t")
        found.run(ANA, "SELECT count(*) FROM t")
        assert time.monotonic() - begun < 8
        bert.rollback()


def test_cameras_are_made_while_an_owner_gives_one_away_in_an_open_transaction(found: Found) -> None:
    name = found.film(ANNA)
    with found.open(BERT) as bert:
        bert.execute(f"ALTER SERVER {LOT} OWNER TO {TEAM}".encode())
        found.camera(ANNA, name, name)
        bert.rollback()


@pytest.mark.parametrize(("who", "statement"), [
    (NOBODY, "DROP SERVER IF EXISTS no_such_thing"), (BERT, MASK.format(LOT, "held")),
    (BERT, f"ALTER SERVER {LOT} OPTIONS (SET epsilon '999')"), (BERT, f"SELECT privid.grant_budget('{LOT}', '{MAL}', 9)"),
    (ANNA, MASK.format(STREET, "held"))])
def test_what_somebody_else_has_not_committed_keeps_nobody_from_taking_anything_back(found: Found, who: str, statement: str) -> None:
    mask = found.name()
    found.run(ANNA, MASK.format(STREET, mask))
    found.run(ANNA, "SELECT privid.grant_budget(%s, %s, 900)", STREET, ANA)
    with found.open(who) as holder:
        holder.execute(statement.encode())
        if who != ANNA:  # in her own chain she waits for herself
            found.run(ANNA, "SELECT privid.drop_mask(%s, %s)", STREET, mask)
            found.run(ANNA, "SELECT privid.revoke_budget(%s, %s)", STREET, ANA)
            found.run(ANNA, f"ALTER SERVER {STREET} OPTIONS (SET epsilon '999')")
            found.run(ANNA, f"ALTER SERVER {STREET} OPTIONS (SET epsilon '1000')")
            found.run(ANNA, "SELECT privid.consent(%s, %s), privid.withdraw_consent(%s, %s)", STREET, BERT, STREET, BERT)
        found.run("privid", "SELECT privid.grant_folder(%s, 'x'), privid.revoke_folder(%s, 'x')", ANNA, ANNA)
        holder.rollback()
    found.run("privid", "DELETE FROM privid.share_grants WHERE camera = ANY (%s)", [STREET, LOT])


def test_history_tells_what_fired_no_trigger_as_unseen_and_not_as_the_deed_of_who_comes_next(found: Found) -> None:
    told = "SELECT who, event, details -> 'owner' ->> 'to' FROM privid.history WHERE camera = %s AND chain <> 'engine' ORDER BY id"
    for user, statement in ((NOBODY, "DROP SERVER IF EXISTS no_such_thing"), (BERT, "ALTER SERVER {} OPTIONS (SET rho '500ms')"),
                            (BERT, "DROP SERVER {}")):
        name = found.film(BERT)
        found.camera(BERT, name, name)
        found.run("privid", f"ALTER SERVER {name} OWNER TO {TEAM}")
        found.run("privid", f"REASSIGN OWNED BY {TEAM} TO {BERT}")
        found.run(user, statement.format(name))
        rows = found.run("privid", told, name)[2:]
        assert all(who == "unseen" for who, event, owner in rows if owner == BERT), rows
        assert [row for row in rows if row[0] == NOBODY] == []
        if user == BERT:
            assert [who for who, _, _ in rows] == ["unseen", BERT]


@pytest.mark.parametrize("how", ["same", "renamed", "dropped", "rolled back"])
def test_who_shares_an_account_promises_what_its_owner_promises_now(found: Found, how: str) -> None:
    name = found.film(ANNA)
    shutil.copy(found.stack.videos / ANNA / f"{name}.mp4", found.stack.videos / BERT / f"{name}.mp4")
    found.camera(ANNA, name, name, epsilon="1" if how == "rolled back" else "5")
    found.run(ANNA, "SELECT privid.consent(%s, %s)", name, BERT)
    now = name
    if how == "renamed":
        now = found.name()
        found.run(ANNA, f"ALTER SERVER {name} RENAME TO {now}")
    if how == "dropped":
        now = found.name()
        found.run(ANNA, f"DROP SERVER {name}")
        found.camera(ANNA, now, name, epsilon="1")
    if how == "rolled back":
        with found.open(ANNA) as anna:
            anna.execute(f"ALTER SERVER {name} OPTIONS (SET epsilon '5')".encode())
            anna.rollback()
    else:
        found.run(ANNA, f"ALTER SERVER {now} OPTIONS (SET epsilon '1')")
    with pytest.raises(errors.InsufficientPrivilege, match="promises less"):
        found.camera(BERT, found.name(), name, epsilon="5")
    found.run(ANNA, f"ALTER SERVER {now} OPTIONS (SET epsilon '1')")  # what was registered is what holds, again
    found.camera(BERT, found.name(), name, epsilon="1")


def test_shares_go_with_the_camera_that_they_are_of(found: Found) -> None:
    name, other = found.film(BERT), found.film(ANNA)
    with found.open(BERT) as bert:  # at once, so that nobody else sees the camera
        for statement in (f"CREATE SERVER {name} {found.definition(BERT, name)}", f"SELECT privid.grant_budget('{name}', '{MAL}', 1)",
                          f"DROP SERVER {name}"):
            bert.execute(statement.encode())
        bert.commit()
    found.camera(ANNA, name, other)
    assert found.run(ANNA, "SELECT * FROM privid.shares WHERE camera = %s", name) == []
    found.run(ANNA, "SELECT privid.grant_budget(%s, %s, 7)", name, ANA)
    found.run(ANNA, f"DROP SERVER {name}")
    found.camera(BERT, name, name)
    assert found.run(BERT, "SELECT * FROM privid.shares WHERE camera = %s", name) == []
    assert found.run("privid", "SELECT count(*) FROM privid.share_grants WHERE camera = %s", name) == [(0,)]


def test_nobody_but_the_engine_has_a_right_on_a_table(found: Found) -> None:
    """Not on a column either; and below the views of rows that are not for everybody there is a function."""
    given = found.run("privid", """
        SELECT c.relname, coalesce(r.rolname, 'public') FROM pg_class c
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid CROSS JOIN LATERAL aclexplode(coalesce(a.attacl, c.relacl)) x
        LEFT JOIN pg_roles r ON r.oid = x.grantee
        WHERE c.relnamespace = 'privid'::regnamespace AND c.relkind IN ('r', 'S')
          AND coalesce(r.rolname, 'public') <> ALL (ARRAY['privid_engine', pg_get_userbyid(c.relowner)])""")
    assert given == []
    for view in ("executables", "attachments", "shares", "releases", "history", "failures", "progress", "quotas", "folders", "consents"):
        plan = json.dumps(found.stack.run(f"EXPLAIN (FORMAT JSON) SELECT * FROM privid.{view}", user="owner")[0][0])
        assert '"Function Scan"' in plan and '"Relation Name"' not in plan, view


def test_every_table_is_written_by_the_engine_and_by_functions_alone(found: Found) -> None:
    found.run("privid", "CREATE ROLE found_writer LOGIN IN ROLE pg_write_all_data, pg_read_all_data")
    try:
        tables = found.run("privid", "SELECT relname FROM pg_class WHERE relnamespace = 'privid'::regnamespace AND relkind = 'r'")
        for table, in tables:
            with pytest.raises(errors.InsufficientPrivilege):
                found.run("found_writer", f"DELETE FROM privid.{table} WHERE false")
            with pytest.raises((errors.InsufficientPrivilege, errors.FeatureNotSupported)):
                found.run("found_writer", f"INSERT INTO privid.{table} DEFAULT VALUES")
    finally:
        found.run("privid", "DROP ROLE found_writer")


def test_options_of_cameras_are_for_their_owner_alone(found: Found) -> None:
    for user in (ANA, BERT, MAL, NOBODY):
        with pytest.raises(errors.InsufficientPrivilege):
            found.run(user, "SELECT * FROM information_schema.foreign_server_options")
        assert not found.run(user, "SELECT FROM privid.cameras WHERE camera = %s AND source IS NOT NULL", STREET)
        assert not found.run(user, "SELECT FROM privid.camera_definitions WHERE camera = %s AND options ? 'source'", STREET)
    assert found.run(ANNA, "SELECT source FROM privid.cameras WHERE camera = %s", STREET) == [(f"{ANNA}/{STREET}.mp4",)]


@pytest.mark.parametrize("how", ["moved", "cut off", "a link", "another"])
def test_an_analyst_hears_of_no_file(found: Found, how: str) -> None:
    name = found.film(ANNA)
    found.camera(ANNA, name, name)
    found.run(ANNA, f"GRANT USAGE ON FOREIGN SERVER {name} TO {ANA}")
    table = f"CREATE FOREIGN TABLE {name}{{}} (chunk timestamptz, v float8 DEFAULT 0) SERVER {name} OPTIONS (executable 'one', " \
            f"begin '{STARTS}', \"end\" '2026-03-01 06:00:01+00', chunk '1s', timeout '200ms', max_rows '1')"
    found.run(ANA, table.format(""))
    file = found.stack.videos / ANNA / f"{name}.mp4"
    content = file.read_bytes()
    file.unlink()
    if how == "cut off":
        file.write_bytes(content[:1000])
    elif how == "a link":
        file.symlink_to(found.stack.videos / ANNA / f"{STREET}.mp4")
    elif how == "another":  # of two that are known, which lie otherwise now
        file.write_bytes(content)
        shutil.copy(file, file.with_name(f"{name}b.mp4"))
        found.run(ANNA, f"ALTER SERVER {name} OPTIONS (SET source '{ANNA}/{name}.mp4')")
        with pytest.raises(psycopg.Error, match=f"{ANNA}/{name}"):
            found.run(ANNA, f"ALTER SERVER {name} OPTIONS (SET source '{ANNA}/{name}*.mp4')")
        found.run("privid", f"SET session_replication_role = replica; SET check_function_bodies = off; "
                            f"ALTER SERVER {name} OPTIONS (SET source '{ANNA}/{name}*.mp4')")
    for statement in (f"EXPLAIN SELECT count(*) FROM {name}", f"SELECT count(*) FROM {name}", table.format("b")):
        with pytest.raises(psycopg.Error, match=f'footage of camera "{name}" cannot be read') as refused:
            found.run(ANA, statement)
        assert ".mp4" not in "".join(map(str, (refused.value, refused.value.diag.message_detail, refused.value.diag.message_hint)))
    if how != "another":
        with pytest.raises(psycopg.Error, match=f"{ANNA}/{name}.mp4"):
            found.run(ANNA, f"ALTER SERVER {name} OPTIONS (SET rho '2s')")
