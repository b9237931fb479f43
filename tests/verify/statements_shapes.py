"""Texts of statements: a release inside something larger, and forms that would show rows."""

from __future__ import annotations

__all__ = ["KEYED", "RAW", "WRAPPED"]


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


#: A release q as a part of something larger, the way that tools write. What counts the rows of a
#: release is a release itself, hence with noise.
WRAPPED = _lines("""
    SELECT * FROM ({q}) y LIMIT 1000
    SELECT * FROM ({q}) y LIMIT 0
    WITH y AS ({q}) SELECT * FROM y
    WITH y AS MATERIALIZED ({q}) SELECT * FROM y
    SELECT y.*, row_number() OVER () AS k FROM ({q}) y
    SELECT y.*, p.plate FROM ({q}) y CROSS JOIN plates p
    ({q}) UNION ALL ({q})
    SELECT EXISTS ({q}) AS k
    SELECT (SELECT count(*) FROM ({q}) y) AS c9
    SELECT count(*) AS c9 FROM ({q}) y
    {q} OFFSET 1
    {q} FETCH FIRST 2 ROWS ONLY
    {q} FOR UPDATE
    SELECT p.plate FROM plates p WHERE EXISTS ({q})
    SELECT x AS k, y.* FROM generate_series(1, 2) x, LATERAL ({q}) y
    VALUES ((SELECT count(*) FROM ({q}) y))
    SELECT CASE WHEN true THEN 1 ELSE (SELECT count(*) FROM ({q}) y) END AS c9
    """)

#: the same for a release that has keys
KEYED = _lines("""
    SELECT * FROM ({q}) y ORDER BY 1
    SELECT * FROM ({q}) y ORDER BY k0 DESC NULLS LAST LIMIT 2
    SELECT DISTINCT k0 FROM ({q}) y ORDER BY 1
    SELECT k0, count(*) AS c9 FROM ({q}) y GROUP BY k0 ORDER BY 1
    SELECT max(k0::text) AS c9 FROM ({q}) y
    SELECT k0 FROM ({q}) y EXCEPT SELECT k0 FROM ({q}) y
    """)

#: What would show rows of a table t, or evaluate on them what is not listed: x and y are
#: expressions, c is a condition, n a number, u another table.
RAW = _lines("""
    SELECT * FROM {t} WHERE {c}
    SELECT {x} FROM {t}
    SELECT {x}, count(*) FROM {t} GROUP BY 1
    SELECT count(*) OVER (ORDER BY {x}) FROM {t}
    SELECT DISTINCT {x} FROM {t}
    SELECT min({x}) FROM {t}
    SELECT {x}, {y}, count(*) FROM {t} GROUP BY ROLLUP (1, 2)
    SELECT count(*) FROM {t} GROUP BY GROUPING SETS ((), (red))
    SELECT sum(range(v, 0, 1) ORDER BY {x}) FROM {t}
    SELECT array_agg({x}) FROM {t}
    SELECT count(*) FROM {t} WHERE EXISTS (SELECT 1 FROM {t} z WHERE {c})
    SELECT count(*) FROM {t} WHERE v > (SELECT {n} FROM {t} LIMIT 1)
    SELECT count(*) FROM {t} TABLESAMPLE system (10)
    SELECT count(*) FROM {t} a, LATERAL (SELECT a.v WHERE {c}) b
    SELECT count(*) FROM {t} WHERE random() < v AND {c}
    SELECT count(*) FROM {t} WHERE pg_sleep(0) IS NULL AND {c}
    INSERT INTO loot SELECT ({x})::text FROM {t}
    UPDATE loot SET x = plate FROM {t} WHERE {c}
    DELETE FROM loot USING {t} WHERE x = plate AND {c}
    MERGE INTO loot USING {t} ON x = plate WHEN NOT MATCHED THEN DO NOTHING
    COPY (SELECT {x} FROM {t}) TO STDOUT
    COPY {t} TO STDOUT
    CREATE TEMP TABLE z AS SELECT {x} FROM {t}
    EXPLAIN ANALYZE SELECT {x} FROM {t} WHERE {c}
    SELECT (SELECT {x} FROM {t} LIMIT 1)
    WITH RECURSIVE z AS (SELECT v FROM {t} UNION ALL SELECT v FROM z) SELECT count(*) FROM z
    SELECT count(*) FROM {t} JOIN many ON {c}
    SELECT count(*) FROM {t}, {u} b
    DECLARE z CURSOR WITH HOLD FOR SELECT {x} FROM {t}
    UPDATE {t} SET v = 1 WHERE {c}
    DELETE FROM {t}
    DO $z$ DECLARE r record; BEGIN FOR r IN SELECT * FROM {t} LOOP RAISE '%', r; END LOOP; END $z$
    SELECT query_to_xml('SELECT * FROM {t}', true, true, '')
    ANALYZE {t}
    SELECT {x} FROM {t} UNION SELECT {y} FROM {t}
    SELECT sum({x}) FILTER (WHERE {c}) FROM {t} HAVING {c}
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM {t}
    """)
