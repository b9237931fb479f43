"""Durations, numbers and timestamps of the options, read exactly."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from .errors import InvalidValue

__all__ = ["PG_EPOCH", "parse_duration", "parse_number", "parse_timestamp", "show_duration", "to_pg_microseconds"]

PG_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

#: characters of a number or a duration: none that is meant has more, and Python reads no number of more than 4,300 digits
_MAX_NUMBER = 100

_UNITS = {"us": Fraction(1, 1_000_000), "ms": Fraction(1, 1000), "s": Fraction(1), "sec": Fraction(1),
          "min": Fraction(60), "m": Fraction(60), "h": Fraction(3600), "d": Fraction(86400)}
_DURATION = re.compile(r"\s*([+-]?)\s*(\d+(?:\.\d+)?|\d+/\d+)\s*([a-z]+)?\s*")


def parse_duration(text: str, option: str) -> Fraction:
    """Seconds, exactly: '5s', '250ms', '1/30 s', '2h', '-1.5s'; a bare number is seconds.

    >>> parse_duration('250ms', 'chunk')
    Fraction(1, 4)
    """
    _check_length(text, option)
    match = _DURATION.fullmatch(text)
    if not match or (match[3] or "s") not in _UNITS:
        raise InvalidValue(f'invalid value for option "{option}": "{text}"',
                           hint="Write a duration as a number and a unit: us, ms, s, min, h or d, for example 5s.")
    value = _fraction(match[2], option) * _UNITS[match[3] or "s"]
    return -value if match[1] == "-" else value


def parse_number(text: str, option: str) -> Fraction:
    """A decimal number or a quotient, exactly."""
    _check_length(text, option)
    if not re.fullmatch(r"\s*[+-]?(\d+(\.\d+)?([eE][+-]?\d{1,3})?|\d+/\d+)\s*", text):
        raise InvalidValue(f'invalid value for option "{option}": "{text}"', hint="Write a number, for example 0.5.")
    return _fraction(text.strip(), option)


def _check_length(text: str, option: str) -> None:
    if len(text) > _MAX_NUMBER:
        raise InvalidValue(f'value of option "{option}" has {len(text)} characters, but a number has at most {_MAX_NUMBER}',
                           hint="Write it with fewer digits.")


def _fraction(text: str, option: str) -> Fraction:
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise InvalidValue(f'invalid value for option "{option}": "{text}"',
                           hint="The denominator must not be zero.") from None


def parse_timestamp(text: str, option: str) -> datetime:
    """An ISO timestamp with time zone, in UTC."""
    try:
        value = datetime.fromisoformat(text.strip())
        if value.tzinfo is not None:
            return value.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidValue(f'invalid value for option "{option}": "{text[:_MAX_NUMBER]}"',
                       hint="Write a timestamp with its time zone, for example 2026-03-01 06:00+00.")


def show_duration(seconds: Fraction) -> str:
    """Seconds for people: '5 s', '250 ms', '1/30 s'."""
    if seconds.denominator == 1:
        return f"{seconds} s"
    if (seconds * 1000).denominator == 1:
        return f"{seconds * 1000} ms"
    return f"{seconds.numerator}/{seconds.denominator} s"


def to_pg_microseconds(moment: datetime) -> int:
    """Microseconds since 2000-01-01 UTC, as PostgreSQL counts a timestamptz."""
    return (moment - PG_EPOCH) // timedelta(microseconds=1)
