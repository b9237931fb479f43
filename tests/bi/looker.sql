-- count
-- expect: answer
SELECT COUNT(*) AS "passers.count" FROM "analyst"."passers" AS "passers" LIMIT 500

-- by date
-- expect: answer
SELECT (DATE(passers.chunk )) AS "passers.chunk_date", COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
GROUP BY 1
ORDER BY 1 DESC
FETCH NEXT 500 ROWS ONLY

-- by hour, as a text
-- expect: answer
SELECT (TO_CHAR(DATE_TRUNC('hour', passers.chunk ), 'YYYY-MM-DD HH24')) AS "passers.chunk_hour", COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
GROUP BY (DATE_TRUNC('hour', passers.chunk ))
ORDER BY 1 DESC
FETCH NEXT 500 ROWS ONLY

-- by minute in another time zone
-- expect: answer
SELECT (TO_CHAR(DATE_TRUNC('minute', passers.chunk AT TIME ZONE 'UTC' AT TIME ZONE 'America/Los_Angeles'), 'YYYY-MM-DD HH24:MI')) AS "passers.chunk_minute",
    COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
GROUP BY 1
ORDER BY 1 DESC
LIMIT 500

-- by hour of the day
-- expect: answer
SELECT CAST(EXTRACT(HOUR FROM passers.chunk ) AS INT) AS "passers.chunk_hour_of_day", COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
GROUP BY 1
ORDER BY 1
FETCH NEXT 500 ROWS ONLY

-- sum of a measure
-- expect: hint, sum(range(speed, 0, 10))
SELECT passers.region AS "passers.region", COALESCE(SUM(CAST(( passers.speed ) AS DOUBLE PRECISION)), 0) AS "passers.total_speed"
FROM analyst.passers AS passers
GROUP BY 1
ORDER BY 2 DESC
FETCH NEXT 500 ROWS ONLY
-- followed
SELECT passers.region AS "passers.region", COALESCE(sum(range(speed, 0, 10)), 0) AS "passers.total_speed"
FROM analyst.passers AS passers
GROUP BY 1
ORDER BY 2 DESC
FETCH NEXT 500 ROWS ONLY

-- average of a measure
-- expect: hint, avg(range(speed, 0, 10))
SELECT AVG(( passers.speed )) AS "passers.average_speed" FROM analyst.passers AS passers FETCH NEXT 500 ROWS ONLY
-- followed
SELECT avg(range(speed, 0, 10)) AS "passers.average_speed" FROM analyst.passers AS passers FETCH NEXT 500 ROWS ONLY

-- yes or no
-- expect: answer
SELECT CASE WHEN passers.flag THEN 'Yes' ELSE 'No' END AS "passers.flag", COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
GROUP BY 1
ORDER BY 2 DESC
FETCH NEXT 500 ROWS ONLY

-- tiers
-- expect: answer
SELECT CASE
      WHEN passers.speed < 10 THEN '0'
      WHEN passers.speed >= 10 AND passers.speed < 20 THEN '1'
      WHEN passers.speed >= 20 THEN '2'
      ELSE '3'
    END AS "passers.speed_tier__sort_",
    CASE
      WHEN passers.speed < 10 THEN 'Below 10'
      WHEN passers.speed >= 10 AND passers.speed < 20 THEN '10 to 19'
      WHEN passers.speed >= 20 THEN '20 or Above'
      ELSE 'Undefined'
    END AS "passers.speed_tier",
    COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
GROUP BY 1, 2
ORDER BY 1
FETCH NEXT 500 ROWS ONLY

-- the last seven days
-- expect: answer
SELECT COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
WHERE ((( passers.chunk ) >= ((SELECT (DATE_TRUNC('day', CURRENT_TIMESTAMP) + (-60000 || ' day')::INTERVAL)))
    AND ( passers.chunk ) < ((SELECT ((DATE_TRUNC('day', CURRENT_TIMESTAMP) + (-60000 || ' day')::INTERVAL) + (90000 || ' day')::INTERVAL)))))
FETCH NEXT 500 ROWS ONLY

-- between two dates
-- expect: answer
SELECT passers.region AS "passers.region", COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
WHERE ((( passers.chunk ) >= (DATE_TRUNC('day', DATE '2026-03-01')) AND ( passers.chunk ) < (DATE_TRUNC('day', DATE '2026-03-02'))))
GROUP BY 1
ORDER BY 2 DESC
FETCH NEXT 500 ROWS ONLY

-- suggestions for a filter, public column
-- expect: answer
SELECT DISTINCT passers.region AS "passers.region" FROM analyst.passers AS passers ORDER BY 1 FETCH NEXT 1000 ROWS ONLY

-- suggestions for a filter, column of the program
-- expect: hint, kind IN ('a', 'b')
SELECT DISTINCT passers.kind AS "passers.kind" FROM analyst.passers AS passers ORDER BY 1 FETCH NEXT 1000 ROWS ONLY
-- followed
SELECT DISTINCT passers.kind AS "passers.kind" FROM analyst.passers AS passers WHERE kind IN ('a', 'b') ORDER BY 1 FETCH NEXT 1000 ROWS ONLY

-- filtered distinct count
-- expect: answer
SELECT COUNT(DISTINCT CASE WHEN passers.flag THEN passers.plate ELSE NULL END) AS "passers.flagged" FROM analyst.passers AS passers FETCH NEXT 500 ROWS ONLY

-- filtered count
-- expect: answer
SELECT COUNT(CASE WHEN passers.kind = 'car' THEN 1 ELSE NULL END) AS "passers.cars" FROM analyst.passers AS passers FETCH NEXT 500 ROWS ONLY

-- a filter on a measure
-- expect: answer
SELECT passers.region AS "passers.region", COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
GROUP BY 1
HAVING COUNT(*) > 10
ORDER BY 2 DESC
FETCH NEXT 500 ROWS ONLY

-- text begins with, any case; another excluded
-- expect: answer
SELECT COUNT(*) AS "passers.count" FROM analyst.passers AS passers
WHERE (passers.kind ILIKE 'car%') AND (passers.plate <> 'X' OR passers.plate IS NULL) AND (passers.speed >= 5 AND passers.speed < 30)
FETCH NEXT 500 ROWS ONLY

-- pivot
-- expect: answer
SELECT * FROM (
SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) as z___pivot_row_rank, RANK() OVER (PARTITION BY z__pivot_col_rank ORDER BY z___min_rank) as z__pivot_col_ordering FROM (
SELECT *, MIN(z___rank) OVER (PARTITION BY "passers.chunk_second") as z___min_rank FROM (
SELECT *, RANK() OVER (ORDER BY CASE WHEN z__pivot_col_rank=1 THEN "passers.count" END DESC NULLS LAST, "passers.chunk_second") AS z___rank FROM (
SELECT *, DENSE_RANK() OVER (ORDER BY CASE WHEN "passers.region" IS NULL THEN 1 ELSE 0 END, "passers.region") AS z__pivot_col_rank FROM (
SELECT passers.region AS "passers.region", DATE_TRUNC('second', passers.chunk ) AS "passers.chunk_second", COUNT(*) AS "passers.count"
FROM analyst.passers AS passers
GROUP BY 1, 2) ww
) bb WHERE z__pivot_col_rank <= 16384
) aa
) xx
) zz
WHERE (z__pivot_col_rank <= 50 OR z__pivot_col_ordering = 1) AND (z___pivot_row_rank <= 500) ORDER BY z___pivot_row_rank

-- derived table
-- expect: answer
WITH seen AS (SELECT chunk, region, plate, speed FROM passers WHERE flag)
SELECT seen.region AS "seen.region", COUNT(*) AS "seen.count", COUNT(DISTINCT seen.plate ) AS "seen.plates"
FROM seen
GROUP BY 1
ORDER BY 2 DESC
FETCH NEXT 500 ROWS ONLY

-- drill into rows
-- expect: hint, plate IN ('a', 'b')
SELECT passers.chunk AS "passers.chunk", passers.plate AS "passers.plate" FROM analyst.passers AS passers
GROUP BY 1, 2 ORDER BY 1 DESC FETCH NEXT 500 ROWS ONLY
-- followed
SELECT passers.chunk AS "passers.chunk", passers.plate AS "passers.plate" FROM analyst.passers AS passers WHERE plate IN ('a', 'b')
GROUP BY 1, 2 ORDER BY 1 DESC FETCH NEXT 500 ROWS ONLY

-- median
-- expect: hint, percentile_cont(0.5) WITHIN GROUP (ORDER BY range(speed, 0, 10))
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY passers.speed ) AS "passers.median_speed" FROM analyst.passers AS passers FETCH NEXT 500 ROWS ONLY
-- followed
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY range(speed, 0, 10)) AS "passers.median_speed" FROM analyst.passers AS passers FETCH NEXT 500 ROWS ONLY
