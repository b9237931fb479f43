"""Options of columns: what they may be, and what they make of a definition."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privid.engine.chunks import series_of
from privid.engine.definitions import make_table
from privid.engine.domains import MAX_KEYS, parse_keys
from privid.errors import InvalidValue
from privid.model import Column, Table

from .test_definitions import SOURCES, TABLE


def table(*columns: dict[str, Any]) -> Table:
    return make_table({**TABLE, "columns": [{"attno": i, **column} for i, column in enumerate(columns, 1)]}, 0, SOURCES)


def number(low: str, high: str, default: str = "0") -> Column:
    return table({"name": "x", "type": "float8", "default": default, "options": {"low": low, "high": high}}).columns[0]


def word(keys: str, default: str = "a") -> Column:
    return table({"name": "x", "type": "text", "default": default, "options": {"keys": keys}}).columns[0]


@pytest.mark.parametrize(("low", "high", "bounds"), [
    ("0", "120", (0, 120)), ("-1e18", "1e18", (-10**18, 10**18)), ("-0", "+0", (0, 0)), ("-0.5", "1/2", (Fraction(-1, 2), Fraction(1, 2))),
    (" 0 ", "1e-12", (0, Fraction(1, 10**12))), ("0", "0.1", (0, Fraction(1, 10))), ("-3", "0", (-3, 0))])
def test_bounds_are_read_exactly(low: str, high: str, bounds: tuple[Fraction, Fraction]) -> None:
    assert number(low, high).bounds == bounds


@pytest.mark.parametrize(("low", "high", "default", "message"), [
    ("1", "0", "0", 'option "low" of column "x" of foreign table "people" is 1, which is greater than its option "high", 0'),
    ("0", "NaN", "0", 'invalid value for option "high": "NaN"'), ("-Infinity", "0", "0", "invalid value"),
    ("0", "1e999", "0", "at most 1e\\+18"), ("0", "1.0000000000000000001e18", "0", "at most 1e\\+18"),
    ("0", "9" * 5000, "0", "at most 1e\\+18"), ("0", "1/0", "0", "invalid value"),
    ("0", "1/3", "0", "not a multiple of 0.000001"), ("0", "5e-324", "0", "not a multiple of 0.000000000000000001"),
    ("0", "1234567890123.5", "0", "not a multiple of 10"), ("", "1", "0", "invalid value"), ("0x1", "1", "0", "invalid value"),
    ("1", "2", "0", "default of column \"x\" of foreign table \"people\" is 0, but must lie between 1 and 2"),
    ("-2", "-1", "-0.5", "is -0.5, but must lie between -2 and -1"), ("0", "1", "1.0000001", "must lie between 0 and 1")])
def test_bounds_that_cannot_be_kept_are_refused(low: str, high: str, default: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        number(low, high, default)


def test_the_default_lies_on_the_grid_of_its_bounds() -> None:
    assert number("0", "1", "0.12345678").default == 0.123457
    assert str(number("-1", "1", "-1e-9").default) == "0.0"


def test_a_hint_to_a_default_is_one_that_is_accepted() -> None:
    for low, high in (("1", "2"), ("-2", "-1"), ("0.25", "1"), ("5e17", "1e18")):
        with pytest.raises(InvalidValue) as error:
            number(low, high)
        example = re.search(r"DEFAULT (\S+)\.$", error.value.hint or "")
        assert example is not None
        assert number(low, high, example[1]).default == float(example[1])


@pytest.mark.parametrize(("keys", "found"), [
    ("a", ("a",)), ("a,b", ("a", "b")), ("  a ,\tb c\n, d ", ("a", "b c", "d")), ('"a"', ("a",)), ('a,""', ("a", "")),
    ('"a" , " b,c ", "say ""hi"""', ("a", " b,c ", 'say "hi"')), ("a,A,ä,'", ("a", "A", "ä", "'")), ("{a,b}", ("{a", "b}")),
    ("a,\\,", None), ("", None), (",", None), ("a,", None), (",a", None), ("a,,b", None), ('a"b', None), ('"a', None),
    ('"a"b', None), ('"a""', None),
    ("a,a", None), ('a,"a"', None)])
def test_keys_stand_between_commas_or_in_quotes(keys: str, found: tuple[str, ...] | None) -> None:
    if found is None:
        with pytest.raises(InvalidValue, match='option "keys" of column "x"'):
            parse_keys(keys, 'column "x"')
    else:
        assert parse_keys(keys, 'column "x"') == found


@given(st.lists(st.text(), min_size=1, unique=True))
def test_any_keys_can_be_written_in_quotes(keys: list[str]) -> None:
    if sum(len(key.encode(errors="replace")) for key in keys) < 1000 and all(key.isprintable() for key in keys):
        assert parse_keys(", ".join('"' + key.replace('"', '""') + '"' for key in keys), "") == tuple(keys)


@pytest.mark.parametrize(("keys", "default", "message"), [
    ("a,b", "c", 'default of column "x" of foreign table "people" is not among its keys'),
    (",".join(map(str, range(MAX_KEYS + 1))), "0", f"has {MAX_KEYS + 1} keys, but the limit is {MAX_KEYS}"),
    ("a," + "b" * 1025, "a", "has a key of 1025 characters, but the limit is 1024"),
    ("a," + "b" * 65536, "a", "more than 65536 bytes")])
def test_keys_that_cannot_be_kept_are_refused(keys: str, default: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        word(keys, default)


def test_keys_of_all_columns_together_are_bounded() -> None:
    keys = ",".join(["a", *(f"{i:0>1000}" for i in range(40))])
    columns = [{"name": f"x{i}", "type": "text", "default": "a", "options": {"keys": keys}} for i in range(2)]
    assert table(columns[0]).columns[0].keys is not None
    with pytest.raises(InvalidValue, match="keys of foreign table \"people\" have 80002 bytes in all"):
        table(*columns)


@pytest.mark.parametrize(("column", "message"), [
    ({"name": "chunk", "type": "timestamptz", "options": {"low": "0"}}, 'column "chunk" of .* cannot have option "low"'),
    ({"name": "region", "type": "text", "options": {"keys": "a"}}, 'column "region" of .* cannot have option "keys"'),
    ({"name": "x", "type": "boolean", "default": "f", "options": {"keys": "f"}}, "needs type text, but the column has type boolean"),
    ({"name": "x", "type": "boolean", "default": "f", "options": {"low": "0", "high": "1"}}, "needs type double precision"),
    ({"name": "x", "type": "enum", "type_name": "kind", "labels": ["a"], "default": "a", "options": {"keys": "a"}}, "has type kind"),
    ({"name": "x", "type": "float8", "default": "0", "options": {"low": "0"}}, 'option "low" of .* needs option "high"'),
    ({"name": "x", "type": "float8", "default": "0", "options": {"high": "0"}}, 'option "high" of .* needs option "low"'),
    ({"name": "x", "type": "text", "default": "a", "options": {"keys": "a", "low": "0"}}, "needs type double precision"),
    ({"name": "x", "type": "text", "default": "a", "options": {"key": "a"}}, 'invalid option "key" of column "x"')])
def test_options_belong_to_columns_that_a_program_fills_with_numbers_or_text(column: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        table(column)


def test_options_are_part_of_what_kept_rows_are_found_by() -> None:
    def key(options: dict[str, str], type_: str = "float8", default: str = "0") -> bytes:
        return series_of(table({"name": "x", "type": type_, "default": default, "options": options}), "module", "r").key(0, 0)

    found = [key({}), key({"low": "0", "high": "1"}), key({"low": "0", "high": "2"}), key({}, "text"), key({"keys": "0"}, "text"),
             key({"keys": "0,1"}, "text")]
    assert len(set(found)) == len(found)
    assert key({"low": "0.0", "high": "1.00"}) == key({"low": "-0", "high": "1"})
