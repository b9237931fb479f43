"""What has no rule is refused, with the place, the rule that is missing and the nearest form that is accepted."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from privid.errors import InvalidValue, NoRule, PrividError, RawRows
from privid.model import Evaluate

from .builders import (
    Json,
    agg,
    aggregate,
    analyse,
    both,
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
    mean,
    percentile,
    position,
    ranged,
    relation,
    request,
    rows,
    scan,
    select,
    subquery,
    table,
    total,
    union_all,
    values,
)

OTHER = {"kind": "other", "what": "function", "loc": 21}
JOIN = {"kind": "join", "join": "inner", "left": {"kind": "table", "rel": 1, "table": 0}, "right": {"kind": "table", "rel": 2, "table": 0},
        "on": None, "loc": 33}
KEYED = join("inner", scan(0, 1), scan(0, 2), equal(col("plate"), col("plate", rel=2)), loc=33)
FLOAT = "float8"

#: what is wrong, the statement, the error, a part of its message, its position, a part of its hint
REFUSED: list[tuple[str, Json, type[PrividError], str, int | None, str]] = [
    ("rows", select(targets=[("speed", col("speed"))]), RawRows, "rows of a foreign table", None, "SELECT count(*)"),
    ("a join", select([count(loc=7)], source=JOIN), NoRule, "over joined rows", 7, "Group by the join key"),
    ("two tables", {**select([count(loc=7)]), "from": [{"kind": "table", "rel": i, "table": 0} for i in (1, 2)]}, NoRule, "joined rows", 7,
     "join"),
    ("a function in FROM", select([count()], source=OTHER), NoRule, "function in FROM", 21, "outside"),
    ("an offset below", select([count()], source=subquery(select(targets=[("p", col("plate"))], offset=const(5, "int8", loc=44)))), NoRule,
     "OFFSET has no rule", 44, "released rows"),
    ("a limit that is no number", select([count()], source=subquery(select(targets=[("p", col("plate"))],
                                                                           limit=col("speed", loc=44)))), NoRule, "LIMIT has no rule", 44,
     "LIMIT 100"),
    ("a long constant", select([count()], where=equal(col("plate"), const("a" * 8193, "text", loc=31))), NoRule, "at most 8192", 31,
     "left("),
    ("a long public row", select([count()], source=join("inner", scan(), values("a" * 8000), equal(col("plate"), col("plate")))), NoRule,
     "at most 8000", None, "left("),
    ("a unit that is not constant", select([count()], where=equal(call("extract(text,timestamptz)", col("plate"), col("chunk"),
                                                                       type_="numeric", loc=31), const("1", "numeric"))), NoRule,
     "extract has no rule for a unit", 31, "once for each unit"),
    ("a time zone that is not constant", select([count(call("timezone(text,timestamptz)", call(
        "||(text,text)", const("UTC", "text"), col("plate"), type_="text"), col("chunk"), type_="timestamp", loc=31))]), NoRule,
     "timezone has no rule for a time zone", 31, "AT TIME ZONE"),
    ("one that follows from the chunk", select([count(call("date_trunc(text,timestamptz,text)", const("day", "text"), col("chunk"), call(
        "to_char(timestamptz,text)", col("chunk"), const("MI:SS", "text"), type_="text"), type_="timestamptz", loc=31))]), NoRule,
     "date_trunc has no rule for a time zone", 31, "AT TIME ZONE"),
    ("a FROM of many items", {**select([count()]), "from": [scan(0, 1), *[{**values("A", rel=i), "alias": "k"} for i in range(2, 902)]]},
     NoRule, "FROM of 901 items", None, "subquery"),
    ("too many time zones", select([count(call("timezone(text,timestamptz)", const(f"UTC{i}", "text"), col("chunk"), type_="timestamp",
                                               loc=i)) for i in range(51)]), NoRule, "more than 50 time zones", 50, "interval"),
    ("a conversion that is not listed", select([count()], source=subquery(union_all(rows(const("1", "int2", loc=31)), rows(col("speed")),
                                                                                   types=["float8"]))), NoRule, "conversion from int2", 31,
     "the cast that is meant"),
    ("an offset", select([count()], offset=const(5, "int8", loc=7)), NoRule, "OFFSET has no rule", 7, "released rows"),
    ("distinct groups", select([count()], distinct=True), NoRule, "DISTINCT has no rule in the level", None, "GROUP BY"),
    ("having above", select([count()], by=[col("kind")], having=call(">(int8,int8)", {"e": "agg", "index": 0, "type": "int8"},
                                                                   const(3, "int8"), loc=60)), NoRule, "HAVING has no rule", 60,
     "WHERE n >"),
    ("sum distinct", select([total(clamp(col("speed"), 0, 1), distinct=True, loc=7)]), NoRule, "sum(DISTINCT ...)", 7, "sum(range("),
    ("a sum without range", select([aggregate("sum(float8)", col("speed"), type_=FLOAT, loc=7)]), NoRule,
     "sum(speed) has no rule without a range", 7, "sum(range(speed, low, high))"),
    ("a sum of something else", select([total(call("numeric(float8)", col("speed"), type_="numeric"), loc=7)]), NoRule,
     "without a range", 7, "range("),
    ("an average without range", select([aggregate("avg(float8)", col("speed"), loc=9)]), NoRule, "avg(speed) has no rule", 9,
     "avg(range("),
    ("a deviation without range", select([aggregate("stddev(float8)", col("speed"), loc=9)]), NoRule, "stddev(speed) has no rule", 9,
     "stddev(range("),
    ("a maximum", select([aggregate("max(float8)", col("speed"), loc=9)]), NoRule, "max(float8) has no rule", 9, "bins"),
    ("a sum of floats in a subquery", select([count()], source=subquery(select(
        [aggregate("sum(float8)", col("speed"), type_=FLOAT, loc=9)], by=[col("plate")], targets=[("s", agg(0, FLOAT))]))), NoRule,
     "in a subquery without a range", 9, "sum(range("),
    ("a join that is grouped by something else", select([count()], source=subquery(grouped([], by=[col("kind", loc=31)], source=KEYED))),
     NoRule, "without a GROUP BY of the columns it joins on", 31, "GROUP BY a.plate"),
    ("joined rows in a UNION", select([count()], source=subquery(union_all(rows(col("plate"), source=KEYED), rows(col("plate")),
                                                                           types=["text"]))), NoRule,
     "joined rows have no rule before they are grouped", 33, "in the same subquery"),
    ("a public table without a unique key", select([count()], source=join("inner", scan(), relation("plate", unique=()), equal(
        col("plate"), position(1, "text", "plate", rel=4)), loc=33)), NoRule, 'join on "plates" (plate) has no rule', 33,
     "no value occurs twice"),
    ("VALUES with a key twice", select([count()], source=join("inner", scan(), values("A", "A"), equal(
        col("plate"), position(1, "text", "key", rel=3)), loc=33)), NoRule, 'join on "k" (column1) has no rule', 33,
     "no value occurs twice"),
    ("a full join with a public table", select([count()], source=join("full", scan(), relation("plate"), equal(
        col("plate"), position(1, "text", "plate", rel=4)), loc=33)), NoRule, 'full join with "plates"', 33, "LEFT JOIN"),
    ("an average over keys without rows", select([mean(clamp(col("speed"), 0, 1), loc=9)], by=[position(1, "text", "key", rel=3)],
                                                 source=join("left", values("A", "B"), scan(), equal(
                                                     position(1, "text", "key", rel=3), col("plate")))), NoRule, "for keys without rows", 9,
     "IS NOT NULL"),
    ("argmax of an average", {**select([mean(clamp(col("speed"), 0, 1), loc=9)], by=[col("kind")]), "argmax": {"agg": 0, "of": [0]}},
     NoRule, "argmax of avg", 9, "count(*)"),
    ("argmax over undeclared keys", {**select([count()], by=[col("plate", loc=12)]), "argmax": {"agg": 0, "of": [0]}}, NoRule,
     "without declared keys", 12, "IN"),
    ("a median without range", select([percentile("0.5", col("speed"), loc=9)]), NoRule, "WITHIN GROUP (ORDER BY speed) has no rule", 9,
     "range(speed, 0, 10)"),
    ("a fraction beyond 1", select([percentile("1.5", clamp(col("speed"), 0, 1), loc=9)]), NoRule, "between 0 and 1", 9, "(0.5)"),
    ("a fraction of many digits", select([percentile("0.33333", clamp(col("speed"), 0, 1), loc=9)]), NoRule, "at most four decimals", 9,
     "(0.5)"),
    ("a fraction that is NULL", select([percentile(None, clamp(col("speed"), 0, 1), loc=9)]), NoRule, "must be a constant", 9, "(0.5)"),
    ("argmax of a median", {**select([percentile("0.5", clamp(col("speed"), 0, 1), loc=9)], by=[col("kind")]),
                            "argmax": {"agg": 0, "of": [0]}}, NoRule, "argmax of percentile_cont", 9, "count(*)"),
    ("a median in a subquery", select([total(ranged(position(2, "float8", "m"), 0, 1))], source=subquery(grouped(
        [percentile("0.5", clamp(col("speed"), 0, 1), loc=9)], by=[col("plate")]))), NoRule, "percentile_cont", 9, "avg"),
    ("a median of keys without rows", select([percentile("0.5", clamp(col("speed"), 0, 1), loc=9)], by=[position(1, "text", "key", rel=3)],
                                             source=join("left", values("A", "B"), scan(), equal(
                                                 position(1, "text", "key", rel=3), col("plate")))), NoRule, "for keys without rows", 9,
     "IS NOT NULL"),
    ("undeclared keys", select([count()], by=[col("plate", loc=12)]), NoRule, "GROUP BY plate has no rule without declared keys", 12,
     "WHERE plate IN ('a', 'b')"),
    ("keys declared for another column", select([count()], by=[col("plate", loc=12)], where=compare("speed", "=", 3)), NoRule,
     "without declared keys", 12, "IN"),
    ("keys declared under OR", select([count()], by=[col("plate", loc=12)], where={"e": "or", "type": "boolean", "loc": -1, "args": [
        in_list(col("plate"), ["A"]), compare("speed", ">", 3)]}), NoRule, "without declared keys", 12, "IN"),
    ("keys excluded, not declared", select([count()], by=[col("plate", loc=12)], where={**in_list(col("plate"), ["A"]), "all": True}),
     NoRule, "without declared keys", 12, "IN"),
    ("too many keys", select([count()], by=[col("plate", loc=12), col("speed")], where=both(
        in_list(col("plate"), [f"p{i}" for i in range(400)]), in_list(col("speed"), list(range(400))))), NoRule, "100000 groups",
     12, "fewer"),
    ("a function nobody lists", select([count()], where=call("pg_sleep(float8)", col("speed"), loc=30)), NoRule,
     "pg_sleep(float8) has no rule", 30, "executable"),
    ("a function of the analyst", select([count()], where=call("public.leak(float8)", col("speed"), loc=30)), NoRule,
     "public.leak(float8) has no rule", 30, "executable"),
    ("a function nobody lists, on chunk", select([count()], where=call("public.leak(timestamptz)", col("chunk"), loc=30)), NoRule,
     "public.leak(timestamptz) has no rule", 30, "executable"),
    ("a wrong number of arguments", select([count()], where=call(">(float8,float8)", col("speed"), loc=30)), NoRule, "has no rule", 30, ""),
    ("a function that can raise, on an output", select([count()], where=call("<(timestamptz,timestamptz)", col("chunk"), call(
        "to_timestamp(float8)", col("speed"), type_="timestamptz", loc=30))), NoRule, "to_timestamp(float8) has no rule for values", 30,
     "chunk"),
    ("the same inside an aggregate", select([count(call("to_char(numeric,text)", call(
        "numeric(float8)", col("speed"), type_="numeric"), col("plate"), type_="text", loc=8))]), NoRule,
     "to_char(numeric, text)", 8, "chunk"),
    ("the same inside FILTER", select([count(filter=call("<(timestamptz,timestamptz)", col("chunk"), call(
        "to_timestamp(float8)", col("speed"), type_="timestamptz", loc=8)))]), NoRule, "to_timestamp(float8)", 8, "chunk"),
    ("the same in a column that no level uses", select([count()], source=subquery(select(targets=[("v", call(
        "to_char(numeric,text)", call("numeric(float8)", col("speed"), type_="numeric"), col("plate"), type_="text", loc=8))]))), NoRule,
     "to_char(numeric, text)", 8, "chunk"),
    ("the same in what a subquery orders by", select([count()], source=subquery(rows(col("plate"), order=[
        {"expr": call("public.leak(float8)", col("speed"), loc=52), "desc": False, "nulls_first": False}]))), NoRule,
     "public.leak(float8) has no rule", 52, "listed"),
    ("a pattern from an output", select([count()], where=call("~~(text,text)", const("x", "text"), col("plate", loc=40))), NoRule,
     "LIKE has no rule", 40, "'AB%'"),
    ("a pattern that ends in an escape", select([count()], where=call("~~(text,text)", col("plate"), const("A\\\\\\", "text", loc=40))),
     NoRule, "LIKE has no rule", 40, "constant pattern"),
    ("a column of an outer query", select([count()], where=compare("speed", ">", 1)) | {"from": [{"kind": "table", "rel": 9, "table": 0}]},
     NoRule, "outer query", None, "level"),
    ("bounds that are not constant", select([total(call("public.range(float8,float8,float8)", col("speed"), const(0), col("speed", loc=50),
                                                        type_="numeric"))]), InvalidValue, "invalid bounds of range", 50, "range("),
    ("bounds in the wrong order", select([total(clamp(col("speed"), 5, 1, loc=9))]), InvalidValue, "invalid bounds of range", 9,
     "low <= high"),
    ("an infinite bound", select([total(clamp(col("speed"), 0, "Infinity", loc=9))]), InvalidValue, "invalid bounds", 9, "range("),
    ("a bound that is no number", select([total(clamp(col("speed"), "NaN", 1, loc=9))]), InvalidValue, "invalid bounds", 9, "range("),
    ("a bound that is null", select([total(clamp(col("speed"), None, 1, loc=9))]), InvalidValue, "invalid bounds", 9, "range("),
    ("a huge bound", select([total(clamp(col("speed"), 0, "1e19", loc=9))]), InvalidValue, "invalid bounds", 9, "range("),
]


@pytest.mark.parametrize(("statement", "error", "message", "place", "hint"), [case[1:] for case in REFUSED],
                         ids=[case[0] for case in REFUSED])
def test_a_form_without_a_rule_is_refused_with_place_and_hint(
        statement: Json, error: type[PrividError], message: str, place: int | None, hint: str, evaluate: Evaluate) -> None:
    with pytest.raises(error) as caught:
        analyse(request(statement), [table()], Fraction(1), evaluate)
    told = caught.value
    assert type(told) is error
    assert message in told.message
    assert told.position == place
    assert told.hint is not None and hint in told.hint and told.hint.endswith(".")
    assert told.detail is not None and told.detail.endswith(".")
    assert told.message[0].islower() or told.message.split()[0].isupper()
    assert not told.message.endswith(".") and "\n" not in told.message


REFUSAL = {"refused": "window function", "hint": "Use it on the released rows.", "loc": 17}


@pytest.mark.parametrize("statement", [
    select([count()], where=REFUSAL), select([count(REFUSAL)]), select([count()], by=[{**REFUSAL, "type": "text"}]),
    select([count()], source=REFUSAL), select([count()], source=subquery(REFUSAL)),
    select([count()], source=subquery(union_all(rows(col("plate")), REFUSAL, types=["text"]))),
], ids=["condition", "argument", "key", "source", "subquery", "side of a union"])
def test_what_the_library_has_no_form_for_is_refused_where_it_stands(statement: Json, evaluate: Evaluate) -> None:
    with pytest.raises(NoRule, match=r"^window function cannot be used in a release$") as caught:
        analyse(request(statement), [table()], Fraction(1), evaluate)
    assert caught.value.position == 17 and caught.value.hint == "Use it on the released rows."


@pytest.mark.parametrize("error", [RawRows, NoRule])
def test_a_level_that_the_library_refuses_is_refused_in_its_words(error: type[PrividError], evaluate: Evaluate) -> None:
    told = {"refused": "rows cannot be shown", "sqlstate": error.sqlstate, "detail": "They are private.", "hint": "Count them.", "loc": 3}
    with pytest.raises(error) as caught:
        analyse(request(told), [table()], Fraction(1), evaluate)
    assert type(caught.value) is error
    assert caught.value.as_message() == {"sqlstate": error.sqlstate, "message": "rows cannot be shown", "detail": "They are private.",
                                         "hint": "Count them.", "position": 3}


def test_an_escaped_escape_at_the_end_of_a_pattern_is_accepted(evaluate: Evaluate) -> None:
    like = call("~~(text,text)", col("plate"), const("A\\\\", "text"))
    assert analyse(request(select([count()], where=like)), [table()], Fraction(1), evaluate).outputs[0].sensitivity == 33


MALFORMED: list[tuple[str, Any]] = [
    ("nothing", None), ("a list", []), ("a key nobody knows", {**select([count()]), "window": None}),
    ("a source nobody knows", select([count()], source={"kind": "tablesample"})),
    ("a public row that is too short", select([count()], source=join("inner", scan(), {**values(("A", "B")), "rows": [["A"]]}, equal(
        col("plate"), position(1, "text", "key", rel=3))))),
    ("a public value that is no text", select([count()], source=join("inner", scan(), {**values("A"), "rows": [[1]]}, equal(
        col("plate"), position(1, "text", "key", rel=3))))),
    ("an expression nobody knows", select([count()], where={"e": "sublink", "type": "boolean", "loc": 3})),
    ("a key nobody knows in an expression", select([count()], where={**compare("speed", ">", 1), "volatile": True})),
    ("an aggregate with a key nobody knows", select([{**count(), "order": []}])),
    ("a missing key", select([count()], where={"e": "col", "rel": 1, "type": "float8"})),
    ("a number as text", select([count()], where={**col("red"), "rel": "1"})),
    ("a truth value as number", select([count()], where={**col("red"), "rel": True})),
    ("a table that is not there", select([count()], source={"kind": "table", "rel": 1, "table": 7})),
    ("a test nobody knows", select([count()], where={"e": "test", "test": "is document", "args": [col("red")], "type": "boolean",
                                                     "loc": -1})),
    ("a list that is none", select([count()], where={**in_list(col("plate"), ["A"]), "args": [col("plate"), col("plate")]})),
]


@pytest.mark.parametrize("body", [case[1] for case in MALFORMED], ids=[case[0] for case in MALFORMED])
def test_what_the_protocol_does_not_have_is_refused(body: Any, evaluate: Evaluate) -> None:
    with pytest.raises(NoRule):
        analyse(request(body), [table()], Fraction(1), evaluate)


def test_a_deep_expression_is_refused_and_not_followed(evaluate: Evaluate) -> None:
    deep = compare("speed", ">", 1)
    for _ in range(5000):
        deep = {"e": "not", "args": [deep], "type": "boolean", "loc": -1}
    with pytest.raises(NoRule, match="too complex"):
        analyse(request(select([count()], where=deep)), [table()], Fraction(1), evaluate)


def test_subqueries_that_double_an_expression_at_every_level_are_refused_at_once(evaluate: Evaluate) -> None:
    def twice(v: Json) -> Json:
        return call("+(float8,float8)", v, v, type_=FLOAT)

    inner = select(targets=[("v", twice(col("speed")))])
    for _ in range(40):
        inner = select(targets=[("v", twice(position(1, FLOAT, "v")))], source=subquery(inner))
    with pytest.raises(NoRule, match="too complex"):
        analyse(request(select([count()], source=subquery(inner))), [table()], Fraction(1), evaluate)


def test_a_trusted_part_that_raises_does_so_before_the_charge(connection: Any, evaluate: Evaluate) -> None:
    """Inside an expression over rows it would raise only for the rows that reach it, which would tell of them."""
    late = call("+(timestamptz,interval)", col("chunk"), const("292277 years", "interval"), type_="timestamptz")
    hidden = {"e": "case", "whens": [[col("red"), call(">(timestamptz,timestamptz)", late, col("chunk"))]], "else": const("f", "boolean"),
              "type": "boolean", "loc": -1}
    with pytest.raises(AssertionError, match="timestamp out of range"):
        analyse(request(select([count()], where=hidden)), [table()], Fraction(1), evaluate)


def test_a_trusted_part_that_has_a_twin_is_judged_as_it_is_evaluated(evaluate: Evaluate) -> None:
    """1 / (hour - 6) is NULL at six o'clock, in the room as here: no chunk of the first hour is chosen, and none of the others refused."""
    hour = call("extract(text,timestamptz)", const("hour", "text"), col("chunk"), type_="numeric")
    zero = call("-(numeric,numeric)", hour, const(6, "numeric"), type_="numeric")
    over = call("/(numeric,numeric)", const(1, "numeric"), zero, type_="numeric")
    chosen = call(">(numeric,numeric)", over, const(0, "numeric"))
    plan = analyse(request(select([count()], where=chosen)), [table()], Fraction(1), evaluate)
    assert plan.uses[0].chunks == ((720, 1440),)


def test_noise_and_sums_beyond_exact_integers_are_refused_before_the_charge(evaluate: Evaluate) -> None:
    wide = select([total(clamp(col("speed"), 0, "1e12"), loc=7)])
    with pytest.raises(InvalidValue, match="can exceed what the noise is exact for") as caught:
        analyse(request(wide), [table(chunks=5_000_000, size=1)], Fraction(1), evaluate)
    assert caught.value.position == 7
    with pytest.raises(InvalidValue, match="too large to be exact"):
        analyse(request(wide), [table(chunks=2)], Fraction(1, 10**9), evaluate)


def test_an_epsilon_of_zero_is_refused(evaluate: Evaluate) -> None:
    with pytest.raises(InvalidValue, match="epsilon"):
        analyse(request(select([count()])), [table()], Fraction(0), evaluate)
