"""Refusals that were swallowed in 0.3.0, so that the rights of an interrupted call stayed; state of
a statement that outlived it, so that the server crashed."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from privid.cli.processes import wait_until

from .evil import OPTION_LIST
from .pair import Pair


@pytest.fixture(scope="module")
def lender(evil: Pair) -> Pair:
    """A function with the owner's rights that asks for what is refused; two that call it."""
    evil.stack.run(
        """
        CREATE FUNCTION owner.lend_refused() RETURNS float8 LANGUAGE plpgsql STABLE
            SECURITY DEFINER SET search_path = pg_catalog AS
            $$ DECLARE x float8; BEGIN SELECT v INTO x FROM event_a.t LIMIT 1; RETURN x; END $$;
        GRANT USAGE ON SCHEMA owner TO analyst""",
        user="owner",
    )
    evil.stack.run("""
        CREATE FUNCTION once() RETURNS float8 LANGUAGE plpgsql STABLE AS $$ BEGIN
            IF current_setting('attack.armed', true) = 'yes' THEN
                PERFORM set_config('attack.armed', 'no', false);
                RETURN owner.lend_refused();
            END IF;
            RETURN 0;
        END $$;
        CREATE FUNCTION forgiven() RETURNS float8 LANGUAGE plpgsql STABLE AS $$ BEGIN
            RETURN owner.lend_refused();
        EXCEPTION WHEN OTHERS THEN RETURN 0;
        END $$""")
    return evil


#: aggregates over aggregates: which level is released was found by trying one after the other
NESTED = [
    "SELECT sum(n) FROM (SELECT chunk, count(*) AS n FROM t GROUP BY chunk) q WHERE n > {}",
    "SELECT sum(n + {}) FROM (SELECT chunk, count(*) AS n FROM t GROUP BY chunk) q",
    "SELECT max(n) FROM (SELECT chunk, count(*) AS n FROM t WHERE v > {} GROUP BY chunk) q",
    "WITH w AS (SELECT count(*) AS n FROM t GROUP BY chunk) SELECT sum(n) FROM w WHERE n > {}",
]


@pytest.mark.parametrize("call", ["once()", "forgiven()"])
@pytest.mark.parametrize("statement", NESTED)
def test_a_refusal_inside_a_function_of_the_owner_lends_nobody_the_owner(
    lender: Pair, statement: str, call: str
) -> None:
    with lender.connect("a") as connection:
        for asked in (statement.format(call), f"EXPLAIN {statement.format(call)}"):
            connection.execute("SELECT set_config('attack.armed', 'yes', false)")
            connection.execute("BEGIN")
            connection.execute("SAVEPOINT here")
            try:
                connection.execute(asked.encode())
            except psycopg.Error as error:
                assert error.diag.sqlstate != "XX000", error
                connection.execute("ROLLBACK TO here")
            roles = connection.execute("SELECT current_user, session_user").fetchall()
            assert roles == [("analyst", "analyst")]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("ALTER SERVER event_b OPTIONS (SET rho '0s')")
            connection.rollback()


@pytest.mark.parametrize("place", ["condition", "key", "default"])
def test_a_statement_inside_a_statement_crashes_nothing(
    evil: Pair, unique: Callable[[str], str], place: str
) -> None:
    """A function explains a release with a huge text; the statement around it is then refused, with
    a position in its own text."""
    name, table = unique("nested"), "event_a.t"
    evil.stack.run(f"""
        CREATE FUNCTION {name}_explain() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            EXECUTE 'EXPLAIN SELECT count(*) FROM event_a.t --' || repeat('x', 40000000);
        EXCEPTION WHEN OTHERS THEN NULL;
        END $$;
        CREATE FUNCTION {name}() RETURNS text LANGUAGE plpgsql IMMUTABLE AS
            $$ BEGIN PERFORM {name}_explain(); RETURN 'none'; END $$""")
    if place == "default":
        table = name
        try:
            evil.stack.run(
                f"CREATE FOREIGN TABLE {name} (chunk timestamptz, plate text DEFAULT {name}()) "
                f"SERVER event_a OPTIONS ({OPTION_LIST})"
            )
        except psycopg.Error as error:
            assert error.diag.sqlstate == "22023", error
            return
    key = f"plate || {name}()" if place == "key" else "plate"
    condition = f"plate <> {name}()" if place == "condition" else "true"
    refused = f"SELECT {key}, count(*) FROM {table} WHERE {condition} GROUP BY 1"
    try:
        with evil.stack.connect() as bystander, evil.stack.connect() as connection:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(refused.encode())
            assert caught.value.diag.sqlstate == "PV002", caught.value
            position = caught.value.diag.statement_position
            assert position is not None and 1 <= int(position) <= len(refused)
            for session in (connection, bystander):
                assert session.execute("SELECT 1").fetchall() == [(1,)]
    finally:  # should it have crashed, the tests after this one want a server
        assert wait_until(lambda: is_up(evil), 30)


def is_up(pair: Pair) -> bool:
    try:
        return pair.stack.run("SELECT 1") == [(1,)]
    except psycopg.OperationalError:
        return False
