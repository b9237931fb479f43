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


def test_quantiles_come_near_the_truth_with_much_epsilon_and_have_their_types(stack: Any, streets: str) -> None:
    """Candidates are 0, 0.9, ..., 90; each value counts as the nearest. All between the fifth and the sixth of ten are medians."""
    statement = f"""SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY range(v, 0, 90)) AS a, percentile_disc(0.9) WITHIN GROUP
        (ORDER BY range(v, 0, 90)) AS b, percentile_disc(0) WITHIN GROUP (ORDER BY range(v, 50, 80)) FILTER (WHERE v > 10) AS c
        FROM {streets}"""
    rows = noisy(stack, f"SELECT pg_typeof(a)::text, pg_typeof(b)::text, a, b, c FROM ({statement}) q", "6000")
    assert rows[0][:2] == ("double precision", "numeric")
    median, upper, least = map(float, rows[0][2:])
    assert 39 < median < 51 and 79 < upper <= 90 and least == 50


def test_quantiles_of_groups_and_of_nothing_are_candidates(stack: Any, streets: str) -> None:
    median = "percentile_cont(0.5) WITHIN GROUP (ORDER BY range(v, 0, 90))"
    assert noisy(stack, f"SELECT v > 45, {median} FROM {streets} GROUP BY 1 ORDER BY 1", "6000") == [
        (False, pytest.approx(19.8)), (True, pytest.approx(70.2))]
    for _ in range(5):
        (found,), = noisy(stack, f"SELECT {median} FROM {streets} WHERE v > 1000", "0.01")
        assert round(found / 0.9, 6) in range(101)


def test_other_quantiles_are_refused_with_hints_that_work(stack: Any, streets: str) -> None:
    for statement, message, hint in (
            (f"SELECT percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY v) FROM {streets}", "percentile_cont(_float8,float8)",
             "percentile_cont(0.5) WITHIN GROUP (ORDER BY range(v, 0, 10))"),
            (f"SELECT percentile_cont(0.1) WITHIN GROUP (ORDER BY range(v, 0, 10) DESC) FROM {streets}", "this order",
             "percentile_cont(0.9)"),
            (f"SELECT mode() WITHIN GROUP (ORDER BY v) FROM {streets}", "mode(anyelement)", "width_bucket(v, 0, 10, 20)"),
            (f"SELECT rank(3) WITHIN GROUP (ORDER BY v) FROM {streets}", "rank", "privid.allowed_calls"),
            (f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM {streets}", "without a range",
             "percentile_cont(0.5) WITHIN GROUP (ORDER BY range(v, 0, 10))")):
        with pytest.raises(psycopg.Error) as caught:
            noisy(stack, statement)
        assert caught.value.sqlstate == "PV002" and message in (caught.value.diag.message_primary or "")
        assert hint in (caught.value.diag.message_hint or "")


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
