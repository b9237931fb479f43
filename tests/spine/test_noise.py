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
    assert chi_square(values, plan["Noise Scale"]) > 1e-4


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_the_test_of_the_noise_notices_a_wrong_scale(released: tuple[np.ndarray[Any, Any], dict[str, Any]], factor: float) -> None:
    values, plan = released
    assert chi_square(values, plan["Noise Scale"] * factor) < 1e-9


def test_the_error_that_explain_tells_holds_for_95_of_100_values(released: tuple[np.ndarray[Any, Any], dict[str, Any]]) -> None:
    values, plan = released
    within = np.mean(np.abs(values) <= plan["Error 95%"])
    closer = np.mean(np.abs(values) <= plan["Error 95%"] - 1)
    assert within >= 0.945 and closer < 0.955


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
    assert stats.kstest(values, "laplace", args=(0, scale)).pvalue > 1e-4
    # the mean size of Laplace noise is its scale, known here to one part in seventy
    for factor, fits in ((0.9, False), (1, True), (1.1, False)):
        assert bool(abs(np.abs(values).mean() / (scale * factor) - 1) < 4.5 / len(values) ** 0.5) is fits
