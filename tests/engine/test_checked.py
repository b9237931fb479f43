"""Of what a parser says every value is checked: what parsing can make passes, and nothing that a column does not promise does."""

from __future__ import annotations

import json
import random
import struct
from fractions import Fraction

import pytest

from privid.engine.checked import Checker
from privid.engine.rows import Row, encode_columns
from privid.model import Column
from privid.sandbox.rows import default_row, parse_rows

FREE = Column("free", 1, "float8", "float8", False, 0.5)
SPEED = Column("speed", 2, "float8", "float8", False, -1.0, bounds=(Fraction(0), Fraction(120)))
LARGE = Column("large", 3, "float8", "float8", False, 0.0, bounds=(Fraction(-10**18), Fraction(10**18)))
SEEN = Column("seen", 4, "boolean", "boolean", False, False)
WORD = Column("word", 5, "text", "text", False, "none")
KIND = Column("kind", 6, "enum", "kind", False, "car", labels=("car", "person"))
KEY = Column("key", 7, "text", "text", False, "", keys=("a", "\u00e9\u00e9"))
COLUMNS = FREE, SPEED, LARGE, SEEN, WORD, KIND, KEY
CHECKER = Checker(COLUMNS)


def values(chance: random.Random) -> dict[str, object]:
    number = chance.choice([0.0, -0.0, 1e308, -5e-324, 119.9995, 1e17 + 1, chance.uniform(-200, 200), chance.uniform(-1e18, 1e18)])
    word = chance.choice(["", "x" * 2000, "\u00e9" * 1024, "\U0001f600" * 1024, "a\0b", "\ud800", "person", "\u00e9\u00e9", "a"])
    return {column.name: chance.choice([number, word, True, None, [], int(number) if abs(number) < 1e300 else 0]) for column in COLUMNS}


@pytest.mark.parametrize("rows", [0, 1, 7, 300])
def test_whatever_parsing_makes_is_a_block(rows: int) -> None:
    chance = random.Random(rows)
    for _ in range(20):
        printed = "".join(json.dumps(values(chance)) + "\n" for _ in range(rows)).encode()
        made = parse_rows(printed, COLUMNS, rows)
        body = encode_columns(COLUMNS, made)
        assert CHECKER.is_block(len(made), body)
        assert len(body) <= CHECKER.longest(len(made))


@pytest.mark.parametrize(("column", "value"), [
    (FREE, float("nan")), (FREE, float("inf")), (FREE, -0.0),
    (SPEED, 120.001), (SPEED, -0.001), (SPEED, 80.12345), (SPEED, float("nan")), (SPEED, 1e300), (SPEED, -2.0),
    (LARGE, 1e18 + 1000), (LARGE, 5e-324), (LARGE, -1e300),
    (WORD, "x" * 1025), (WORD, "\u00e9" * 1025), (WORD, "a\0"), (KIND, "cart"), (KIND, ""), (KEY, "b"), (KEY, "\u00e9"),
])
def test_what_a_column_does_not_promise_is_none(column: Column, value: float | str) -> None:
    row: Row = tuple(value if one is column else default for one, default in zip(COLUMNS, default_row(COLUMNS), strict=True))
    right = default_row(COLUMNS)
    assert CHECKER.is_block(2, encode_columns(COLUMNS, [right, right]))
    assert not CHECKER.is_block(2, encode_columns(COLUMNS, [right, row]))


def test_a_flag_is_a_zero_or_a_one_and_text_is_cut_between_characters() -> None:
    assert not Checker([SEEN]).is_block(1, struct.pack("<IB", 1, 2))
    word = "\u00e9".encode()
    assert Checker([WORD]).is_block(2, struct.pack("<III", 10, 2, 0) + word)
    assert not Checker([WORD]).is_block(2, struct.pack("<III", 10, 1, 1) + word)
    assert not Checker([WORD]).is_block(1, struct.pack("<II", 5, 1) + b"\xff")


def test_what_was_changed_anywhere_is_refused_or_a_block_still_and_never_raises() -> None:
    chance, refused = random.Random(5), 0
    body = encode_columns(COLUMNS, parse_rows("".join(json.dumps(values(chance)) + "\n" for _ in range(20)).encode(), COLUMNS, 20))
    for _ in range(2000):
        changed = bytearray(body)
        match chance.randrange(3):
            case 0:
                changed[chance.randrange(len(body))] = chance.randrange(256)
            case 1:
                del changed[chance.randrange(len(body)):]
            case _:
                at = chance.randrange(len(body) - 4)
                changed[at:at + 4] = chance.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"])
        refused += not CHECKER.is_block(20, bytes(changed))
    assert refused > 300
