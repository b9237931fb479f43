-- preview
-- expect: hint, count
select "$Table"."chunk" as "chunk", "$Table"."region" as "region", "$Table"."kind" as "kind", "$Table"."plate" as "plate",
  "$Table"."speed" as "speed", "$Table"."flag" as "flag"
from "analyst"."passers" "$Table"
limit 1000
-- followed
select count(*) from "analyst"."passers" "$Table" limit 1000

-- number of rows
-- expect: answer
select "_"."a0"
from (select count(1) as "a0" from (select "chunk", "region", "kind" from "analyst"."passers" "$Table") "rows") "_"
where not "_"."a0" is null
limit 1000001

-- by a public column
-- expect: answer
select "_"."region", "_"."a0"
from
(
    select "rows"."region" as "region", count(1) as "a0"
    from (select "_"."region", "_"."chunk" from "analyst"."passers" "_") "rows"
    group by "region"
) "_"
where not "_"."a0" is null
limit 1000001

-- by a column of the program
-- expect: hint, kind IN ('a', 'b')
select "_"."kind", "_"."a0"
from
(
    select "rows"."kind" as "kind", count("rows"."plate") as "a0"
    from (select "kind", "plate" from "analyst"."passers" "$Table") "rows"
    group by "kind"
) "_"
where not "_"."a0" is null
limit 1000001
-- followed
select "_"."kind", "_"."a0"
from
(
    select "rows"."kind" as "kind", count("rows"."plate") as "a0"
    from (select "kind", "plate" from "analyst"."passers" "$Table" where kind IN ('a', 'b')) "rows"
    group by "kind"
) "_"
where not "_"."a0" is null
limit 1000001

-- by a column of the program, filtered
-- expect: answer
select "_"."kind_lower", "_"."a0"
from
(
    select "rows"."kind_lower" as "kind_lower", count(1) as "a0"
    from
    (
        select "_"."chunk" as "chunk", "_"."kind" as "kind", lower("_"."kind") as "kind_lower"
        from
        (
            select "_"."chunk", "_"."kind"
            from (select "chunk", "kind" from "analyst"."passers" "$Table") "_"
            where ("_"."chunk" < date '2026-03-02' and "_"."chunk" >= date '2026-03-01') and (lower("_"."kind") in ('car', 'person'))
        ) "_"
    ) "rows"
    group by "kind_lower"
) "_"
where not "_"."a0" is null
limit 1000001

-- sum of a measure
-- expect: hint, sum(range(speed, 0, 10))
select "_"."region", "_"."a0"
from
(
    select "rows"."region" as "region", sum("rows"."speed") as "a0"
    from (select "region", "speed" from "analyst"."passers" "$Table") "rows"
    group by "region"
) "_"
where not "_"."a0" is null
limit 1000001
-- followed
select "_"."region", "_"."a0"
from
(
    select "rows"."region" as "region", sum(range(speed, 0, 10)) as "a0"
    from (select "region", "speed" from "analyst"."passers" "$Table") "rows"
    group by "region"
) "_"
where not "_"."a0" is null
limit 1000001

-- average of a measure
-- expect: hint, avg(range(speed, 0, 10))
select avg("rows"."speed") as "a0" from (select "speed" from "analyst"."passers" "$Table") "rows"
-- followed
select avg(range(speed, 0, 10)) as "a0" from (select "speed" from "analyst"."passers" "$Table") "rows"

-- distinct count, with one for NULL
-- expect: hint, count(DISTINCT plate)
select count(distinct("rows"."plate")) + max(case when "rows"."plate" is null then 1 else 0 end) as "a0"
from (select "plate" from "analyst"."passers" "$Table") "rows"
-- followed
select count(DISTINCT plate) as "a0"
from (select "plate" from "analyst"."passers" "$Table") "rows"

-- slicer over a public column
-- expect: answer
select "_"."region" from (select "region" from "analyst"."passers" "$Table" group by "region") "_" order by "_"."region" limit 501

-- slicer over a column of the program
-- expect: hint, kind IN ('a', 'b')
select "_"."kind" from (select "kind" from "analyst"."passers" "$Table" group by "kind") "_" order by "_"."kind" limit 501
-- followed
select "_"."kind" from (select "kind" from "analyst"."passers" "$Table" where kind IN ('a', 'b') group by "kind") "_" order by "_"."kind" limit 501

-- range of dates
-- expect: answer
select min("rows"."chunk") as "a0", max("rows"."chunk") as "a1" from "analyst"."passers" "rows"

-- between two moments
-- expect: answer
select "_"."a0"
from
(
    select count(1) as "a0"
    from
    (
        select "_"."chunk", "_"."flag" from "analyst"."passers" "_"
        where "_"."chunk" >= timestamp '2026-03-01 06:00:00' and "_"."chunk" < timestamp '2026-03-01 06:00:05'
    ) "rows"
) "_"
where not "_"."a0" is null
limit 1000001

-- the largest first
-- expect: answer
select "_"."region", "_"."a0"
from
(
    select "rows"."region" as "region", count(distinct("rows"."plate")) as "a0"
    from "analyst"."passers" "rows"
    group by "region"
) "_"
order by "_"."a0" desc, "_"."region"
limit 101

-- text contains, and not NULL
-- expect: answer
select count(1) as "a0" from "analyst"."passers" "_" where "_"."plate" like '%B-1%' and not "_"."kind" is null

-- by date
-- expect: answer
select "rows"."day" as "day", count(1) as "a0"
from (select cast("_"."chunk" as date) as "day" from "analyst"."passers" "_") "rows"
group by "day"
limit 1000001

-- by part of a date
-- expect: answer
select "rows"."t0" as "t0", count(1) as "a0"
from (select date_part('hour', "_"."chunk") as "t0" from "analyst"."passers" "_") "rows"
group by "t0"
limit 1000001

-- tables for the navigator
-- expect: answer
select table_schema, table_name, table_type from information_schema.tables
where table_schema not in ('information_schema', 'pg_catalog') order by table_schema, table_name
