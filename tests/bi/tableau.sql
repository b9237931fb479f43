-- number of rows
-- expect: answer
SELECT SUM(1) AS "cnt:passers:qk" FROM "analyst"."passers" "passers" HAVING (COUNT(1) > 0)

-- a dimension of the program
-- expect: hint, kind IN ('a', 'b')
SELECT "passers"."kind" AS "kind", SUM(1) AS "cnt:passers:ok" FROM "analyst"."passers" "passers" GROUP BY 1
-- followed
SELECT "passers"."kind" AS "kind", SUM(1) AS "cnt:passers:ok" FROM "analyst"."passers" "passers" WHERE kind IN ('a', 'b') GROUP BY 1

-- a public dimension
-- expect: answer
SELECT "passers"."region" AS "region", SUM(1) AS "cnt:passers:ok" FROM "analyst"."passers" "passers" GROUP BY 1

-- a boolean dimension
-- expect: answer
SELECT "passers"."flag" AS "flag", COUNT(1) AS "cnt:passers:ok" FROM "analyst"."passers" "passers" GROUP BY 1

-- truncated to the minute
-- expect: answer
SELECT DATE_TRUNC( 'MINUTE', CAST("passers"."chunk" AS TIMESTAMP) ) AS "tmi:chunk:ok", COUNT(1) AS "cnt:passers:ok"
FROM "analyst"."passers" "passers"
GROUP BY 1

-- truncated to the month
-- expect: answer
SELECT CAST(DATE_TRUNC( 'MONTH', CAST("passers"."chunk" AS DATE) ) AS DATE) AS "tmn:chunk:ok", SUM(1) AS "cnt:passers:ok"
FROM "analyst"."passers" "passers"
GROUP BY 1

-- year
-- expect: answer
SELECT CAST(TRUNC(EXTRACT(YEAR FROM "passers"."chunk")) AS INTEGER) AS "yr:chunk:ok", SUM(1) AS "cnt:passers:ok"
FROM "analyst"."passers" "passers"
GROUP BY 1

-- hour as a number
-- expect: answer
SELECT CAST(EXTRACT(HOUR FROM "passers"."chunk") AS BIGINT) AS "hr:chunk:ok", SUM(1) AS "cnt:passers:ok"
FROM "analyst"."passers" "passers"
WHERE (CAST(EXTRACT(YEAR FROM "passers"."chunk") AS BIGINT) = 2026)
GROUP BY 1

-- range of dates
-- expect: answer
SELECT MIN("passers"."chunk") AS "lower:none:chunk:qk", MAX("passers"."chunk") AS "upper:none:chunk:qk", COUNT(1) AS "cnt:one:ok"
FROM "analyst"."passers" "passers"
HAVING (COUNT(1) > 0)

-- range of a measure
-- expect: hint, width_bucket(speed, 0, 10, 20)
SELECT MIN("passers"."speed") AS "lower:none:speed:qk", MAX("passers"."speed") AS "upper:none:speed:qk"
FROM "analyst"."passers" "passers"
-- followed
SELECT width_bucket(speed, 0, 10, 20), count(*) FROM "analyst"."passers" "passers" GROUP BY 1

-- sum of a measure
-- expect: hint, sum(range(speed, 0, 10))
SELECT "passers"."region" AS "region", SUM("passers"."speed") AS "sum:speed:ok" FROM "analyst"."passers" "passers" GROUP BY 1
-- followed
SELECT "passers"."region" AS "region", sum(range(speed, 0, 10)) AS "sum:speed:ok" FROM "analyst"."passers" "passers" GROUP BY 1

-- a calculated dimension
-- expect: answer
SELECT (CASE WHEN ("passers"."speed" > 20) THEN 'fast' WHEN ("passers"."speed" > 10) THEN 'middling' ELSE 'slow' END) AS "Calculation_1",
  SUM(1) AS "cnt:passers:ok"
FROM "analyst"."passers" "passers"
GROUP BY 1

-- a yes or no calculation in capitals
-- expect: answer
SELECT (CASE WHEN "passers"."flag" THEN 'Yes' WHEN NOT "passers"."flag" THEN 'No' ELSE NULL END) AS "Calculation_2", COUNT(1) AS "cnt:passers:ok"
FROM "analyst"."passers" "passers"
GROUP BY 1

-- domain of a calculated dimension
-- expect: answer
SELECT (CASE WHEN ((("passers"."kind" = 'car') AND ("passers"."flag"))) THEN 1 ELSE 0 END) AS "Calculation_3"
FROM "analyst"."passers" "passers"
GROUP BY 1
ORDER BY 1 ASC NULLS FIRST

-- an average of ones and zeros
-- expect: answer
SELECT AVG(CAST((CASE WHEN ("passers"."kind" = 'car') THEN '1'::double precision ELSE '0'::double precision END) AS DOUBLE PRECISION)) AS "avg:Calculation_4:ok"
FROM "analyst"."passers" "passers"
HAVING (COUNT(1) > 0)

-- distinct count
-- expect: answer
SELECT "passers"."region" AS "region", COUNT(DISTINCT "passers"."plate") AS "ctd:plate:ok" FROM "analyst"."passers" "passers" GROUP BY 1

-- the largest only: a join with its own aggregate
-- expect: hint, LIMIT
SELECT "passers"."region" AS "region", SUM(1) AS "cnt:passers:ok"
FROM "analyst"."passers" "passers"
  INNER JOIN (
  SELECT "passers"."region" AS "region", COUNT(1) AS "$__alias__0"
  FROM "analyst"."passers" "passers"
  GROUP BY 1
  ORDER BY 2 DESC NULLS LAST, 1 ASC
  LIMIT 5
) "t0" ON (("passers"."region" = "t0"."region") OR (("passers"."region" IS NULL) AND ("t0"."region" IS NULL)))
GROUP BY 1
-- followed
SELECT "passers"."region" AS "region", SUM(1) AS "cnt:passers:ok" FROM "analyst"."passers" "passers" GROUP BY 1 ORDER BY 2 DESC LIMIT 5

-- a dimension in small letters, with a filter
-- expect: answer
SELECT LOWER(CAST(CAST("passers"."kind" AS TEXT) AS TEXT)) AS "Calculation_5", COUNT(1) AS "cnt:passers:ok"
FROM "analyst"."passers" "passers"
WHERE (LOWER(CAST(CAST("passers"."kind" AS TEXT) AS TEXT)) IN ('car', 'person'))
GROUP BY 1

-- columns of custom SQL
-- expect: answer
SELECT * FROM (SELECT * FROM passers) "Custom SQL Query" LIMIT 0

-- bins of a measure
-- expect: hint, width_bucket(speed, 0, 10, 20)
SELECT CAST(FLOOR("passers"."speed" / 10.0) AS BIGINT) AS "speed (bin)", SUM(1) AS "cnt:passers:ok" FROM "analyst"."passers" "passers" GROUP BY 1
-- followed
SELECT width_bucket(speed, 0, 10, 20) AS "speed (bin)", SUM(1) AS "cnt:passers:ok" FROM "analyst"."passers" "passers" GROUP BY 1

-- a range of dates
-- expect: answer
SELECT CAST("passers"."chunk" AS DATE) AS "tdy:chunk:ok", SUM((CASE WHEN "passers"."flag" THEN 1 ELSE 0 END)) AS "sum:Calculation_6:ok"
FROM "analyst"."passers" "passers"
WHERE (("passers"."chunk" >= (TIMESTAMP '2026-03-01 00:00:00.000')) AND ("passers"."chunk" < (TIMESTAMP '2026-03-02 00:00:00.000')))
GROUP BY 1
