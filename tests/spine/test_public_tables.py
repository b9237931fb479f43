"""A table that is joined with private rows shows nowhere which of its rows were met."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import World

STATISTICS = """
    SELECT seq_scan, seq_tup_read, coalesce(idx_scan, 0), coalesce(idx_tup_fetch, 0), heap_blks_read + heap_blks_hit,
           coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0)
    FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid) WHERE relid = 'kinds'::regclass"""


@pytest.fixture(scope="module")
def kinds(world: World) -> Iterator[World]:
    """An ordinary table of an analyst with a row on each of many pages, and an index to find it by."""
    world.rows("CREATE TABLE kinds (kind text PRIMARY KEY, wheels float8, padding text)")
    world.rows("ALTER TABLE kinds ALTER padding SET STORAGE PLAIN")
    world.rows("INSERT INTO kinds SELECT 'kind ' || i, i, repeat('x', 4000) FROM generate_series(1, 300) i")
    world.rows("INSERT INTO kinds VALUES ('car', 4, ''), ('bus', 6, '')")
    world.rows("ANALYZE kinds")
    yield world


def traces(world: World, table: str) -> tuple[list[Any], list[Any]]:
    """What a release that joins the table adds to its counters, and the locks that it leaves in a serializable transaction."""
    with world.connect() as connection:
        connection.execute("SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET privid.reuse = off")
        connection.execute("SELECT pg_stat_force_next_flush()")
        before = connection.execute(STATISTICS).fetchall()[0]
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            connection.execute(f"SELECT sum(range(k.wheels, 0, 6)) FROM {table} t JOIN kinds k ON k.kind = t.kind".encode())
            locks = connection.execute("SELECT locktype, page, tuple FROM pg_locks WHERE mode = 'SIReadLock' "
                                       "AND relation IN ('kinds'::regclass, 'kinds_pkey'::regclass) ORDER BY 1, 2, 3").fetchall()
        connection.execute("SELECT pg_stat_force_next_flush()")
        after = connection.execute(STATISTICS).fetchall()[0]
    return [b - a for a, b in zip(before, after, strict=True)], locks


def test_counters_and_locks_of_a_joined_table_are_the_same_whatever_the_video_shows(kinds: World) -> None:
    traces(kinds, "calm"), traces(kinds, "stormy")  # chunks run, catalogs are warm
    calm, stormy = traces(kinds, "calm"), traces(kinds, "stormy")
    assert calm == stormy
    assert [lock[0] for lock in calm[1]] == ["relation"]


def test_a_join_with_a_public_table_equals_the_answer_over_an_ordinary_table(kinds: World) -> None:
    statement = "SELECT count(*), sum(range(k.wheels, 0, 6)) FROM {t} t JOIN kinds k ON k.kind = t.kind WHERE t.v > 2"
    assert kinds.rows(statement.format(t="open_calm")) == kinds.rows(statement.format(t="truth"))


LISTED = "t JOIN (VALUES (1.50), (3.0)) k(v) ON t.v::numeric = k.v"
#: values that are equal and written in several ways, as keys
WRITTEN = {
    "in COALESCE": f"SELECT coalesce(k.v, 0), count(*) FROM {{t}} {LISTED.replace('JOIN', 'LEFT JOIN')} GROUP BY 1",
    "in CASE": f"SELECT CASE WHEN t.v > 2 THEN k.v END, count(*) FROM {{t}} {LISTED} GROUP BY 1",
    "a short unit": "SELECT count(*) FROM {t} WHERE extract(min FROM chunk - timestamptz '2026-01-01 00:00+00') >= 0",
    "a decade": "SELECT count(*) FROM {t} WHERE extract(decade FROM chunk - timestamptz '2026-01-01 00:00+00') IS NULL",
}


@pytest.mark.parametrize("how", WRITTEN)
def test_what_can_be_written_in_several_ways_is_answered_as_postgresql_would(kinds: World, how: str) -> None:
    """Groups that are missing in the answer over ordinary rows have nothing in them."""
    found, truth = ({row[:-1]: row[-1] for row in kinds.rows(WRITTEN[how].format(t=table))} for table in ("open_calm", "truth"))
    assert {key: count for key, count in found.items() if count} == {key: count for key, count in truth.items() if count}


def test_an_abbreviation_of_a_zone_means_what_it_means_in_the_session(kinds: World) -> None:
    statement = "SELECT count(*) FROM {t} WHERE extract(hour FROM timezone('EST', chunk)) = extract(hour FROM timezone('UTC', chunk)) + 10"
    with kinds.connect() as connection:
        connection.execute("SET timezone_abbreviations = 'Australia'")
        found, truth = (connection.execute(statement.format(t=table).encode()).fetchall() for table in ("open_calm", "truth"))
    assert found == truth
