"""The allowance: every call has a price, more never costs less, nothing runs longer than allowed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction

import pytest

from privid.calculus import FUNCTIONS
from privid.calculus.functions import is_operator
from privid.calculus.reader import parse_select
from privid.errors import NoRule
from privid.model import Collect, Collected, TableUse
from privid.room.aggregates import AGGREGATES
from privid.room.allowance import bound, worst_case
from privid.room.calls import CALLS
from privid.room.plans import Planned
from privid.room.premises import Order, Room
from privid.room.sizes import RESULTS
from tests.calculus import builders as b
from tests.calculus.builders import Json

from .cases import CASES, PLATE, SPEED, Case, allowed, honest, sized
from .pathological import colliding_texts
from .yard import Yard, own_yard


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    with own_yard() as made:
        yield made


# Every call has a price


def test_every_function_of_the_calculus_has_a_price() -> None:
    assert set(FUNCTIONS) <= set(CALLS)


def test_everything_that_the_library_serialises_has_a_price(yard: Yard) -> None:
    rows = yard.run("SELECT kind, identity FROM privid.allowed_calls()")
    assert {identity for kind, identity in rows if kind != "aggregate"} <= set(CALLS)
    assert {identity for kind, identity in rows if kind == "aggregate"} == set(AGGREGATES)


def test_every_call_that_yields_a_text_or_a_numeric_says_how_long(yard: Yard) -> None:
    functions = [fn for fn in CALLS if not fn.startswith("cast(") and not is_operator(fn)]
    operators = [
        fn.replace("(", "(none,") if fn.count(",") == 0 else fn for fn in CALLS if is_operator(fn)
    ]
    types = dict(
        yard.run(
            "SELECT fn, prorettype::regtype::text FROM unnest(%s::text[]) fn "
            "JOIN pg_proc p ON p.oid = to_regprocedure(fn)",
            functions,
        )
    )
    types |= {
        fn.replace("(none,", "("): type_
        for fn, type_ in yard.run(
            "SELECT fn, oprresult::regtype::text FROM unnest(%s::text[]) fn "
            "JOIN pg_operator o ON o.oid = to_regoperator(fn)",
            operators,
        )
    }
    assert len(types) > 300
    sized_ = {fn for fn, type_ in types.items() if type_ in ("text", "numeric")}
    assert sized_ <= set(RESULTS)
    assert {fn for fn in CALLS if fn.startswith("cast(") and fn.endswith(",text)")} <= set(RESULTS)


def test_a_call_without_a_price_is_refused_not_free() -> None:
    for select in (
        b.select([b.count()], where=b.call("pg_sleep(float8)", SPEED)),
        b.select([b.aggregate("string_agg(text,text)", PLATE, b.const(",", "text"))]),
        b.select([b.count()], where=b.in_list(b.call("md5(text)", PLATE, type_="text"), ["a"])),
    ):
        with pytest.raises(NoRule, match="no bound is known"):
            allowed(select, sized(100, "plate", "speed"))


# More never costs less


def like(pattern: str) -> Json:
    return b.select([b.count()], where=b.call("~~(text,text)", PLATE, b.const(pattern, "text")))


def statements() -> list[Json]:
    """Of all kinds."""
    first = b.rows(PLATE, limit=b.const("100", "int8"))
    joined = b.join(
        "left", b.scan(0, 1), b.scan(0, 2), b.call("=(text,text)", PLATE, b.col("plate", rel=2))
    )
    return [
        b.select([b.count()]),
        like("%abc%"),
        b.select([b.count(PLATE, distinct=True)]),
        b.select([b.count()], by=[PLATE]),
        b.select([b.aggregate("max(text)", PLATE, type_="text")]),
        b.select([b.count()], source=b.subquery(first)),
        b.select([b.count()], source=b.subquery(b.grouped([b.count()], [PLATE], source=joined))),
        b.select(
            [b.count()], source=b.subquery(b.setop("except", b.rows(PLATE), b.rows(PLATE), "text"))
        ),
    ]


@pytest.mark.parametrize(
    "room",
    [
        Room(),
        Room(keyed=False),
        Room(order=Order.ICU),
        Room(order=Order.LIBC),
        Room(sort_memory=1 << 26),
    ],
)
def test_more_rows_never_cost_less(room: Room) -> None:
    for select in statements():
        costs = [
            allowed(select, sized(rows, "plate"), room=room)
            for rows in (10, 100, 1_000, 10_000, 30_000, 100_000, 1_000_000)
        ]
        assert costs == sorted(costs) and costs[-1] > costs[0], select


@pytest.mark.parametrize("room", [Room(), Room(keyed=False), Room(order=Order.LIBC)])
def test_longer_texts_never_cost_less(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    for select in statements():
        costs = []
        for chars in (1, 10, 100, 500, 1024, 5000):
            monkeypatch.setattr("privid.room.sizes.MAX_TEXT", chars)
            costs.append(allowed(select, sized(5_000, "plate"), room=room))
        assert costs == sorted(costs) and costs[-1] > costs[0], select


def test_longer_lists_and_patterns_never_cost_less() -> None:
    table = sized(10_000, "plate", "speed")
    for room in (Room(), Room(keyed=False)):
        lists = [
            allowed(
                b.select([b.count()], where=b.in_list(PLATE, [f"k{i:05}" for i in range(n)])),
                table,
                room=room,
            )
            for n in (1, 5, 8, 9, 10, 100, 10_000)
        ]
        assert lists == sorted(lists) and lists[-1] > lists[0]
    # without a secret key a list is compared item by item
    assert (
        allowed(
            b.select([b.count()], where=b.in_list(PLATE, [f"k{i:05}" for i in range(10_000)])),
            table,
            room=Room(keyed=False),
        )
        > 10 * lists[0]
    )
    patterns = [allowed(like(f"%{'a' * n}%"), table) for n in (1, 10, 100, 1000)]
    assert patterns == sorted(patterns) and patterns[-1] > 10 * patterns[0]
    # an escaped % does not end a part, _ costs at least as much as a letter
    assert allowed(like("%" + "\\%" * 100 + "%"), table) >= allowed(
        like("%" + "a" * 100 + "%"), table
    )
    assert allowed(like("%" + "_" * 100 + "%"), table) >= allowed(
        like("%" + "a" * 100 + "%"), table
    )


def test_every_reference_to_a_column_of_a_subquery_costs_what_it_stands_for() -> None:
    """PostgreSQL puts the expression in the place of the reference."""
    table = sized(1_000, "plate")
    heavy = b.call("lower(text)", PLATE, type_="text")
    refer = b.call("=(text,text)", b.position(1, "text", "v"), b.const("x", "text"))

    def nested(times: int) -> Fraction:
        return allowed(
            b.select([b.count()], source=b.subquery(b.rows(heavy)), where=b.both(*[refer] * times)),
            table,
        )

    assert nested(11) - nested(1) > 9 * (nested(2) - nested(1)) > 0


# What people write is quick


def test_plain_statements_over_few_rows_stay_within_a_quantum() -> None:
    """With the margin for noise, 20 ms; a quantum is 100 ms."""
    for select in plain():
        assert allowed(
            select, sized(1_000, "speed", "kind", "red", "region", chunks=100)
        ) < Fraction(80, 1000)


def test_plain_statements_over_a_million_rows_take_seconds() -> None:
    for select in plain():
        assert allowed(select, sized(1_000_000, "speed", "kind", chunks=100)) < Fraction(16, 5)


def plain() -> list[Json]:
    kinds = b.in_list(b.col("kind"), ["car", "bike"])
    return [
        b.select([b.count()]),
        b.select([b.total(b.clamp(SPEED, 0, 10))]),
        b.select([b.count()], by=[b.trunc()]),
        b.select([b.count()], where=kinds),
        b.select([b.count()], where=kinds, by=[b.col("kind")]),
    ]


def test_parts_of_an_average_are_charged() -> None:
    select, table = b.select([b.mean(b.clamp(SPEED, 0, 10))]), sized(10_000, "speed")
    uses = [TableUse(table, ((0, table.grid.count),))]

    def parts(*columns: Collected) -> Fraction:
        return worst_case(parse_select(select), columns, [table], uses)

    count, total, squares = (
        Collected(0, Collect.COUNT),
        Collected(0, Collect.SUM, "0", "10"),
        Collected(0, Collect.SQUARES, "0", "10"),
    )
    assert parts(count) < parts(count, total) < parts(count, total, squares)
    with pytest.raises(NoRule):
        parts(Collected(1, Collect.SUM))


def bins_of_a_median(rows: int, edges: int, digits: int, *keys: Json) -> Fraction:
    """What is allowed for the bins of a number."""
    table, select = sized(rows, "speed"), b.select([b.percentile("0.5", b.clamp(SPEED, 0, 1000))], by=keys)
    column = Collected(0, Collect.BINS, None, None, tuple(f"{i}.5" for i in range(edges)), digits)
    return worst_case(parse_select(select), [column], [table], [TableUse(table, ((0, table.grid.count),))])


def test_bins_of_a_quantile_are_charged_by_their_number_and_digits() -> None:
    for keys in ([], [b.trunc()]):
        few, many, long = (bins_of_a_median(10_000, edges, digits, *keys) for edges, digits in ((1, 6), (100, 6), (100, 14)))
        assert few < many < long


def test_bins_take_no_longer_than_is_charged(yard: Yard) -> None:
    """Every value in the last bin, so that every sum has all digits."""
    rows, edges, digits = 50_000, 100, 14
    yard.fill(rows=str(rows), speed="1000")
    listed = ",".join(f"{i}.5" for i in range(edges))
    place = f"width_bucket(room.range(speed, 0, 1000), '{{{listed}}}'::numeric[])"
    took = yard.seconds(f"SELECT sum(('1e' || ({place} * {digits})::text)::numeric) FROM t")
    assert 3 * took < bins_of_a_median(rows, edges, digits)


def test_every_pattern_of_a_list_is_charged_for_itself() -> None:
    """Not each for the first one."""
    cheap, dear = "zz", "%" + "x" * 500 + "y%"

    def listed(*patterns: str) -> Fraction:
        where = {**b.in_list(PLATE, patterns), "fn": "pg_catalog.~~(text,text)"}
        return allowed(b.select([b.count()], where=where), sized(100, "plate"))

    first, last = listed(dear, *[cheap] * 9), listed(*[cheap] * 9, dear)
    assert first == last
    assert listed(cheap, *[dear] * 9) > 5 * listed(*[cheap] * 9, dear) - 5 * listed(*[cheap] * 10)


def in_zones(*zones: str) -> Json:
    """A count of the chunks that are old in any of these zones."""
    local = [b.call("timezone(text,timestamptz)", b.const(zone, "text"), b.col("chunk"), type_="timestamp") for zone in zones]
    old = [b.call("<(timestamp,timestamp)", one, b.const("2000-01-01", "timestamp")) for one in local]
    return b.select([b.count()], where={"e": "or", "type": "boolean", "loc": -1, "args": old})


def test_a_time_zone_is_charged_where_its_name_is_met_first(yard: Yard) -> None:
    """A session searches for its rules then, and keeps them."""
    names = [f"posix/America/Argentina/QQ{chr(65 + i)}1:23DST" for i in range(20)]
    again = allowed(in_zones(names[0]), sized(100)) - allowed(in_zones(names[0]), sized(50))
    once = allowed(in_zones(*names), sized(1)) - allowed(in_zones(*[names[0]] * len(names)), sized(1))
    begun = yard.processor()
    for name in names:
        yard.run(f"SELECT timezone('{name}', now())")
    assert 50 * again < once and 3 * (yard.processor() - begun) < once


def test_only_the_runs_that_are_read_are_charged() -> None:
    table = sized(100_000, "speed", chunks=1_000)
    select = parse_select(b.select([b.count()]))
    few, all_ = (
        worst_case(select, (), [table], [TableUse(table, ((0, chunks),))]) for chunks in (10, 1_000)
    )
    assert few < Fraction(3, 50) < all_


def test_public_rows_count_once_for_each_row_that_finds_them() -> None:
    public = b.values(*(f"k{i}" for i in range(1_000)))
    joined = b.join(
        "inner",
        b.scan(0, 1),
        public,
        b.call("=(text,text)", PLATE, b.position(1, "text", "k", rel=3)),
    )
    unequal = b.join(
        "inner",
        b.scan(0, 1),
        public,
        b.call("<>(text,text)", PLATE, b.position(1, "text", "k", rel=3)),
    )
    table = sized(5_000, "plate")
    looked_up, paired = (
        allowed(b.select([b.count()], source=source), table) for source in (joined, unequal)
    )
    assert paired > 10 * looked_up


def test_columns_of_a_public_relation_are_looked_up_like_it() -> None:
    public = b.values(*(f"k{i}" for i in range(1_000)), rel=1)
    key = b.position(1, "text", "k", rel=1)
    picked = {"kind": "subquery", "rel": 3, "alias": "p", "select": b.rows(key, source=public)}
    on = b.call("=(text,text)", PLATE, b.position(1, "text", "k", rel=3))
    table = sized(5_000, "plate")
    alone = allowed(b.select([b.count()]), table)
    assert allowed(b.select([b.count()], source=b.join("inner", b.scan(0, 1), picked, on)), table) < 3 * alone


# The room is as the bounds have it


@pytest.mark.parametrize(
    ("statement", "step"),
    [
        ("SELECT plate FROM t EXCEPT SELECT plate FROM t", "HashSetOp"),
        ("SELECT plate FROM t INTERSECT ALL SELECT plate FROM t", "HashSetOp"),
        ("SELECT plate FROM t UNION SELECT plate FROM t", "HashAggregate"),
        ("SELECT DISTINCT plate, speed FROM t", "HashAggregate"),
        ("SELECT count(*) FROM t a FULL JOIN t b ON a.plate = b.plate", "Hash Full Join"),
        ("SELECT count(*) FROM t a LEFT JOIN t b ON a.speed = b.speed", "Hash Left Join"),
    ],
)
def test_hash_tables_are_used_wherever_they_can(yard: Yard, statement: str, step: str) -> None:
    yard.fill(rows="1000", plate="md5(i::text)", speed="i")
    plan = str(yard.run(f"EXPLAIN {statement}"))
    assert step in plan and "Sort" not in plan


# Nothing runs longer than it was allowed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_worst_runs_within_its_allowance(yard: Yard, case: Case) -> None:
    case.fill(yard, case.rows)
    assert 3 * yard.seconds(case.sql) < honest(case)


def test_texts_of_one_hash_are_slow_without_a_key_and_not_with_one(yard: Yard) -> None:
    texts = list(colliding_texts(4_000))
    statement = "SELECT count(*) FROM (SELECT t FROM alike GROUP BY t) q"
    seconds = []
    with closing(yard.beside("postgres")) as plain_:
        for one in (yard, plain_):
            one.run("CREATE TEMP TABLE alike (t text)")
            one.run("INSERT INTO alike SELECT unnest(%s::text[])", texts)
            assert one.run("SELECT count(DISTINCT t), count(DISTINCT hashtext(t)) FROM alike") == [
                (4_000, 1)
            ]
            assert "HashAggregate" in str(one.run(f"EXPLAIN {statement}"))
            seconds.append(one.seconds(statement, 3))
    keyed, public = seconds
    assert public > 20 * keyed


def test_what_is_equal_has_one_hash_also_across_types(yard: Yard) -> None:
    assert (
        yard.run(
            "SELECT count(*) FROM (VALUES (1.0), (1.00), ('NaN'), ('NaN'), (1000), (1e3)) v(n) "
        "GROUP BY n"
        )
        == [(2,)] * 3
    )
    assert (
        yard.run(
            "SELECT count(*) FROM (VALUES (float8 '0'), ('-0'), ('NaN'), ('NaN')) v(n) GROUP BY n"
        )
        == [(2,)] * 2
    )
    assert (
        yard.run(
            "SELECT count(*) FROM (VALUES (interval '1 day'), ('24:00'), ('1 mon'), ('30 days')) v(i) "
        "GROUP BY i"
        )
        == [(2,)] * 2
    )
    yard.run(
        "CREATE TEMP TABLE IF NOT EXISTS wide AS "
        "SELECT i::int8 AS i FROM generate_series(-100, 100) i"
    )
    yard.run(
        "CREATE TEMP TABLE IF NOT EXISTS narrow AS "
        "SELECT i::int2 AS s, i::int4 AS i, i::float4 AS f FROM wide"
    )
    for on in ("w.i = n.i", "w.i = n.s", "w.i::float8 = n.f"):
        assert "Hash Join" in str(
            yard.run(f"EXPLAIN SELECT count(*) FROM wide w JOIN narrow n ON {on}")
        )
        assert yard.run(f"SELECT count(*) FROM wide w JOIN narrow n ON {on}") == [(201,)], on


# Memory and files

def test_memory_and_files_are_bounded_too() -> None:
    table = sized(100_000, "plate")
    uses = [TableUse(table, ((0, table.grid.count),))]

    def space(select: Json) -> tuple[int, int]:
        found = bound(parse_select(select), (), [table], uses, planned=Planned())
        return found.memory, found.files

    scan = space(b.select([b.count()]))
    assert scan == (64 << 20, 0)  # rows stream: one message at a time
    grouped = space(b.select([b.count()], source=b.subquery(b.grouped([b.count()], [PLATE]))))
    assert scan[0] + Room().hash_memory <= grouped[0] < scan[0] + 2 * Room().hash_memory
    assert grouped[1] > 4096 * 100_000
    # what EXCEPT compares stays in memory
    setop = b.setop("except", b.rows(PLATE), b.rows(PLATE), "text")
    assert space(b.select([b.count()], source=b.subquery(setop)))[0] > 2 * 4096 * 100_000


# And it is quickly known


def test_the_bound_of_an_ordinary_statement_takes_milliseconds() -> None:
    table = sized(1_000, "plate", "speed", "kind")
    select = parse_select(
        b.select(
            [b.count(), b.total(b.clamp(SPEED, 0, 10))],
            by=[b.trunc()],
            where=b.both(*(b.compare("speed", ">", i) for i in range(100))),
        )
    )
    uses = [TableUse(table, ((0, 10),))]
    begun = time.process_time()
    worst_case(select, (), [table], uses)
    assert time.process_time() - begun < 0.02


def test_the_bound_of_the_largest_statement_takes_less_than_a_second() -> None:
    table = sized(1_000, "plate", "speed")
    uses = [TableUse(table, ((0, 10),))]
    lists = b.in_list(PLATE, [f"key {i}" for i in range(99_000)])
    calls = b.either(*(b.compare("speed", ">", i) for i in range(33_000)))
    for where in (lists, calls):
        select = parse_select(b.select([b.count()], where=where))
        begun = time.process_time()
        worst_case(select, (), [table], uses)
        assert time.process_time() - begun < 1
