"""Expressions over trusted columns give, in the room, the text that a session of the served database would show."""

from __future__ import annotations

import resource
import time
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from privid.errors import InvalidValue, NoRule
from privid.model import Executable, Grid, Table
from privid.room.evaluate import _at_once, chunk_moments, make_evaluate
from privid.room.pool import RoomPool
from tests.ledger.postgres import Server, camera


def table(count: int = 10, fps: Fraction = Fraction(10), size: int = 3, step: int = 7) -> Table:
    return Table(0, "people", "ana", camera(frames=count * step + size, fps=fps), Grid(5, count, size, step), (),
                 Executable("x", "0" * 64, b""), Fraction(1), 1, False)


EXPRESSIONS = ["chunk", "date_trunc('hour', chunk)", "{schema}.day(chunk)", "extract(dow FROM chunk)", "chunk > '2026-03-01 06:00:02+00'",
               "region", "nullif(region, '')", "chunk - timestamptz '2026-01-01 00:00+00'", "chunk::date",
               "extract(epoch FROM chunk)::float8 / 3", "to_char(chunk, 'YYYY \"100 %s\" HH24')", "'%s %% $1'::text", "ARRAY[chunk, NULL]"]


@pytest.mark.parametrize("settings", [
    {"TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres"},
    {"TimeZone": "Asia/Kathmandu", "DateStyle": "German, DMY", "IntervalStyle": "iso_8601", "extra_float_digits": "0"},
    {"timezone": "America/New_York", "datestyle": "SQL, DMY", "intervalstyle": "postgres_verbose"}],
    ids=lambda s: s.get("TimeZone", "other"))
def test_values_read_as_the_served_database_writes_them(pool: RoomPool, served_server: Server, settings: dict[str, str]) -> None:
    people = table()
    rows = make_evaluate(pool, settings)([e.replace("{schema}", "room") for e in EXPRESSIONS], people, (2, 9))
    with served_server.connect("prepared", "ana") as conn:
        for name, value in settings.items():
            conn.execute("SELECT set_config(%s, %s, false)", (name, value))
        for chunk, row in zip(range(2, 9), rows, strict=True):
            selected = ", ".join(f"format('%s', ({expression}))" for expression in EXPRESSIONS).replace("{schema}", "privid")
            moment = people.camera.moment(people.grid.frames(chunk)[0])
            conn.execute("CREATE TEMP TABLE one AS SELECT %s::timestamptz AS chunk, ''::text AS region", (moment,))
            expected = conn.execute(f"SELECT {selected} FROM one".encode()).fetchone()
            conn.execute("DROP TABLE one")
            assert expected is not None and tuple(value or "" for value in row) == expected
            assert row[6] is None and row[4] in ("t", "f")


@pytest.mark.parametrize("fps", [Fraction(10), Fraction(30000, 1001), Fraction(7, 3), Fraction(64)])
def test_moments_of_chunks_are_those_of_the_table(fps: Fraction) -> None:
    people = table(count=300, fps=fps)
    assert chunk_moments(people, (3, 280)) == [people.chunk_microseconds(chunk) for chunk in range(3, 280)]


@pytest.mark.parametrize("year", [1, 1600, 2026, 9000])
@pytest.mark.parametrize("fps", [Fraction(10), Fraction(30000, 1001)])
def test_moments_are_exact_in_every_year(pool: RoomPool, year: int, fps: Fraction) -> None:
    """The scan has them to the microsecond, which double precision has not beyond 285 years from 2000."""
    people = table(count=300, fps=fps)
    people = replace(people, camera=replace(people.camera, starts=datetime(year, 3, 1, 6, 0, 0, 1, tzinfo=UTC)))
    rows = make_evaluate(pool, {})(["to_char(chunk AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"], people, (0, 300))
    since = datetime(2000, 1, 1, tzinfo=UTC)
    wanted = [since + timedelta(microseconds=people.chunk_microseconds(chunk)) for chunk in range(300)]
    assert rows == [(f"{moment.year:04}-{moment:%m-%d %H:%M:%S.%f}",) for moment in wanted]


def test_a_hundred_thousand_chunks_take_a_moment(pool: RoomPool) -> None:
    people = table(count=100_000)
    evaluate = make_evaluate(pool, {"TimeZone": "Europe/Berlin"})
    began = time.monotonic()
    rows = evaluate(["room.hour(chunk)", "chunk < '2026-03-02'"], people, (0, 100_000))
    assert len(rows) == 100_000 and rows[0] == ("2026-03-01 07:00:00+01", "t") and len(set(rows)) > 10
    assert time.monotonic() - began < 10


def test_an_expression_that_fails_is_refused_with_what_postgresql_said(pool: RoomPool) -> None:
    evaluate = make_evaluate(pool, {})
    with pytest.raises(InvalidValue, match='"fortnight" not recognized'):
        evaluate(["date_trunc('fortnight', chunk)"], table(), (0, 5))
    assert evaluate(["1"], table(), (0, 2)) == [("1",), ("1",)]


def test_an_expression_cannot_write_or_leave_settings_behind(pool: RoomPool) -> None:
    evaluate = make_evaluate(pool, {"TimeZone": "Asia/Kathmandu"})
    with pool.public() as conn:
        conn.execute("CREATE SEQUENCE room.counter")
    with pytest.raises(InvalidValue, match="read-only"):
        evaluate(["pg_catalog.nextval('room.counter')"], table(), (0, 1))
    with pool.public() as conn:
        conn.execute("DROP SEQUENCE room.counter")
    evaluate(["chunk"], table(), (0, 1))
    with pool.public() as conn:
        assert conn.execute("SHOW TimeZone").fetchone() == ("UTC",)


def test_nothing_to_evaluate_gives_an_empty_key_per_chunk(pool: RoomPool) -> None:
    assert make_evaluate(pool, {})([], table(), (2, 5)) == [(), (), ()]


WIDE = "'0' || pg_catalog.repeat('x', 8000) || chunk::text"


def test_values_are_fetched_by_their_bytes_and_not_by_their_number(pool: RoomPool) -> None:
    """Found by attack: ten thousand rows of two dozen texts were fetched at once."""
    people = table(count=6_000)
    evaluate = make_evaluate(pool, {})
    tracemalloc.start()
    try:
        # libpq's own memory does not show here: what is fetched at a time is a matter of the number of columns
        seen = sum(hi - lo for lo, hi, _ in evaluate.runs([WIDE] * 6, people, [(0, 6_000)]))  # type: ignore[attr-defined]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == 6_000 and peak < 20 << 20
    assert _at_once(1) == 1024 and _at_once(24) == 42 and _at_once(5000) == 1 and _at_once(0) == 1024


def test_a_session_that_evaluates_wide_values_does_not_make_the_engine_larger(pool: RoomPool) -> None:
    people = table(count=6_000)
    evaluate = make_evaluate(pool, {})
    for _ in evaluate.runs([WIDE], people, [(0, 6_000)]):  # type: ignore[attr-defined]
        pass
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in evaluate.runs([WIDE] * 24, people, [(0, 6_000)]):  # type: ignore[attr-defined]
        pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 120 << 10  # kB; all of it is 1.1 GB


def test_a_list_of_values_that_is_too_large_is_refused(pool: RoomPool) -> None:
    evaluate = make_evaluate(pool, {})
    with pytest.raises(NoRule, match="of more than 128 MiB together"):
        evaluate([WIDE] * 24, table(count=1_000), (0, 1_000))
    assert len(evaluate([WIDE] * 2, table(count=3_000), (0, 3_000))) == 3_000
