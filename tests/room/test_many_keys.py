"""Hash tables of many keys: PostgreSQL turns each hash by one bit more and adds them up, so that equal ones cancel each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from privid.room.calls import compare
from privid.room.premises import Order, Room
from privid.room.relations import grouping, joining
from privid.room.sizes import Size, fixed, text

from .yard import Yard, own_yard

ROWS = 6_000
NANO = 1_000_000_000

#: Columns of rows whose hashes are few, and of rows that look alike but whose hashes are many
HOSTILE = {
    "two equal numbers, 32 places apart": (["i", *["0"] * 31, "i"], ["i", *["0"] * 31, "i + 0.5"]),
    # at the powers of x in (1 + x)^27
    "16 equal numbers among 28": (["0" if place & ~27 else "i" for place in range(28)], [f"i + {place}" for place in range(28)]),
    "truth values that come twice": ([f"((i >> {place % 32}) & 1) = 1" for place in range(64)],
                                     [f"((i >> {place}) & 1) = 1" for place in range(32)]),
}


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    with own_yard() as made:
        yield made


def filled(yard: Yard, columns: list[str]) -> list[str]:
    kind = "boolean" if "=" in columns[0] else "float8"
    yard.run("DROP TABLE IF EXISTS keys")
    made = ", ".join(f"({column})::{kind} AS k{number}" for number, column in enumerate(columns))
    yard.run(f"CREATE TEMP TABLE keys AS SELECT {made} FROM (SELECT i::int8 FROM generate_series(1, {ROWS}) i) i")
    return [f"k{number}" for number in range(len(columns))]


def sizes(columns: list[str]) -> list[Size]:
    return [fixed("boolean" if "=" in columns[0] else "float8")] * len(columns)


@pytest.mark.parametrize("name", HOSTILE)
def test_keys_that_cancel_each_other_take_no_longer_than_is_charged(yard: Yard, name: str) -> None:
    took = []
    for columns in HOSTILE[name]:
        keys = filled(yard, columns)
        took.append(yard.seconds(f"SELECT count(*) FROM (SELECT DISTINCT {', '.join(keys)} FROM keys OFFSET 0) q"))
        charged = grouping(ROWS, ROWS, sizes(columns), 8 * len(columns), Room()) / NANO
        assert 3 * took[-1] < charged
    assert took[0] > 3 * took[1]  # they do cancel each other


def test_a_join_by_keys_that_cancel_each_other_takes_no_longer_than_is_charged(yard: Yard) -> None:
    columns = HOSTILE["two equal numbers, 32 places apart"][0]
    keys = filled(yard, columns)
    took = yard.seconds(f"SELECT count(*) FROM keys a JOIN keys b ON {' AND '.join(f'a.{key} = b.{key}' for key in keys)}")
    assert 3 * took < joining(ROWS, ROWS, ROWS, sizes(columns), (264, 264), Room()) / NANO


def test_more_keys_never_cost_less_and_few_cost_next_to_nothing_more() -> None:
    costs = [grouping(100_000, 100_000, sizes(["i"] * count), 8, Room()) for count in range(1, 70)]
    assert costs == sorted(costs)
    assert costs[11] < 20 * costs[0] < costs[32]


def test_every_type_that_can_be_a_key_has_a_hash_with_a_secret(yard: Yard) -> None:
    """Labels and truth values too: of many of them, rows of one hash can be made as well."""
    left = yard.run("""
        SELECT DISTINCT support.amproclefttype::regtype::text FROM pg_amproc support
          JOIN pg_opfamily family ON family.oid = support.amprocfamily JOIN pg_am method ON method.oid = family.opfmethod
         WHERE method.amname = 'hash' AND support.amprocnum = 1 AND support.amproc::regprocedure::text NOT LIKE 'room.%'
           AND support.amproclefttype::regtype::text IN ('text', 'name', 'boolean', 'anyenum', 'smallint', 'integer', 'bigint', 'real',
               'double precision', 'numeric', 'date', 'time without time zone', 'timestamp without time zone',
               'timestamp with time zone', 'interval')""")
    assert left == []


def test_texts_are_compared_by_icu_in_no_longer_than_is_charged(yard: Yard) -> None:
    """Marks that could be a part of what comes later are looked for from each of them to the last."""
    marks, rows = 1023, 40
    one, other = ("a" + "\N{TIBETAN VOWEL SIGN AA}" * marks, "A" + "\N{TIBETAN VOWEL SIGN AA}" * marks)
    yard.run("DROP TABLE IF EXISTS texts")
    yard.run(f"CREATE TEMP TABLE texts AS SELECT %s::text AS a, %s::text AS b FROM generate_series(1, {rows})", one, other)
    took = yard.seconds('SELECT count(*) FROM texts WHERE a COLLATE "und-x-icu" < b')
    size = text(len(one))
    assert 3 * took < rows * compare(size, size, Room(order=Order.ICU)) / NANO
