"""Counterexamples to the published rules: neighbours that PostgreSQL tells further apart than the paper's rule says, and ours allows for.

The setting of all: at most one row a chunk, one segment, chunks as long as the segment, so that it meets chunks 1 and 2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from privid.model import Evaluate, Plan

from .test_rules import plan_of

FIXTURES = Path(__file__).resolve().parent / "fixtures"
Rows = Sequence[tuple[int, str, float | None]]  # chunk, plate, x


# The published rules, as the paper's table states them

def base(rho: float, c: float, max_rows: int, k: int) -> int:
    return max_rows * k * (1 + math.ceil(rho / c))


def published_sum(delta: int, low: float, high: float) -> float:
    return delta * (high - low)


def published_average(delta: int, low: float, high: float, size: int) -> float:
    return delta * (high - low) / size


def published_variance(delta: int, low: float, high: float, size: int) -> float:
    return (delta * (high - low)) ** 2 / size


def published_group(delta: int) -> int:
    return delta


def published_join(*deltas: int) -> int:
    return sum(deltas)


DELTA = base(10, 10, 1, 1)  # 2


@dataclass(frozen=True)
class Case:
    number: int
    fixture: str  # the file that has the statement
    claim: float
    sql: str  # over rows t(chunk, plate, x)
    before: Rows
    after: Rows


SWAP_BEFORE: Rows = [(1, "A", 0), (2, "C", 0), (3, "A", 10), (4, "C", 10)]
SWAP_AFTER: Rows = [(1, "B", 10), (2, "D", 10), (3, "A", 10), (4, "C", 10)]
RANGE = "least(greatest(coalesce(x, {0}), {0}), {1})"

CASES = [
    Case(1, "base_table", base(1, 10, 1, 1), "SELECT count(*) FROM t", [], [(i, "A", 0) for i in range(10)]),
    Case(2, "sum", published_sum(DELTA, 30, 60), f"SELECT sum({RANGE.format(30, 60)}) FROM t", [], [(1, "A", 60), (2, "A", 60)]),
    Case(6, "group_rows", published_sum(published_group(DELTA), 0, 10),
         "SELECT sum(v) FROM (SELECT plate, avg(x) v FROM t GROUP BY plate) q",
         SWAP_BEFORE, SWAP_AFTER),
    Case(7, "having", published_group(DELTA), "SELECT count(*) FROM (SELECT plate FROM t GROUP BY plate HAVING count(*) = 1) q",
         [(1, "A", 0), (2, "C", 0), (3, "A", 0), (4, "C", 0)], [(1, "B", 0), (2, "D", 0), (3, "A", 0), (4, "C", 0)]),
    Case(8, "having", published_group(DELTA), "SELECT count(*) FROM (SELECT plate, max(x) c FROM t GROUP BY plate) q WHERE c = 1",
         [(1, "A", 2), (2, "C", 2), (3, "A", 1), (4, "C", 1)], [(1, "B", 1), (2, "D", 1), (3, "A", 1), (4, "C", 1)]),
    Case(9, "group_bins", DELTA * published_average(1, 0, 2, 1000), "SELECT sum(v) FROM (SELECT chunk, avg(x) v FROM t GROUP BY chunk) q",
         [(1, "A", 0), (2, "A", 0)], [(1, "A", 1), (2, "A", 1)]),
]


def our(number: int, fixture: str, evaluate: Evaluate) -> Plan:
    case = next(c for c in json.loads((FIXTURES / f"{fixture}.json").read_text()) if f"counterexample {number}" in c["says"].split(",")[0]
                or f"counterexample {number}:" in c["says"] or f"counterexample {number}," in c["says"])
    return plan_of(case, evaluate)


@pytest.fixture
def ask(connection: psycopg.Connection[Any]) -> Callable[[str, Rows], float]:
    def ask(statement: str, rows: Rows) -> float:
        listed = ", ".join(f"({c}, '{p}'::text, {'NULL' if x is None else x}::float8)" for c, p, x in rows)
        source = f"(VALUES {listed})" if rows else "(SELECT 1, ''::text, 0::float8 WHERE false)"
        row = connection.execute(f"WITH t(chunk, plate, x) AS (SELECT * FROM {source} v) {statement}".encode()).fetchone()
        assert row is not None
        return float(row[0] or 0)

    return ask


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"counterexample {c.number}")
def test_neighbours_break_the_published_bound_and_not_ours(case: Case, ask: Callable[[str, Rows], float], evaluate: Evaluate) -> None:
    changed = abs(ask(case.sql, case.after) - ask(case.sql, case.before))
    assert changed > case.claim
    assert changed <= our(case.number, case.fixture, evaluate).outputs[0].sensitivity


def test_counterexample_3_a_null_is_no_row_of_the_low_bound(ask: Callable[[str, Rows], float], evaluate: Evaluate) -> None:
    before, after = [(1, "A", 60.0), (2, "A", 60.0)], [(1, "A", None), (2, "A", None)]
    changed = ask("SELECT sum(x) FROM t", before) - ask("SELECT sum(x) FROM t", after)
    assert changed == 120 > published_sum(DELTA, 30, 60)
    ranged = f"SELECT sum({RANGE.format(30, 60)}) FROM t"
    assert ask(ranged, before) - ask(ranged, after) <= our(3, "sum", evaluate).outputs[0].sensitivity == 60


def test_counterexample_4_an_average_of_few_rows_moves_by_the_whole_range(ask: Callable[[str, Rows], float], evaluate: Evaluate) -> None:
    before, after = [(1, "A", 30.0), (2, "A", 30.0)], [(1, "A", 60.0), (2, "A", 60.0)]
    assert ask("SELECT avg(x) FROM t", after) - ask("SELECT avg(x) FROM t", before) == 30 > published_average(DELTA, 30, 60, 1000)
    count, total = our(4, "average", evaluate).outputs[0].scales
    for other in (after, [], [(1, "A", 60.0)]):
        changed_sum = sum(x - 45 for _, _, x in other) - sum(x - 45 for _, _, x in before)
        assert Fraction(abs(len(other) - 2)) / count + Fraction(abs(changed_sum)) / total <= 1


def test_counterexample_5_a_variance_of_few_rows_moves_by_a_quarter(ask: Callable[[str, Rows], float], evaluate: Evaluate) -> None:
    before, after = [(1, "A", 0.0), (2, "A", 0.0)], [(1, "A", 0.0), (2, "A", 1.0)]
    assert ask("SELECT var_pop(x) FROM t", after) - ask("SELECT var_pop(x) FROM t", before) == 0.25 > published_variance(DELTA, 0, 1, 1000)
    count, total, squares = our(5, "variance", evaluate).outputs[0].scales
    grid = [Fraction(i, 8) for i in range(9)]
    single = max(1 / count + abs(x - Fraction(1, 2)) / total + abs((x - Fraction(1, 2)) ** 2 - Fraction(1, 8)) / squares for x in grid)
    pair = max(abs(x - y) / total + abs((x - Fraction(1, 2)) ** 2 - (y - Fraction(1, 2)) ** 2) / squares for x in grid for y in grid)
    assert 2 * max(single, pair) <= 1, "two rows, one segment, epsilon 1"


def test_counterexample_10_groups_that_are_always_there_move_the_average_too(ask: Callable[[str, Rows], float], evaluate: Evaluate) -> None:
    keyed = ("SELECT avg(coalesce(v, 0)) FROM (VALUES ('A'), ('B'), ('C'), ('D')) k(key) "
             "LEFT JOIN (SELECT plate, avg(x) v FROM t GROUP BY 1) q ON key = plate")
    changed = ask(keyed, SWAP_AFTER) - ask(keyed, SWAP_BEFORE)
    assert changed == 7.5 > published_average(published_group(DELTA), 0, 10, 4)
    assert changed <= our(10, "listing", evaluate).outputs[0].sensitivity / 4


def test_counterexample_11_both_sides_of_a_join_double(ask: Callable[[str, Rows], float], evaluate: Evaluate) -> None:
    more = [(i, p, 10.0) for i, p in enumerate("EFGH", 5)]
    joined = "SELECT sum(v) FROM (SELECT plate, avg(x * y) v FROM t JOIN (VALUES {u}) u(plate, y) USING (plate) GROUP BY plate) q"
    shared = ", ".join(f"('{p}', 1)" for p in "EFABCD")
    changed = ask(joined.format(u=f"{shared}, ('G', 1), ('H', 1)"), [*SWAP_AFTER, *more]) - ask(
        joined.format(u=f"{shared}, ('E', 0), ('F', 0)"), [*SWAP_BEFORE, *more])
    assert changed > published_sum(published_join(DELTA, DELTA), 0, 10)
    assert changed <= our(11, "join", evaluate).outputs[0].sensitivity == 80


def test_counterexample_12_an_order_of_the_executors_own_moves_every_row(ask: Callable[[str, Rows], float], evaluate: Evaluate) -> None:
    before = [(1, "A", 0.0), (2, "A", 0.0), (3, "A", 0.0), (4, "A", 10.0), (5, "A", 10.0), (6, "A", 10.0)]
    after = [(1, "A", 100.0), (2, "A", 100.0), *before[2:]]
    clamped = f"SELECT sum({RANGE.format(0, 10)}) FROM (SELECT x FROM t ORDER BY {{}} LIMIT 3) q"
    assert ask(clamped.format("x DESC"), after) - ask(clamped.format("x"), before) == 30 > published_sum(DELTA, 0, 10)
    assert ask(clamped.format("x"), after) - ask(clamped.format("x"), before) <= our(12, "limit", evaluate).outputs[0].sensitivity == 20


def test_counterexample_13_scores_that_move_apart_need_twice_the_noise(evaluate: Evaluate) -> None:
    output = our(13, "argmax", evaluate).outputs[0]

    def first_wins(gap: int, scale: float) -> float:
        """Of two candidates with exponential noise, the first being ahead by gap."""
        return 1 - math.exp(-gap / scale) / 2 if gap >= 0 else math.exp(gap / scale) / 2

    for q in range(-30, 31):
        ours = [first_wins(q + d, float(output.scale)) for d in (-DELTA, DELTA)]
        assert abs(math.log(ours[1] / ours[0])) <= 1 + 1e-9 and abs(math.log((1 - ours[1]) / (1 - ours[0]))) <= 1 + 1e-9
    apart = [first_wins(-20 + d, DELTA) for d in (-DELTA, DELTA)]
    assert math.log(apart[1] / apart[0]) > 1.3, "at the published scale the loss is beyond epsilon"


def test_counterexample_15_nothing_protected_is_no_noise(evaluate: Evaluate) -> None:
    assert base(0, 600, 1, 1) > 0
    assert our(15, "average", evaluate).mechanism == "exact"


def test_counterexample_16_the_papers_own_taxi_query(ask: Callable[[str, Rows], float], evaluate: Evaluate) -> None:
    """300 taxis, each seen once; 54 of them are seen once more, late on the same day."""
    before = [(0, f"p{i}", 6.0) for i in range(300)]
    after = [*before, *((0, f"p{i}", 22.0) for i in range(54))]
    hours = "SELECT avg(least(v, 16)) FROM (SELECT plate, max(x) - min(x) v FROM t GROUP BY plate) q"
    changed = ask(hours, after) - ask(hours, before)
    assert changed == pytest.approx(2.88) and changed > published_average(54, 0, 16, 300 * 365)
    assert changed <= our(16, "inner_aggregates", evaluate).outputs[0].sensitivity / 300
