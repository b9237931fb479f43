"""Every twin gives what PostgreSQL's own function gives, up to the ends of its types, and NULL where that raises or is not finite."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg import errors

from privid.calculus.twins import TWINS

Session = psycopg.Connection[tuple[Any, ...]]

#: of each twin
MOST = 250

#: texts of values: the ends of each type, what lies beside them, what is special
VALUES = {
    "int4": ["-2147483648", "-2147483647", "-2", "-1", "0", "1", "2", "3", "7", "46341", "2147483646", "2147483647"],
    "int8": ["-9223372036854775808", "-9223372036854775807", "-2147483649", "-2147483648", "-1", "0", "1", "2", "2147483647",
             "2147483648", "3037000500", "9223372036854775806", "9223372036854775807"],
    "float8": ["-Infinity", "-1.7976931348623157e308", "-9223372036854775808", "-9223372036854777856", "-2147483648.5", "-2147483648.51",
               "-2147483649", "-1", "-0.5", "-0", "0", "5e-324", "1e-200", "0.5", "1", "1.5", "2", "2.5", "709.78", "710", "1e200",
               "2147483647.49", "2147483647.5", "9223372036854774784", "9223372036854775808", "1.7976931348623157e308", "Infinity", "NaN"],
    "numeric": ["-Infinity", "-1e299", "-9223372036854775808.5", "-9223372036854775808.4999", "-9223372036854775808", "-2147483648.5",
                "-2147483648.4999999999999999", "-2147483648", "-1", "-0.5", "0", "1e-400", "0.5", "1", "1.50", "3", "2147483647",
                "2147483647.4999999999999999", "2147483647.5", "2147483648", "9223372036854775807", "9223372036854775807.4999",
                "9223372036854775807.5", "1e299", "Infinity", "NaN"],
    "text": ["", " ", "a", "a,b,,c", ",", "abc", "äöü", "true", " T ", "maybe", "off", "0", "-0", "1", "01", " 12 ", "1.5", "1e3", "+7",
             "- 7", "-inf", "1e400", "1e-400", "2147483647", "2147483648", "-2147483648", "9223372036854775807",
             "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "0x10", "1_000", "1 2"],
    "timestamptz": ["-infinity", "4713-01-01 00:00+00 BC", "2026-03-01 06:30+00", "2026-03-01 06:30:00.000001+00", "294276-12-31 23:59+00",
                    "infinity"],
    "interval": ["0", "1 day", "-3 mons 04:05:06.789", "178000000 years", "-178000000 years"],
}
UNITS = ["hour", "epoch", "dow", "century", "microseconds", "fortnight", ""]

_NOT_FINITE = {"Infinity", "-Infinity", "NaN"}
#: where a twin gives something else than the original, which fdw/total.c says: of what is not finite, of numbers that are nearly nothing,
#: of buckets whose number could overflow or overflows on the way, and of times so far apart that PostgreSQL gets it wrong
_OTHERWISE = re.compile(r"infinity'|NaN'::(float8|numeric)|'1e-400'::numeric|width_bucket.*('2147483647'::int4|e308)"
                        r"|'4713.*'294276|'294276.*'4713", re.IGNORECASE)
#: a numeric from here on is NULL
_LARGE = 300


def _calls(identity: str) -> list[tuple[str, list[str]]]:
    """The original, written with every kind of value, and these."""
    found = re.fullmatch(r"(?:pg_catalog\.)?(.+)\((.*)\)", identity)
    assert found is not None, identity
    name, types = found[1], found[2].split(",")
    if name == "cast":
        return [(f"CAST('{value}'::{types[0]} AS {types[1]})", [f"'{value}'::{types[0]}"]) for value in VALUES[types[0]]]
    known = VALUES | {"text": UNITS} if name == "extract" else VALUES
    values = [[f"'{value}'::{type_}" for value in known[type_]] for type_ in types]
    several = [list(arguments) for arguments in product(*values)]
    chosen = several if len(several) <= MOST else random.Random(identity).sample(several, MOST)
    if name.isidentifier():
        return [(f'pg_catalog."{name}"({", ".join(arguments)})', arguments) for arguments in chosen]
    operator = f" OPERATOR(pg_catalog.{name}) "
    return [(operator.join(arguments if len(arguments) == 2 else ["", *arguments]), arguments) for arguments in chosen]


def _answer(session: Session, expression: str) -> str | None:
    """None where it raises, or gives what is not finite."""
    try:
        with session.transaction():
            row = session.execute(f"SELECT ({expression})::pg_catalog.text".encode()).fetchone()
    except (errors.DataError, errors.ProgramLimitExceeded, errors.FeatureNotSupported):
        return None
    assert row is not None
    large = re.fullmatch(r"-?(\d+)\.?\d*", row[0] or "")
    return None if row[0] in _NOT_FINITE or (large is not None and len(large[1]) > _LARGE) else row[0]


@pytest.mark.parametrize(("identity", "twin"), TWINS.items())
def test_a_twin_gives_what_the_original_gives(session: Session, identity: str, twin: str) -> None:
    answered = 0
    for call, arguments in _calls(identity):
        row = session.execute(f"SELECT ({twin}({', '.join(arguments)}))::pg_catalog.text".encode()).fetchone()
        if _OTHERWISE.search(call):
            continue
        expected = _answer(session, call)
        assert row == (expected,), call
        answered += expected is not None
    assert answered > 1
