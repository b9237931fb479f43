"""Texts are short, and what is long costs what it takes: time of every argument, memory of every result, stack of every pattern."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from privid.calculus.expressions import Scope
from privid.calculus.facts import SAME, Judge
from privid.calculus.functions import FUNCTIONS, names
from privid.calculus.reader import MAX_LITERAL, MAX_ROW, parse_select
from privid.calculus.tree import Call, Col, Const, Expr
from privid.calculus.twins import TWINS
from privid.errors import NoRule
from privid.model import TableUse
from privid.room.allowance import bound
from privid.room.calls import CALLS, call
from privid.room.lengths import MAX_MATCHED, MAX_PATTERN, MAX_RESULT, PATTERNS
from privid.room.plans import Planned
from privid.room.premises import Room
from privid.room.settings import server_settings
from privid.room.sizes import FIXED, RESULTS, Size, number, result, text
from tests.calculus import builders as b

from .yard import Yard, own_yard

PLATE = b.col("plate")
LONG, SHORT = {"text": text(4096), "numeric": number(300, 600)}, {"text": Size(0), "numeric": number(1)}


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    with own_yard() as made:
        yield made


def needed(**select: Any) -> Any:
    table = b.table()
    return bound(parse_select(b.select([b.count()], **select)), (), [table], [TableUse(table, ((0, table.grid.count),))], planned=Planned())


# What is read


def test_a_constant_is_short() -> None:
    for type_ in ("text", "numeric"):
        needed(where=b.call(f"=({type_},{type_})", b.const("1" * MAX_LITERAL, type_), b.const("1", type_)))
        with pytest.raises(NoRule, match="at most 8192") as refused:
            parse_select(b.select([b.count()], where=b.call(f"=({type_},{type_})", b.const("1" * MAX_LITERAL + "1", type_),
                                                            b.const("1", type_))))
        assert "left(" in str(refused.value.hint)
    with pytest.raises(NoRule, match="at most 8192"):
        parse_select(b.select([b.count()], where=b.in_list(PLATE, ["a", "\U0001d49c" * (MAX_LITERAL // 4 + 1)])))


def test_a_public_row_fits_into_a_page() -> None:
    parse_select(b.select([b.count()], source=b.values(("a" * 3900, "b" * 4000))))
    with pytest.raises(NoRule, match=f"at most {MAX_ROW}") as refused:
        parse_select(b.select([b.count()], source=b.values(("a" * 4000, "b" * 4000))))
    assert "left(" in str(refused.value.hint)


def test_what_fits_is_neither_compressed_nor_elsewhere(yard: Yard) -> None:
    """Whatever a call takes of a public row lies ready."""
    numbers = ", ".join(f"n{i} int8" for i in range(99))
    yard.run(f"CREATE TEMP TABLE public_row (t text, {numbers}) WITH (toast_tuple_target = 8160)")
    most = MAX_ROW - 24 - 99 * 25
    yard.run(f"INSERT INTO public_row (t, {', '.join(f'n{i}' for i in range(99))}) VALUES (repeat('a', {most}), "
             f"{', '.join('1' for _ in range(99))})")
    assert yard.run("SELECT pg_column_size(t) FROM public_row") == [(most + 4,)]


@pytest.mark.parametrize("fn", ["extract(text,interval)", "extract(text,timestamptz)", "date_part(text,timestamptz)",
                                "date_trunc(text,timestamptz)"])
def test_a_unit_is_constant(fn: str) -> None:
    scope = Scope({})
    moment = Const(type=names(fn)[2][1], value="1 s" if "interval" in fn else "2026-03-01 06:00+00")
    scope.check(Call(type="numeric", fn=f"pg_catalog.{fn}", args=(Const(type="text", value="hour"), moment)))
    units = Call(type="text", fn="pg_catalog.lower(text)", args=(Const(type="text", value="hour"),))
    with pytest.raises(NoRule, match="unit that is not constant") as refused:
        scope.check(Call(type="numeric", fn=f"pg_catalog.{fn}", args=(units, moment)))
    assert refused.value.hint


# What calls cost


def arguments(fn: str, sizes: dict[str, Size], *, but: int = -1) -> list[Size]:
    types = names(fn)[2][:1] if fn.startswith("cast(") else names(fn)[2]
    return [Size(FIXED[t]) if t in FIXED else (SHORT if place == but else sizes).get(t, Size(4, 63)) for place, t in enumerate(types)]


@pytest.mark.parametrize("fn", CALLS)
def test_a_call_costs_more_the_longer_any_of_its_arguments_is(fn: str) -> None:
    types = names(fn)[2][:1] if fn.startswith("cast(") else names(fn)[2]
    args = [Col(type=t, rel=1, col=1, name="x") for t in types]
    most = call(fn, arguments(fn, LONG), args, Room())
    for place, type_ in enumerate(types):
        if type_ in LONG:
            assert call(fn, arguments(fn, LONG, but=place), args, Room()) < most, f"{fn} takes argument {place} for nothing"


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_a_result_that_is_no_number_of_fixed_size_has_a_length(fn: str) -> None:
    """What has none of its own is taken for the longest of the arguments: that is known to be so."""
    kinds = {"text", "numeric"} & {names(fn)[2][-1] if fn.startswith("cast(") else _returned(fn)}
    if kinds and fn not in RESULTS:
        raise AssertionError(f"no size of the result of {fn}")
    for kind in kinds:
        result(fn, kind, arguments(fn, LONG), [Col(type="text", rel=1, col=1, name="x")] * 3)


def _returned(fn: str) -> str:
    """Text or numeric, where the name and the arguments tell."""
    _, name, types = names(fn)
    if name in ("=", "<>", "<", "<=", ">", ">=", "~~", "!~~", "~~*", "!~~*", "like", "notlike", "^@", "starts_with"):
        return "boolean"
    if name in ("lower", "upper", "btrim", "ltrim", "rtrim", "left", "right", "substring", "substr", "split_part", "||", "to_char", "text"):
        return "text"
    if name in ("numeric", "extract", "range"):
        return "numeric"
    if types[0] == "numeric" and name not in ("int4", "int8", "float8"):
        return "numeric"
    return "other"


# What results hold


def test_calls_of_one_row_are_in_the_bound_of_memory() -> None:
    long = PLATE
    for _ in range(3):
        long = b.call("||(text,text)", long, long, type_="text")
    tests = [b.equal(b.call("right(text,int4)", long, b.const(-i, "int4"), type_="text"), b.const("x", "text")) for i in range(400)]
    one, many = (needed(where={"e": "or", "args": some, "type": "boolean", "loc": -1}).memory for some in (tests[:2], tests))
    assert many - one > 398 * 8 * 32_000  # each makes what it returns, and what it is made of


def test_a_text_that_grows_is_refused_before_it_is_large() -> None:
    grown = PLATE
    for _ in range(5):
        grown = b.call("upper(text)", grown, type_="text")
    needed(where=b.equal(grown, b.const("x", "text")))
    with pytest.raises(NoRule, match=f"at most {MAX_RESULT}") as refused:
        needed(where=b.equal(b.call("upper(text)", grown, type_="text"), b.const("x", "text")))
    assert "left(" in str(refused.value.hint)


# What patterns go through


def test_patterns_and_what_they_match_are_short() -> None:
    def like(value: Any, pattern: str) -> Any:
        return b.call("~~(text,text)", value, b.const(pattern, "text"))

    lower = b.call("lower(text)", PLATE, type_="text")
    needed(where=like(lower, "%a" * (MAX_PATTERN // 2)))
    with pytest.raises(NoRule, match=f"at most {MAX_MATCHED}"):
        needed(where=like(b.call("lower(text)", lower, type_="text"), "%a%"))
    assert MAX_LITERAL <= MAX_PATTERN
    assert {names(fn)[1] for fn in PATTERNS} == {"~~", "!~~", "~~*", "!~~*", "like", "notlike"}


@pytest.mark.parametrize("operator", ["LIKE", "ILIKE"])
def test_the_longest_pattern_takes_half_of_the_stack(yard: Yard, operator: str) -> None:
    assert server_settings(_library(), "", 1)["max_stack_depth"] == "2MB"
    deep = f"SELECT repeat('a', {MAX_MATCHED}) {operator} repeat('%%a', {{0}})"
    with yard.connection.transaction(force_rollback=True):
        yard.run("SET LOCAL max_stack_depth = '1MB'")
        assert yard.run(deep.format(MAX_PATTERN // 2)) == [(True,)]
    with pytest.raises(psycopg.errors.StatementTooComplex), yard.connection.transaction(force_rollback=True):
        yard.run("SET LOCAL max_stack_depth = '2MB'")
        yard.run(f"SELECT repeat('a', 200000) {operator} repeat('%%a', 100000)")


def _library() -> Any:
    from pathlib import Path
    return Path("privid_room.so")


#: functions that call themselves, in PostgreSQL 15 (src/backend/utils/adt): each checks its stack. Of these only LIKE is listed.
RECURSIVE = {"~~", "!~~", "~~*", "!~~*", "like", "notlike", "~", "!~", "~*", "!~*", "regexp_replace", "regexp_match", "similar_to_escape",
             "jsonb_in", "json_in", "to_jsonb", "to_json", "jsonb_path_query", "xmlparse", "array_in", "record_in", "tsquery", "ts_rewrite"}


def test_nothing_that_is_listed_calls_itself_but_patterns() -> None:
    assert {fn for fn in FUNCTIONS if names(fn)[1] in RECURSIVE} == PATTERNS


# What is evaluated is what is judged


@pytest.mark.parametrize("fn", TWINS)
def test_whatever_has_a_twin_may_be_null(fn: str) -> None:
    types = names(fn)[2][:1] if fn.startswith("cast(") else names(fn)[2]
    args: tuple[Expr, ...] = tuple(Const(type=t, value="1") for t in types)
    found = Judge({}).facts(Call(type="float8", fn=fn, args=args))
    assert found.nullable and found.low is None, fn


def test_a_cast_that_keeps_what_is_known_has_no_twin() -> None:
    assert FUNCTIONS.keys() >= SAME and not SAME & TWINS.keys()
    for fn in SAME:
        assert not FUNCTIONS[fn].may_null
