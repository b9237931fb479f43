"""A session that looks at nothing keeps no policy: what an owner changes holds for the next release, in every session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.conftest import RunningStack

from .pair import alongside

Connection = psycopg.Connection[tuple[Any, ...]]
CAMERA, TABLE = "frozen", "frozen_people"
#: a look at a catalog leaves a lock on it, and whoever has that lock is not told of changes when it is taken again
LOOKS = """DO $$DECLARE c text; BEGIN
    FOR c IN SELECT oid::regclass FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'
             AND has_table_privilege(oid, 'SELECT') LOOP
        EXECUTE 'SELECT FROM ' || c || ' LIMIT 0';
    END LOOP; END$$"""


@pytest.fixture
def camera(stack: RunningStack) -> Iterator[None]:
    stack.camera(CAMERA, "levels.mp4", rho="0s", epsilon="50", quantum="20ms")
    stack.executable("frozen")
    stack.table(TABLE, CAMERA, "frozen", end="2026-03-01 06:00:03+00")
    yield
    stack.run(f"DROP FOREIGN TABLE {TABLE}")
    stack.run(f"DROP SERVER {CAMERA}", user="owner")


@pytest.fixture
def frozen(stack: RunningStack, camera: None) -> Iterator[Connection]:
    """A session in a transaction that has a statement ready and a lock on every catalog."""
    with stack.connect() as connection:
        connection.execute("SET search_path = analyst; SET privid.reuse = off; SET privid.epsilon = 1")
        connection.execute(f"PREPARE p AS SELECT count(*) FROM {TABLE}".encode())
        connection.execute("BEGIN")
        assert asked(connection) == asked(connection) == 3
        connection.execute(LOOKS)
        assert asked(connection) == 3
        yield connection
        connection.execute("ROLLBACK")


@pytest.fixture
def gate(stack: RunningStack, camera: None) -> Iterator[Connection]:
    """A session with a statement of two tables on the camera, and of an ordinary one that takes seconds to read: its policy is slow."""
    stack.run("CREATE TYPE gate_size AS ENUM ('small', 'large')")
    options = "executable 'frozen', begin '2026-03-01 06:00+00', \"end\" '2026-03-01 06:00:03+00', chunk '1s', timeout '1s', max_rows '1'"
    for name, columns in (("first", "v float8 DEFAULT 0, size gate_size DEFAULT 'small'"), ("last", "v float8 DEFAULT 0")):
        stack.run(f"CREATE FOREIGN TABLE gate_{name} (chunk timestamptz, {columns}) SERVER {CAMERA} OPTIONS ({options})")
    stack.run("""CREATE TABLE gate (v float8, x text);
                 CREATE POLICY slow ON gate USING (md5(repeat(x, 200000000)) = 'never') WITH CHECK (true);
                 ALTER TABLE gate ENABLE ROW LEVEL SECURITY; ALTER TABLE gate FORCE ROW LEVEL SECURITY""")
    with stack.connect() as connection:
        connection.execute("SET search_path = analyst; SET privid.reuse = off; SET privid.epsilon = 1")
        connection.execute("""PREPARE p AS SELECT count(*) FROM (SELECT v FROM gate_first UNION ALL
            SELECT l.v FROM gate_last l LEFT JOIN gate g ON g.v = l.v WHERE l.chunk < '1900-01-01+00') q""")
        assert asked(connection) == 3
        connection.execute("INSERT INTO gate SELECT i, 'a' FROM generate_series(1, 5) i")
        assert asked(connection) == 3
        yield connection
    stack.run("DROP FOREIGN TABLE gate_first, gate_last; DROP TABLE gate; DROP TYPE gate_size")


def asked(connection: Connection) -> int:
    row = connection.execute("EXECUTE p").fetchone()
    assert row is not None
    return int(row[0])


def told(connection: Connection) -> list[str]:
    """The notices of the next statement."""
    found: list[str] = []
    connection.add_notice_handler(lambda notice: found.append(notice.message_primary or ""))
    asked(connection)
    return found


def test_a_policy_that_gets_stricter_holds_in_a_session_that_has_looked_before(stack: RunningStack, frozen: Connection) -> None:
    stack.run(f"ALTER SERVER {CAMERA} OPTIONS (SET rho '1s')", user="owner")
    assert "epsilon 1 was charged" in told(frozen)[0]


def test_a_budget_that_is_lowered_holds_in_a_session_that_has_looked_before(stack: RunningStack, frozen: Connection) -> None:
    stack.run(f"ALTER SERVER {CAMERA} OPTIONS (SET rho '1s', SET epsilon '0.5')", user="owner")
    with pytest.raises(psycopg.Error) as refused:
        asked(frozen)
    assert refused.value.sqlstate == "PV003"


def test_a_right_that_is_taken_back_is_gone_in_a_session_that_has_looked_before(stack: RunningStack, frozen: Connection) -> None:
    stack.run(f"REVOKE USAGE ON FOREIGN SERVER {CAMERA} FROM analyst", user="owner")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        asked(frozen)


@pytest.mark.parametrize(("change", "outcome"), [("SET rho '1s'", "epsilon 1 was charged"), ("SET rho '1s', SET epsilon '0.5'", "PV003")])
def test_what_is_changed_while_public_rows_are_read_holds_for_all_tables(stack: RunningStack, gate: Connection, change: str,
                                                                         outcome: str) -> None:
    found: list[str] = []

    def ask() -> None:
        try:
            found.extend(told(gate))
        except psycopg.Error as error:
            found.append(error.sqlstate or "")

    with alongside(ask):
        time.sleep(1)  # of the five or so that it reads
        stack.run(f"ALTER SERVER {CAMERA} OPTIONS ({change})", user="owner")
    assert outcome in found[0]


def test_what_is_not_committed_is_no_policy(stack: RunningStack, camera: None) -> None:
    with stack.connect("owner") as connection:
        stack.run(f"GRANT SELECT ON {TABLE} TO owner; GRANT USAGE ON SCHEMA analyst TO owner")
        connection.execute("BEGIN")
        connection.execute(f"ALTER SERVER {CAMERA} OPTIONS (SET rho '1s')".encode())
        with pytest.raises(psycopg.errors.SerializationFailure) as refused:
            connection.execute(f"SELECT count(*) FROM analyst.{TABLE}".encode())
        connection.execute("ROLLBACK")
    assert f'camera "{CAMERA}"' in str(refused.value) and "Commit or roll back" in str(refused.value)
