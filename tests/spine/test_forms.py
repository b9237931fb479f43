"""Forms that people write say the same over a camera, where nothing is protected, as over an ordinary table."""

from __future__ import annotations

import psycopg
import pytest

from .conftest import World

#: statements whose answer has a row for every group that PostgreSQL finds, and no other
SAME = [
    "SELECT CASE WHEN v > 10 THEN 'fast' ELSE 'slow' END, count(*) FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT CASE WHEN v > 20 THEN 2.50 WHEN v > 10 THEN -0.0 END AS k, count(*) FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT CASE WHEN v < 9 THEN '0' ELSE '1' END, CASE WHEN v < 9 THEN 'low' ELSE 'high' END, count(*) FROM {t} GROUP BY 1, 2 ORDER BY 1",
    "SELECT coalesce(CASE WHEN flag THEN 'yes' END, 'no'), count(*) FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT flag::int, flag::text, count(*) FROM {t} GROUP BY 1, 2 HAVING count(*) > 0 ORDER BY 1",
    "SELECT width_bucket(v, 5, 20, 3), count(*) FROM {t} GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
    "SELECT width_bucket(v, 20, 5, 3), count(*) FROM {t} GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
    "SELECT floor(v / 10), count(*) FROM {t} WHERE floor(v / 10) IN (0, 1, 2) GROUP BY 1 ORDER BY 1",
    "SELECT length(kind)::int8, count(*) FROM {t} WHERE length(kind)::int8 IN (3, 6) GROUP BY 1 ORDER BY 1",
    "SELECT mod(v::int4, 3), count(*) FROM {t} WHERE mod(v::int4, 3) IN (0, 1, 2) GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
    "SELECT kind, count(*) FROM {t} WHERE kind = 'car' OR kind = 'bus' GROUP BY kind ORDER BY 1",
    "SELECT count(*) FROM {t} WHERE kind ILIKE 'P%' AND kind NOT ILIKE '%X'",
    "SELECT count(*) FROM {t} WHERE kind ILIKE ANY ('{{P%,CA_}}')",
    "SELECT sum(flag::int), sum(CASE WHEN kind = 'car' THEN 1 ELSE 0 END), avg(flag::int) FROM {t}",
    "SELECT to_timestamp(floor(extract(epoch FROM chunk) / 5) * 5), count(*) FROM {t} GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
    "SELECT trunc(extract(epoch FROM chunk) / 7, 1), count(*) FROM {t} GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
    "SELECT date_trunc('minute', chunk) + floor(extract(second FROM chunk) / 5) * interval '5 seconds', count(*) FROM {t} "
    "GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM {t} WHERE extract(second FROM chunk) >= 3 AND mod(extract(second FROM chunk)::int, 2) = 0",
    "SELECT count(*) FROM {t} WHERE chunk >= (SELECT timestamptz '2026-03-01 06:00:02+00' + (2 || ' seconds')::interval)",
    "SELECT count(*) FROM {t} WHERE v > (SELECT (SELECT 5) + 1)",
    "SELECT s.t, count(q.v) FROM generate_series(timestamptz '2026-03-01 06:00+00', '2026-03-01 06:00:20+00', '4 seconds') s(t) "
    "LEFT JOIN {t} q ON date_bin('4 seconds', q.chunk, '2026-03-01 06:00+00') = s.t GROUP BY 1 ORDER BY 1",
    "SELECT s.n, count(q.v) FROM generate_series(0, 30, 10) s(n) LEFT JOIN {t} q ON (floor(q.v / 10) * 10)::int = s.n GROUP "
    "BY 1 ORDER BY 1",
    "SELECT s, count(q.v) FROM generate_series(9::int8, 1, -4) s LEFT JOIN {t} q ON q.v::int8 = s GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM {t} WHERE kind IN (SELECT k FROM (VALUES ('car'), ('bus'), ('car'), (NULL)) w(k))",
    "SELECT count(*) FROM {t} WHERE kind IN (SELECT word FROM wanted) AND v > 2",
    "SELECT count(DISTINCT kind) FROM {t} WHERE kind IN (SELECT kind FROM {t} WHERE v > 20)",
    "SELECT count(*) FROM {t} WHERE EXISTS (SELECT 1 FROM wanted w WHERE w.word = {t}.kind)",
    "SELECT count(*) FROM {t} q WHERE EXISTS (SELECT FROM (VALUES ('car', true), ('bus', false)) w(k, f) WHERE q.kind = w.k "
    "AND w.f = q.flag)",
    "SELECT count(DISTINCT q.kind) FROM {t} q WHERE EXISTS (SELECT * FROM {t} p WHERE p.kind = q.kind AND p.v > 20)",
    "SELECT sum(range(n, 0, 50)) FROM (SELECT kind, count(*) AS n FROM {t} WHERE kind IN (SELECT kind FROM {t} WHERE flag) "
    "GROUP BY kind) q",
    "SELECT max(n) FROM (SELECT extract(second FROM chunk)::int AS s, count(*) AS n FROM {t} GROUP BY 1) q "
    "WHERE s IN (SELECT g * 2 FROM generate_series(0, 4) g)",
    "WITH w AS (SELECT extract(second FROM chunk)::int AS s, count(*) AS n FROM {t} GROUP BY 1) "
    "SELECT s / 5, sum(n) FROM w WHERE s = ANY (SELECT g FROM generate_series(0, 9) g) GROUP BY 1 ORDER BY 1",
]


@pytest.fixture(scope="module")
def wanted(world: World) -> World:
    world.rows("CREATE TABLE wanted (word text)")
    world.rows("INSERT INTO wanted VALUES ('car'), ('person'), ('car'), ('tram')")
    return world


@pytest.mark.parametrize("statement", SAME)
def test_a_form_says_what_it_says_over_an_ordinary_table(wanted: World, statement: str) -> None:
    assert wanted.rows(statement.format(t="open_calm")) == wanted.rows(statement.format(t="truth"))


@pytest.mark.parametrize(("statement", "word"), [
    ("SELECT count(*) FROM calm WHERE kind IN (SELECT kind FROM stormy)", "joined rows"),
    ("SELECT count(*) FROM calm WHERE kind NOT IN (SELECT kind FROM stormy)", "subquery"),
    ("SELECT count(*) FROM calm WHERE NOT EXISTS (SELECT FROM stormy s WHERE s.kind = calm.kind)", "subquery"),
    ("SELECT count(*) FROM calm WHERE EXISTS (SELECT FROM stormy s WHERE s.kind = calm.kind)", "joined rows"),
    ("SELECT count(DISTINCT kind) FROM calm WHERE EXISTS (SELECT FROM stormy s WHERE s.kind = calm.kind AND s.v > calm.v)", "subquery"),
    ("SELECT count(*) FROM calm WHERE EXISTS (SELECT FROM stormy)", "subquery"),
    ("SELECT count(*) FROM calm WHERE flag OR kind IN (SELECT kind FROM stormy)", "subquery"),
    ("SELECT count(*) FROM calm WHERE v > (SELECT max(v) FROM stormy)", "subquery"),
    ("SELECT count(*) FROM calm WHERE v < ANY (SELECT v FROM stormy)", "subquery"),
    ("SELECT s, count(*) FROM calm, generate_series(1, 3) s GROUP BY 1", "equates no column"),
    ("SELECT s, count(q.v) FROM generate_series(3, 1) s LEFT JOIN calm q ON q.v::int = s GROUP BY 1", "function in FROM"),
    ("SELECT s, count(q.v) FROM generate_series(1, 300000) s LEFT JOIN calm q ON q.v::int = s GROUP BY 1", "function in FROM"),
    ("SELECT width_bucket(v, 0, 10, 20000), count(*) FROM calm GROUP BY 1", "without declared keys"),
    ("SELECT width_bucket(v, 0, 10, kind::int), count(*) FROM calm GROUP BY 1", "without declared keys"),
    ("SELECT CASE WHEN flag THEN kind ELSE 'x' END, count(*) FROM calm GROUP BY 1", "without declared keys"),
    ("SELECT kind, count(*) FROM calm WHERE kind = 'car' OR v > 3 GROUP BY 1", "without declared keys"),
    ("SELECT sum((v > 3 AND nullif(flag, true))::int) FROM calm", "without a range"),
    ("SELECT count(*) FROM calm WHERE kind ILIKE kind", "LIKE has no rule"),
    ("SELECT count(*) FROM calm WHERE to_timestamp(v) > chunk", "to_timestamp"),
])
def test_what_only_looks_like_such_a_form_is_refused(wanted: World, statement: str, word: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        wanted.rows(statement)
    assert refused.value.sqlstate == "PV002" and word in str(refused.value)


def test_the_number_of_public_groups_is_exact_and_costs_nothing(world: World) -> None:
    before = world.spent("stormy")
    for statement, groups in (("SELECT DISTINCT date_trunc('second', chunk) FROM stormy", 10),
                              ("SELECT date_bin('3 seconds', chunk, '2026-03-01 06:00+00') AS t FROM stormy GROUP BY 1", 4),
                              ("SELECT DISTINCT extract(hour FROM chunk) FROM stormy WHERE chunk < '2026-03-01 06:00:05+00'", 1)):
        assert world.rows(f"SELECT count(*) FROM ({statement}) q") == [(groups,)]
    assert world.spent("stormy") == before


@pytest.mark.parametrize("condition", ["s < 9", "s IN (SELECT g * 2 FROM generate_series(0, 4) g)",
                                       "s = ANY (SELECT length(word) FROM wanted)"])
def test_what_stands_above_a_release_may_look_a_value_up(wanted: World, condition: str) -> None:
    """The engine chooses the inner level, whatever subqueries the outer one has."""
    counts = "SELECT extract(second FROM chunk)::int AS s, count(*) AS n FROM calm GROUP BY 1"
    assert wanted.rows(f"SELECT max(n) IS NOT NULL FROM ({counts}) q WHERE {condition}") == [(True,)]
