"""Durations and moments as the paper writes them: 5sec, 12-01-2020/12:00am. Without an offset a moment is UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

from .scanner import Scanner
from .source import Mistake

__all__ = ["MAX_DIGITS", "duration", "moment", "whole"]

#: of a number: none that is meant has more, and Python reads none of more than 4,300
MAX_DIGITS = 100

_UNITS = {
    Fraction(1, 1_000_000): "us", Fraction(1, 1000): "ms msec millisecond milliseconds", Fraction(1): "s sec secs second seconds",
    Fraction(60): "m min mins minute minutes", Fraction(3600): "h hr hrs hour hours", Fraction(86400): "d day days"}
_SECONDS = {unit: seconds for seconds, units in _UNITS.items() for unit in units.split()}
_DURATION = re.compile(rf"([+-]?\d+(?:\.\d+|/[1-9]\d*)?)\s*({'|'.join(sorted(_SECONDS, key=len, reverse=True))})?(?![\w./])", re.IGNORECASE)
_WHOLE = re.compile(r"\d{1,9}(?![\w.])")
#: a run without blanks, a quoted text, and a time of day after a blank
_MOMENT = re.compile(r"""('[^']*'|"[^"]*"|[^\s;,()]+)(\s+\d{1,2}:[^\s;,()]*)?""")
_DAY = r"(?:(?P<month>\d{1,2})[-/](?P<day>\d{1,2})[-/](?P<year>\d{4})|(?P<year2>\d{4})-(?P<month2>\d{1,2})-(?P<day2>\d{1,2}))"
_TIME = r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d(?:\.\d{1,6})?))?)?\s*(?P<half>[ap]m)?"
_OFFSET = r"\s*(?P<zone>z|utc|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?)?"
_WHEN = re.compile(rf"{_DAY}(?:[/t\s]\s*{_TIME}{_OFFSET})?", re.IGNORECASE)


def duration(scanner: Scanner, what: str) -> tuple[Fraction, int]:
    """Seconds, and where they stood. A bare number is seconds.

    >>> duration(Scanner("5sec", 0, 4), "a chunk")
    (Fraction(5, 1), 0)
    """
    at = scanner.at
    found = scanner.match(_DURATION)
    if found is None:
        raise scanner.mistake(f"{what} is a number and a unit (ms, sec, min, hour, day), for example 5sec")
    if len(found[1]) > MAX_DIGITS:
        raise Mistake(f"{what} has {len(found[1])} digits, but at most {MAX_DIGITS} are read", at, hint="Write it with fewer digits.")
    return Fraction(found[1]) * _SECONDS[(found[2] or "s").lower()], at


def whole(scanner: Scanner, what: str) -> tuple[int, int]:
    """A whole number, and where it stood."""
    at = scanner.at
    found = scanner.match(_WHOLE)
    if found is None:
        raise scanner.mistake(f"{what} is a whole number")
    return int(found[0]), at


def moment(scanner: Scanner) -> tuple[datetime, int]:
    """A moment in UTC, and where it stood. Month, day, year, as in the paper; or year, month, day, as in ISO 8601.

    >>> moment(Scanner("12-01-2020/12:00am", 0, 18))[0].isoformat()
    '2020-12-01T00:00:00+00:00'
    """
    at = scanner.at
    found = scanner.match(_MOMENT)
    if found is None:
        raise scanner.mistake("a timestamp is expected here")
    text = found[0].strip("'\"").strip()
    parts = _WHEN.fullmatch(text)
    if parts is None:
        raise _unreadable(text, at)
    try:
        year, month, day = (int(parts[name] or parts[name + "2"]) for name in ("year", "month", "day"))
        return datetime(year, month, day, tzinfo=UTC) + _since_midnight(parts) - _offset(parts), at
    except (ValueError, OverflowError):
        raise _unreadable(text, at) from None


def _unreadable(text: str, at: int) -> Mistake:
    return Mistake(f'invalid timestamp: "{text}"', at,
                   hint="Write month, day, year and time, for example 12-01-2020/12:00am or 2020-12-01/00:00+00. "
                        "Without an offset it is UTC.")


def _since_midnight(parts: re.Match[str]) -> timedelta:
    hour, minute, second = int(parts["hour"] or 0), int(parts["minute"] or 0), Fraction(parts["second"] or 0)
    if parts["half"]:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + (12 if parts["half"].lower() == "pm" else 0)
    if hour > 24 or minute > 59 or second >= 60 or (hour == 24 and (minute or second)):
        raise ValueError
    return timedelta(hours=hour, minutes=minute, microseconds=int(second * 1_000_000))


def _offset(parts: re.Match[str]) -> timedelta:
    if not parts["sign"]:
        return timedelta(0)
    offset = timedelta(hours=int(parts["hours"]), minutes=int(parts["minutes"] or 0))
    timezone(offset)  # refuses a day or more
    return -offset if parts["sign"] == "-" else offset
