"""The settings of a session are part of a release's identity wherever anything that is evaluated depends on them, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product

import psycopg
import pytest

from privid.calculus import FUNCTIONS
from privid.calculus.canonical import canonical
from privid.calculus.deparse import deparse
from privid.calculus.functions import names
from privid.calculus.tree import AggRef, Aggregate, Call, Case, Choice, Col, Const, Expr, GroupRef, NullIf, NullTest, Relabel
from privid.errors import InvalidValue

Connection = psycopg.Connection[tuple[str | None, str]]

SAMPLES: Mapping[str, Sequence[str]] = {
    "float8": ["3600", "1772343000.5"], "numeric": ["3600", "2.25"], "int2": ["7"], "int4": ["7", "1"], "int8": ["3600"],
    "text": ["hour", "day", "timezone", "Asia/Tokyo", "HH24:MI TZ", "9.9", "1"], "boolean": ["t", "f"],
    "timestamptz": ["2026-03-01 23:30:00+00", "2026-07-05 00:15:00.5+00"], "timestamp": ["2026-03-01 23:30:00", "2026-07-05 00:15:00.5"],
    "date": ["2026-03-02", "2026-07-05"], "time": ["23:30:00"], "interval": ["1 day", "01:30:00", "1 mon 2 days 03:04:05"]}
#: another value for each setting that travels
USUAL = {"TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "timezone_abbreviations": "Default"}
OTHER = {"TimeZone": "<AAA>-9:30<BBB>-11,J60/2,J300/2", "DateStyle": "German, DMY", "IntervalStyle": "iso_8601",
         "timezone_abbreviations": "Australia"}
#: enums print their labels
CALLS = [fn for fn in FUNCTIONS if "anyenum" not in fn]


def taken(fn: str) -> Sequence[str]:
    """The types of its arguments."""
    types = names(fn)[2]
    return types[:1] if fn.startswith("cast(") else types


def calls(fn: str) -> Iterator[str]:
    """What the room evaluates of it, on samples."""
    type_ = names(fn)[2][-1] if fn.startswith("cast(") else "float8"  # of others it is not written
    for values in product(*(SAMPLES[one] for one in taken(fn))):
        args = tuple(Const(type=one, value=value) for one, value in zip(taken(fn), values, strict=True))
        with suppress(InvalidValue):
            yield deparse(Call(type=type_, fn=fn, args=args))


@pytest.fixture(scope="module")
def shown(connection: Connection) -> Mapping[str, tuple[str, bool]]:
    """For each call the type of its value, and whether some value depends on a setting."""
    connection.execute("""CREATE FUNCTION pg_temp.shown(expr text, OUT value text, OUT type text) LANGUAGE plpgsql AS $$ BEGIN
        EXECUTE format('SELECT v::text, t.typname FROM (SELECT %s) q(v), pg_type t WHERE t.oid = pg_typeof(v)', expr) INTO value, type;
        EXCEPTION WHEN data_exception OR feature_not_supported THEN NULL; END $$""")
    texts = [(fn, text) for fn in CALLS for text in calls(fn)]

    def values(settings: Mapping[str, str]) -> list[tuple[str | None, str]]:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        return connection.execute("SELECT s.value, s.type FROM unnest(%s::text[]) WITH ORDINALITY t(x, n), pg_temp.shown(x) s ORDER BY n",
                                  ([text for _, text in texts],)).fetchall()

    usual = values(USUAL)
    types = {fn: type_ for (fn, _), (_, type_) in zip(texts, usual, strict=True) if type_ is not None}
    depending = {fn for name in OTHER for (fn, _), was, now in zip(texts, usual, values({**USUAL, name: OTHER[name]}), strict=True)
                 if was != now}
    values(USUAL)
    return {fn: (types[fn], fn in depending) for fn in CALLS}


def settings_of(expr: Expr) -> object:
    """Those in the identity of a count of rows with such an expression in their condition."""
    condition = NullTest(type="boolean", negated=False, args=(expr,))
    counted = Aggregate(name="pg_catalog.count()", args=(), star=True, distinct=False, filter=condition, type="int8", loc=-1)
    return json.loads(canonical(["scan", {}, []], (), [counted], {}, USUAL))["settings"]


def over_columns(fn: str, type_: str) -> Expr:
    return Call(type=type_, fn=fn, args=tuple(Col(type=one, rel=1, col=n, name="") for n, one in enumerate(taken(fn), 1)))


def test_the_samples_show_what_depends_on_settings(shown: Mapping[str, tuple[str, bool]]) -> None:
    depending = {fn for fn, (_, depends) in shown.items() if depends}
    assert depending >= {"pg_catalog.to_timestamp(float8)", "cast(timestamptz,text)", "cast(date,text)", "pg_catalog.date(timestamptz)",
                         "pg_catalog.extract(text,timestamptz)", "pg_catalog.<(date,timestamptz)", "pg_catalog.*(interval,float8)"}
    assert not depending & {"cast(float8,text)", "pg_catalog.lower(text)", "pg_catalog.<(timestamptz,timestamptz)"}


def test_every_call_that_depends_on_settings_has_them_in_the_identity(shown: Mapping[str, tuple[str, bool]]) -> None:
    assert not [fn for fn, (type_, depends) in shown.items() if depends and settings_of(over_columns(fn, type_)) != USUAL]


def test_calls_on_plain_values_have_one_identity_under_all_settings(shown: Mapping[str, tuple[str, bool]]) -> None:
    plain = {"float8", "numeric", "int2", "int4", "int8", "text", "boolean", "bool"}
    alone = {fn: type_ for fn, (type_, _) in shown.items() if {type_, *taken(fn)} <= plain}
    assert len(alone) > 200
    assert not [fn for fn, type_ in alone.items() if settings_of(over_columns(fn, type_)) is not None]


@pytest.mark.parametrize("type_", ["timestamptz", "timestamp", "date", "time", "timetz", "interval"])
@pytest.mark.parametrize("kind", [Case, partial(Choice, kind="coalesce"), partial(NullIf, fn=""), Relabel, partial(GroupRef, index=0),
                                  partial(AggRef, index=0), partial(Const, value=None), partial(Col, rel=1, col=1, name="")])
def test_a_moment_counts_whatever_expression_it_is_the_value_of(kind: Callable[..., Expr], type_: str) -> None:
    assert settings_of(kind(type=type_)) == USUAL
    assert settings_of(kind(type="text")) is None
