"""What the room's calls and statements take at worst, beside what the allowance says: four times
that, or more."""

from __future__ import annotations

import sys
from pathlib import Path

from privid.calculus.functions import FUNCTIONS
from privid.calculus.tree import Const, Expr
from privid.room.aggregates import aggregate
from privid.room.allowance import SAFETY
from privid.room.calls import call
from privid.room.premises import Room
from privid.room.sizes import Size, fixed, number, of_literal, text

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from privid.calculus.tree import Aggregate
from tests.calculus import builders as b
from tests.room.cases import CASES, allowed, honest, sized
from tests.room.yard import Yard, own_yard

ROOM = Room()
#: four bytes, of one case; cut by || ; four bytes, of two cases
LETTER, LONG, CASED = (
    "repeat(U&'\\+01D49C', 1024)",
    "repeat(U&'\\+01D49C', 8192)",
    "repeat(U&'\\+010400', 1024)",
)
TEXT, CONCAT, FLOAT, MOMENT = text(1024), text(8192), fixed("float8"), fixed("timestamptz")
SPAN = fixed("interval")
#: 300 digits and 699, as large as arithmetic leaves them
BIG, BIGGER = "(repeat('7', 300) || '.' || repeat('3', 699))::numeric", number(300, 699)
SMALL, SMALLER = "(repeat('7', 5) || '.' || repeat('3', 6))::numeric", number(5, 6)
TIME = "timestamptz '2026-03-01 06:00:00.123456+00'"

#: identity, SQL, what a and b are in it, sizes, constants from the second argument on
Line = tuple[str, str, dict[str, str], list[Size], list[str]]


def calls() -> list[Line]:
    """One line for each class, on the worst arguments known."""
    letters = "\U0001d49c" * 60
    near = f"'%{letters}b%'"
    cased = "'%" + "\U00010400" * 60 + "b%'"
    floats = {"a": "1.2345678901234e200::float8", "b": "(-0.33333333333)::float8"}
    big, small = {"a": BIG, "b": BIG}, {"a": SMALL, "b": SMALL}
    half = dict.fromkeys(
        "ab", "(repeat('7', 149) || '.' || repeat('3', 349))::numeric"
    )  # the longest that are multiplied
    found: list[Line] = [
        ("=(text,text)", "a = b", {"a": LETTER, "b": LETTER}, [TEXT, TEXT], []),
        ("<(text,text)", "a < b", {"a": LETTER, "b": f"{LETTER} || 'b'"}, [TEXT, TEXT], []),
        (
            "~~(text,text)",
            f"a LIKE {near}",
            {"a": LETTER},
            [TEXT, of_literal(near.strip("'"), "text")],
            [near.strip("'")],
        ),
        (
            "~~*(text,text)",
            f"a ILIKE {cased}",
            {"a": CASED},
            [TEXT, of_literal(cased.strip("'"), "text")],
            [cased.strip("'")],
        ),
        (
            "strpos(text,text)",
            "strpos(a, b)",
            {"a": LONG, "b": f"'b' || {LETTER}"},
            [CONCAT, TEXT],
            [],
        ),
        (
            "split_part(text,text,int4)",
            "room.total_split_part(a, b, -2)",
            {"a": LONG, "b": f"'b' || {LETTER}"},
            [CONCAT, TEXT, fixed("int4")],
            [],
        ),
        ("lower(text)", "lower(a)", {"a": CASED}, [TEXT], []),
        ("length(text)", "length(a)", {"a": LETTER}, [TEXT], []),
        (
            "||(text,text)",
            "room.total_concat(a, b)",
            {"a": LETTER, "b": LETTER},
            [TEXT, TEXT],
            [],
        ),
        ("left(text,int4)", "left(a, -1)", {"a": LETTER}, [TEXT, fixed("int4")], []),
        (
            "substring(text,int4,int4)",
            "room.total_substring(a, 1000, 9)",
            {"a": LETTER},
            [TEXT, *[fixed("int4")] * 2],
            [],
        ),
        ("btrim(text)", "btrim(a)", {"a": "repeat(' ', 1024)"}, [TEXT], []),
        (
            "starts_with(text,text)",
            "starts_with(a, b)",
            {"a": LETTER, "b": LETTER},
            [TEXT, TEXT],
            [],
        ),
        (
            "cast(text,float8)",
            "room.total_float8(a)",
            {"a": "'1' || repeat('0', 1014) || 'e-1014'"},
            [TEXT],
            [],
        ),
        ("cast(text,int8)", "room.total_int8(a)", {"a": "repeat('0', 1024)"}, [TEXT], []),
        ("+(float8,float8)", "room.total_add(a, b)", floats, [FLOAT, FLOAT], []),
        ("power(float8,float8)", "room.total_power(a, b)", floats, [FLOAT, FLOAT], []),
        ("exp(float8)", "room.total_exp(b)", floats, [FLOAT], []),
        ("<(float8,float8)", "a < b", floats, [FLOAT, FLOAT], []),
        (
            "width_bucket(float8,float8,float8,int4)",
            "room.total_width_bucket(a, 0, 1e300, 1000)",
            floats,
            [FLOAT, FLOAT, FLOAT, fixed("int4")],
            [],
        ),
        (
            "range(float8,float8,float8)",
            "privid.range(a, 0, 10)",
            {"a": "1.23456789012345e-300::float8"},
            [FLOAT] * 3,
            [],
        ),
        ("numeric(float8)", "a::numeric", {"a": "1.7976931348623157e308::float8"}, [FLOAT], []),
        ("cast(float8,text)", "a::text", {"a": "(-2.2250738585072014e-308)::float8"}, [FLOAT], []),
        (
            "date_trunc(text,timestamptz)",
            "date_trunc('week', a)",
            {"a": TIME},
            [of_literal("week", "text"), MOMENT],
            [],
        ),
        (
            "date_trunc(text,timestamptz,text)",
            "date_trunc('day', a, 'Europe/Paris')",
            {"a": TIME},
            [of_literal("day", "text"), MOMENT, of_literal("Europe/Paris", "text")],
            [],
        ),
        (
            "extract(text,timestamptz)",
            "extract(julian FROM a)",
            {"a": TIME},
            [of_literal("julian", "text"), MOMENT],
            [],
        ),
        (
            "extract(text,interval)",
            "room.total_extract('epoch', a)",
            {"a": "interval '100 days 3:04:05.67'"},
            [of_literal("epoch", "text"), SPAN],
            [],
        ),
        (
            "timezone(text,timestamptz)",
            "timezone('America/New_York', a)",
            {"a": TIME},
            [of_literal("x", "text"), MOMENT],
            [],
        ),
        (
            "to_char(timestamptz,text)",
            f"to_char(a, '{'Day Month YYYY HH24:MI:SS.US TZ ' * 8}')",
            {"a": TIME},
            [MOMENT, text(256, 256)],
            [],
        ),
        ("cast(timestamptz,text)", "a::text", {"a": TIME}, [MOMENT], []),
        ("+(timestamptz,interval)", "a + interval '1 month'", {"a": TIME}, [MOMENT, SPAN], []),
    ]
    for op, word in (("+", "add"), ("*", "mul"), ("/", "div"), ("%", "mod")):
        found.append(
            (f"{op}(numeric,numeric)", f"room.total_{word}(a, b)", small, [SMALLER, SMALLER], [])
        )
        other = (
            {"a": BIG, "b": "('7.' || repeat('3', 699))::numeric"}
            if op in "/%"
            else big
            if op == "+"
            else half
        )
        found.append(
            (f"{op}(numeric,numeric)", f"room.total_{word}(a, b)", other, [BIGGER, BIGGER], [])
        )
    found += [
        ("<(numeric,numeric)", "a < b", big, [BIGGER, BIGGER], []),
        ("round(numeric,int4)", "round(a, 600)", big, [BIGGER, SPAN], []),
        ("float8(numeric)", "room.total_float8(a)", big, [BIGGER], []),
        ("cast(numeric,text)", "a::text", big, [BIGGER], []),
    ]
    return found


def identity(name: str) -> str:
    return (
        name
        if name.startswith("cast(")
        else f"{'privid' if name.startswith('range') else 'pg_catalog'}.{name}"
    )


def source(columns: dict[str, str], rows: int) -> str:
    values = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    return f"(SELECT {values} OFFSET 0) q, generate_series(1, {rows}) i"


def per_row(yard: Yard, expression: str, columns: dict[str, str], guess: int) -> float:
    """Nanoseconds of one evaluation."""
    rows = max(50, min(200_000, 200_000_000 // guess))
    bare = yard.seconds(f"SELECT count({next(iter(columns))}) FROM {source(columns, rows)}", 3)
    return (
        max(
            yard.seconds(f"SELECT count({expression}) FROM {source(columns, rows)}", 3) - bare, 1e-9
        )
        * 1e9
        / rows
    )


def show(what: str, measured: float, modelled: float, unit: str) -> None:
    print(
        f"{what:<62} {measured:>12,.3f} {modelled:>14,.3f} {unit}  {modelled / measured:>8.1f}",
        flush=True,
    )


def main() -> None:
    print(f"{'':<62} {'measured':>12} {'allowed':>14}       {'ratio':>8}")
    with own_yard() as yard:
        yard.run("SET enable_nestloop = on")
        for name, expression, columns, sizes, constants in calls():
            fn = identity(name)
            assert fn in FUNCTIONS, fn
            args: list[Expr] = [Const(type="text", value=value) for value in ("", *constants)]
            cost = call(fn, sizes, args, ROOM)
            digits = f" of {sizes[0].digits} digits" if sizes[0].digits else ""
            show(name + digits, per_row(yard, expression, columns, cost), SAFETY * cost, "ns")
        aggregates(yard)
        yard.run("SET enable_nestloop = off")
        for case in CASES:
            case.fill(yard, case.rows)
            show(
                f"{case.name}, {case.rows:,} rows",
                yard.seconds(case.sql, 2),
                float(honest(case)),
                "s ",
            )
        plain(yard)


def aggregates(yard: Yard) -> None:
    for name, columns, size in (
        ("sum(numeric)", {"a": BIG}, BIGGER),
        ("variance(numeric)", {"a": BIG}, BIGGER),
        ("max(text)", {"a": LETTER}, TEXT),
        ("sum(float8)", {"a": "1.5::float8"}, FLOAT),
        ("sum(numeric)", {"a": SMALL}, SMALLER),
    ):
        rows = 2_000 if size.bytes > 100 else 200_000
        bare = yard.seconds(f"SELECT count(a) FROM {source(columns, rows)}", 3)
        measured = (
            max(
                yard.seconds(f"SELECT {name.partition('(')[0]}(a) FROM {source(columns, rows)}", 3)
                - bare,
                1e-9,
            )
            * 1e9
            / rows
        )
        agg = Aggregate(f"pg_catalog.{name}", (), False, False, None, "numeric", -1)
        show(
            f"{name}, a row of {size.bytes} bytes",
            measured,
            SAFETY * aggregate(agg, [size], rows, ROOM).step,
            "ns",
        )


def plain(yard: Yard) -> None:
    """What people write."""
    for rows in (1_000, 1_000_000):
        table = sized(rows, "speed", "kind", chunks=100)
        yard.run("DROP TABLE IF EXISTS pg_temp.t")
        yard.run(
            "CREATE TEMP TABLE t AS SELECT "
            "timestamptz '2026-03-01 06:00+00' + i / 10000 * interval '1 min' AS chunk, "
            "(i % 100)::float8 AS speed, (ARRAY['car', 'bike', 'bus'])[i % 3 + 1] AS kind "
            f"FROM generate_series(1, {rows}) i"
        )
        for sql, select in (
            ("SELECT count(*) FROM t", b.select([b.count()])),
            (
                "SELECT sum(privid.range(speed, 0, 10)) FROM t",
                b.select([b.total(b.clamp(b.col("speed"), 0, 10))]),
            ),
            (
                "SELECT date_trunc('hour', chunk), count(*) FROM t GROUP BY 1",
                b.select([b.count()], by=[b.trunc()]),
            ),
            (
                "SELECT kind, count(*) FROM t WHERE kind IN ('car', 'bus') GROUP BY 1",
                b.select(
                    [b.count()], where=b.in_list(b.col("kind"), ["car", "bus"]), by=[b.col("kind")]
                ),
            ),
        ):
            show(f"{sql}, {rows:,} rows", yard.seconds(sql, 3), float(allowed(select, table)), "s ")


if __name__ == "__main__":
    main()
