-- line chart: count by a time grain
-- expect: answer
SELECT DATE_TRUNC('minute', chunk) AS __timestamp, COUNT(*) AS count
FROM analyst.passers
WHERE chunk >= TO_TIMESTAMP('2026-03-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND chunk < TO_TIMESTAMP('2026-03-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY DATE_TRUNC('minute', chunk)
ORDER BY count DESC
LIMIT 10000

-- big number
-- expect: answer
SELECT COUNT(*) AS count FROM analyst.passers LIMIT 50000

-- big number with a trend line
-- expect: answer
SELECT DATE_TRUNC('day', chunk) AS __timestamp, COUNT(*) AS count
FROM analyst.passers
GROUP BY DATE_TRUNC('day', chunk)
LIMIT 50000

-- pie over a column of the program
-- expect: hint, kind IN ('a', 'b')
SELECT kind AS kind, COUNT(*) AS count FROM analyst.passers GROUP BY kind ORDER BY count DESC LIMIT 100
-- followed
SELECT kind AS kind, COUNT(*) AS count FROM analyst.passers WHERE kind IN ('a', 'b') GROUP BY kind ORDER BY count DESC LIMIT 100

-- pie with a filter of the dashboard
-- expect: answer
SELECT kind AS kind, COUNT(*) AS count
FROM analyst.passers
WHERE kind IN ('car', 'person')
GROUP BY kind
ORDER BY count DESC
LIMIT 100

-- bar chart: sum of a measure
-- expect: hint, sum(privid.range(speed, 0, 10))
SELECT region AS region, SUM(speed) AS "SUM(speed)" FROM analyst.passers GROUP BY region ORDER BY "SUM(speed)" DESC LIMIT 10000
-- followed
SELECT region AS region, sum(privid.range(speed, 0, 10)) AS "SUM(speed)" FROM analyst.passers GROUP BY region ORDER BY "SUM(speed)" DESC LIMIT 10000

-- bar chart: average of a measure
-- expect: hint, avg(privid.range(speed, 0, 10))
SELECT region AS region, AVG(speed) AS "AVG(speed)" FROM analyst.passers GROUP BY region LIMIT 10000
-- followed
SELECT region AS region, avg(privid.range(speed, 0, 10)) AS "AVG(speed)" FROM analyst.passers GROUP BY region LIMIT 10000

-- virtual dataset, grouped by a public column
-- expect: answer
SELECT region AS region, COUNT(*) AS count
FROM (SELECT chunk, region, plate FROM passers WHERE flag) AS virtual_table
GROUP BY region
ORDER BY count DESC
LIMIT 1000

-- virtual dataset that is itself an aggregate
-- expect: answer
SELECT __timestamp AS __timestamp, SUM(n) AS "SUM(n)"
FROM (SELECT DATE_TRUNC('second', chunk) AS __timestamp, COUNT(*) AS n FROM passers GROUP BY 1) AS virtual_table
GROUP BY __timestamp
LIMIT 1000

-- preview of a table
-- expect: hint, count
SELECT analyst.passers.chunk, analyst.passers.region, analyst.passers.kind FROM analyst.passers LIMIT 100
-- followed
SELECT count(*) FROM analyst.passers LIMIT 100

-- values for a filter, public column
-- expect: answer
SELECT region AS region FROM analyst.passers GROUP BY region LIMIT 1000

-- values for a filter, column of the program
-- expect: hint, kind IN ('a', 'b')
SELECT DISTINCT kind FROM analyst.passers LIMIT 1000
-- followed
SELECT DISTINCT kind FROM analyst.passers WHERE kind IN ('a', 'b') LIMIT 1000

-- range of the time column
-- expect: answer
SELECT MIN(chunk) AS "MIN(chunk)", MAX(chunk) AS "MAX(chunk)" FROM analyst.passers LIMIT 50000

-- distinct count
-- expect: answer
SELECT DATE_TRUNC('hour', chunk) AS __timestamp, COUNT(DISTINCT plate) AS "COUNT_DISTINCT(plate)"
FROM analyst.passers
GROUP BY DATE_TRUNC('hour', chunk)
LIMIT 10000

-- series limit: the ten largest series only
-- expect: hint, LIMIT
SELECT DATE_TRUNC('minute', chunk) AS __timestamp, region AS region, COUNT(*) AS count
FROM analyst.passers
JOIN (SELECT region AS region__, COUNT(*) AS mme_inner__ FROM analyst.passers GROUP BY region ORDER BY mme_inner__ DESC LIMIT 10) AS series_limit
  ON region = region__
GROUP BY DATE_TRUNC('minute', chunk), region
ORDER BY count DESC
LIMIT 10000
-- followed
SELECT DATE_TRUNC('minute', chunk) AS __timestamp, region AS region, COUNT(*) AS count
FROM analyst.passers
GROUP BY DATE_TRUNC('minute', chunk), region
ORDER BY count DESC
LIMIT 10000

-- search in a text column
-- expect: answer
SELECT COUNT(*) AS count FROM analyst.passers WHERE plate ILIKE '%B-1%' LIMIT 50000

-- metric by an expression
-- expect: answer
SELECT region AS region, SUM(CASE WHEN kind = 'car' THEN 1 ELSE 0 END) AS cars
FROM analyst.passers
GROUP BY region
ORDER BY cars DESC
LIMIT 10000

-- calculated column as a dimension
-- expect: answer
SELECT CASE WHEN speed > 10 THEN 'fast' ELSE 'slow' END AS pace, COUNT(*) AS count
FROM analyst.passers
GROUP BY CASE WHEN speed > 10 THEN 'fast' ELSE 'slow' END
ORDER BY count DESC
LIMIT 10000

-- hour of the day as a dimension
-- expect: answer
SELECT EXTRACT(HOUR FROM chunk) AS hour_of_day, COUNT(*) AS count
FROM analyst.passers
WHERE EXTRACT(DOW FROM chunk) IN (0, 6)
GROUP BY EXTRACT(HOUR FROM chunk)
LIMIT 10000

-- number of rows of a result
-- expect: answer
SELECT COUNT(*) AS rowcount
FROM (SELECT DATE_TRUNC('minute', chunk) AS __timestamp FROM analyst.passers GROUP BY DATE_TRUNC('minute', chunk)) AS virtual_table
LIMIT 50000

-- temporal filter and one on a text
-- expect: answer
SELECT COUNT(*) AS count
FROM analyst.passers
WHERE chunk BETWEEN '2026-03-01 06:00:00' AND '2026-03-01 06:00:05' AND kind IS NOT NULL AND kind != ''
LIMIT 50000

-- tables of a schema
-- expect: answer
SELECT pg_catalog.pg_class.relname
FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_namespace.nspname = 'analyst'

-- cost estimate
-- expect: answer
EXPLAIN SELECT region AS region, COUNT(*) AS count FROM analyst.passers GROUP BY region LIMIT 1000
