"""What an executable prints never enters the memory of an analyst's backend: a secret that only the
program can compute is searched for there."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

import pytest

from .memory import Watch, find
from .pair import COLUMNS, Pair

#: The secret is in no source: the database holds that, in memory that all backends share.
PROGRAM = """#!/usr/bin/python3
import hashlib, json
secret = hashlib.sha256(b"SEED").hexdigest()[:24]
for i in range(20):
    note = secret + str(i)
    print(json.dumps({"plate": secret, "v": i, "flag": i < 5, "size": "large", "note": note}))
"""

STATEMENTS = {
    "a count": "SELECT count(*) FROM {}",
    "a filter": "SELECT count(*) FROM {} WHERE plate = 'X' OR note > 'a'",
    "listed keys": "SELECT plate, count(*) FROM {} WHERE plate IN ('X', 'Y') GROUP BY plate",
    "a join with values": """SELECT k, count(plate) FROM (VALUES ('X'), ('Y')) x(k)
        LEFT JOIN {} ON plate = k GROUP BY k""",
    "an inner query": """SELECT count(*)
        FROM (SELECT v, min(plate) AS low, max(note) FROM {} GROUP BY v) q WHERE low > 'a'""",
    "distinct values": "SELECT count(DISTINCT note) FROM {} WHERE note LIKE '%0%'",
    "a sort": "SELECT count(*) FROM (SELECT note || plate FROM {} ORDER BY 1 LIMIT 7) q",
}


@dataclass(frozen=True)
class Secret:
    """A table whose every row holds the secret."""

    table: str
    marker: bytes


@pytest.fixture
def secret(pair: Pair) -> Secret:
    """One that no process has held before, and chunks that have not run."""
    seed = secrets.token_hex(12)
    name = f"secret_{seed[:8]}"
    pair.stack.executable(name, PROGRAM.replace("SEED", seed))
    pair.table(name, name, begin="2026-03-01 06:00:02+00", columns=COLUMNS)
    return Secret(name, hashlib.sha256(seed.encode()).hexdigest()[:24].encode())


@pytest.mark.parametrize("cold", [True, False], ids=["while chunks run", "over known chunks"])
def test_the_memory_of_an_analysts_backend_never_holds_what_a_program_prints(
    pair: Pair, secret: Secret, cold: bool
) -> None:
    with pair.connect("a") as connection:
        connection.execute("SET privid.reuse = off")
        pid = connection.info.backend_pid
        if not cold:
            pair.see("a", f"SELECT count(*) FROM {secret.table}")
        for kind, statement in STATEMENTS.items():
            with Watch(pid, secret.marker) as watch:
                connection.execute(statement.format(secret.table).encode()).fetchall()
            assert watch.looks and not watch.found, f"{kind}: {watch.found}"
        assert find(pid, secret.marker) == []
        # a release over known chunks may be over between two looks: this one is held open
        connection.execute("BEGIN")
        connection.execute(
            f"DECLARE c CURSOR FOR {STATEMENTS['an inner query'].format(secret.table)}".encode()
        )
        connection.execute("FETCH 1 FROM c")
        assert find(pid, secret.marker) == []
        connection.rollback()


def test_the_same_search_finds_it_where_an_owner_reads_raw(pair: Pair, secret: Secret) -> None:
    pair.stack.run(
        f"GRANT USAGE ON SCHEMA event_a TO owner; GRANT SELECT ON event_a.{secret.table} TO owner"
    )
    with pair.stack.connect("owner") as connection:
        connection.execute("SET privid.raw = on")
        pid = connection.info.backend_pid
        with Watch(pid, secret.marker) as watch:
            connection.execute("BEGIN")
            connection.execute(
                f"DECLARE c CURSOR FOR SELECT plate FROM event_a.{secret.table}".encode()
            )
            rows = connection.execute("FETCH 3 FROM c").fetchall()
        assert rows == [(secret.marker.decode(),)] * 3
        assert watch.found or find(pid, secret.marker, private=True)
        connection.rollback()
