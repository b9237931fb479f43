"""Averages, variances, choices and histograms on their whole way: psql to PostgreSQL to the engine and back."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import psycopg
import pytest


@pytest.fixture(scope="module")
def streets(stack: Any, make_video: Callable[..., Any]) -> str:
    """A table that protects a second, with budget for many releases; brightness 0, 10, ..., 90 in ten chunks. What it spends is gone
    from its footage, so that is its own."""
    make_video(stack.videos / "streets.mp4", [10 * (i // 10) for i in range(110)])
    stack.camera("calculus_street", "streets.mp4", rho="1s", epsilon="100000", quantum="20ms")
    stack.executable("brightness")
    stack.table("calculus_street", "calculus_street", "brightness")
    return "calculus_street"


def noisy(stack: Any, statement: str, epsilon: str = "1") -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = stack.run(statement, settings={"privid.epsilon": epsilon, "privid.reuse": "off"})
    return found


def test_averages_and_variances_come_near_the_truth_with_much_epsilon(stack: Any, streets: str) -> None:
    aggregates = "avg(range(v, 0, 90)), var_pop(range(v, 0, 90)), stddev(least(range(v, 0, 100), 90))"
    row = noisy(stack, f"SELECT {aggregates} FROM {streets}", "3000")[0]
    levels = [10 * s for s in range(10)]
    assert float(row[0]) == pytest.approx(statistics.mean(levels), abs=2)
    assert float(row[1]) == pytest.approx(statistics.pvariance(levels), rel=0.1)
    assert float(row[2]) == pytest.approx(statistics.stdev(levels), rel=0.1)


def test_an_average_stays_in_its_range_whatever_the_noise(stack: Any, streets: str) -> None:
    for _ in range(10):
        assert 0 <= noisy(stack, f"SELECT avg(range(v, 0, 90)) FROM {streets}", "0.01")[0][0] <= 90


def test_argmax_finds_the_largest(stack: Any, streets: str) -> None:
    statement = f"SELECT v > 30 AS bright FROM {streets} GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
    assert noisy(stack, statement, "3000") == [(True,)]


def test_a_histogram_of_24_keys_at_epsilon_1_has_a_twelfth_of_the_papers_noise(stack: Any, streets: str) -> None:
    """The paper: 24 releases of epsilon / 24 each, scale 24 * 2. Here: one vector, scale 2 * 2; its mean absolute value is about that."""
    keys = ", ".join(str(10 * i) for i in range(24))
    statement = f"SELECT v, count(*) FROM {streets} WHERE v IN ({keys}) GROUP BY v"
    off = [abs(count - (1 if v < 100 else 0)) for _ in range(20) for v, count in noisy(stack, statement)]
    assert len(off) == 480
    assert statistics.mean(off) == pytest.approx(4, abs=1)
    assert statistics.mean(off) <= 24 * 2 / 12 * 1.2


def test_a_function_that_a_subquery_orders_by_is_not_called(stack: Any, streets: str, unique: Callable[[str], str]) -> None:
    leak = unique("leak")
    stack.run(f"CREATE FUNCTION {leak}(float8) RETURNS float8 LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''saw %'', $1; END'")
    for tail in ("", " LIMIT 3"):
        with pytest.raises(psycopg.Error) as caught:
            noisy(stack, f"SELECT count(*) FROM (SELECT chunk FROM {streets} ORDER BY {leak}(v){tail}) q")
        assert caught.value.sqlstate == "PV002" and "saw" not in str(caught.value)
