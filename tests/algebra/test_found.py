"""Statements whose claims the search has once refuted, searched longer than others."""

from __future__ import annotations

import psycopg
import pytest

from privid.udf import noise
from tests.verify.calculus_grammar import Agg, Query
from tests.verify.calculus_search import Searcher
from tests.verify.calculus_stand import Stand

FOUND = {
    "a sum of a number that is 0 on the grid and not by itself":
        Query("", (), (Agg("sum", "5e-324::float8"),), "FROM @n1@ q", frozenset(), 0),
    "an argmax over a padded table, whose row number is public but not the number under one key":
        Query("", ("red",), (Agg("count"),), "FROM @n3@ q", frozenset(), 0, True),
    "an argmax over tables of which one is padded":
        Query("", ("red",), (Agg("count"),), "FROM (SELECT red FROM @s3@ q UNION ALL SELECT red FROM @s2@ q) q", frozenset(), 1, True),
    "a declared key that is no number":
        Query("", ("CASE WHEN red THEN 'NaN'::float8 ELSE 1 END",), (Agg("count"),),
              "FROM @n1@ q WHERE CASE WHEN red THEN 'NaN'::float8 ELSE 1 END IN ('NaN', 1)", frozenset(), 0),
    "a public key that has no end":
        Query("", ("k.key",), (Agg("count"),),
              "FROM (VALUES ('-Infinity'::float8), (0)) AS k(key) LEFT JOIN @n1@ q ON "
              "(CASE WHEN q.red THEN '-Infinity'::float8 ELSE 0 END) = k.key",
              frozenset(), 0),
    "a conversion of one side of UNION ALL that gives NULL":
        Query("", (), (Agg("count", "x"),), "FROM (SELECT CASE WHEN plate = 'A' THEN 'NaN'::numeric ELSE 0 END AS x FROM @n3@ q UNION ALL "
              "SELECT v FROM @n3@ q) q", frozenset(), 1),
    "such a conversion above rows that are compared":
        Query("", (), (Agg("count", "x"),), "FROM ((SELECT CASE WHEN plate = 'A' THEN 'NaN'::numeric ELSE 0 END AS x FROM @n3@ q "
              "LIMIT 40) UNION ALL SELECT v FROM @n3@ q) q", frozenset(), 1),
    "a variance of a number whose square has too many digits":
        Query("", (), (Agg("var_pop", f"CASE WHEN v > 5 THEN 100000000000000000000.{'0' * 400} ELSE 100000000000000000001 END"),),
              "FROM @n3@ q", frozenset(), 0),
    "a variance of a range whose grid has too many digits":
        Query("", (), (Agg("var_pop", "range(v, 0, 5e-324)"),), "FROM @n3@ q", frozenset(), 0),
    "rows of NULLs of listed keys in a cell that is NULL":
        Query("", ("1 / (extract(second FROM q.chunk) - 2)", "k.key"), (Agg("count", "q.plate"),),
              "FROM (VALUES ('A'), ('B'), ('C'), ('D')) AS k(key) LEFT JOIN @n1@ q ON q.plate = k.key", frozenset({"keys: listed"}), 0),
    "rows of NULLs of listed keys where no cell is left":
        Query("", ("k.key", "q.b"), (Agg("count"),),
              "FROM (VALUES ('A'), ('B')) AS k(key) LEFT JOIN (SELECT plate, date_trunc('second', chunk) AS b, count(*) AS n FROM @n1@ q "
              "GROUP BY 1, 2 HAVING date_trunc('second', chunk) < '2020-01-01 00:00+00') q ON q.plate = k.key",
              frozenset({"keys: listed"}), 1),
    "a key that is the same everywhere, of listed keys that no chunk has rows of":
        Query("", ("CASE WHEN range(n, -5, -1) > 0 THEN 1.0 ELSE 1e-10::numeric END",), (Agg("count"),),
              "FROM (SELECT k.key, extract(second FROM interval '-17 years') AS n FROM (VALUES ('A'), ('B')) AS k(key) LEFT JOIN @n1@ q "
              "ON q.plate = k.key AND q.chunk < '2020-01-01 00:00+00' GROUP BY k.key) q", frozenset(), 1),
    "an argmax by a column that groups may change":
        Query("", ("k",), (Agg("count"),), "FROM (SELECT plate, max(v) > 5 AS k FROM @n1@ q GROUP BY plate) q", frozenset(), 1, True),
}


def test_an_average_that_nothing_can_change_is_an_average(stand: Stand) -> None:
    """Of a public value of listed keys: shown without noise, and not as the number of keys that is collected for it."""
    plan = stand.explain("SELECT avg(range(length(key), 0, 10)) FROM (SELECT k.key, count(q.plate) AS n "
                         "FROM (VALUES ('A'), ('BBBB'), ('C')) AS k(key) LEFT JOIN n1 q ON q.plate = k.key GROUP BY k.key) AS p").plan
    assert not plan.epsilon
    assert [column.what for column in plan.columns] == ["count", "sum"]
    ((shown,),) = noise.answer(plan, [("3", "6")])[0]
    assert shown is not None and float(shown) == 2


@pytest.mark.parametrize("value", ["CASE WHEN red THEN 0::numeric ELSE 0.00 END", "range(v, 0, 0)"])
def test_a_sum_that_is_always_0_is_written_alike_whatever_was_added_up(stand: Stand, value: str) -> None:
    """It is shown without noise and costs nothing, so that 0.00, 0 and no row at all must not be told apart."""
    plan = stand.explain(f"SELECT plate, sum({value}) FROM n1 WHERE plate IN ('A', 'B') GROUP BY plate").plan
    assert not plan.epsilon
    answers = [noise.answer(plan, rows)[0] for rows in ([], [("A", "0")], [("A", "0.00"), ("B", "0.00000")])]
    assert answers[0] == answers[1] == answers[2]


def test_a_quantile_of_numbers_that_double_precision_does_not_have_is_refused_in_words(stand: Stand) -> None:
    """Once an OverflowError: the points between its bounds are written as its type prints them."""
    with pytest.raises(psycopg.DataError, match="double precision does not have"):
        stand.explain("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY CASE WHEN v > 1 THEN 1e400::numeric ELSE 0 END) FROM n1")


@pytest.mark.parametrize("listed", ["SELECT a AS key, upper(a) AS loud FROM (VALUES ('A'), ('B')) v(a)",
                                    "SELECT upper(a) AS key, a FROM (VALUES ('A'), ('B')) v(a)",
                                    "SELECT a AS key, 1 FROM (VALUES ('A')) v(a)"])
def test_a_list_with_a_computed_column_is_refused_in_words(stand: Stand, listed: str) -> None:
    """Once an internal error: its other columns were those of the list."""
    with pytest.raises(psycopg.ProgrammingError, match="reads only the public") as caught:
        stand.explain(f"SELECT k.key, count(q.plate) FROM ({listed}) k LEFT JOIN n1 q ON q.plate = k.key GROUP BY 1")
    assert caught.value.sqlstate == "PV002"


@pytest.mark.parametrize("query", FOUND.values(), ids=FOUND)
def test_what_was_once_refuted_holds(stand: Stand, query: Query) -> None:
    searcher = Searcher(stand, 3)
    claim = searcher.claim(query)
    assert claim is not None, searcher.tally.report()
    for _ in range(4):
        finding = searcher.search(query, claim, fresh=60, rounds=8, size=30)
        assert finding is None, str(finding)
