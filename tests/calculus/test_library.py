"""The calculus and the library of one stack: the same lists, the same grid, the same numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from privid.calculus import FUNCTIONS
from privid.calculus.functions import FunctionClass
from privid.calculus.rules import AGGREGATES, quantile
from privid.calculus.twins import AGGREGATES as ROOM_AGGREGATES
from privid.calculus.twins import TWINS
from privid.udf.grid import grid_step, snap


def test_the_library_serialises_no_function_that_the_calculus_does_not_list(stack: Any) -> None:
    rows = stack.run("SELECT kind, identity FROM privid.allowed_calls()")
    calls = {identity for kind, identity in rows if kind != "aggregate"}
    aggregates = {identity for kind, identity in rows if kind == "aggregate"}
    assert len(calls) > 100
    assert calls <= set(FUNCTIONS)
    assert set(AGGREGATES) <= aggregates
    # what the room makes total is total here, and may be NULL; and what is total here because the room makes it so, it does
    made_total = {f for f, entry in FUNCTIONS.items() if entry.kind is FunctionClass.TOTAL and entry.may_null}
    assert made_total == set(TWINS)
    assert made_total <= calls
    # every aggregate that comes in has something that is evaluated for it; of quantiles bins are collected
    assert aggregates <= {*ROOM_AGGREGATES, *quantile.IDENTITIES, "privid.argmax(anyelement)"}


def test_range_puts_values_on_the_grid_of_the_calculus(stack: Any) -> None:
    chance = random.Random(11)
    cases = []
    for _ in range(2000):
        bounds = [chance.uniform(-1, 1) * 10.0 ** chance.randint(-14, 18) for _ in range(2)]
        low, high = sorted(bounds) if chance.random() < 0.8 else sorted(float(round(b)) for b in bounds)
        value = chance.choice([chance.uniform(low, high), low, high, 1e300, -1e300, float("inf"), float("nan"), None, -0.0])
        cases.append((value, low, high))
    rows = stack.run("SELECT range(v, l, h)::text FROM unnest(%s::float8[], %s::float8[], %s::float8[]) WITH ORDINALITY t(v, l, h, n) "
                     "ORDER BY n", *[[case[i] for case in cases] for i in range(3)])

    def expected(value: float | None, low: float, high: float) -> Fraction:
        inside = low if value is None or value != value else max(low, min(high, value))
        return snap(inside, grid_step(low, high))

    assert [Fraction(text) for (text,) in rows] == [expected(*case) for case in cases]


def test_a_setting_for_how_numbers_print_does_not_shrink_the_noise(stack: Any, unique: Callable[[str], str]) -> None:
    """With few digits 149 prints as 1e+02; the calculus must still hear 149."""
    camera, table = unique("camera"), unique("table")
    stack.camera(camera, "levels.mp4", rho="1s")
    stack.executable("brightness")
    stack.table(table, camera, "brightness")
    statement = f"EXPLAIN (FORMAT JSON) SELECT sum(range(v, 0, 149)) FROM {table}"

    def sensitivity(**settings: str) -> Any:
        found: list[Any] = []

        def look(node: Any) -> None:
            if isinstance(node, dict):
                if "Sensitivity" in node:
                    found.append(node["Sensitivity"])
                for value in node.values():
                    look(value)
            elif isinstance(node, list):
                for value in node:
                    look(value)

        look(stack.run(statement, settings=settings)[0][0])
        return found

    assert sensitivity(extra_float_digits="-15") == sensitivity() == [2 * 149]


def test_a_setting_for_how_dates_print_does_not_empty_the_groups(stack: Any, unique: Callable[[str], str]) -> None:
    """The groups are computed by the engine and counted by the inner query: both must print a moment alike."""
    camera, table = unique("camera"), unique("table")
    stack.camera(camera, "levels.mp4")
    stack.executable("brightness")
    stack.table(table, camera, "brightness")
    statement = (f"SELECT extract(epoch FROM minute)::int8, n FROM (SELECT date_trunc('minute', chunk) AS minute, count(*) AS n "
                 f"FROM {table} GROUP BY 1) q")
    for style in ("ISO, MDY", "SQL, DMY", "Postgres, MDY"):
        assert stack.run(statement, settings={"DateStyle": style, "TimeZone": "UTC"}) == [(1_772_344_800, 10)], style
