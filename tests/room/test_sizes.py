"""No value is larger than its bound says, and twins give up numbers that grow."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from privid.calculus.tree import Call, Col, Const, Expr
from privid.room.premises import Room
from privid.room.sizes import (
    MAX_CONCAT,
    MAX_SCALE,
    MAX_WHOLE,
    Size,
    fixed,
    of_literal,
    program_text,
)
from privid.room.sources import _column
from privid.room.values import Value, Values
from tests.calculus.builders import table

from .yard import Yard, own_yard

FLOATS = (
    "1.7976931348623157e308",
    "-9.87654321098765e299",
    "4.9e-324",
    "1.23456789012345e-150",
    "0.1",
    "123456.789",
    "0",
    "1e22",
)
TEXTS = (
    "",
    "abc",
    "\u0390" * 1024,
    "\U0001d49c" * 1024,
    "\u00df" * 1024,
    "\U00010400" * 1024,
    "1.5" * 341,
)
SCOPE = {(1, 1): Value(fixed("float8")), (1, 2): Value(program_text())}

Pair = tuple[Expr, str]


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    with own_yard() as made:
        yield made


def make(fn: str, type_: str, sql: str, *args: Pair) -> Pair:
    return Call(type=type_, fn=fn, args=tuple(a for a, _ in args)), sql.format(
        *(text for _, text in args)
    )


def whole(value: int) -> Pair:
    return Const(type="int4", value=str(value)), str(value)


def number(chance: random.Random, depth: int) -> Pair:
    """A numeric of a program's number, by a few steps."""
    if depth == 0:
        return make(
            "pg_catalog.numeric(float8)",
            "numeric",
            "f::numeric",
            (Col(type="float8", rel=1, col=1, name="f"), "f"),
        )
    below = number(chance, depth - 1)
    op, word = chance.choice((("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "div"), ("%", "mod")))
    match chance.randrange(5):
        case 0:
            places = whole(chance.choice((-3, 0, 2, 300, 698, 2000)))
            return make(
                "pg_catalog.round(numeric,int4)", "numeric", "round({0}, {1})", below, places
            )
        case 1:
            name = chance.choice(("abs", "floor", "ceil", "sign", "-"))
            return make(f"pg_catalog.{name}(numeric)", "numeric", f"{name}({{0}})", below)
        case 2:
            constant = chance.choice(
                ("3", "0.007", "123456789.123456789", "1" + "0" * 299, "0." + "0" * 300 + "7")
            )
            other: Pair = Const(type="numeric", value=constant), f"{constant}::numeric"
        case _:
            other = number(chance, chance.randrange(depth))
    return make(
        f"pg_catalog.{op}(numeric,numeric)",
        "numeric",
        f"room.total_{word}({{0}}, {{1}})",
        below,
        other,
    )


def written(chance: random.Random, depth: int) -> Pair:
    """A text of a program's text, by a few steps."""
    if depth == 0:
        return chance.choice(
            (
                (Col(type="text", rel=1, col=2, name="t"), "t"),
                make("cast(numeric,text)", "text", "({0})::text", number(chance, 2)),
                make(
                    "cast(float8,text)",
                    "text",
                    "f::text",
                    (Col(type="float8", rel=1, col=1, name="f"), "f"),
                ),
            )
        )
    below = written(chance, depth - 1)
    match chance.randrange(6):
        case 0:
            name = chance.choice(("lower", "upper"))
            return make(f"pg_catalog.{name}(text)", "text", f"{name}({{0}})", below)
        case 1:
            return make(
                "pg_catalog.left(text,int4)",
                "text",
                "left({0}, {1})",
                below,
                whole(chance.choice((-5, 0, 7, 5000))),
            )
        case 2:
            return make(
                "pg_catalog.substring(text,int4,int4)",
                "text",
                "room.total_substring({0}, {1}, {2})",
                below,
                whole(2),
                whole(chance.choice((0, 7, 5000))),
            )
        case 3:
            return make("pg_catalog.btrim(text)", "text", "btrim({0})", below)
        case _:
            other = written(chance, chance.randrange(depth))
            return make(
                "pg_catalog.||(text,text)", "text", "room.total_concat({0}, {1})", below, other
            )


def bounds(expr: Expr) -> Size:
    return Values(Room())(expr, SCOPE).size


def test_no_number_has_more_digits_than_its_bound(yard: Yard) -> None:
    chance = random.Random(5)
    seen = 0
    for _ in range(150):
        expr, sql = number(chance, chance.randint(1, 6))
        size = bounds(expr)
        for digits, scale in yard.run(
            f"SELECT length(abs(trunc(v))::text), scale(v) FROM unnest(%s::float8[]) f, "
            f"LATERAL (SELECT {sql} AS v OFFSET 0) q WHERE v IS NOT NULL",
            list(FLOATS),
        ):
            seen += 1
            assert digits <= max(size.whole, 1) and scale <= size.scale, sql
    assert seen > 300


def test_no_text_is_longer_than_its_bound(yard: Yard) -> None:
    chance = random.Random(6)
    for _ in range(150):
        expr, sql = written(chance, chance.randint(1, 5))
        size = bounds(expr)
        for chars, bytes_ in yard.run(
            f"SELECT length(v), octet_length(v) FROM unnest(%s::float8[]) f, unnest(%s::text[]) t, "
            f"LATERAL (SELECT {sql} AS v OFFSET 0) q WHERE v IS NOT NULL",
            list(FLOATS[:4]),
            list(TEXTS),
        ):
            assert chars <= size.chars and bytes_ <= size.bytes, sql


def test_numbers_with_more_than_a_thousand_digits_are_given_up(yard: Yard) -> None:
    fraction = "('0.' || repeat('3', {}))::numeric"
    for word in ("add", "sub", "mul", "div", "mod"):
        for places, known in ((MAX_SCALE // 2, True), (MAX_SCALE + 1, False)):
            [(found,)] = yard.run(
                f"SELECT room.total_{word}({fraction.format(places)}, {fraction.format(places)})"
            )
            assert (found is not None) == known, (word, places)
    # each of the factors may be, their product is not
    product = f"SELECT room.total_mul({fraction.format(400)}, {fraction.format(400)})"
    assert yard.run(product) == [(None,)]
    [(scale,)] = yard.run(f"SELECT scale(room.total_add({fraction.format(MAX_SCALE)}, 7e299))")
    assert scale == MAX_SCALE
    assert yard.run(
        f"SELECT room.total_add(round(1.5, {MAX_SCALE + 1}), 1), "
        "room.total_add('NaN'::numeric, 1)"
    ) == [(None, None)]


def test_honest_arithmetic_is_as_postgresql_has_it(yard: Yard) -> None:
    assert yard.run(
        "SELECT count(*) FILTER (WHERE v IS DISTINCT FROM w) "
        "FROM generate_series(-50, 50) i, generate_series(1, 50) j, "
        "LATERAL (VALUES (room.total_add(i / 7.0, j), i / 7.0 + j), "
        "(room.total_mul(i / 7.0, j), i / 7.0 * j), "
        "(room.total_div(i::numeric, j::numeric), i / j::numeric), "
        "(room.total_mod(i::numeric, j::numeric), i::numeric % j)) q(v, w)"
    ) == [(0,)]


def test_constants_are_as_long_as_they_are_written() -> None:
    assert of_literal("a\u00e9", "text") == Size(8, 2)
    assert of_literal("-12.340", "numeric")[2:] == (2, 3)
    assert of_literal("1e300", "numeric").whole == 301 < MAX_WHOLE
    assert of_literal("NaN", "numeric").digits == 1
    assert of_literal(None, "text") == Size(0)
    assert (
        bounds(
            make(
                "pg_catalog.||(text,text)",
                "text",
                "",
                (Const(type="text", value="x" * 9000), ""),
                whole(1),
            )[0]
        ).chars
        == MAX_CONCAT
    )


def test_a_text_that_is_among_keys_is_as_long_as_they_are() -> None:
    free, among = table(), table(options={"plate": ["none", "B-1", "B-22"]})
    plate = next(i for i, column in enumerate(free.columns) if column.name == "plate")
    wide, narrow = (_column(one.columns[plate], one, 100).size for one in (free, among))
    assert (wide.chars, narrow.chars, narrow.bytes) == (1024, 4, 4)
