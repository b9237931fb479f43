"""Quotas: what one role may have of uploads, tables, kept rows and releases at a time. Refusals come before the charge, and depend on
nothing that a video shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from privid.cli.processes import wait_until

from .conftest import World
from .world import plan_of

LIMIT = "53400"
PRINTS = "#!/bin/sh\necho '{\"v\": 1}'\n"


class Guest:
    """An analyst with a quota of its own."""

    def __init__(self, world: World, role: str) -> None:
        self.world, self.role = world, role

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        return self.world.connect(self.role, **options)

    def rows(self, statement: str, *parameters: Any, **settings: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.world.stack.run(statement, *parameters, user=self.role,
                                                            settings={f"privid.{k}": v for k, v in settings.items()})
        return found

    def refused(self, statement: str, *parameters: Any) -> psycopg.Error:
        with pytest.raises(psycopg.Error) as caught:
            self.rows(statement, *parameters)
        assert caught.value.sqlstate == LIMIT and caught.value.diag.message_hint, caught.value
        return caught.value

    def quota(self, **most: int) -> None:
        given = ", ".join(f"{name} => {value}" for name, value in most.items())
        self.world.rows(f"SELECT privid.set_quota('{self.role}', {given})", user="privid")

    def used(self, resource: str) -> tuple[int, int]:
        return tuple(map(int, self.rows("SELECT used, quota FROM privid.quotas WHERE resource = %s", resource)[0]))  # type: ignore[return-value]

    def table(self, name: str, camera: str = "open_calm", program: str = PRINTS, columns: str = "chunk timestamptz, v float8 DEFAULT 0",
              **options: str) -> str:
        self.world.stack.executable(name, f"{program}\n# {name}\n", user=self.role)
        self.world.stack.table(name, camera, name, columns=columns, user=self.role, **{"timeout": "150ms", **options})
        return name

    def slots(self, table: str) -> int:
        return int(plan_of(self.rows(f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM {table}")[0][0])["Slots"])


@pytest.fixture
def guest(world: World, unique: Callable[[str], str]) -> Iterator[Guest]:
    role = unique("guest")
    world.rows(f"CREATE ROLE {role} LOGIN IN ROLE privid_analyst", user="privid")
    for camera in ("open_calm", "calm", "stormy"):
        world.rows(f"GRANT USAGE ON FOREIGN SERVER {camera} TO {role}", user="owner")
    yield Guest(world, role)
    world.rows(f"SELECT privid.reset_quota('{role}')", user="privid")
    world.rows(f"DELETE FROM privid.executable_store WHERE owner = '{role}'; DROP OWNED BY {role}; DROP ROLE {role}", user="privid")


# Slots


def test_a_slot_that_is_longer_than_the_quota_is_refused_before_the_charge(guest: Guest) -> None:
    """Nobody else has the lane as long as it lasts."""
    guest.quota(slot_seconds=2)
    table, spent = guest.table("long", "calm", timeout="3s"), guest.world.spent("calm")
    assert "would have slots of 3 s, and its quota is 2 s" in str(guest.refused(f"SELECT count(*) FROM {table}"))
    assert any("its slots last 3 s" in row[0] for row in guest.rows(f"EXPLAIN SELECT count(*) FROM {table}"))
    assert guest.world.spent("calm") == spent


# Computations

#: of what no bound allows within a second
SLOW = "SELECT count(*) FROM {} WHERE " + " AND ".join(f"note NOT LIKE '%{'a' * 500}{i}%'" for i in range(20))


def test_slow_computations_are_counted_by_their_bounds_and_refused_before_the_charge(guest: Guest) -> None:
    """They are computed one after the other, each for as long as it could take, also if nobody waits for it any more."""
    table = guest.table("heavy", "calm", max_rows="2", columns="v float8 DEFAULT 0, note text DEFAULT ''")
    statement = SLOW.format(table)
    with guest.connect() as connection:
        connection.execute("SET privid.allowance = '1d'")
        ((plan,),) = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode()).fetchall()
        seconds = plan_of(plan)["Allowance"]
        assert 2 < seconds < 20
        assert guest.rows(f"SELECT count(*) < 1000 FROM {table}") == [(True,)]  # its chunks are known from now on
        spent = guest.world.spent("calm")
        guest.quota(compute_seconds=int(seconds))
        shown = connection.execute(f"EXPLAIN {statement}".encode()).fetchall()
        assert any(f"and the quota of role \"{guest.role}\" is {int(seconds)} s" in line for (line,) in shown)
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="slow computations"):
            connection.execute(statement.encode())
        assert guest.world.spent("calm") == spent
        guest.quota(compute_seconds=int(seconds) + 1)
        with guest.connect() as other:
            other.execute("SET privid.allowance = '1d'; SET statement_timeout = '1s'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                other.execute(statement.encode())
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="slow computations"):
            connection.execute(statement.encode())
        assert guest.rows(f"SELECT count(*) < 1000 FROM {table} WHERE v > 0") == [(True,)]  # what is quick has another lane
        assert wait_until(lambda: guest.used("compute_seconds")[0] == 0, 60)


# Uploads


def test_executables_are_counted_and_one_too_many_is_refused_and_leaves_nothing(guest: Guest) -> None:
    guest.quota(executables=2)
    for name in ("one", "two", "two"):  # the same name again is no other
        guest.rows("SELECT privid.upload(%s, %s)", name, b"#!/bin/sh\n")
    assert "would have 3 executables, but its quota is 2" in str(guest.refused("SELECT privid.upload('three', '#!/bin/sh')"))
    assert guest.used("executables") == (2, 2)
    guest.rows("SELECT privid.remove('one')")
    guest.rows("SELECT privid.upload('three', '#!/bin/sh')")


def test_bytes_of_executables_and_files_are_counted_together(guest: Guest) -> None:
    guest.quota(upload_bytes=1000)
    guest.rows("SELECT privid.upload('one', %s)", b"#!/bin/sh\n".ljust(600))
    guest.refused("SELECT privid.attach('one', 'weights', %s)", b"x" * 401)
    guest.rows("SELECT privid.attach('one', 'weights', %s)", b"x" * 400)
    guest.refused("SELECT privid.upload('one', %s)", b"#!/bin/sh\n".ljust(601))
    assert guest.used("upload_bytes") == (1000, 1000)
    guest.quota(upload_bytes=500)  # who has more may still have less than that
    guest.rows("SELECT privid.upload('one', %s)", b"#!/bin/sh\n".ljust(550))


def test_nobody_writes_uploads_without_the_function_by_which_they_are_counted(guest: Guest) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        guest.rows("INSERT INTO privid.executable_store (name, content, owner) VALUES ('e', '#!/bin/sh', current_user)")


def uploads_at_once(guest: Guest, isolation: str) -> list[str | None]:
    """What becomes of the second of two, which begins before the first is committed."""
    with guest.connect(autocommit=False) as one, guest.connect(autocommit=False) as other:
        for connection in (one, other):
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
            connection.execute("SELECT count(*) FROM privid.executables")  # its snapshot is taken
        one.execute("SELECT privid.upload('one', '#!/bin/sh')")
        states: list[str | None] = []

        def upload() -> None:
            try:
                other.execute("SELECT privid.upload('other', '#!/bin/sh')")
                other.commit()
            except psycopg.Error as error:
                states.append(error.sqlstate)

        thread = threading.Thread(target=upload)
        thread.start()
        time.sleep(0.3)
        one.commit()
        thread.join(10)
        other.rollback()
    return states


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_sessions_that_upload_at_once_do_not_get_more_than_one_would(guest: Guest, isolation: str) -> None:
    guest.quota(executables=1)
    assert uploads_at_once(guest, isolation) == [LIMIT if isolation == "READ COMMITTED" else "40001"]
    assert guest.used("executables") == (1, 1)


def test_without_turns_they_would(guest: Guest, world: World) -> None:
    guest.quota(executables=1)
    ((right,),) = world.rows("SELECT pg_get_functiondef('privid.take_turn(text)'::regprocedure)", user="privid")
    world.rows("CREATE OR REPLACE FUNCTION privid.take_turn(role text) RETURNS void LANGUAGE sql AS ''", user="privid")
    try:
        assert uploads_at_once(guest, "READ COMMITTED") == []
        assert guest.used("executables") == (2, 1)
    finally:
        world.rows(right, user="privid")


def test_an_open_transaction_of_one_role_holds_up_neither_another_nor_its_own_releases(guest: Guest, world: World,
                                                                                      unique: Callable[[str], str]) -> None:
    table = guest.table(unique("t"))
    with guest.connect(autocommit=False) as one:
        one.execute("SELECT privid.upload('held', '#!/bin/sh')")
        world.stack.executable(unique("free"), b"#!/bin/sh\n")
        assert guest.rows(f"SELECT count(*) FROM {table}") == [(10,)]
        one.rollback()


# Tables


def test_tables_are_counted_and_one_too_many_is_refused(guest: Guest, unique: Callable[[str], str]) -> None:
    guest.quota(tables=1)
    first = guest.table(unique("first"))
    with pytest.raises(psycopg.Error, match="would have 2 foreign tables of cameras, but its quota is 1") as caught:
        guest.table(unique("second"))
    assert caught.value.sqlstate == LIMIT
    assert guest.used("tables") == (1, 1)
    guest.rows(f"ALTER FOREIGN TABLE {first} ADD COLUMN failed boolean")
    guest.rows("CREATE TABLE ordinary (n int); ALTER TABLE ordinary ADD COLUMN m int")
    guest.rows(f"DROP FOREIGN TABLE {first}")
    guest.table(unique("second"))


def test_a_table_that_is_given_away_counts_for_whoever_gets_it(guest: Guest, world: World, unique: Callable[[str], str]) -> None:
    guest.quota(tables=1)
    friend = unique("friend")
    world.rows(f"CREATE ROLE {friend} LOGIN IN ROLE privid_analyst; GRANT {guest.role} TO {friend}; "
               f"GRANT USAGE ON FOREIGN SERVER open_calm TO {friend}; GRANT CREATE ON SCHEMA public TO {guest.role}, {friend}",
               user="privid")
    try:
        for name in ("one", "two"):
            world.stack.run(f"""CREATE FOREIGN TABLE public.{unique(name)} (chunk timestamptz) SERVER open_calm OPTIONS (executable 'x',
                begin '2026-03-01 06:00+00', "end" '2026-03-01 06:00:10+00', chunk '1s', timeout '1s', max_rows '1')""", user=friend)
        world.stack.run(f"ALTER FOREIGN TABLE public.{unique('one')} OWNER TO {guest.role}", user=friend)
        with pytest.raises(psycopg.Error) as caught:
            world.stack.run(f"ALTER FOREIGN TABLE public.{unique('two')} OWNER TO {guest.role}", user=friend)
        assert caught.value.sqlstate == LIMIT
    finally:
        world.rows(f"DROP OWNED BY {friend}; DROP ROLE {friend}", user="privid")


# Releases at a time


def in_background(guest: Guest, statement: str) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(guest.rows(statement))
        except psycopg.Error as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, found


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_release_too_many_is_refused_before_it_is_charged_and_the_next_one_is_not(guest: Guest, world: World,
                                                                                  unique: Callable[[str], str]) -> None:
    table = guest.table(unique("t"), "calm")
    guest.quota(jobs=1)
    thread, found = in_background(guest, f"SELECT count(*) FROM {table}")
    wait_for(lambda: guest.used("jobs") == (1, 1))
    before = world.spent("calm")
    assert "has 1 releases under way, and its quota is 1" in str(guest.refused(f"SELECT count(*) FROM {table} WHERE v > 0"))
    assert guest.slots(table) == 0  # EXPLAIN is free
    assert world.spent("calm") == before
    assert world.rows("SELECT count(*) FROM privid.releases", user=guest.role) == [(1,)]
    assert isinstance(world.rows("SELECT count(*) FROM open_calm")[0][0], int)  # others have quotas of their own
    thread.join()
    assert isinstance(found[0], list)
    for n in range(5):  # one after the other, without a pause
        guest.rows(f"SELECT count(*) FROM {table} WHERE v > {n}")
    guest.rows(f"SELECT count(*) FROM {table} WHERE v > 0")  # answered before: it takes no turn
    wait_for(lambda: guest.used("jobs") == (0, 1))


def test_more_slots_than_a_role_may_have_are_refused_before_they_are_charged(guest: Guest, world: World,
                                                                             unique: Callable[[str], str]) -> None:
    table = guest.table(unique("t"), "calm")
    slots = guest.slots(table)
    guest.quota(slots=slots - 1)
    before = world.spent("calm")
    message = str(guest.refused(f"SELECT count(*) FROM {table}"))
    assert f"would have {slots} slots under way, and its quota is {slots - 1}" in message and "Ask about a shorter time" in message
    assert world.spent("calm") == before and guest.used("slots") == (0, slots - 1)
    shown = "\n".join(row[0] for row in guest.rows(f"EXPLAIN SELECT count(*) FROM {table}"))
    assert "A release would be refused" in shown
    guest.quota(slots=slots)
    thread, found = in_background(guest, f"SELECT count(*) FROM {table}")
    wait_for(lambda: guest.used("slots") == (slots, slots))
    thread.join()
    assert isinstance(found[0], list), found
    wait_for(lambda: guest.used("slots") == (0, slots))
    assert "A release would be refused" not in str(guest.rows(f"EXPLAIN SELECT count(*) FROM {table}"))  # its rows are kept


def test_raw_reads_of_an_owner_are_counted_and_refused_too(guest: Guest, world: World, unique: Callable[[str], str]) -> None:
    table = guest.table(unique("t"))
    guest.rows(f"GRANT USAGE ON SCHEMA {guest.role} TO owner; GRANT SELECT ON {table} TO owner")
    world.rows("SELECT privid.set_quota('owner', jobs => 0)", user="privid")
    try:
        for _ in range(2):
            with pytest.raises(psycopg.Error) as caught:
                world.rows(f"SELECT count(*) FROM {guest.role}.{table}", user="owner", raw="on")
            assert caught.value.sqlstate == LIMIT
    finally:
        world.rows("SELECT privid.reset_quota('owner')", user="privid")
    assert world.rows(f"SELECT count(*) FROM {guest.role}.{table}", user="owner", raw="on") == [(10,)]


@pytest.mark.parametrize("end", ["cancel", "kill", "refusal"])
def test_a_release_that_ends_in_another_way_gives_its_turn_back(guest: Guest, world: World, unique: Callable[[str], str], end: str) -> None:
    guest.quota(jobs=1)
    world.stack.camera(unique("camera"), "calm.mp4", rho="1s", epsilon="1")
    world.rows(f"GRANT USAGE ON FOREIGN SERVER {unique('camera')} TO {guest.role}", user="owner")
    table = guest.table(unique("t"), unique("camera") if end == "refusal" else "calm", timeout="1s")
    if end == "refusal":
        world.rows("SELECT count(*) FROM calm", epsilon="2")  # the same footage: nothing is left for a camera with less
        for _ in range(3):
            with pytest.raises(psycopg.Error, match="budget of camera"):
                guest.rows(f"SELECT count(*) FROM {table}", epsilon="1")
    else:
        with guest.connect() as connection:
            thread = threading.Thread(target=lambda: _quietly(connection, f"SELECT count(*) FROM {table}"))
            thread.start()
            wait_for(lambda: guest.used("jobs") == (1, 1))
            if end == "cancel":
                connection.cancel()
            else:
                world.rows(f"SELECT pg_terminate_backend({connection.info.backend_pid})", user="privid")
            thread.join()
    wait_for(lambda: guest.used("jobs") == (0, 1), 15)
    assert guest.rows(f"SELECT count(*) >= -1000000 FROM {guest.table(unique('other'))}") == [(True,)]


def _quietly(connection: psycopg.Connection[tuple[Any, ...]], statement: str) -> None:
    with suppress(psycopg.Error):
        connection.execute(statement.encode())


# What is kept


@pytest.mark.parametrize("program", [PRINTS, "#!/bin/sh\n",
                                     "#!/usr/bin/python3\nfor _ in range(9): print('{\"w\": \"%s\"}' % ('x' * 1000))"])
def test_what_is_forgotten_does_not_depend_on_what_programs_print(guest: Guest, unique: Callable[[str], str], program: str) -> None:
    """The first of three tables, when the quota is for two: by the most that each could have."""
    columns = {"columns": "chunk timestamptz, v float8 DEFAULT 0, w text DEFAULT ''", "max_rows": "9", "program": program}
    one, two, three = (guest.table(unique(name), **columns) for name in ("one", "two", "three"))
    guest.rows(f"SELECT count(*) FROM {one}")
    weight = guest.used("kept_bytes")[0]
    assert weight > 10 * 9 * 4096
    guest.quota(kept_bytes=2 * weight)
    guest.rows(f"SELECT count(*) FROM {two}")
    assert [guest.slots(table) for table in (one, two, three)] == [0, 0, 10]
    guest.rows(f"SELECT count(*) FROM {three}")
    assert [guest.slots(table) for table in (one, two, three)] == [10, 0, 0]
    assert guest.used("kept_bytes") == (2 * weight, 2 * weight)
    assert guest.rows(f"SELECT count(*) >= 0 FROM {one}") == [(True,)]  # run again: nothing is refused


def test_one_role_cannot_have_what_another_has_kept_forgotten(guest: Guest, world: World, unique: Callable[[str], str]) -> None:
    world.stack.executable(unique("kept"), f"{PRINTS}# {unique('kept')}")
    world.stack.table(unique("kept"), "open_calm", unique("kept"), timeout="150ms")
    world.rows(f"SELECT count(*) FROM {unique('kept')}")
    guest.quota(kept_bytes=0)
    for name in ("one", "two"):
        guest.rows(f"SELECT count(*) FROM {guest.table(unique(name))}")
    assert guest.slots(unique("one")) == 10
    assert plan_of(world.rows(f"EXPLAIN (FORMAT JSON) SELECT sum(range(v, 0, 1)) FROM {unique('kept')}")[0][0])["Slots"] == 0


# Who sets and sees them


def test_who_runs_the_database_sets_quotas_and_whoever_is_granted_that(guest: Guest, world: World) -> None:
    for statement in ("SELECT privid.set_quota(current_user::text, jobs => 99)", "SELECT privid.reset_quota(current_user::text)",
                      "UPDATE privid.quota_store SET jobs = 99", "DELETE FROM privid.quota_turns", "SELECT privid.take_turn('owner')",
                      "UPDATE privid.quota_use SET jobs = 0"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            guest.rows(statement)
    set_quota = "FUNCTION privid.set_quota(text, integer, bigint, integer, bigint, integer, bigint, integer, integer)"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):  # another owner's analyst might be meant
        world.rows(f"SELECT privid.set_quota('{guest.role}', jobs => 1)", user="owner")
    world.rows(f"GRANT EXECUTE ON {set_quota} TO owner", user="privid")
    for user, most in (("owner", 5), ("privid", 7)):
        world.rows(f"SELECT privid.set_quota('{guest.role}', jobs => {most})", user=user)
        assert guest.used("jobs")[1] == most
    for wrong in ("'nobody_of_this_name', jobs => 1", f"'{guest.role}', jobs => -1"):
        with pytest.raises(psycopg.Error) as caught:
            world.rows(f"SELECT privid.set_quota({wrong})", user="privid")
        assert caught.value.sqlstate in ("42704", "22023")
    assert {guest.role, "analyst"} <= {role for role, in world.rows("SELECT role FROM privid.quotas", user="owner")}
    world.rows(f"REVOKE EXECUTE ON {set_quota} FROM owner", user="privid")


def test_what_is_set_for_public_holds_for_whoever_has_no_quota_of_its_own(guest: Guest, world: World) -> None:
    world.rows("SELECT privid.set_quota('public', tables => 77)", user="privid")
    try:
        guest.quota(jobs=3)
        assert (guest.used("tables")[1], guest.used("jobs")[1]) == (77, 3)
        guest.quota(tables=5)
        assert (guest.used("tables")[1], guest.used("jobs")[1]) == (5, 3)
    finally:
        world.rows("SELECT privid.reset_quota('public')", user="privid")
    world.rows(f"SELECT privid.reset_quota('{guest.role}')", user="privid")
    assert (guest.used("tables")[1], guest.used("jobs")[1]) == (1000, 32)


def test_everybody_sees_their_own_and_who_sets_them_sees_all(guest: Guest, world: World) -> None:
    assert {role for role, in guest.rows("SELECT role FROM privid.quotas")} == {guest.role}
    assert {role for role, in world.rows("SELECT role FROM privid.quotas", user="owner")} == {"owner"}
    assert {guest.role, "analyst", "owner"} <= {role for role, in world.rows("SELECT role FROM privid.quotas", user="privid")}
    assert [row[0] for row in guest.rows("SELECT resource FROM privid.quotas")] == [
        "executables", "upload_bytes", "tables", "kept_bytes", "jobs", "slots", "slot_seconds", "compute_seconds"]
