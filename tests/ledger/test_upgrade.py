"""A ledger that privid 0.2.0 has filled: upgraded, it is the same function to the last digit; its dumps cannot be misread."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg
import pytest
from psycopg import sql

from privid.errors import BudgetExhausted, VersionMismatch
from privid.ledger import Claim, Ledger, blocks
from privid.ledger.recordings import footage_digest
from tests.conftest import run_privid
from tests.ledger.postgres import Database, Server, camera, record

CAMPUS = camera(frames=40_000, r=3, epsilon="50")
STEPS = 9_000  # of the recording, every four frames; more than two heights of blocks
OLD = "0.2.0"

Steps = list[tuple[int, Decimal]]


def random_steps(chosen: random.Random, count: int) -> Steps:
    """Levels up to 9 with up to 30 decimals; neighbours differ."""
    steps = [(4 * n - 2, Decimal(f"{chosen.randrange(9)}.{chosen.randrange(10**digits):0{digits}d}"))
             for n in range(count) for digits in [chosen.choice([1, 9, 30])]]
    return [*[step for n, step in enumerate(steps) if not n or step[1] != steps[n - 1][1]], (4 * count, Decimal(0))]


def fill(conn: psycopg.Connection[Any], steps: Steps, shared: Steps) -> None:
    """As the engine of 0.2.0 left it: levels, and on top of them what was added to blocks of about a thousand."""
    file = CAMPUS.footage.files[0]
    conn.execute("SET ROLE olga")
    conn.execute("CREATE SERVER campus FOREIGN DATA WRAPPER privid OPTIONS (source 'a.mp4', rho '0.3s', k '1', epsilon '50')")
    conn.execute("SELECT privid.grant_budget('campus', 'ana', 40)")
    conn.execute("RESET ROLE")
    conn.execute("INSERT INTO privid.recordings (k, r_star, starts, fps_numerator, fps_denominator) VALUES (1, 3, %s, 10, 1)",
                 (CAMPUS.starts,))
    conn.execute("INSERT INTO privid.recording_files VALUES (%s, 1, 0, 40000, 'a.mp4')", (file.sha256,))
    conn.execute("INSERT INTO privid.footage VALUES ('campus', %s, 1, 0, 40000, 10, 1, 64, 48, %s, 0.3, 1, 50)",
                 (footage_digest(CAMPUS), CAMPUS.starts))
    conn.execute("INSERT INTO privid.share_accounts (recording, role) VALUES (1, 'ana')")
    with conn.cursor().copy("COPY privid.share_ledger (share, frame, spent) FROM STDIN") as copy:
        for frame, spent in shared:
            copy.write_row((1, frame, spent))
    with conn.cursor().copy("COPY privid.ledger (recording, frame, spent) FROM STDIN") as copy:
        for frame, spent in steps:
            copy.write_row((1, frame, spent))
    borders = [frame for frame, _ in steps[500::1000]]
    for n, frame in enumerate(borders):
        conn.execute("INSERT INTO privid.ledger_blocks (recording, first, added, peak) VALUES (1, %s, %s, 9)", (frame, Decimal(n) / 8))
    # a block that begins where nothing rises, which 0.2.0 keeps
    conn.execute("UPDATE privid.ledger l SET spent = (SELECT p.spent FROM privid.ledger p WHERE p.frame < %(at)s ORDER BY p.frame DESC "
                 "LIMIT 1) WHERE l.frame = %(at)s", {"at": borders[0]})
    conn.execute("UPDATE privid.ledger_blocks SET added = 0 WHERE first = %s", (borders[0],))


SHOWN = ("SELECT begins, ends, frames::text, remaining::text FROM privid.budget ORDER BY begins",
         "SELECT role, spent::text, remaining::text FROM privid.shares",
         "SELECT frame, trim_scale(spent)::text FROM privid.ledger_levels ORDER BY frame")


def shown(conn: psycopg.Connection[Any]) -> list[list[Any]]:
    return [conn.execute(statement.encode()).fetchall() for statement in SHOWN]


def joined(found: list[list[Any]]) -> list[list[Any]]:
    """Without the steps at which nothing rises or falls: 0.2.0 could have one at the beginning of a block."""
    budget, shares, levels = found
    ranges: list[list[Any]] = []
    for begins, ends, frames, remaining in budget:
        lo, hi = frames.strip("[)").split(",")
        if ranges and ranges[-1][4] == remaining:
            ranges[-1][1], ranges[-1][3] = ends, int(hi)
        else:
            ranges.append([begins, ends, int(lo), int(hi), remaining])
    return [ranges, shares, [step for n, step in enumerate(levels) if not n or step[1] != levels[n - 1][1]]]


def level(steps: Steps, frame: int) -> Fraction:
    return Fraction(next((spent for first, spent in reversed(steps) if first <= frame), 0))


@pytest.fixture
def old(server: Server) -> str:
    """A database with the extension in its old version."""
    name = next(server.names)
    with server.connect("postgres") as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with server.connect(name) as conn:
        conn.execute(sql.SQL("CREATE EXTENSION privid VERSION {}").format(sql.Literal(OLD)))
    return name


def test_a_filled_ledger_of_0_2_0_is_the_same_function_after_the_upgrade(server: Server, old: str) -> None:
    chosen = random.Random(2)
    shared = random_steps(chosen, 1_000)
    with server.connect(old) as conn:
        fill(conn, random_steps(chosen, STEPS), shared)
        before = shown(conn)
        conn.execute("ALTER EXTENSION privid UPDATE")
        after = shown(conn)
        assert joined(after) == joined(before) and max(len(row[3]) for row in after[0]) > 30
        assert after[1] == before[1] and len(before[2]) == len(after[2]) + 1
        heights = conn.execute("SELECT height, count(*) FROM privid.ledger_blocks GROUP BY 1 ORDER BY 1").fetchall()
        assert [row[0] for row in heights] == [1, 2] and heights[1][1] <= 2 * blocks.SIZE
        assert conn.execute("SELECT height, count(*) FROM privid.share_blocks GROUP BY 1").fetchall() == [(1, 32)]
        assert conn.execute(WRONG["ledger"]).fetchall() == conn.execute(WRONG["share"]).fetchall() == []
    steps = [(frame, Decimal(spent)) for frame, spent in after[2]]
    ledger = Ledger(server.conninfo(old, "privid_engine"))
    for _ in range(20):
        lo, hi = sorted(chosen.sample(range(40_000), 2))
        for past, limit, role in ((steps, 50, None), (shared, 40, "ana")):
            inside = [Fraction(spent) for frame, spent in past if lo - 2 < frame < hi]
            left = limit - max([level(past, lo - 2), *inside])
            if role is None:
                whole = left
            assert ledger.remaining(CAMPUS, [(lo, hi)], role=role) == min(left, whole)
    least = ledger.remaining(CAMPUS, [(0, 40_000)])
    with pytest.raises(BudgetExhausted):
        ledger.charge([Claim(CAMPUS, [(0, 40_000)], least + Fraction(1, 10**30))], record(role="olga"))
    ledger.charge([Claim(CAMPUS, [(0, 40_000)], least)], record(role="olga"))
    assert ledger.remaining(CAMPUS, [(0, 40_000)]) == 0
    ledger.close()
    with server.connect(old) as conn:
        assert conn.execute(WRONG["ledger"]).fetchall() == []


#: blocks of height 1 that do not say what their jumps say, and higher ones that do not say what theirs say
WRONG = {name: f"""
    WITH block AS (SELECT b.*, coalesce(lead(first) OVER (PARTITION BY height ORDER BY first), {blocks.END}) AS next FROM privid.{stored} b)
    SELECT b.height, b.first FROM block b
    LEFT JOIN LATERAL (SELECT sum(j.jump) AS total, max(j.level) AS peak
                       FROM (SELECT l.jump, sum(l.jump) OVER (ORDER BY l.frame) AS level FROM privid.{jumps} l
                             WHERE l.frame >= b.first AND l.frame < b.next) j) said ON true
    WHERE (b.total, b.peak) IS DISTINCT FROM (coalesce(said.total, 0), said.peak)""".encode()
         for name, jumps, stored in (("ledger", "ledger", "ledger_blocks"), ("share", "share_ledger", "share_blocks"))}


def test_a_dump_of_0_2_0_loaded_into_a_later_version_is_refused_and_not_taken_for_an_unspent_budget(server: Server, old: str) -> None:
    chosen = random.Random(3)
    with server.connect(old) as conn:
        fill(conn, random_steps(chosen, 2_000), random_steps(chosen, 10))
        before = joined(shown(conn))
    socket, dump = ("-h", str(server.directory), "-U", "postgres"), server.directory / f"{old}.dump"
    server.command("pg_dump", *socket, "-Fc", "-f", dump, old)
    server.command("createdb", *socket, f"{old}_wrong")
    with pytest.raises(AssertionError, match='column "spent" of relation "ledger" does not exist'):
        server.command("pg_restore", *socket, "-d", f"{old}_wrong", dump)  # tells, and goes on
    ledger = Ledger(server.conninfo(f"{old}_wrong", "privid_engine"))
    for attempt in (lambda: ledger.remaining(CAMPUS, [(0, 10)]), lambda: ledger.charge([Claim(CAMPUS, [(0, 10)], Fraction(1))], record())):
        with pytest.raises(VersionMismatch, match='ledger of camera "campus" was loaded from a dump of an older version') as refused:
            attempt()
        assert "--extension-version 0.2.0" in (refused.value.hint or "")
    ledger.close()
    server.command("createdb", *socket, f"{old}_right")
    # as docs/ledger.md tells
    run_privid("restore", "--extension-version", OLD, dump, "--dsn", server.conninfo(f"{old}_right"))
    with server.connect(f"{old}_right") as conn:
        conn.execute("ALTER EXTENSION privid UPDATE")
        assert joined(shown(conn)) == before


def test_a_fresh_recording_has_the_new_format(database: Database) -> None:
    database.ledger.register(camera())
    assert database.rows("SELECT format FROM privid.recordings") == [(3,)]
