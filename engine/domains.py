"""Options of a column: low and high of a number, keys of a text. Each mistake is named with its column.

They are enforced where a program's output is read (sandbox/rows.py), and the calculus relies on them (calculus/rules/base_table.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import chain

from privid.errors import InvalidValue
from privid.model import Column
from privid.quantities import parse_number
from privid.sandbox.rows import MAX_TEXT
from privid.udf.grid import LARGEST_BOUND, grid_step, settler

__all__ = ["MAX_KEYS", "check_sizes", "parse_keys", "with_options"]

#: keys of one column; and bytes of all keys of a table, which the reader of its programs' output is handed with every chunk
MAX_KEYS, MAX_KEY_BYTES = 1000, 64 * 1024
#: characters of a bound: no number that is meant has more
_MAX_NUMBER = 60
_BLANK = " \t\r\n"


def with_options(column: Column, options: Mapping[str, str], table: str) -> Column:
    """The column with what its options say of its values. Its default lies within them too: it is the value of whatever they exclude."""
    where = f'column "{column.name}" of foreign table "{table}"'
    for name in options:
        if name not in ("low", "high", "keys"):
            raise InvalidValue(f'invalid option "{name}" of {where}', hint="Options of a column are low, high and keys.")
        if not column.printed:
            raise InvalidValue(f'{where} cannot have option "{name}"', hint="It is filled by the system, and what it can be is known.")
        _check_type(column, name, where)
    if "keys" in options:
        return _listed(column, options["keys"], where)
    return _bounded(column, options, where) if options else column


def _check_type(column: Column, option: str, where: str) -> None:
    wanted = "text" if option == "keys" else "double precision"
    if column.type == {"text": "text", "double precision": "float8"}[wanted]:
        return
    hint = {"enum": "The labels of its type are its keys already.", "boolean": "Its keys are false and true already.",
            "float8": "Bound it: OPTIONS (low '0', high '120')."} if option == "keys" else {"text": "List its keys: OPTIONS (keys 'a,b')."}
    shown = "double precision" if column.type == "float8" else column.type_name
    raise InvalidValue(f'option "{option}" of {where} needs type {wanted}, but the column has type {shown}', hint=hint.get(column.type))


def _bounded(column: Column, options: Mapping[str, str], where: str) -> Column:
    for one, other in (("low", "high"), ("high", "low")):
        if one not in options:
            raise InvalidValue(f'option "{other}" of {where} needs option "{one}"', hint="Write both: OPTIONS (low '0', high '120').")
    low, high = (_bound(options[name], name, where) for name in ("low", "high"))
    if low > high:
        raise InvalidValue(f'option "low" of {where} is {options["low"]}, which is greater than its option "high", {options["high"]}')
    step = grid_step(float(low), float(high))
    for name, bound in (("low", low), ("high", high)):
        if (bound / step).denominator != 1:
            raise InvalidValue(f'option "{name}" of {where} is {options[name]}, which is not a multiple of {_shown(step)}',
                               detail="Values between these bounds are kept in steps of that size, as range keeps them.",
                               hint="Write a bound with fewer digits.")
    default = column.default
    assert isinstance(default, float)
    if not float(low) <= default <= float(high):
        example = f"DEFAULT {_shown(min(max(low, Fraction(0)), high))}"
        raise InvalidValue(f"default of {where} is {default:g}, but must lie between {options['low']} and {options['high']}, its bounds",
                           hint=f"It is the value of whatever is no number. Write for example {example}.")
    return replace(column, bounds=(low, high), default=settler(float(low), float(high))(default))


def _bound(text: str, option: str, where: str) -> Fraction:
    number = parse_number(text, option) if len(text) <= _MAX_NUMBER else Fraction(LARGEST_BOUND) + 1
    if abs(number) > LARGEST_BOUND:
        raise InvalidValue(f'option "{option}" of {where} must be a number of at most {LARGEST_BOUND:g} in size',
                           hint="Write the bounds that matter to you: noise grows with them.")
    return number


def _shown(number: Fraction) -> str:
    """As PostgreSQL reads it, of a number on a grid.

    >>> _shown(Fraction(1, 10000)), _shown(Fraction(1000)), _shown(Fraction(-5, 2))
    ('0.0001', '1000', '-2.5')
    """
    return f"{Decimal(number.numerator) / Decimal(number.denominator):f}"


def _listed(column: Column, text: str, where: str) -> Column:
    keys = parse_keys(text, where)
    for key in keys:
        if len(key) > MAX_TEXT:
            raise InvalidValue(f'option "keys" of {where} has a key of {len(key)} characters, but the limit is {MAX_TEXT}')
    default = column.default
    assert isinstance(default, str)
    if default not in keys:
        example = "DEFAULT '" + keys[0].replace("'", "''") + "'"
        raise InvalidValue(f'default of {where} is not among its keys', detail=f'The default is "{default}".',
                           hint=f"It is the value of whatever is not among them. Write for example {example}, or add it to the keys; "
                                'the empty text is written "".')
    return replace(column, keys=keys)


def parse_keys(text: str, where: str) -> tuple[str, ...]:
    """Keys between commas, in their order. Blanks around a key do not count. A key in double quotes is taken as it stands; a double quote
    within it is written twice.

    >>> parse_keys('car, person ,"a ""b"", c", ""', "column")
    ('car', 'person', 'a "b", c', '')
    """
    found: dict[str, None] = {}
    at, more = 0, True
    if len(text.encode()) > MAX_KEY_BYTES:
        raise InvalidValue(f'option "keys" of {where} has more than {MAX_KEY_BYTES} bytes')
    while more:
        while text[at:at + 1] and text[at] in _BLANK:
            at += 1
        quoted = text[at:at + 1] == '"'
        key, at = _quoted(text, at, where) if quoted else _plain(text, at)
        if (not quoted and (not key or '"' in key)) or text[at:at + 1] not in ("", ","):
            raise InvalidValue(f'option "keys" of {where} cannot be read at character {at + 1}',
                               hint="Write keys between commas, for example 'car, person'; one with a comma, a double quote or blanks "
                                    "around it, or an empty one, in double quotes.")
        if key in found:
            raise InvalidValue(f'option "keys" of {where} has the key "{key}" twice')
        found[key] = None
        more, at = at < len(text), at + 1
    if len(found) > MAX_KEYS:
        raise InvalidValue(f'option "keys" of {where} has {len(found)} keys, but the limit is {MAX_KEYS}',
                           hint="Every key has its group in every answer: list those that matter to you, and one for all others.")
    return tuple(found)


def _plain(text: str, at: int) -> tuple[str, int]:
    stop = text.find(",", at)
    stop = len(text) if stop < 0 else stop
    return text[at:stop].rstrip(_BLANK), stop


def _quoted(text: str, at: int, where: str) -> tuple[str, int]:
    stop = at + 1
    while True:
        stop = text.find('"', stop)
        if stop < 0:
            raise InvalidValue(f'option "keys" of {where} has a double quote without its counterpart, at character {at + 1}')
        if text[stop + 1:stop + 2] != '"':
            break
        stop += 2
    key = text[at + 1:stop].replace('""', '"')
    stop += 1
    while text[stop:stop + 1] and text[stop] in _BLANK:
        stop += 1
    return key, stop


def check_sizes(columns: Sequence[Column], table: str) -> None:
    """Of all columns together."""
    size = sum(len(key.encode()) for key in chain.from_iterable(column.keys or () for column in columns))
    if size > MAX_KEY_BYTES:
        raise InvalidValue(f'keys of foreign table "{table}" have {size} bytes in all, but the limit is {MAX_KEY_BYTES}')
