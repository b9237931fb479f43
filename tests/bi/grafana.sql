-- time series: $__timeGroupAlias and $__timeFilter
-- expect: answer
SELECT floor(extract(epoch from chunk)/300)*300 AS "time", count(*) AS "passers"
FROM passers
WHERE chunk BETWEEN '2026-03-01T06:00:00Z' AND '2026-03-01T07:00:00Z'
GROUP BY 1
ORDER BY 1

-- time series with a metric column
-- expect: answer
SELECT floor(extract(epoch from chunk)/60)*60 AS "time", region AS metric, count(*) AS value
FROM passers
WHERE chunk BETWEEN '2026-03-01T06:00:00Z' AND '2026-03-01T07:00:00Z'
GROUP BY 1, 2
ORDER BY 1, 2

-- metric column of the program
-- expect: hint, kind IN ('a', 'b')
SELECT floor(extract(epoch from chunk)/60)*60 AS "time", kind AS metric, count(*) AS value FROM passers GROUP BY 1, 2 ORDER BY 1, 2
-- followed
SELECT floor(extract(epoch from chunk)/60)*60 AS "time", kind AS metric, count(*) AS value FROM passers WHERE kind IN ('a', 'b') GROUP BY 1, 2 ORDER BY 1, 2

-- metric column with a variable of several values
-- expect: answer
SELECT floor(extract(epoch from chunk)/60)*60 AS "time", kind AS metric, count(*) AS value
FROM passers
WHERE chunk BETWEEN '2026-03-01T06:00:00Z' AND '2026-03-01T07:00:00Z' AND kind IN ('car','person')
GROUP BY 1, 2
ORDER BY 1

-- average of a measure
-- expect: hint, avg(range(speed, 0, 10))
SELECT floor(extract(epoch from chunk)/60)*60 AS "time", avg(speed) AS "speed" FROM passers GROUP BY 1 ORDER BY 1
-- followed
SELECT floor(extract(epoch from chunk)/60)*60 AS "time", avg(range(speed, 0, 10)) AS "speed" FROM passers GROUP BY 1 ORDER BY 1

-- a calendar bucket
-- expect: answer
SELECT date_trunc('hour', chunk) AS "time", count(*) FROM passers GROUP BY 1 ORDER BY 1

-- $__timeEpoch
-- expect: answer
SELECT extract(epoch from chunk) as "time", count(*) FROM passers GROUP BY chunk ORDER BY 1

-- $__unixEpochFilter
-- expect: answer
SELECT count(*) FROM passers
WHERE extract(epoch from chunk) >= 1772344800 AND extract(epoch from chunk) <= 1772348400

-- $__unixEpochGroup
-- expect: answer
SELECT floor((extract(epoch from chunk))/60)*60 AS "time", count(*) FROM passers GROUP BY 1 ORDER BY 1

-- a bucket as a timestamp
-- expect: answer
SELECT to_timestamp(floor(extract(epoch from chunk)/5)*5) AS "time", count(*) FROM passers GROUP BY 1 ORDER BY 1

-- variable: values of a public column
-- expect: answer
SELECT DISTINCT region FROM passers ORDER BY 1

-- variable: values of a column of the program
-- expect: hint, kind IN ('a', 'b')
SELECT DISTINCT kind AS __text FROM passers
-- followed
SELECT DISTINCT kind AS __text FROM passers WHERE kind IN ('a', 'b')

-- table panel of the builder
-- expect: answer
SELECT COUNT(plate) AS "passers", region FROM analyst.passers GROUP BY region LIMIT 50

-- stat panel
-- expect: answer
SELECT count(*) FROM passers WHERE chunk BETWEEN '2026-03-01T06:00:00Z' AND '2026-03-01T06:00:05.5Z'

-- the last hours
-- expect: answer
SELECT count(*) FROM passers WHERE chunk > now() - interval '40 years'

-- rows as a time series
-- expect: hint, count
SELECT chunk AS "time", speed FROM passers WHERE chunk BETWEEN '2026-03-01T06:00:00Z' AND '2026-03-01T07:00:00Z' ORDER BY 1
-- followed
SELECT chunk AS "time", count(speed) FROM passers WHERE chunk BETWEEN '2026-03-01T06:00:00Z' AND '2026-03-01T07:00:00Z' GROUP BY chunk ORDER BY 1

-- annotations
-- expect: hint, count
SELECT chunk AS time, kind AS text, plate AS tags FROM passers WHERE flag
-- followed
SELECT chunk AS time, count(*) AS text FROM passers WHERE flag GROUP BY chunk

-- a percentile
-- expect: hint, percentile_cont(0.95) WITHIN GROUP (ORDER BY range(speed, 0, 10))
SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY speed) AS p95 FROM passers
-- followed
SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY range(speed, 0, 10)) AS p95 FROM passers

-- a median of released counts
-- expect: answer
SELECT min(10.0 * (bucket - 1) / 20) AS median
FROM (SELECT bucket, sum(n) OVER (ORDER BY bucket) AS below, sum(n) OVER () AS whole
      FROM (SELECT width_bucket(speed, 0, 10, 20) AS bucket, count(*) AS n FROM passers GROUP BY 1) bins
      WHERE bucket IS NOT NULL) running
WHERE below >= 0.5 * whole

-- buckets without gaps
-- expect: answer
SELECT s.t AS "time", count(p.chunk) AS value
FROM generate_series('2026-03-01T06:00:00Z'::timestamptz, '2026-03-01T06:00:10Z'::timestamptz, interval '5 seconds') AS s(t)
LEFT JOIN passers p ON date_bin('5 seconds', p.chunk, '2026-03-01T06:00:00Z'::timestamptz) = s.t
GROUP BY 1
ORDER BY 1

-- a flag added up
-- expect: answer
SELECT date_bin('5 seconds', chunk, '2026-03-01T06:00:00Z') AS "time", sum(flag::int) AS flagged FROM passers GROUP BY 1 ORDER BY 1

-- heat map: buckets of a value
-- expect: answer
SELECT floor(extract(epoch from chunk)/5)*5 AS "time", width_bucket(speed, 0, 60, 6) AS bucket, count(*) FROM passers GROUP BY 1, 2 ORDER BY 1, 2

-- version of the server
-- expect: answer
SELECT current_setting('server_version_num')::int/100 as version

-- columns for the builder
-- expect: answer
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
WHERE quote_ident(table_schema) = 'analyst' AND quote_ident(table_name) = 'passers'
