-- count of rows
-- expect: answer
SELECT COUNT(*) AS "count" FROM "analyst"."passers"

-- by day
-- expect: answer
SELECT CAST("analyst"."passers"."chunk" AS date) AS "chunk", COUNT(*) AS "count"
FROM "analyst"."passers"
GROUP BY CAST("analyst"."passers"."chunk" AS date)
ORDER BY CAST("analyst"."passers"."chunk" AS date) ASC

-- by hour
-- expect: answer
SELECT DATE_TRUNC('hour', "analyst"."passers"."chunk") AS "chunk", COUNT(*) AS "count"
FROM "analyst"."passers"
GROUP BY DATE_TRUNC('hour', "analyst"."passers"."chunk")
ORDER BY DATE_TRUNC('hour', "analyst"."passers"."chunk") ASC
LIMIT 1048575

-- by week that begins on a Sunday
-- expect: answer
SELECT (CAST(DATE_TRUNC('week', ("analyst"."passers"."chunk" + INTERVAL '1 day')) AS timestamp) + INTERVAL '-1 day') AS "chunk", COUNT(*) AS "count"
FROM "analyst"."passers"
GROUP BY (CAST(DATE_TRUNC('week', ("analyst"."passers"."chunk" + INTERVAL '1 day')) AS timestamp) + INTERVAL '-1 day')
ORDER BY 1 ASC

-- by hour of the day
-- expect: answer
SELECT CAST(EXTRACT(hour from "analyst"."passers"."chunk") AS integer) AS "chunk", COUNT(*) AS "count"
FROM "analyst"."passers"
GROUP BY CAST(EXTRACT(hour from "analyst"."passers"."chunk") AS integer)
ORDER BY 1 ASC

-- by day of the week
-- expect: answer
SELECT CASE WHEN MOD((CAST(EXTRACT(dow from "analyst"."passers"."chunk") AS integer) + 1) + 6, 7) = 0 THEN 7
       ELSE MOD((CAST(EXTRACT(dow from "analyst"."passers"."chunk") AS integer) + 1) + 6, 7) END AS "chunk", COUNT(*) AS "count"
FROM "analyst"."passers"
GROUP BY 1
ORDER BY 1 ASC

-- between two moments
-- expect: answer
SELECT COUNT(*) AS "count" FROM "analyst"."passers"
WHERE ("analyst"."passers"."chunk" >= timestamp with time zone '2026-03-01 06:00:00.000Z')
  AND ("analyst"."passers"."chunk" < timestamp with time zone '2026-03-01 06:00:05.000Z')

-- the previous days
-- expect: answer
SELECT COUNT(*) AS "count" FROM "analyst"."passers"
WHERE ("analyst"."passers"."chunk" >= DATE_TRUNC('day', (NOW() + INTERVAL '-30000 day')))
  AND ("analyst"."passers"."chunk" < DATE_TRUNC('day', (NOW() + INTERVAL '30000 day')))

-- a filter of two values, as a dimension
-- expect: answer
SELECT "analyst"."passers"."kind" AS "kind", COUNT(*) AS "count"
FROM "analyst"."passers"
WHERE ("analyst"."passers"."kind" = 'car') OR ("analyst"."passers"."kind" = 'person')
GROUP BY "analyst"."passers"."kind"
ORDER BY "analyst"."passers"."kind" ASC

-- text contains
-- expect: answer
SELECT COUNT(*) AS "count" FROM "analyst"."passers" WHERE (LOWER("analyst"."passers"."plate") LIKE '%b-1%')

-- count where
-- expect: answer
SELECT SUM(CASE WHEN "analyst"."passers"."flag" = TRUE THEN 1 ELSE 0.0 END) AS "CountIf" FROM "analyst"."passers"

-- share
-- expect: answer
SELECT CAST(SUM(CASE WHEN "analyst"."passers"."flag" = TRUE THEN 1 ELSE 0.0 END) AS float) / NULLIF(CAST(COUNT(*) AS float), 0.0) AS "Share"
FROM "analyst"."passers"

-- bins of a number
-- expect: hint, width_bucket(speed, 0, 10, 20)
SELECT FLOOR((("analyst"."passers"."speed" - 0.0) / 10.0)) * 10.0 + 0.0 AS "speed", COUNT(*) AS "count"
FROM "analyst"."passers"
GROUP BY FLOOR((("analyst"."passers"."speed" - 0.0) / 10.0)) * 10.0 + 0.0
ORDER BY 1 ASC
-- followed
SELECT width_bucket(speed, 0, 10, 20) AS "speed", COUNT(*) AS "count" FROM "analyst"."passers" GROUP BY 1 ORDER BY 1 ASC

-- values of a field
-- expect: hint, kind IN ('a', 'b')
SELECT "analyst"."passers"."kind" AS "kind" FROM "analyst"."passers"
GROUP BY "analyst"."passers"."kind" ORDER BY "analyst"."passers"."kind" ASC LIMIT 1000
-- followed
SELECT "analyst"."passers"."kind" AS "kind" FROM "analyst"."passers" WHERE kind IN ('a', 'b')
GROUP BY "analyst"."passers"."kind" ORDER BY "analyst"."passers"."kind" ASC LIMIT 1000

-- first look at a table
-- expect: hint, count
SELECT "analyst"."passers"."chunk" AS "chunk", "analyst"."passers"."region" AS "region", "analyst"."passers"."kind" AS "kind"
FROM "analyst"."passers" LIMIT 2000
-- followed
SELECT count(*) FROM "analyst"."passers" LIMIT 2000

-- fingerprint of a text column
-- expect: hint, count
SELECT "substring1"::text FROM (SELECT SUBSTRING("analyst"."passers"."plate", 1, 1234) AS "substring1" FROM "analyst"."passers") AS "source" LIMIT 10000
-- followed
SELECT count("substring1") FROM (SELECT SUBSTRING("analyst"."passers"."plate", 1, 1234) AS "substring1" FROM "analyst"."passers") AS "source" LIMIT 10000

-- a question over a question
-- expect: answer
SELECT AVG("source"."count") AS "avg"
FROM (SELECT DATE_TRUNC('minute', "analyst"."passers"."chunk") AS "chunk", COUNT(*) AS "count" FROM "analyst"."passers"
      GROUP BY DATE_TRUNC('minute', "analyst"."passers"."chunk")
      ORDER BY DATE_TRUNC('minute', "analyst"."passers"."chunk") ASC) AS "source"

-- distinct values
-- expect: answer
SELECT COUNT(DISTINCT "analyst"."passers"."plate") AS "count" FROM "analyst"."passers"

-- running total
-- expect: answer
SELECT DATE_TRUNC('minute', "analyst"."passers"."chunk") AS "chunk",
       SUM(COUNT(*)) OVER (ORDER BY DATE_TRUNC('minute', "analyst"."passers"."chunk") ASC ROWS UNBOUNDED PRECEDING) AS "count"
FROM "analyst"."passers"
GROUP BY DATE_TRUNC('minute', "analyst"."passers"."chunk")
ORDER BY DATE_TRUNC('minute', "analyst"."passers"."chunk") ASC

-- a filter on the result
-- expect: answer
SELECT "source"."chunk" AS "chunk", "source"."count" AS "count"
FROM (SELECT DATE_TRUNC('second', "analyst"."passers"."chunk") AS "chunk", COUNT(*) AS "count" FROM "analyst"."passers"
      GROUP BY DATE_TRUNC('second', "analyst"."passers"."chunk")) AS "source"
WHERE "source"."count" > 5
LIMIT 1048575

-- not empty
-- expect: answer
SELECT COUNT(*) AS "count" FROM "analyst"."passers"
WHERE ("analyst"."passers"."speed" IS NOT NULL) AND (("analyst"."passers"."plate" <> '') AND ("analyst"."passers"."plate" IS NOT NULL))

-- median
-- expect: hint, percentile_cont(0.5) WITHIN GROUP (ORDER BY range(speed, 0, 10))
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY "analyst"."passers"."speed") AS "median" FROM "analyst"."passers"
-- followed
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY range(speed, 0, 10)) AS "median" FROM "analyst"."passers"

-- deviation of a measure
-- expect: hint, stddev_pop(range(speed, 0, 10))
SELECT STDDEV_POP("analyst"."passers"."speed") AS "stddev" FROM "analyst"."passers"
-- followed
SELECT stddev_pop(range(speed, 0, 10)) AS "stddev" FROM "analyst"."passers"
