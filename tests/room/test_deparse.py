"""Statements through the real hook, written anew from what the engine is told: the rows are PostgreSQL's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from privid.calculus import FUNCTIONS
from privid.calculus.functions import FunctionClass, is_operator, names
from privid.calculus.reader import parse_select
from privid.calculus.rules import quantile
from privid.calculus.twins import AGGREGATES, TWINS
from privid.room.deparse import enum_ddl, inner_query, table_ddl
from tests.calculus.builders import const, count, scan, select, table
from tests.verify.calculus_relations import TABLE
from tests.verify.calculus_stand import Stand
from tests.verify.room_deparse import Deparsed, as_ordinary, same

STATEMENTS = 300

#: public columns of other types than a camera's tables have
WORDS = """
CREATE TABLE words (plate varchar(10) PRIMARY KEY, small int2, single float4, at date, code char(4), id uuid,
  odd point, price numeric(9,2));
INSERT INTO words VALUES ('A', 1, 0.5, '2026-03-01', 'x', '00000000-0000-0000-0000-000000000001', '(1,2)', 1.50),
  ('B', -2, 1e9, '2026-03-02', 'y ', '00000000-0000-0000-0000-000000000002', NULL, NULL), ('C', NULL, NULL, NULL, NULL, NULL, NULL, 7);
"""


@pytest.fixture(scope="module")
def found(stack: Any) -> Iterator[Deparsed]:
    stand = Stand(stack.layout)
    try:
        with stand.connect("analyst") as connection:
            connection.execute(b"SET search_path = verify, public")
            for statement in filter(None, map(str.strip, WORDS.split(";"))):
                connection.execute(statement.encode())
        deparsed = Deparsed(stand, 11)
        try:
            yield deparsed
        finally:
            deparsed.close()
    finally:
        stand.close()


def test_random_statements_give_the_rows_that_postgresql_gives(found: Deparsed) -> None:
    tally = found.compare(STATEMENTS)
    assert not tally.different, "\n".join(tally.different[:3])
    assert tally.equal - tally.refused == STATEMENTS
    assert len(tally.forms) >= 50, tally.report()


#: what is grouped by, of every kind of node, function and type
KEYS = (
    "plate", "size", "red", "v", "chunk", "region", "'const'", "NULL::text", "1.50", "interval '90 minutes'",
    "date '2026-03-01'", "E'it''s\\n\\\\back\\u00fc'", "lower(plate) || upper(plate) || '%_\\'",
    "length(plate) + 1", "v + w", "v / nullif(w, 0)", "v * -1", "-v", "@v", "abs(w)", "floor(v / 3)",
    "round(v::numeric, 1)", "v::int4 % 3", "v::int4 / nullif(w::int4, 0)", "-(v::int8)", "sqrt(abs(v))",
    "power(abs(v) + 1, 0.5)", "exp(w)", "ln(abs(v) + 1)", "range(v, 0, 3)", "hour(chunk)",
    "bin(chunk, '2 seconds')", "date_trunc('second', chunk)", "extract(second FROM chunk)", "chunk::date",
    "chunk::text", "chunk AT TIME ZONE 'Asia/Tokyo'", "to_char(chunk, 'HH24:MI:SS')",
    "chunk + interval '1 day'", "extract(epoch FROM chunk - timestamptz '2026-03-01 00:00+00')",
    "date_part('minute', chunk)", "v::text", "size::text", "red::text", "plate::text", "(v::text)::float8",
    "(length(plate)::text)::int4", "('tr' || 'ue' || left(plate, 0))::boolean", "substring(plate, 1, 1)",
    "left(plate, 1)", "right(plate, 1)", "strpos(plate, 'B')", "position('A' IN plate)",
    "split_part('a.b', '.', 2)", "split_part(plate, 'A', 1)", "btrim(plate)", "octet_length(plate)",
    "starts_with(plate, 'A')", "plate LIKE 'A%'", "plate NOT LIKE '_'", "plate IN ('A', 'B', NULL)",
    "plate NOT IN ('A', 'C')", "plate = ANY ('{}')", "plate <> ALL ('{}')", "size IN ('small', 'large')",
    "size > 'small'", "v IN (1, 2, 5)", "v::int8 = ANY ('{1,2}'::int4[])", "v BETWEEN 1 AND w",
    "v IS DISTINCT FROM w", "nullif(plate, 'A') IS DISTINCT FROM nullif(plate, 'B')", "nullif(v, 1)",
    "nullif(size, 'small')", "coalesce(nullif(plate, 'A'), 'z')", "greatest(v, w, 1)", "least(plate, 'B')",
    "greatest(size, 'medium')", "CASE WHEN red THEN plate WHEN v > 1 THEN 'q' END",
    "CASE size WHEN 'small' THEN 1 WHEN 'large' THEN 2 ELSE 3 END",
    "CASE WHEN red THEN 'small'::verify_size ELSE size END", "NOT red", "red IS NOT TRUE",
    "(v > 1) IS UNKNOWN", "(nullif(v, 1) > 0) IS NOT UNKNOWN", "red IS NULL OR (v > 1 AND w < 1)",
)


@pytest.mark.parametrize("key", KEYS)
def test_every_kind_of_expression_means_what_it_meant(found: Deparsed, key: str) -> None:
    check(found, f"SELECT {key}, count(*) FROM @r3@ GROUP BY 1")


#: where PostgreSQL's own functions raise
RAISING = (
    "v + w", "v * w * v * w", "v / w", "1 / (v - w)", "exp(exp(v))", "power(v, w)", "sqrt(v)", "ln(v)", "log(w)", "v::int4", "v::int8",
    "v::int8 * v::int8", "v::int4 + w::int4", "-(v::int4)", "-(v::int8)", "v::int4 / w::int4", "v::int8 % w::int8", "v::int4 * w::int8",
    "v::numeric * w::numeric * v::numeric * w::numeric", "v::numeric / w::numeric", "v::numeric % w::numeric",
    "(v::numeric * w::numeric)::float8", "v::numeric::int4", "v::numeric::int8", "round(v::numeric, w::int4)", "v::numeric + w::numeric",
    "floor(v::numeric)::int8", "plate::float8", "plate::int4", "plate::int8", "plate::boolean", "('1' || plate)::int8",
    "substring(plate, v::int4, w::int4)", "substr(plate, v::int4)", "split_part(plate, plate, v::int4)", "left(plate, v::int4)",
    "right(plate, w::int4)", "lower(plate) < upper(plate)", "plate LIKE '%a_\\\\%'", "length(plate)::int8 * length(plate)",
    "range(v * w, -1e18, 1e18)", "range(v / w, 0, 1e-12)", "greatest(v, w) - least(v, w)", "nullif(v, w) / v", "strpos(plate, plate)",
)
HOSTILE_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e308", "-1e308", "5e-324", "-0", "0", "1", "-1", "9.3e18", "-9.3e18", "2147483647.5",
                   "-2147483648", "9223372036854775807")
HOSTILE_TEXTS = ("", "x" * 20_000, "9" * 40, "NaN", " 12 ", "1e400", "-0", "\\", "%", "ß", "İ😀", "true", "2147483648", "it's", "0x1p1100")


@pytest.fixture
def hostile(found: Deparsed) -> Iterator[None]:
    """Rows in the room that no program may have, in the place of those of n1."""
    with found.room.transaction(force_rollback=True):
        found.room.execute("DELETE FROM room.rows_n1")
        found.room.execute("INSERT INTO room.rows_n1 SELECT 0, '2026-03-01 06:00+00', '', t, v, w, v > w, 'small' FROM "
                           "unnest(%s::float8[]) WITH ORDINALITY v(v, i), unnest(%s::float8[]) WITH ORDINALITY w(w, j), "
                           "LATERAL (VALUES ((%s::text[])[1 + (i + j) %% %s])) t(t)",
                           (list(HOSTILE_NUMBERS), list(HOSTILE_NUMBERS), list(HOSTILE_TEXTS), len(HOSTILE_TEXTS)))
        yield


@pytest.mark.parametrize("key", RAISING)
def test_no_value_makes_an_expression_raise(found: Deparsed, hostile: None, key: str) -> None:
    told = found.request(f"SELECT count({key}), count(DISTINCT {key}), count(*) FROM n1")
    counted, _, everything = found.rows(told, found.inner(told))[0]
    assert 0 < counted <= everything == len(HOSTILE_NUMBERS) ** 2


def test_without_twins_they_raise(found: Deparsed, hostile: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above is known to notice."""
    raised = 0
    told = [found.request(f"SELECT count({key}) FROM n1") for key in RAISING]
    monkeypatch.setattr("privid.calculus.deparse.TWINS", {})
    for one in told:
        try:
            found.rows(one, found.inner(one))
        except psycopg.Error:
            raised += 1
    assert raised > 25


#: levels of every form; columns are keys, then aggregates
LEVELS = (
    "SELECT count(*), count(plate), count(DISTINCT plate), count(*) FILTER (WHERE red), count(DISTINCT v) FILTER (WHERE v > 1) FROM @s3@",
    "SELECT size, red, min(v), max(v), sum(v), avg(v), stddev(v), variance(w), var_pop(v), var_samp(v), stddev_pop(v), stddev_samp(v) "
    "FROM @s3@ GROUP BY 1, 2",
    "SELECT min(plate), max(plate), min(chunk), max(chunk), min(chunk::date), max(chunk - timestamptz '2026-03-01 00:00+00') FROM @n1@",
    "SELECT red, sum(v::int4), avg(v::int4), sum(v::int8), avg(v::int8), min(v::int4), max(v::int8) FROM @n2@ GROUP BY red",
    "SELECT red, sum(v::numeric), avg(w::numeric), variance(v::numeric), stddev_pop(v::numeric), min(v::numeric) FROM @n2@ GROUP BY red",
    "SELECT plate, size, red FROM @n2@ GROUP BY 1, 2, 3",
    "SELECT count(*) FROM @n1@ WHERE false", "SELECT plate, count(*) FROM @n1@ WHERE false GROUP BY 1",
    # inner levels
    "SELECT k, n, count(*) FROM (SELECT 'x'::text AS k, count(*) AS n FROM @n1@ GROUP BY 'x'::text) q GROUP BY 1, 2",
    "SELECT one, count(*) FROM (SELECT 1 AS one FROM @n1@ HAVING count(*) > 3) q GROUP BY 1",
    "SELECT one, count(*) FROM (SELECT 1 AS one FROM @n1@ WHERE false HAVING true) q GROUP BY 1",
    "SELECT n, m, count(*) FROM (SELECT count(*) AS n, max(v) - min(v) AS m FROM @n1@ WHERE v > 1e9) q GROUP BY 1, 2",
    "SELECT count(*) FROM (SELECT FROM @n1@) q",
    "SELECT plate, count(*) FROM (SELECT plate FROM @n2@ ORDER BY v * 2) q GROUP BY 1",
    "SELECT plate, count(*) FROM (SELECT plate FROM @n2@ ORDER BY v * 2 DESC NULLS LAST, w, plate LIMIT 4) q GROUP BY 1",
    "SELECT plate, count(*) FROM (SELECT plate FROM @n2@ ORDER BY nullif(plate, 'A') NULLS FIRST LIMIT 5 OFFSET 1) q GROUP BY 1",
    "SELECT plate, count(*) FROM (SELECT plate FROM @n2@ ORDER BY plate LIMIT ALL OFFSET 2) q GROUP BY 1",
    "SELECT plate, size, count(*) FROM (SELECT DISTINCT plate, size FROM @n2@ ORDER BY size DESC, plate LIMIT 3) q GROUP BY 1, 2",
    "SELECT plate, n, count(*) FROM (SELECT plate, count(*) AS n FROM @n2@ GROUP BY plate ORDER BY count(*) DESC, max(v), plate LIMIT 2) q "
    "GROUP BY 1, 2",
    "SELECT n, count(*) FROM (SELECT DISTINCT count(*) % 2 AS n FROM @n2@ GROUP BY plate HAVING count(*) > 0) q GROUP BY 1",
    # set operations, with conversions that PostgreSQL finds by itself
    "SELECT a, count(*) FROM (SELECT length(plate) AS a FROM @n2@ UNION ALL SELECT v FROM @r1@) q GROUP BY 1",
    "SELECT a, count(*) FROM (SELECT length(plate) AS a FROM @n2@ UNION SELECT count(*) FROM @r1@ GROUP BY plate) q GROUP BY 1",
    "SELECT a, count(*) FROM (SELECT range(v, 0, 3) AS a FROM @n2@ EXCEPT SELECT w FROM @r1@) q GROUP BY 1",
    "SELECT a, count(*) FROM (SELECT length(plate) AS a FROM @n2@ INTERSECT ALL SELECT range(v, 0, 3) FROM @r1@) q GROUP BY 1",
    "SELECT a, count(*) FROM (SELECT plate AS a FROM @n2@ UNION SELECT plate FROM @s3@ ORDER BY 1 DESC LIMIT 3) q GROUP BY 1",
    "SELECT a, count(*) FROM ((SELECT plate AS a FROM @n2@ UNION ALL SELECT plate FROM @s3@) EXCEPT ALL "
    "(SELECT plate FROM @n1@ INTERSECT SELECT plate FROM @m1@)) q GROUP BY 1",
    "SELECT s, count(*) FROM (SELECT 'small'::verify_size AS s FROM @n1@ UNION ALL SELECT size FROM @s3@) q GROUP BY 1",
    # joins
    "SELECT a.plate, count(*), sum(c.v) FROM @n1@ a, @s1@ b, @m1@ c WHERE a.plate = b.plate AND b.plate = c.plate GROUP BY 1",
    "SELECT a.plate, c.size, count(*) FROM @n1@ a LEFT JOIN (@s1@ b JOIN @m1@ c ON b.plate = c.plate AND c.red) ON a.plate = b.plate "
    "GROUP BY 1, 2",
    "SELECT plate, count(*), count(a.v), count(b.v) FROM @n1@ a FULL JOIN @s1@ b USING (plate, size) GROUP BY 1",
    "SELECT count(*) FROM @n1@ CROSS JOIN @s1@", "SELECT b.plate, count(a.v) FROM @n1@ a RIGHT JOIN @s1@ b ON a.v > b.v GROUP BY 1",
    # public relations
    "SELECT k.a, k.b, count(t.v) FROM (VALUES ('A', 1.5), ('B', NULL), ('it''s \\', 3)) k(a, b) LEFT JOIN @n2@ t ON t.plate = k.a "
    "GROUP BY 1, 2",
    "SELECT k.a, count(t.v) FROM (VALUES ('A')) k(a) LEFT JOIN @n2@ t ON t.plate = k.a GROUP BY 1",
    "SELECT w.plate, w.small, w.single, w.at, w.code, w.id, w.price, count(*) FROM words w JOIN @n2@ t ON t.plate = w.plate "
    "GROUP BY 1, 2, 3, 4, 5, 6, 7",
    "SELECT w.plate::text, sum(w.price), min(w.at) FROM words w LEFT JOIN @n2@ t ON t.plate = w.plate GROUP BY 1",
    "SELECT a, count(*) FROM (SELECT w.plate AS a FROM words w JOIN @n2@ t ON t.plate = w.plate UNION ALL "
    "SELECT plate FROM @n1@) q GROUP BY 1",
    "SELECT a, count(*) FROM (SELECT w.price AS a FROM words w JOIN @n2@ t ON t.plate = w.plate UNION ALL "
    "SELECT v FROM @n1@) q GROUP BY 1",
    "SELECT a, count(*) FROM ((SELECT length(plate) AS a FROM @n2@ EXCEPT SELECT 2) UNION ALL SELECT count(*) FROM @r1@ UNION ALL "
    "SELECT v FROM @n1@) q GROUP BY 1",
    "SELECT a, count(*) FROM ((SELECT DISTINCT length(plate) AS a FROM @n2@ ORDER BY 1 LIMIT 2) INTERSECT SELECT v::numeric FROM @r1@) q "
    "GROUP BY 1",
)


@pytest.mark.parametrize("statement", LEVELS)
def test_every_form_of_level_means_what_it_meant(found: Deparsed, statement: str) -> None:
    check(found, statement)


def check(found: Deparsed, statement: str) -> None:
    told = found.request(TABLE.sub(r"\1", statement))
    inner = found.inner(told)
    theirs = found.ordinary(TABLE.sub(r"plain_\1", statement))
    ours = found.rows(told, inner)
    assert same(ours, theirs), f"{inner.query}\n{ours}\n{theirs}"
    assert_nothing_is_looked_up(inner.query)


@pytest.mark.parametrize("text", [
    "plain", "it's", "back\\slash", "'; DROP TABLE x; --", "\\'", "$$", "E'", "ü€😀", "", "a\nb\r\tc", "%s", "\x7f"])
def test_a_constant_is_only_ever_a_constant(found: Deparsed, text: str) -> None:
    for type_ in ("text", "varchar"):
        inner = inner_query(parse_select(select([count()], by=[const(text, type_)])), (), [table()])
        assert inner.query.count(f"pg_catalog.{type_}") == 1
        assert_nothing_is_looked_up(inner.query)
        for setting in ("on", "off"):
            with found.room.transaction(force_rollback=True):
                found.room.execute(f"SET LOCAL standard_conforming_strings = {setting}".encode())
                found.room.execute(enum_ddl("e0", ("car", "bike", "bus")).encode())
                found.room.execute(as_ordinary(table_ddl(table(), "t0", inner.enums, "h")).encode())
                found.room.execute("INSERT INTO pg_temp.t0 DEFAULT VALUES")
                assert found.room.execute(inner.query.encode()).fetchall() == [(text, 1)]


def test_a_table_of_a_release_is_made_as_the_scan_expects_it(found: Deparsed) -> None:
    inner = inner_query(parse_select(select([count()], source=scan(1))), (), [table(), table(index=1, name='"; DROP TABLE x; --')])
    assert inner.tables == ((1, "t0"),)
    assert inner.enums == {"public.kind": ("e0", ("car", "bike", "bus"))}
    ddl = table_ddl(table(index=1), "t0", inner.enums, "it's 1")
    assert ddl == ('CREATE FOREIGN TABLE pg_temp.t0 (chunk pg_catalog.timestamptz, region pg_catalog.text COLLATE pg_catalog."default", '
                   'c3 pg_catalog.float8, c4 pg_catalog.text COLLATE pg_catalog."default", c5 pg_catalog.bool, c6 pg_temp.e0) '
                   "SERVER room OPTIONS (handle 'it''s 1', number '1', rows '0')")
    with found.room.transaction(force_rollback=True):
        found.room.execute(enum_ddl(*inner.enums["public.kind"]).encode())
        found.room.execute(ddl.encode())
        options = found.room.execute("SELECT ftoptions FROM pg_catalog.pg_foreign_table").fetchone()
    assert options == (["handle=it's 1", "number=1", "rows=0"],)


def test_what_could_raise_has_a_twin_and_the_library_has_the_same_list(stack: Any) -> None:
    rows = stack.run("SELECT kind, identity FROM privid.allowed_calls()")
    assert set(TWINS) <= {identity for kind, identity in rows if kind != "aggregate"}
    # of quantiles bins are collected, and nothing else is evaluated
    assert {*AGGREGATES, *quantile.IDENTITIES} == {identity for kind, identity in rows if kind == "aggregate"}
    # what the calculus calls total though it may be NULL is total because of its twin
    assert {fn for fn, entry in FUNCTIONS.items() if entry.kind is FunctionClass.TOTAL and entry.may_null} == set(TWINS)


def test_every_twin_exists_and_gives_what_the_original_gives(found: Deparsed) -> None:
    """Or NULL; the library's own functions are meant, so that a slip in a name or a type shows here."""
    for fn, twin in TWINS.items():
        _, name, types = names(fn)
        given = types[:1] if fn.startswith("cast(") else types
        signature = ",".join("bool" if t == "boolean" else t for t in given)
        result = found.room.execute("SELECT pg_catalog.format_type(prorettype, NULL) FROM pg_catalog.pg_proc "
                                    "WHERE oid = pg_catalog.to_regprocedure(%s)", (f"{twin}({signature})",)).fetchone()
        if fn.startswith("cast("):
            wanted = found.room.execute("SELECT pg_catalog.format_type(%s::pg_catalog.regtype, NULL)", (types[1],)).fetchone()
        elif is_operator(fn):
            sides = signature if len(types) == 2 else f"NONE,{signature}"
            wanted = found.room.execute("SELECT pg_catalog.format_type(oprresult, NULL) FROM pg_catalog.pg_operator "
                                        "WHERE oid = pg_catalog.to_regoperator(%s)", (f"pg_catalog.{name}({sides})",)).fetchone()
        else:
            wanted = found.room.execute("SELECT pg_catalog.format_type(prorettype, NULL) FROM pg_catalog.pg_proc "
                                        "WHERE oid = pg_catalog.to_regprocedure(%s)", (f'pg_catalog."{name}"({signature})',)).fetchone()
        assert result is not None and result == wanted, fn


#: words of SQL that a written query may have; everything else has a schema, or is a name that the deparser made
_WORDS = set(re.findall(r"\w+", """SELECT DISTINCT FROM AS WHERE GROUP BY HAVING ORDER ASC DESC NULLS FIRST LAST
    LIMIT OFFSET UNION ALL INTERSECT EXCEPT INNER LEFT RIGHT FULL JOIN ON true false NULL NOT AND OR IS TRUE FALSE
    UNKNOWN CASE WHEN THEN ELSE END COALESCE GREATEST LEAST ANY ARRAY FILTER COLLATE OPERATOR"""))


def assert_nothing_is_looked_up(query: str) -> None:
    text = re.sub(r" ?E?'(?:[^'\\]|''|\\\\)*'", "''", query)
    text = re.sub(r'(pg_catalog|room)\.("\w+"|\w+|[^\w\s"()]+)|pg_temp\.[tpe]\d+', "", text)
    strange = {word for word in re.findall(r'["\w.]+', text) if not re.fullmatch(r"(?:[rsq]\d*\.)?[kvacfo]\d+|r\d+|[sq]", word)}
    assert strange <= _WORDS, f"{strange - _WORDS}: {query}"
    # every operator is named with its schema
    assert not re.search(r"[-+*/<>=~%|@]", text.replace("(*)", "").replace("::", "")), text
