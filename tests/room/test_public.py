"""Public rows are loaded as they are, and unique by PostgreSQL's own equality."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from privid.errors import InvalidValue
from privid.room.pool import RoomPool
from privid.room.public import ColumnType, is_unique, load, make_enums, type_of

TEXT, FLOAT8, NUMERIC, INTERVAL = map(ColumnType, ("text", "float8", "numeric", "interval"))
COLOUR = ColumnType("public.colour", ("red", "it's \"blue\"", "red, \\ too"))

Session = psycopg.Connection[tuple[Any, ...]]


@pytest.mark.parametrize(("column", "values", "unique"), [
    (INTERVAL, ["1 days -24:00:00", "0"], False), (INTERVAL, ["1 mon", "30 days"], False), (INTERVAL, ["1 mon", "31 days"], True),
    (FLOAT8, ["NaN", "NaN"], False), (FLOAT8, ["-0", "0"], False), (FLOAT8, ["1", "1.0000000000000002"], True),
    (FLOAT8, ["Infinity", "-Infinity"], True), (NUMERIC, ["1.0", "1.00"], False), (NUMERIC, ["NaN", "NaN"], False),
    (NUMERIC, ["1", "1.0000000000000000000000000000000001"], True), (TEXT, ["a", "A"], True), (TEXT, ["", " "], True),
    (TEXT, ["é", "e\u0301"], True), (TEXT, ["x", "x"], False), (TEXT, [None, None], True),
    (ColumnType("timestamptz"), ["2026-03-01 07:00:00+01", "2026-03-01 06:00:00+00"], False),
    (ColumnType("timestamp"), ["2026-03-01 07:00:00", "2026-03-01 06:00:00"], True),
    (ColumnType("date"), ["2026-03-01", "20260301"], False), (ColumnType("time"), ["24:00:00", "00:00:00"], True),
    (ColumnType("boolean"), ["t", "true"], False), (ColumnType("int4"), ["1", "01"], False), (ColumnType("int8"), ["1", "-1"], True),
    (COLOUR, ["red", "red"], False), (COLOUR, ["red", "red, \\ too", "it's \"blue\"", None], True)])
def test_uniqueness_is_postgresqls(pool: RoomPool, column: ColumnType, values: list[str | None], unique: bool) -> None:
    assert is_unique(pool, {}, [column], [[value] for value in values], [0]) is unique


def test_uniqueness_is_that_of_the_settings_under_which_a_release_reads_the_rows(pool: RoomPool) -> None:
    local = [["2026-03-01 07:00:00"], ["2026-03-01 06:00:00+00"]]
    for zone, unique in (("UTC", True), ("Europe/Berlin", False)):
        assert is_unique(pool, {"TimeZone": zone}, [ColumnType("timestamptz")], local, [0]) is unique


def test_several_columns_make_a_key(pool: RoomPool) -> None:
    rows: list[list[str | None]] = [["a", "1", "red"], ["a", "2", "red"], ["b", "1", None]]
    columns = [TEXT, FLOAT8, COLOUR]
    assert is_unique(pool, {}, columns, rows, [0, 1]) and is_unique(pool, {}, columns, rows, [1, 0, 1])
    assert not is_unique(pool, {}, columns, rows, [0]) and not is_unique(pool, {}, columns, rows, [1])
    assert not is_unique(pool, {}, columns, rows, [])
    assert is_unique(pool, {}, columns, rows[:1], []) and is_unique(pool, {}, columns, [], [0])


@pytest.mark.parametrize(("column", "value", "told"), [
    (FLOAT8, "abc", 'invalid input syntax for type double precision: "abc"'), (FLOAT8, "1e999", "out of range"),
    (ColumnType("int4"), "3000000000", "out of range for type integer"), (ColumnType("date"), "2026-02-30", "out of range"),
    (COLOUR, "green", "invalid input value for enum"), (TEXT, "a\0b", "zero byte"), (TEXT, "\ud800", "not valid UTF8"),
    (ColumnType("xml"), "x", "type xml cannot be used"), (ColumnType("boolean"), "maybe", "invalid input syntax for type boolean")])
def test_a_value_that_its_type_does_not_have_is_refused(pool: RoomPool, column: ColumnType, value: str, told: str) -> None:
    with pytest.raises(InvalidValue, match=told):
        is_unique(pool, {}, [TEXT, column], [["a", None], ["b", value]], [0])
    assert is_unique(pool, {}, [TEXT], [["a"]], [0])  # the session can be used again


def test_a_row_of_another_width_is_refused(pool: RoomPool) -> None:
    with pytest.raises(InvalidValue, match="a public row does not have 2 values"):
        is_unique(pool, {}, [TEXT, TEXT], [["a", "b"], ["c"]], [0])


def test_a_key_that_no_index_can_hold_is_refused(pool: RoomPool) -> None:
    long = "".join(chr(0x4e00 + (n * 7919) % 20000) for n in range(5000))
    with pytest.raises(InvalidValue, match="too large to be looked up"):
        is_unique(pool, {}, [TEXT], [[long]], [0])
    assert is_unique(pool, {}, [TEXT, TEXT], [[long, "a"], [long, "b"]], [1])
    with pytest.raises(InvalidValue, match="too large to be looked up"):
        is_unique(pool, {}, [TEXT] * 33, [["a"] * 33], range(33))


def test_nothing_of_the_rows_is_left(pool: RoomPool) -> None:
    is_unique(pool, {}, [COLOUR], [["red"]], [0])
    with pool.public() as conn:
        for catalog in ("pg_class WHERE relname = 'rows'", "pg_type WHERE typname = 'e0'"):
            assert conn.execute(f"SELECT count(*) FROM pg_catalog.{catalog}".encode()).fetchone() == (0,)


def test_rows_are_loaded_as_they_are(session: Session) -> None:
    texts = ["plain", "", "\\", "\\N", "\\.", "tab\there", "line\nfeed", "return\rhere", "both\r\n", "\\t", "quote's \"x\"",
             "\x01\x7f", "日本語", None]
    rows = [[text, str(n)] for n, text in enumerate(texts)]
    with session.transaction(force_rollback=True):
        load(session, 'name "with" quotes', [TEXT, ColumnType("int4")], rows)
        loaded = session.execute('SELECT c1, c2 FROM pg_temp."name ""with"" quotes" ORDER BY c2').fetchall()
    assert loaded == [(text, n) for n, text in enumerate(texts)]


def test_tables_share_the_enums_of_a_release(session: Session) -> None:
    with session.transaction(force_rollback=True):
        enums = make_enums(session, [COLOUR, TEXT, COLOUR, ColumnType("size", ("s", "l"))], first=3)
        assert [name.as_string(session) for name in enums.values()] == ['"pg_temp"."e3"', '"pg_temp"."e4"']
        load(session, "p0", [COLOUR, TEXT], [["red", "a"], ["it's \"blue\"", "b"]], enums)
        load(session, "p1", [COLOUR], [["red"]], enums)
        assert session.execute("SELECT p0.c2 FROM pg_temp.p0 JOIN pg_temp.p1 USING (c1)").fetchall() == [("a",)]
        ordered = session.execute("SELECT pg_catalog.array_agg(c1::text ORDER BY c1) FROM pg_temp.p0").fetchone()
        assert ordered == (["red", "it's \"blue\""],)
        assert type_of(COLOUR, enums).as_string(session) == '"pg_temp"."e3"'
        load(session, "p2", [], [[], []])
        assert session.execute("SELECT pg_catalog.count(*) FROM pg_temp.p2").fetchone() == (2,)
    with session.transaction(force_rollback=True), pytest.raises(ValueError, match="two lists"):
        make_enums(session, [COLOUR, ColumnType("public.colour", ("red",))])


def test_a_hundred_thousand_rows_take_a_moment(pool: RoomPool) -> None:
    rows = [[f"plate-{n}", str(n / 7), "2026-03-01 06:00:00+00"] for n in range(100_000)]
    began = time.monotonic()
    assert is_unique(pool, {}, [TEXT, FLOAT8, ColumnType("timestamptz")], rows, [0])
    assert time.monotonic() - began < 5  # 0.3 s on a machine that has nothing else to do
