"""Expressions over trusted columns, as PostgreSQL reads them back; functions, and what is known of them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from privid.calculus import FUNCTIONS
from privid.calculus.deparse import deparse, literal
from privid.calculus.functions import FunctionClass, is_operator, names
from privid.calculus.reader import parse_select
from privid.calculus.tree import Const, Expr
from privid.errors import NoRule
from privid.model import Evaluate

from .builders import Json, analyse, call, clamp, col, compare, const, count, in_list, request, select, table, trunc

Connection = psycopg.Connection[tuple[object, ...]]


def read(expr: Json) -> Expr:
    where = parse_select(select(where=expr)).where
    assert where is not None
    return where


def first(expr: Json, evaluate: Evaluate) -> str | None:
    """Its value for the chunk of 06:00."""
    return evaluate([deparse(read(expr))], table(), (0, 1))[0][0]


HOUR = call("extract(text,timestamptz)", const("hour", "text"), col("chunk"), type_="numeric")
NULL = const(None, "text")

VALUES: list[tuple[str, Json, str | None]] = [
    ("a bin", trunc("hour"), "2026-03-01 06:00:00+00"),
    ("a bin in another zone", call("date_trunc(text,timestamptz,text)", const("day", "text"), col("chunk"), const("Asia/Tokyo", "text"),
                                   type_="timestamptz"), "2026-02-28 15:00:00+00"),
    ("a cast", call("date(timestamptz)", col("chunk"), type_="date"), "2026-03-01"),
    ("a cast whose name is a keyword", call("timestamp(timestamptz)", col("chunk"), type_="timestamp"), "2026-03-01 06:00:00"),
    ("a number", call("numeric(int4)", call("int4(numeric)", HOUR, type_="int4"), type_="numeric"), "6"),
    ("a binary operator", call("+(timestamptz,interval)", col("chunk"), const("1 day", "interval"), type_="timestamptz"),
     "2026-03-02 06:00:00+00"),
    ("a prefix operator", call("-(numeric)", HOUR, type_="numeric"), "-6"),
    ("to_char", call("to_char(timestamptz,text)", col("chunk"), const("HH24:MI", "text"), type_="text"), "06:00"),
    ("date_bin", call("date_bin(interval,timestamptz,timestamptz)", const("4 hours", "interval"), col("chunk"),
                      const("2026-03-01 00:00+00", "timestamptz"), type_="timestamptz"), "2026-03-01 04:00:00+00"),
    ("a list", in_list(HOUR, ["5", "6"]), "t"),
    ("a list of nothing", in_list(HOUR, []), "f"),
    ("not in a list", {**in_list(HOUR, ["5", "6"]), "fn": "pg_catalog.<>(numeric,numeric)", "all": True}, "f"),
    ("case", {"e": "case", "whens": [[compare("chunk", "<", "2026-03-02"), const("first", "text")]], "else": const("later", "text"),
              "type": "text", "loc": -1}, "first"),
    ("case without else", {"e": "case", "whens": [[compare("chunk", ">", "2026-03-02"), const("x", "text")]], "else": None, "type": "text",
                           "loc": -1}, None),
    ("coalesce", {"e": "coalesce", "args": [NULL, col("region"), const("x", "text")], "type": "text", "loc": -1}, ""),
    ("greatest", {"e": "greatest", "args": [HOUR, const(9, "numeric")], "type": "numeric", "loc": -1}, "9"),
    ("nullif", {"e": "nullif", "fn": "pg_catalog.=(numeric,numeric)", "op": True, "args": [HOUR, const(6, "numeric")], "type": "numeric",
                "loc": -1}, None),
    ("is null", {"e": "isnull", "args": [col("region")], "type": "boolean", "loc": -1}, "f"),
    ("is not null", {"e": "isnotnull", "args": [col("region")], "type": "boolean", "loc": -1}, "t"),
    ("a test of truth", {"e": "test", "test": "is not true", "args": [const(None, "boolean")], "type": "boolean", "loc": -1}, "t"),
    ("not", {"e": "not", "args": [compare("chunk", "<", "2026-03-02")], "type": "boolean", "loc": -1}, "f"),
    ("a relabelling", {"e": "relabel", "args": [col("region")], "type": "text", "loc": -1}, ""),
]


@pytest.mark.parametrize(("expr", "expected"), [v[1:] for v in VALUES], ids=[v[0] for v in VALUES])
def test_an_expression_means_to_postgresql_what_it_meant_in_the_statement(expr: Json, expected: str | None, evaluate: Evaluate) -> None:
    assert first(expr, evaluate) == expected


@pytest.mark.parametrize("text", ["plain", "it's", "back\\slash", "'; DROP TABLE x; --", "\\'", "$$", "E'", "ü€😀", "", "a\nb"])
def test_a_constant_is_only_ever_a_constant(text: str, evaluate: Evaluate, connection: Connection) -> None:
    assert first(const(text, "text"), evaluate) == text
    connection.execute("SET standard_conforming_strings = off")
    try:
        assert first(const(text, "text"), evaluate) == text
    finally:
        connection.execute("RESET standard_conforming_strings")


def test_a_zero_byte_a_foreign_column_and_a_foreign_type_have_no_form() -> None:
    with pytest.raises(NoRule):
        literal("a\0b")
    with pytest.raises(NoRule):
        deparse(read(col("plate")))
    with pytest.raises(NoRule):
        deparse(Const(type="public.evil", value="x"))


def test_every_listed_function_exists_in_postgresql_or_in_the_room(connection: Connection) -> None:
    """A misspelt identity would be a form that nobody can use."""
    missing = []
    for fn in FUNCTIONS:
        schema, name, types = names(fn)
        if fn.startswith("cast("):
            continue
        where = "pg_catalog" if schema == "pg_catalog" else "room"
        signature = ",".join("pg_catalog.bool" if t == "boolean" else f'pg_catalog."{t}"' for t in types)
        # regoperator wants NONE for the missing side of a prefix operator
        if is_operator(fn):
            sides = signature if len(types) == 2 else f"NONE,{signature}"
            found = connection.execute("SELECT pg_catalog.to_regoperator(%s)", (f"pg_catalog.{name}({sides})",)).fetchone()
        else:
            found = connection.execute("SELECT pg_catalog.to_regprocedure(%s)", (f'{where}."{name}"({signature})',)).fetchone()
        if found is None or found[0] is None:
            missing.append(fn)
    assert not missing


HOSTILE = {
    "float8": ["'NaN'", "'Infinity'", "'-Infinity'", "1e308", "-1e308", "5e-324", "'-0'", "0", "1"],
    "text": ["''", "repeat('x', 100000)", "E'\\\\'", "'%'", "E'\\u0131İß'", "NULL"],
    "boolean": ["true", "false", "NULL"],
    "int2": ["32767", "-32768"], "int4": ["2147483647", "-2147483648"], "int8": ["9223372036854775807", "(-9223372036854775808)"],
    "numeric": ["'NaN'", "'Infinity'", "'1e1000'", "0"],
    "timestamptz": ["'infinity'", "'-infinity'", "'294276-01-01 00:00+00'"], "timestamp": ["'infinity'", "'4713-01-01 BC'"],
    "date": ["'infinity'", "'5874897-12-31'"], "time": ["'24:00'"], "interval": ["'178000000 years'", "'-178000000 years'"],
}


def test_a_total_function_raises_on_no_hostile_value(connection: Connection) -> None:
    """What has a twin is left out: the room evaluates that in its place."""
    tried = 0
    for fn, entry in FUNCTIONS.items():
        schema, name, types = names(fn)
        if entry.kind is not FunctionClass.TOTAL or schema != "pg_catalog" or entry.may_null or "anyenum" in types:
            continue
        sources = []
        for i, t in enumerate(types):
            literals = ", ".join(f"(({v})::{'bool' if t == 'boolean' else t})" for v in HOSTILE[t])
            sources.append(f"(VALUES {literals}) a{i}(v)")
        args = [f"a{i}.v" for i in range(len(types))]
        shown = (f'pg_catalog."{name}"({", ".join(args)})' if not is_operator(fn)
                 else f"{args[0] if len(args) == 2 else ''} OPERATOR(pg_catalog.{name}) {args[-1]}")
        present = " AND ".join(f"{a} IS NOT NULL" for a in args)
        rows = connection.execute(f"SELECT ({shown}) IS NULL FROM {', '.join(sources)} WHERE {present}".encode()).fetchall()
        assert rows, fn
        # what the list promises beside: no NULL from what is not NULL
        assert not any(null for (null,) in rows), fn
        tried += 1
    assert tried > 100


@pytest.mark.parametrize("schema", ["privid", "public"])
def test_privid_functions_are_those_of_the_room(schema: str, evaluate: Evaluate) -> None:
    """Those of the served database are objects that its owner may replace."""
    hour = call(f"{schema}.hour(timestamptz)", col("chunk"), type_="timestamptz")
    assert deparse(read(hour)) == 'room."hour"("chunk")'
    assert first(hour, evaluate) == "2026-03-01 06:00:00+00"
    bounded = clamp(call("float8(numeric)", HOUR, type_="float8"), 0, 5)
    assert first({**bounded, "fn": f"{schema}.range(float8,float8,float8)"}, evaluate) == "5.00000"


def test_nothing_is_written_unqualified() -> None:
    """Whatever the search path of the evaluating session, only pg_catalog and the room answer."""
    for _, expr, _ in VALUES:
        text = re.sub(r" ?E?'(?:[^']|'')*'", "", deparse(read(expr)))
        assert not re.search(r'(?<![\w."])(?!COALESCE|GREATEST|LEAST|OPERATOR)[A-Za-z_]\w*\(', text), text


def test_runs_of_chunks_that_lie_close_are_evaluated_together(evaluate: Evaluate) -> None:
    calls: list[Any] = []

    def counting(expressions: Any, table_: Any, span: Any, region: str = "", /) -> Any:
        calls.append(span)
        return evaluate(expressions, table_, span)

    second = call("extract(text,timestamptz)", const("second", "text"), col("chunk"), type_="numeric")
    sharp = call("=(numeric,numeric)", second, const(0, "numeric"))
    plan = analyse(request(select([count()], by=[trunc("minute")], where=sharp)), [table()], Fraction(1), counting)
    assert plan.uses[0].count == len(plan.keys) == 120
    assert len(calls) == 3  # the condition, the groups, and all that could raise in either
