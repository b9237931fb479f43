"""What room.sql makes: total twins, aggregates that equal PostgreSQL's own where those are finite, and ballast."""

from __future__ import annotations

import math
import random
import re
import struct
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

ROOT = Path(__file__).resolve().parents[2]
AGGREGATES = ("sum", "avg", "variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp")

Session = psycopg.Connection[tuple[Any, ...]]


def test_every_total_function_of_the_library_is_there(session: Session) -> None:
    sources = "".join(file.read_text() for file in (ROOT / "fdw").glob("*.c"))
    written = set(re.findall(r"PG_FUNCTION_INFO_V1\((privid_total_\w+)\)", sources))
    written |= set(re.findall(r"(?:FLOAT8_[12]|NUMERIC_2|INTEGER_2)\((privid_total_\w+)[,)]", sources))
    written = {name for name in written if "##" not in name and not name.endswith("_")}
    made = session.execute("SELECT prosrc FROM pg_catalog.pg_proc WHERE pronamespace = 'room'::regnamespace AND probin IS NOT NULL")
    assert len(written) > 25 and written <= {str(name) for name, in made.fetchall()}


def test_the_library_is_the_rooms_own_copy(session: Session) -> None:
    paths = session.execute("SELECT DISTINCT probin FROM pg_catalog.pg_proc WHERE pronamespace = 'room'::regnamespace "
                            "AND probin IS NOT NULL").fetchall()
    assert len(paths) == 1 and str(paths[0][0]).endswith("/room/privid_room.so")
    assert session.execute("SHOW shared_preload_libraries").fetchone() == (f'"{paths[0][0]}"',)


@pytest.mark.parametrize(("expression", "value"), [
    ("room.total_add(9223372036854775807::int8, 1::int8)", None), ("room.total_div(1::int4, 0)", None), ("room.total_div(7::int4, 2)", 3),
    ("room.total_float8('abc'::text)", None), ("room.total_float8('1.5'::text)", 1.5), ("room.total_ln(0)", None),
    ("room.total_neg((-2147483648)::int4)", None), ("room.total_mod(5::numeric, 0)", None), ("room.total_boolean('maybe')", None),
    ("room.total_split_part('a,b', ',', 0)", None), ("room.range(NULL, 1, 3)", 1), ("room.range('NaN', 1, 3)", 1),
    ("room.total_extract('hour', timestamptz '2026-03-01 06:30+00')", 6), ("room.total_extract('fortnight', interval '1 day')", None),
    ("room.hour(timestamptz '2026-03-01 06:30+00') = '2026-03-01 06:00+00'", True),
    ("room.bin(timestamptz '2026-03-01 06:30+00', '7 days') = '2026-02-23 00:00+00'", True)])
def test_twins_give_null_instead_of_an_error(session: Session, expression: str, value: object) -> None:
    assert session.execute(b"SELECT " + expression.encode()).fetchone() == (value,)


def test_no_number_becomes_a_negative_zero(session: Session) -> None:
    assert session.execute("SELECT room.total_float8((-1e-400)::numeric)::text").fetchone() == ("0",)


def bits(value: float | None) -> bytes | None:
    return None if value is None else struct.pack(">d", value)


def original(session: Session, name: str, values: list[float | None]) -> float | None:
    """PostgreSQL's own answer; None where it raises, or is not finite."""
    try:
        with session.transaction():
            row = session.execute(f"SELECT pg_catalog.{name}(v) FROM unnest(%b::float8[]) v".encode(), (values,), binary=True).fetchone()
    except errors.NumericValueOutOfRange:
        return None
    assert row is not None
    return row[0] if row[0] is not None and math.isfinite(row[0]) else None


def samples() -> list[list[float | None]]:
    """Values of every size; some sums of them overflow, and some of their squares only."""
    chance = random.Random(20260301)
    special = [0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 1e154, -1e154, 1e160,
               math.inf, -math.inf, math.nan]
    found: list[list[float | None]] = [[], [None], [0.0], [-0.0], [1e308, 1e308], [1e308, 1e308, -1e308], [1e200, -1e200], [math.nan],
                                       [math.inf], [math.inf, -math.inf], [1.0, math.nan, 2.0], [None, 3.0, None], [5e-324, 5e-324]]
    for size in range(1, 60):
        scale = chance.choice([1.0, 1e-300, 1e5, 1e150, 1e307])
        values: list[float | None] = [chance.gauss(0, 1) * scale for _ in range(size)]
        if size % 3 == 0:
            values[chance.randrange(size)] = chance.choice([*special, None])
        found.append([v if v is None or abs(v) < 1.8e308 or math.isinf(v) or math.isnan(v) else 0.0 for v in values])
    return found


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_equal_postgresqls_own_where_those_are_finite(session: Session, name: str) -> None:
    answered = 0
    for values in samples():
        row = session.execute(f"SELECT room.total_{name}(v) FROM unnest(%b::float8[]) v".encode(), (values,), binary=True).fetchone()
        assert row is not None
        expected = original(session, name, values)
        assert bits(row[0]) == bits(expected), (values, row[0], expected)
        answered += expected is not None
    assert answered > 30


def test_aggregates_keep_their_groups_apart_and_run_in_windows(session: Session) -> None:
    rows = session.execute("""
        SELECT g, room.total_avg(v), room.total_stddev(v), room.total_sum(v), pg_catalog.avg(v), pg_catalog.stddev(v), pg_catalog.sum(v)
        FROM (SELECT n % 7 AS g, sqrt(n) AS v FROM pg_catalog.generate_series(1, 1000) n) t GROUP BY g""").fetchall()
    assert len(rows) == 7 and all(row[1:4] == row[4:] for row in rows)
    rows = session.execute("""
        SELECT room.total_avg(v) OVER (ORDER BY v), pg_catalog.avg(v) OVER (ORDER BY v)
        FROM (SELECT sqrt(n) AS v FROM pg_catalog.generate_series(1, 50) n) t""").fetchall()
    assert all(ours == theirs for ours, theirs in rows)


def test_ballast_keeps_a_core_busy_until_a_moment(session: Session) -> None:
    process = Path(f"/proc/{session.info.backend_pid}/schedstat")
    before, began = int(process.read_text().split()[0]), time.monotonic_ns()
    session.execute("SELECT room.spin(%s)", (began + 200_000_000,))
    assert 200_000_000 <= time.monotonic_ns() - began < 1_500_000_000
    assert int(process.read_text().split()[0]) - before > 20_000_000  # much more where nobody else wants the core
    session.execute("SELECT room.spin(0)")
    assert session.execute("SELECT room.spin(NULL) IS NULL").fetchone() == (True,)


def test_ballast_can_be_cancelled(session: Session) -> None:
    session.execute("SET statement_timeout = '50ms'")
    with pytest.raises(errors.QueryCanceled):
        session.execute("SELECT room.spin(9223372036854775807)")
