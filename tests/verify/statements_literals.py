"""Literals of each type: ends of the type, values that are equal and not the same, some between.

None of them changes from run to run or from side to side, so that a scenario shows the same
whenever it is run: no moment of now, and not the current role, of which a part might be shown.
"""

from __future__ import annotations

from .statements_world import LABELS, TYPE

__all__ = ["FIELDS", "FORMATS", "LITERALS", "PATTERNS", "TYPES", "ZONES"]

TYPES = ("float8", "text", "boolean", "numeric", "anyenum", "timestamptz", "timestamp", "date",
         "time", "interval", "int4", "int8")


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


def _of(kind: str, *values: str) -> tuple[str, ...]:
    return (*(f"'{value}'::{kind}" for value in values), f"NULL::{kind}")


_TEXTS = (*_lines("""
    'A'
    'B'
    'X'
    ''
    'x'
    ' '
    '%'
    '_'
    '\\'
    'a'
    'NaN'
    '1e999'
    'true'
    '1'
    'é'
    'ß'
    'İ'
    'A'::text
    NULL::text
    current_catalog
    current_database()::text
    current_setting('TimeZone')
    'X'::name
    'X'::varchar(3)
    'X'::char(2)
    """), f"'{'a' * 1024}'", f"'{'a' * 300}b'")

LITERALS: dict[str, tuple[str, ...]] = {
    "float8": ("0", "1", "2", "3", "-1", "7.5", "30", "1e308::float8", "5e-324::float8",
               "9007199254740993::float8", *_of("float8", "NaN", "Infinity", "-Infinity", "-0")),
    "text": _TEXTS,
    "boolean": ("true", "false", "NULL::boolean", "(1 = 1)"),
    "numeric": ("0::numeric", "1.0", "1.00", "-0.0", "1e100::numeric", "1e-100::numeric", "2.5",
                *_of("numeric", "NaN", "Infinity")),
    "anyenum": _of(TYPE, *LABELS),
    "timestamptz": _of("timestamptz", "2026-03-01 06:00:00.5+00", "2026-03-01 06:00+00",
                       "2026-03-01 06:00:00.7+00", "infinity", "-infinity",
                       "294276-12-31 23:59+00", "4714-11-24 00:00+00 BC"),
    "timestamp": _of("timestamp", "2026-03-01 06:00", "infinity", "294276-12-31"),
    "date": ("current_date", *_of("date", "2026-03-01", "infinity", "5874897-12-31",
                                  "4713-01-01 BC")),
    "time": _of("time", "06:00", "24:00", "00:00"),
    "interval": _of("interval", "1 day", "24:00", "1 day -24:00:00", "2 days -24:00:00", "0",
                    "1 mon", "30 days", "0.5 s", "-178000000 years", "500 ms", "720:00"),
    "int4": ("0", "1", "2", "3", "-1", "2147483647", "-2147483648", "NULL::int4"),
    "int8": ("0::int8", "1::int8", "9223372036854775807", "-9223372036854775808", "NULL::int8"),
}

#: what functions of time and patterns want to be told
FIELDS = ("'hour'", "'second'", "'day'", "'epoch'", "'MINUTE'", "'millennium'", "'nonsense'",
          "'milliseconds'")
ZONES = ("'UTC'", "'Europe/Berlin'", "'nowhere'", "'+25:00'")
FORMATS = ("'YYYY-MM-DD'", "'HH24:MI:SS.US'", "'\"x\"'", "''", "'TMDay'")
PATTERNS = ("'A%'", "'%'", "'_'", "'%a%a%b'", "'\\'", "''", "'a\\%'", "'%X'")
