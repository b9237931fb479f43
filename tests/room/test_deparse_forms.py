"""Every node of a statement has a form or is refused; what is collected; what is refused, and in which words."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from privid.calculus import tree
from privid.calculus.reader import parse_select
from privid.calculus.tree import (
    AggRef,
    AnyOf,
    Argmax,
    Call,
    Case,
    Choice,
    Col,
    Const,
    DistinctFrom,
    Expr,
    FromJoin,
    FromPublic,
    FromSubquery,
    FromTable,
    GroupRef,
    JoinKind,
    Logic,
    NullIf,
    NullTest,
    PublicColumn,
    Relabel,
    Select,
    Truth,
)
from privid.errors import NoRule, PrividError
from privid.model import Collect, Collected
from privid.room.deparse import Inner, inner_query, public_ddl
from tests.calculus.builders import (
    Json,
    agg,
    aggregate,
    call,
    clamp,
    col,
    compare,
    const,
    count,
    equal,
    grouped,
    in_list,
    join,
    key,
    mean,
    percentile,
    position,
    rows,
    scan,
    select,
    setop,
    subquery,
    table,
    values,
)

DEFAULT = 'COLLATE pg_catalog."default"'


def write(body: Json | Select, columns: tuple[Collected, ...] = ()) -> Inner:
    return inner_query(body if isinstance(body, Select) else parse_select(body), columns, [table(), table(index=1)])


def key_of(expr: Expr) -> str:
    """How an expression is written: as the key of a release over the table."""
    release = parse_select(select([count()], by=[const(1)]))
    written = write(replace(release, group=(replace(release.group[0], expr=expr),))).query
    found = re.fullmatch(r'SELECT s\.k1 AS k1, pg_catalog\."count"\(\*\) AS v1 FROM \(SELECT (.*) AS k1 FROM pg_temp\.t0 AS r1'
                         r"\(c1, c2, c3, c4, c5, c6\)\) AS s GROUP BY s\.k1", written)
    assert found is not None, written
    return found.group(1)


SPEED = Col(type="float8", rel=1, col=3, name="speed")
PLATE = Col(type="text", rel=1, col=4, name="plate")
RED = Col(type="boolean", rel=1, col=5, name="red")
ONE = Const(type="float8", value="1")
EQUAL = "pg_catalog.=(float8,float8)"
WRITTEN_ONE = "'1'::pg_catalog.float8"

FORMS: list[tuple[Expr, str]] = [
    (SPEED, "r1.c3"),
    (PLATE, f"(r1.c4 {DEFAULT})"),
    (ONE, WRITTEN_ONE),
    (Const(type="text", value=None), f"(NULL::pg_catalog.text {DEFAULT})"),
    (Call(type="boolean", fn=EQUAL, args=(SPEED, ONE)), f"(r1.c3 OPERATOR(pg_catalog.=) {WRITTEN_ONE})"),
    (Call(type="float8", fn="pg_catalog./(float8,float8)", args=(SPEED, ONE)), f"room.total_div(r1.c3, {WRITTEN_ONE})"),
    (Call(type="float8", fn="cast(text,float8)", args=(PLATE,)), f"room.total_float8((r1.c4 {DEFAULT}))"),
    (Call(type="text", fn="cast(float8,text)", args=(SPEED,)), f"((r1.c3)::pg_catalog.text {DEFAULT})"),
    (Call(type="numeric", fn="public.range(float8,float8,float8)", args=(SPEED, ONE, ONE)),
     f'room."range"(r1.c3, {WRITTEN_ONE}, {WRITTEN_ONE})'),
    (AnyOf(type="boolean", fn=EQUAL, all=False, args=(SPEED, ONE, Const(type="float8", value=None))),
     "(r1.c3 OPERATOR(pg_catalog.=) ANY (ARRAY['1', NULL]::pg_catalog.float8[]))"),
    (AnyOf(type="boolean", fn=EQUAL, all=True, args=(SPEED,)), "true"),
    (Logic(type="boolean", kind="or", args=(RED, RED, RED)), "(r1.c5 OR r1.c5 OR r1.c5)"),
    (Logic(type="boolean", kind="not", args=(RED,)), "(NOT r1.c5)"),
    (NullTest(type="boolean", negated=True, args=(SPEED,)), "(r1.c3 IS NOT NULL)"),
    (Truth(type="boolean", test="is not unknown", args=(RED,)), "(r1.c5 IS NOT UNKNOWN)"),
    (Case(type="float8", args=(RED, SPEED, ONE)), f"(CASE WHEN r1.c5 THEN r1.c3 ELSE {WRITTEN_ONE} END)"),
    (Choice(type="float8", kind="least", args=(SPEED, ONE)), f"LEAST(r1.c3, {WRITTEN_ONE})"),
    (NullIf(type="float8", fn=EQUAL, args=(SPEED, ONE)),
     f"(CASE WHEN (r1.c3 OPERATOR(pg_catalog.=) {WRITTEN_ONE}) THEN NULL::pg_catalog.float8 ELSE r1.c3 END)"),
    (DistinctFrom(type="boolean", fn=EQUAL, args=(SPEED, ONE)),
     f"(NOT COALESCE((r1.c3 OPERATOR(pg_catalog.=) {WRITTEN_ONE}), (r1.c3 IS NULL) AND ({WRITTEN_ONE} IS NULL)))"),
    (Relabel(type="varchar", args=(PLATE,)), f"(((r1.c4 {DEFAULT}))::pg_catalog.varchar {DEFAULT})"),
]


@pytest.mark.parametrize(("expr", "expected"), FORMS, ids=[f"{type(e).__name__} {i}" for i, (e, _) in enumerate(FORMS)])
def test_an_expression_is_written_so(expr: Expr, expected: str) -> None:
    assert key_of(expr) == expected


def test_every_kind_of_expression_has_a_form() -> None:
    """A new kind must be written here, or it would be refused in every release."""
    kinds = {kind for kind in vars(tree).values() if inspect.isclass(kind) and issubclass(kind, Expr)} - {Expr}
    # groups and aggregates of a level are written in a level that groups, below
    assert {type(expr) for expr, _ in FORMS} | {GroupRef, AggRef} == kinds


class Strange(Expr):
    """A kind that nobody has thought of."""


def test_a_kind_without_a_form_is_refused() -> None:
    with pytest.raises(NoRule, match="no rule covers"):
        key_of(Strange(type="float8"))


#: what the deparser knows of the nodes that are no expressions
KNOWN = {
    "FromTable": "rel table", "FromSubquery": "rel alias select", "FromJoin": "join left right on loc", "FromOther": "what loc",
    "Group": "expr name type", "Aggregate": "name args star distinct filter type loc", "Target": "name expr",
    "Select": "sources where group aggs targets distinct limit offset having grouped argmax order", "Order": "by desc nulls_first",
    "Argmax": "agg of", "SetOperation": "kind all left right columns limit offset order",
}


def test_every_part_of_a_statement_is_known_to_the_deparser() -> None:
    """A new part of a level that is not written would be judged and not evaluated."""
    found = {kind.__name__: " ".join(f.name for f in fields(kind)) for kind in vars(tree).values()
             if inspect.isclass(kind) and is_dataclass(kind) and not issubclass(kind, Expr) and kind not in (FromPublic, PublicColumn)}
    assert found == KNOWN
    assert {"rel", "columns"} <= {f.name for f in fields(FromPublic)}
    assert {"number", "type", "labels"} <= {f.name for f in fields(PublicColumn)}


# What is collected


@pytest.mark.parametrize(("column", "expected"), [
    (Collected(0), 'pg_catalog."avg"(s.a1)'),
    (Collected(0, Collect.COUNT), 'pg_catalog."count"(s.a1)'),
    (Collected(0, Collect.SUM), 'pg_catalog."sum"(s.a1)'),
    (Collected(0, Collect.SQUARES), 'pg_catalog."sum"((s.a1 OPERATOR(pg_catalog.*) s.a1))'),
    (Collected(0, Collect.SUM, "-1.5", "2"),
     "pg_catalog.\"sum\"(room.\"range\"(room.total_float8(s.a1), '-1.5'::pg_catalog.float8, '2'::pg_catalog.float8))"),
    (Collected(0, Collect.COUNT, "0", "2"),
     "pg_catalog.\"count\"(room.\"range\"(room.total_float8(s.a1), '0'::pg_catalog.float8, '2'::pg_catalog.float8))"),
])
def test_what_a_mechanism_collects_of_a_number(column: Collected, expected: str) -> None:
    written = write(select([mean(clamp(col("speed"), 0, 2), filter=col("red"))]), (column,)).query
    assert written.startswith(f"SELECT {expected} FILTER (WHERE s.f2) AS v1 FROM (SELECT "), written


def test_what_is_collected_of_a_quantile() -> None:
    median = percentile("0.5", clamp(col("speed"), 0, 2), filter=col("red"))
    bins = Collected(0, Collect.BINS, None, None, ("0.5", "1.5"), 8)
    written = write(select([median]), (bins,)).query
    assert written.startswith(
        "SELECT pg_catalog.\"sum\"(('1e'::pg_catalog.text OPERATOR(pg_catalog.||) (pg_catalog.width_bucket(s.a1, "
        "'{0.5,1.5}'::pg_catalog.numeric[]) OPERATOR(pg_catalog.*) 8)::pg_catalog.text)::pg_catalog.numeric) FILTER (WHERE s.f2) AS v1 "
        "FROM (SELECT room.\"range\"("), written
    for refused in (Collected(0), Collected(0, Collect.SUM)):
        with pytest.raises(NoRule):
            write(select([median]), (refused,))


def test_what_a_mechanism_collects_of_float8_and_of_whole_numbers() -> None:
    speed = aggregate("sum(float8)", col("speed"), type_="float8")
    length = aggregate("sum(int4)", call("length(text)", col("plate"), type_="int4"), type_="int8")
    written = write(select([speed, length]), (Collected(0), Collected(0, Collect.SUM), Collected(1, Collect.SQUARES),
                                              Collected(1, Collect.SUM, "0", "9")))
    assert written.query.startswith(
        'SELECT room.total_sum(s.a1) AS v1, pg_catalog."sum"(pg_catalog."numeric"(s.a1)) AS v2, '
        'pg_catalog."sum"((pg_catalog."numeric"(s.a2) OPERATOR(pg_catalog.*) pg_catalog."numeric"(s.a2))) AS v3, '
        "pg_catalog.\"sum\"(room.\"range\"(pg_catalog.\"float8\"(s.a2), '0'::pg_catalog.float8, '9'::pg_catalog.float8)) AS v4 "
        "FROM "), written


def test_a_release_of_keys_alone_collects_nothing() -> None:
    assert write(select(by=[col("red")])).query == (
        "SELECT s.k1 AS k1 FROM (SELECT r1.c5 AS k1 FROM pg_temp.t0 AS r1(c1, c2, c3, c4, c5, c6)) AS s GROUP BY s.k1")


def test_names_of_the_statement_are_nowhere() -> None:
    hostile = '"; DROP TABLE x; --'
    body = select([{**count(), "label": hostile}], source={**subquery(rows(col("plate"))), "alias": hostile},
                  by=[position(1, "text", hostile)])
    body["group"][0]["name"] = hostile
    assert "DROP" not in write(body).query


def test_public_relations_and_their_enums_have_names_of_the_room() -> None:
    mood = FromPublic(rel=2, alias="m", columns=(PublicColumn("mood", "public.mood", 1, ("sad", "it's fine")),
                                                 PublicColumn("place", "point", 4)), rows=())
    release = parse_select(select([count()]))
    inner = write(replace(release, sources=(FromJoin(JoinKind.INNER, FromTable(1, 0), mood, None, -1),)))
    assert inner.publics == ((mood, "p0"),)
    assert inner.enums["public.mood"] == ("e1", ("sad", "it's fine"))
    assert "INNER JOIN pg_temp.p0 AS r2(c1, c4) ON true)" in inner.query
    assert public_ddl(mood, "p0", inner.enums) == (
        f"CREATE TABLE pg_temp.p0 (c1 pg_temp.e1, c4 pg_catalog.text {DEFAULT}) WITH (toast_tuple_target = 8160)")


def test_steps_count_what_is_evaluated_through_subqueries() -> None:
    def doubled(times: int) -> int:
        body = rows(col("speed"))
        v = position(1, "float8", "v")
        for _ in range(times):
            body = rows(call("+(float8,float8)", v, v, type_="float8"), source=subquery(body))
        return write(select([count(v)], source=subquery(body))).steps

    assert doubled(6) > 2 * doubled(5) - 20 > 100


# What is refused

DATE = call("date(timestamptz)", col("chunk"), type_="date")
NESTED = col("speed")
for _ in range(20):
    NESTED = {"e": "nullif", "fn": EQUAL, "op": True, "args": [NESTED, const(1)], "type": "float8", "loc": -1}

REFUSED: dict[str, Json] = {
    "a function that is not listed": select([count()], where=call("pg_sleep(float8)", col("speed"))),
    "an argument of another type": select([count()], where=call("=(text,text)", col("speed"), const("x", "text"))),
    "too few arguments": select([count()], where=call("=(text,text)", col("plate"))),
    "a condition that is no boolean": select([count()], where=col("speed")),
    "a column of a type that it has not": select([count()], by=[{**col("speed"), "type": "text"}]),
    "a column that is not there": select([count()], by=[{**col("speed"), "col": 99}]),
    "a column of another relation": select([count()], by=[{**col("speed"), "rel": 2}]),
    "a type of somebody's": select([count()], by=[const("x", "public.evil")]),
    "a type that holds names of the catalog": select([count()], by=[const("x", "regclass")]),
    "a zero byte": select([count()], by=[const("a\0b", "text")]),
    "half a character": select([count()], by=[const("a\ud800b", "text")]),
    "a number that overflows when it is added twice": select([count()], by=[const("9e131071", "numeric")]),
    "bounds that are not constant": select([count()], where=call(">(numeric,numeric)", call(
        "privid.range(float8,float8,float8)", col("speed"), col("speed"), const(1), type_="numeric"), const(1, "numeric"))),
    "a list of columns": select([count()], where={**in_list(col("speed"), [1]), "args": [
        col("speed"), {"e": "array", "items": [col("speed")], "type": "array", "loc": -1}]}),
    "an aggregate that is not listed": select([aggregate("string_agg(text)", col("plate"))]),
    "an aggregate of another type": select([aggregate("sum(numeric)", col("speed"))]),
    "what doubles at every step": select([count()], by=[NESTED]),
    "a table that is missing": select([count()], source=scan(7)),
    "a function in FROM": select([count()], source={"kind": "other", "what": "function", "loc": -1}),
    "a relation twice": {**select([count()]), "from": [scan(), scan()]},
    "a conversion that is not listed": select([count()], source=subquery(setop("union", rows(const("1", "int2")), rows(col("speed")),
                                                                               "float8"))),
    "sides that differ": select([count()], source=subquery(setop("union", rows(DATE), rows(DATE, DATE), "date"))),
    "a column that is not grouped by": select([count()], source=subquery(grouped([count()], [col("plate")], targets=[col("speed")]))),
    "a group that is not there": select([count()], source=subquery(grouped([count()], [col("plate")], targets=[key(1)]))),
    "an aggregate that is not there": select([count()], source=subquery(grouped([count()], [col("plate")], targets=[agg(3)]))),
    "an aggregate of another type than it has": select([count()], source=subquery(grouped([count()], targets=[agg(0, "text")]))),
    "a limit that is not constant": select([count()], source=subquery(rows(col("speed"), limit=call(
        "length(text)", col("plate"), type_="int8")))),
    "a negative limit": select([count()], source=subquery(rows(col("speed"), limit=const("-1", "int8")))),
    "a distinct order by what is no column": select([count()], source=subquery(rows(
        col("speed"), distinct=True, limit=const(3, "int8"), order=[{"expr": col("plate"), "desc": False, "nulls_first": False}]))),
    "a full join of what is not equal": select([count()], source=join("full", scan(), scan(rel=2), call(
        "<(float8,float8)", col("speed"), col("speed", rel=2)))),
    "a full join with a condition on one side": select([count()], source=join("full", scan(), scan(rel=2), compare("speed", "=", 1))),
    "a limit of the release": select([count()], limit=const(3, "int8")),
    "targets of the release": select([count()], targets=[("x", col("speed"))]),
    "nothing": select(),
    "more columns than a row can have": select([aggregate("sum(float8)", call("+(float8,float8)", col("speed"), const(i), type_="float8"),
                                                          type_="float8") for i in range(1700)]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_form_is_refused(what: str) -> None:
    with pytest.raises(PrividError) as refused:
        write(REFUSED[what])
    assert refused.value.sqlstate in ("PV002", "22023")
    assert refused.value.detail and refused.value.hint
    assert (refused.value.message + refused.value.detail + refused.value.hint).isascii()


def test_what_is_written_beside_those_is_accepted() -> None:
    both = equal(col("plate"), col("plate", rel=2))
    write(select([count()], source=join("full", scan(), scan(rel=2), both)))
    write({**select([count()]), "from": [scan(), scan(1, rel=2), values("A", "B")]})
    write(select([count()], source=subquery(rows(col("speed"), limit=const(None, "int8"), offset=const(2, "int8")))))


@pytest.mark.parametrize("columns", [(Collected(1),), (Collected(-1),), (Collected(0, Collect.SUM, "a", "b"),)])
def test_a_collection_that_makes_no_sense_is_refused(columns: tuple[Collected, ...]) -> None:
    with pytest.raises(NoRule):
        write(select([aggregate("max(text)", col("plate"), type_="text")]), columns)
    with pytest.raises(NoRule):
        write(select([count()]), (Collected(0, Collect.SUM),))
    with pytest.raises(NoRule):
        write(select([count(col("plate"), distinct=True)]), (Collected(0, Collect.COUNT),))


def test_an_argmax_is_of_the_release_alone() -> None:
    inner = parse_select(rows(col("plate")))
    release = parse_select(select([count()], by=[position(1, "text", "plate")]))
    found: Any = replace(release, sources=(FromSubquery(1, "q", inner),), argmax=Argmax(0, (0,)))
    assert write(found).query == write(replace(found, argmax=None)).query
    with pytest.raises(NoRule):
        write(replace(found, sources=(FromSubquery(1, "q", replace(inner, argmax=Argmax(0, (0,)))),)))
