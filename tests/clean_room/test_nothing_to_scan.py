"""What consists of public facts alone is answered from them: no row is read, no chunk runs, nothing
is charged, and it is there at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.spine.world import plan_of

from .pair import PROGRAM, Pair

BEGIN = [datetime(2026, 3, 1, 6, 0, second, tzinfo=UTC) for second in range(4)]
MINUTE = BEGIN[0]

#: statement and answer; a list is in order, a set in any
FREE: dict[str, list[tuple[Any, ...]] | set[tuple[Any, ...]]] = {
    "SELECT count(*) FROM {} LIMIT 0": [],
    "SELECT * FROM {} LIMIT 0": [],
    "SELECT * FROM (SELECT plate, v FROM {}) q LIMIT 0": [],
    "SELECT * FROM {} WHERE false": [],
    "SELECT plate, v FROM {} WHERE 1 = 0": [],
    "SELECT count(*) FROM {} WHERE false": [(0,)],
    "SELECT size, count(*) FROM {} WHERE false GROUP BY 1": {("small", 0), ("large", 0)},
    "SELECT count(*) FROM (SELECT count(*) AS n FROM {} WHERE false) q": [(1,)],
    "SELECT count(*) FROM (SELECT count(*) AS n FROM {} WHERE chunk < '1999-01-01') q": [(1,)],
    "SELECT k, count(*) FROM (SELECT 7 AS k, min(chunk) FROM {} WHERE chunk < '1999-01-01') q GROUP BY k": [(7, 1)],
    "SELECT k.key, count(*), count(t.v) FROM (VALUES ('a'), ('b')) k(key) LEFT JOIN {} t"
    " ON t.plate = k.key AND t.chunk < '1999-01-01' GROUP BY 1": {("a", 1, 0), ("b", 1, 0)},
    "SELECT chunk FROM {} GROUP BY chunk": {(chunk,) for chunk in BEGIN},
    "SELECT date_trunc('minute', chunk) FROM {} WHERE flag GROUP BY 1": [(MINUTE,)],
    "SELECT size FROM {} GROUP BY 1": {("small",), ("large",)},
    "SELECT plate FROM {} WHERE plate IN ('a', 'b') GROUP BY 1": {("a",), ("b",)},
    "SELECT 1 + 1 FROM {} WHERE plate = 'X' GROUP BY 1": [(2,)],
    "SELECT min(chunk), max(chunk) FROM {}": [(BEGIN[0], BEGIN[3])],
    "SELECT max(chunk) FROM {} WHERE chunk < '2026-03-01 06:00:02+00'": [(BEGIN[1],)],
    "SELECT DISTINCT size FROM {}": {("small",), ("large",)},
    "SELECT DISTINCT flag FROM {}": {(False,), (True,)},
    "SELECT DISTINCT chunk FROM {}": {(chunk,) for chunk in BEGIN},
    "SELECT DISTINCT date_bin('2 s', chunk, '2026-03-01 06:00+00') FROM {}": {
        (BEGIN[0],),
        (BEGIN[2],),
    },
    "SELECT DISTINCT date_trunc('minute', chunk), flag FROM {}": {(MINUTE, False), (MINUTE, True)},
}


@pytest.fixture(scope="module")
def never(pair: Pair) -> str:
    """A table whose chunks have never run, and would take 20 s."""
    pair.stack.executable("never", f"{PROGRAM}# never\n")
    pair.table("never", "never", timeout="5s")
    return "never"


def slots(pair: Pair, name: str) -> int:
    with pair.connect("a") as connection:
        return int(
            plan_of(
                connection.execute(
                    f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM {name}".encode()
                ).fetchall()[0][0]
            )["Slots"]
        )


@pytest.mark.parametrize("statement", FREE)
def test_what_is_public_is_answered_at_once_and_for_nothing(
    pair: Pair, never: str, statement: str
) -> None:
    spent = pair.spent("a")
    with pair.connect("a") as connection:
        connection.execute("SET statement_timeout = '2s'; SET privid.reuse = off")
        rows = connection.execute(statement.format(never).encode()).fetchall()
    expected = FREE[statement]
    assert len(rows) == len(expected)
    assert (set(rows) if isinstance(expected, set) else rows) == expected
    assert pair.spent("a") == spent
    assert slots(pair, never) == 4


@pytest.mark.parametrize(
    "statement",
    [statement for statement in FREE if not statement.startswith("SELECT count(*) FROM {} LIMIT")],
)
def test_what_is_public_is_explained_at_no_charge_and_without_slots(
    pair: Pair, never: str, statement: str
) -> None:
    with pair.connect("a") as connection:
        shown = str(
            connection.execute(
                f"EXPLAIN (FORMAT JSON) {statement.format(never)}".encode()
            ).fetchall()[0][0]
        )
    assert "'Slots': 0" in shown or "'Slots'" not in shown, shown


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT DISTINCT plate FROM {}",
        "SELECT DISTINCT v FROM {}",
        "SELECT min(v) FROM {}",
        "SELECT * FROM {} LIMIT 1",
        "SELECT * FROM {} WHERE flag AND NOT flag LIMIT 1",
        "SELECT plate FROM {} GROUP BY 1",
        "SELECT min(plate) FROM {}",
    ],
)
def test_what_is_not_public_is_still_refused(pair: Pair, never: str, statement: str) -> None:
    for side in ("a", "b"):
        seen = pair.see(side, statement.format(never), "SET statement_timeout = '2s'")
        assert seen.sqlstate in ("PV001", "PV002") and seen.charged == 0, seen


def test_both_sides_see_the_same(pair: Pair) -> None:
    """Over chunks that did run, and tell of an event."""
    for statement in FREE:
        a, b = pair.both(statement.format("t"))
        assert a == b
