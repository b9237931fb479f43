"""What owners and analysts write is bounded: each limit is refused at once, in words, by SQL itself."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.conftest import RunningStack, run_privid
from tests.guard import guarded
from tests.verify.hostile_statements import GROWTH, Hostile


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    """A stack of its own: what is refused here must be found in no log."""
    directory = Path(tempfile.mkdtemp(prefix="privid-test-"))
    directory.chmod(0o755)
    with guarded(directory, [sys.executable, "-m", "privid.cli.main", "down", "--data", directory / "stack"]):
        run_privid("up", "--data", directory / "stack")
        with closing(Hostile(RunningStack(directory / "stack"), 3)) as found:
            yield found


def refused(hostile: Hostile, statement: str | sql.Composable, *values: object, user: str = "owner", seconds: float = 5) -> str:
    with hostile.stack.connect(user) as connection:
        begun = time.monotonic()
        with pytest.raises(psycopg.Error) as found:
            connection.execute(statement.encode() if isinstance(statement, str) else statement.as_bytes(connection), values or None)
        assert time.monotonic() - begun < seconds
        assert found.value.sqlstate == "22023", found.value
        assert found.value.diag.message_hint
        return str(found.value.diag.message_primary)


def ring(corners: int) -> str:
    return "(" + ",".join(f"({i % 64},{i // 64 % 48})" for i in range(corners)) + ")"


def test_a_mask_of_a_million_corners_is_refused_at_once(hostile: Hostile) -> None:
    message = refused(hostile, "SELECT privid.create_mask('hostile', 'rich', %s::text[]::polygon[])", [ring(1000)] * 1000, seconds=10)
    assert message == 'mask "rich" has 1000000 corners, but at most 10000 are allowed'
    assert "corners" in refused(
        hostile, "SELECT privid.create_mask('hostile', 'rich', %s::text[]::polygon[])", [ring(1_000_000)], seconds=10
    )


def test_a_mask_with_as_many_corners_as_allowed_costs_little(hostile: Hostile) -> None:
    hostile.stack.run("SELECT privid.create_mask('hostile', 'full', %s::text[]::polygon[])", [ring(1000)] * 10, user="owner")
    begun = time.monotonic()
    hostile.stack.table("behind_full", "hostile", "hostile", mask="full")
    assert time.monotonic() - begun < 10


def test_regions_of_many_corners_or_parts_are_refused_at_once(hostile: Hostile) -> None:
    corners = "[" + ",".join(["[1,1],[2,1],[2,2]"] * 100_000) + "]"
    assert "bytes" in refused(hostile, "SELECT privid.create_regions('hostile', 'rich', %s)", '{"a": ' + corners + "}")
    many = "{" + ",".join(f'"r{i}": "{ring(900)}"' for i in range(60)) + "}"
    assert "corners" in refused(hostile, "SELECT privid.create_regions('hostile', 'rich', %s)", many)
    parts = "{" + ",".join(f'"r{i}": 1' for i in range(20_000)) + "}"
    assert "20000 parts" in refused(hostile, "SELECT privid.create_regions('hostile', 'rich', %s)", parts)


@pytest.mark.parametrize("value", ["0." + "0" * 5000 + "1s", "1/" + "9" * 4400 + " s", "0" * 5000 + "1s"])
def test_a_duration_of_thousands_of_digits_is_refused_by_every_option_and_function(hostile: Hostile, value: str) -> None:
    for option in ("rho", "quantum"):
        statement = sql.SQL("ALTER SERVER hostile OPTIONS ({} {} {})").format(
            sql.SQL("SET" if option == "rho" else "ADD"), sql.Identifier(option), sql.Literal(value)
        )
        assert f'option "{option}"' in refused(hostile, statement)
    statement = sql.SQL("ALTER FOREIGN TABLE hostile OPTIONS (ADD stride {})").format(sql.Literal(value))
    assert 'option "stride"' in refused(hostile, statement, user="analyst")
    for argument in ("rho", "visible"):
        call = sql.SQL("SELECT privid.create_mask('hostile', 'long', '{{\"((0,0),(9,0),(9,9))\"}}', {} => {})")
        assert "invalid value" in refused(hostile, call.format(sql.Identifier(argument), sql.Literal(value)))


def test_texts_of_options_have_a_length(hostile: Hostile) -> None:
    long = sql.Literal("a" * 100_000)
    assert 'option "source"' in refused(hostile, sql.SQL("ALTER SERVER hostile OPTIONS (SET source {})").format(long))
    assert 'option "executable"' in refused(
        hostile, sql.SQL("ALTER FOREIGN TABLE hostile OPTIONS (SET executable {})").format(long), user="analyst"
    )
    assert 'option "mask"' in refused(hostile, sql.SQL("ALTER FOREIGN TABLE hostile OPTIONS (ADD mask {})").format(long), user="analyst")


def test_numbers_and_parentheses_without_end_in_a_query_are_refused_in_words(hostile: Hostile) -> None:
    for condition in (
        "v > " + "9" * 5000,
        "(" * 20_000 + "true" + ")" * 20_000,
        "NOT " * 20_000 + "true",
        "v" + " + 1" * 20_000 + " > 0",
        "v > 0." + "0" * 5000 + "1",
        "w = '" + "x" * 2_000_000 + "'",
    ):
        with hostile.stack.connect("analyst") as connection:
            connection.execute("SET privid.epsilon = 1")
            try:
                connection.execute(f"EXPLAIN SELECT count(*), sum(range(v, 0, 1)) FROM hostile WHERE {condition}".encode())
            except psycopg.Error as error:
                assert error.sqlstate in ("PV002", "54001", "42601", "22003", "53200"), error  # or it is accepted
                assert not connection.closed


def test_no_hostile_value_is_an_internal_error_and_memory_is_bounded(hostile: Hostile) -> None:
    hostile.run(20)
    before = hostile.resident()
    outcomes = hostile.run(200)
    assert hostile.resident() - before < GROWTH
    assert outcomes["22023"] > 20 and outcomes["accepted"] > 20
