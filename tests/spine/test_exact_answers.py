"""Where nothing is protected, a release says what PostgreSQL itself says about the same rows."""

from __future__ import annotations

import pytest

from .conftest import World

#: statements whose answer has a row for every group that PostgreSQL finds, and no other
SAME = [
    "SELECT count(*), sum(range(v, 0, 10)) FROM {t}",
    "SELECT count(*), count(v), sum(range(v, 0, 10)), sum(range(v, 5, 20)) FROM {t} WHERE v > 3",
    "SELECT count(*) FILTER (WHERE flag), sum(range(v, -5, 50)) FILTER (WHERE kind = 'car') FROM {t}",
    "SELECT date_trunc('hour', chunk), count(*), sum(range(v, 0, 10)) FROM {t} GROUP BY 1 ORDER BY 1",
    "SELECT hour(chunk) AS h, sum(range(v, 0, 10)) FROM {t} WHERE v < 20 GROUP BY h",
    "SELECT day(chunk), count(*) FROM {t} GROUP BY 1",
    "SELECT kind, count(*), sum(range(v, 0, 100)) FROM {t} WHERE kind IN ('car', 'bus', 'person') GROUP BY kind ORDER BY kind",
    "SELECT flag, count(*) FROM {t} GROUP BY flag ORDER BY 1",
    "SELECT size, count(*) FROM {t} GROUP BY size ORDER BY 1",
    # keys that are equal to what a program says, and look otherwise
    "SELECT k.key, count(q.v) FROM (VALUES (1.00), (2.0), (3.50)) k(key) LEFT JOIN {t} q ON q.v::numeric = k.key GROUP BY k.key ORDER BY 1",
    "SELECT k.key, count(q.v) FROM (VALUES ('-0'::float8), (3)) k(key) LEFT JOIN {t} q ON q.v - q.v = k.key GROUP BY k.key ORDER BY 1",
    "SELECT v::numeric * 1.00 AS k, count(*) FROM {t} WHERE v::numeric * 1.00 IN (3.0, 6.25, 7.000) GROUP BY 1 HAVING count(*) > 0 "
    "ORDER BY 1",
    "SELECT count(*) FROM {t} WHERE kind = 'car' OR (flag AND v >= 6.25)",
    "SELECT count(*) FROM {t} WHERE NOT flag AND kind <> 'bus' AND size = 'large'",
    "SELECT count(*) FROM {t} WHERE v * 2 - 1 > 20 AND v / 4 < 6",
    "SELECT count(*) FROM {t} WHERE chunk >= '2026-03-01 06:00:03+00' AND chunk < '2026-03-01 06:00:08+00'",
    "SELECT count(*) FROM {t} WHERE extract(second FROM chunk) BETWEEN 2 AND 6 AND v > 1",
    "SELECT sum(range(CASE WHEN flag THEN v ELSE -v END, -30, 30)) FROM {t}",
    "SELECT count(*) FROM {t} WHERE coalesce(nullif(kind, 'car'), 'x') = 'x' OR v IS NULL",
    "SELECT count(*) FROM {t} WHERE kind LIKE 'p%' AND lower(upper(kind)) = kind AND length(kind) = 6",
    "SELECT count(*) FROM {t} WHERE greatest(v, 10) = 10 AND least(v, 2) = 2 AND abs(v) = v",
    # quantiles of values that are candidates: those of percentile_disc
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY range(floor(v), 0, 100)), percentile_disc(0.9) WITHIN GROUP (ORDER BY "
    "range(floor(v), 0, 100)) FILTER (WHERE flag), percentile_cont(0) WITHIN GROUP (ORDER BY range(floor(v), 0, 100)) FROM {t}",
    "SELECT kind, percentile_disc(0.25) WITHIN GROUP (ORDER BY range(floor(v), 0, 100)) FROM {t} WHERE kind IN ('car', 'bus') "
    "GROUP BY kind ORDER BY 1",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM (SELECT kind, least(count(*), 50) AS n FROM {t} GROUP BY kind) q",
    "SELECT 2 * count(*) + 1 AS odd, sum(range(v, 0, 9)) / count(*) FROM {t}",
    "SELECT count(*) AS n FROM {t} HAVING count(*) > 3",
    "SELECT kind FROM {t} WHERE kind IN ('car', 'bus') GROUP BY kind HAVING count(*) > 0 ORDER BY count(*) DESC, kind LIMIT 1",
    "SELECT sum(range(w, 0, 40)) FROM (SELECT v * 2 AS w, kind FROM {t} WHERE flag) q WHERE kind <> 'bus'",
    "WITH q AS (SELECT v, kind FROM {t} WHERE v > 2) SELECT count(*) FROM q WHERE kind = 'car'",
    "SELECT a.n - b.n FROM (SELECT count(*) n FROM {t}) a, (SELECT count(*) n FROM {t} WHERE flag) b",
    "SELECT max(n) FROM (SELECT kind, count(*) AS n FROM {t} WHERE kind IN ('car', 'bus') GROUP BY kind) q",
    "SELECT count(*) FROM {t} UNION ALL SELECT count(*) FROM {t} WHERE flag ORDER BY 1",
    "SELECT kind, count(*) AS n, sum(count(*)) OVER () FROM {t} WHERE kind IN ('car', 'bus') GROUP BY kind ORDER BY 1",
    "SELECT date_bin('3 seconds', chunk, '2026-03-01 06:00+00'), kind, count(*) FROM {t} "
    "WHERE kind = ANY ('{{car,bus,person}}') GROUP BY 1, 2 HAVING count(*) > 0 ORDER BY 1, 2",
]


@pytest.mark.parametrize("statement", SAME)
def test_an_unprotected_release_equals_the_answer_over_an_ordinary_table(world: World, statement: str) -> None:
    assert world.rows(statement.format(t="open_calm")) == world.rows(statement.format(t="truth"))


def test_types_and_names_are_those_that_postgresql_would_give(world: World) -> None:
    statement = "SELECT hour(chunk), count(*), sum(range(v, 0, 3)) AS total FROM {t} GROUP BY 1"
    with world.connect() as connection:
        described = [[(c.name, c.type_code) for c in connection.execute(statement.format(t=t).encode()).description or []]
                     for t in ("open_calm", "truth")]
    assert described[0] == described[1]


def test_keys_that_never_occur_are_zero_and_not_missing(world: World) -> None:
    rows = world.rows("SELECT kind, count(*), sum(range(v, 0, 10)) FROM open_calm WHERE kind IN ('car', 'tram', 'moped') GROUP BY 1")
    counted = {kind: (count, total) for kind, count, total in rows}
    assert counted["tram"] == counted["moped"] == (0, 0)
    assert counted["car"][0] > 0


def test_cells_of_time_without_rows_are_zero_and_not_missing(world: World) -> None:
    rows = world.rows("SELECT chunk, count(*) FROM open_calm WHERE v > 20 GROUP BY 1 ORDER BY 1")
    assert len(rows) == 10
    assert [count for _, count in rows][:5] == [0] * 5


def test_the_time_zone_of_the_session_decides_where_days_begin(world: World) -> None:
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        with world.connect() as connection:
            connection.execute("SELECT set_config('TimeZone', %s, false)", (zone,))
            statement = b"SELECT day(chunk)::text, count(*) FROM %s GROUP BY day(chunk)"
            assert connection.execute(statement % b"open_calm").fetchall() == connection.execute(statement % b"truth").fetchall()


def test_a_second_query_over_the_same_table_runs_nothing_again(world: World) -> None:
    world.rows("SELECT count(*) FROM open_calm")
    explained = world.rows("EXPLAIN (FORMAT JSON) SELECT sum(range(v, 0, 7)) FROM open_calm WHERE flag")[0][0]
    assert explained[0]["Plan"]["Privid"]["Slots"] == 0
    assert explained[0]["Plan"]["Privid"]["Chunks"] == 10
