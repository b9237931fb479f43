"""The noise of real releases has the declared law: 20,000 values that came through the release path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from .conftest import World
from .world import plan_of

#: keys that the program never outputs, so that every released value is noise alone
KEYS = 2000
RELEASES = 10


def chi_square(values: np.ndarray[Any, Any], scale: float) -> float:
    """p-value of integers under the discrete Laplace law P[z] ~ exp(-|z| / scale), in cells of at least 20 expected values."""
    q = np.exp(-1 / scale)
    edge = int(scale * np.log(len(values) / 40))
    inner = np.arange(-edge, edge + 1)
    expected = (1 - q) / (1 + q) * q ** np.abs(inner)
    tail = (1 - expected.sum()) / 2
    observed = np.bincount(np.clip(values, -edge - 1, edge + 1) + edge + 1, minlength=2 * edge + 3)
    return float(stats.chisquare(observed, np.concatenate([[tail], expected, [tail]]) * len(values)).pvalue)


def off_scale(values: np.ndarray[Any, Any], scale: float) -> float:
    """How many standard errors the mean size of the values lies from that of the discrete Laplace law."""
    q = np.exp(-1 / scale)
    size = 2 * q / (1 - q * q)
    deviation = np.sqrt(2 * q / (1 - q) ** 2 - size**2)
    return float(abs(np.abs(values).mean() - size) / deviation * np.sqrt(len(values)))


def fits(values: np.ndarray[Any, Any], scale: float) -> bool:
    """Whether the values may come from that law: true ones are refused once in a million, a tenth off is 13 standard errors."""
    return chi_square(values, scale) > 1e-7 and off_scale(values, scale) < 5.5


@pytest.fixture(scope="module")
def released(world: World) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    keys = ", ".join(f"'never {i}'" for i in range(KEYS))
    statement = f"SELECT kind, count(*) FROM calm WHERE kind IN ({keys}) GROUP BY kind"
    with world.connect() as connection:
        connection.execute("SET privid.reuse = off; SET privid.epsilon = 2")
        plan = plan_of(connection.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode()).fetchall()[0][0])
        answers = [connection.execute(statement.encode()).fetchall() for _ in range(RELEASES)]
    assert all(len(answer) == KEYS for answer in answers)
    return np.array([count for answer in answers for _, count in answer]), plan


def test_counts_have_the_declared_noise(released: tuple[np.ndarray[Any, Any], dict[str, Any]]) -> None:
    values, plan = released
    assert len(values) == 20000
    # two chunks of four rows each can move between keys: 2 * 8, at epsilon 2
    assert plan["Sensitivity"] == 16 and plan["Noise Scale"] == 8
    assert fits(values, plan["Noise Scale"])


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_the_test_of_the_noise_notices_a_wrong_scale(released: tuple[np.ndarray[Any, Any], dict[str, Any]], factor: float) -> None:
    values, plan = released
    assert not fits(values, plan["Noise Scale"] * factor)


def test_the_error_that_explain_tells_holds_for_95_of_100_values(released: tuple[np.ndarray[Any, Any], dict[str, Any]]) -> None:
    values, plan = released
    within = np.mean(np.abs(values) <= plan["Error 95%"])
    closer = np.mean(np.abs(values) <= plan["Error 95%"] - 1)
    assert within >= 0.94 and closer < 0.96


def test_noise_of_different_keys_and_releases_is_independent(released: tuple[np.ndarray[Any, Any], dict[str, Any]]) -> None:
    values, _ = released
    table = values.reshape(RELEASES, KEYS)
    assert abs(np.corrcoef(table[:, :-1].ravel(), table[:, 1:].ravel())[0, 1]) < 0.04
    assert abs(np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1]) < 0.04


def test_sums_have_the_declared_noise_on_their_grid(world: World) -> None:
    keys = ", ".join(f"'never {i}'" for i in range(KEYS))
    statement = f"SELECT kind, sum(range(v, 0, 10)) FROM calm WHERE kind IN ({keys}) GROUP BY kind"
    with world.connect() as connection:
        connection.execute("SET privid.reuse = off; SET privid.epsilon = 2")
        plan = plan_of(connection.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode()).fetchall()[0][0])
        values = np.array([float(v) for _ in range(3) for _, v in connection.execute(statement.encode()).fetchall()])
    scale = plan["Noise Scale"]
    assert scale == 80
    assert stats.kstest(values, "laplace", args=(0, scale)).pvalue > 1e-7
    # the mean size of Laplace noise is its scale, known here to one part in seventy
    for factor, right in ((0.85, False), (1, True), (1.15, False)):
        assert bool(abs(np.abs(values).mean() / (scale * factor) - 1) < 5 / len(values) ** 0.5) is right
