"""Hypotheses are code: for each that a proof names, a statement that fulfils it and one that does not, which is refused or gets more noise.

The note of a rule lists its hypotheses with the code that checks each; the lists and the statements here are compared.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from privid.calculus.rules import RULES
from tests.verify.calculus_stand import Stand

NOTES = Path(__file__).resolve().parents[2] / "calculus" / "rules"
_LISTED = re.compile(r"^- \*(.+?)\* \(`([\w.]+)`\)", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    rule: str
    hypothesis: str
    holds: str
    #: the scale of the noise of each aggregate, at epsilon 1
    claimed: str
    broken: str
    #: the same, larger, or a refusal
    instead: str


CASES = [
    Case("argmax", "candidates are declared",
         "SELECT red FROM n1 GROUP BY red ORDER BY count(*) DESC LIMIT 1",
         "4",
         "SELECT plate FROM n1 GROUP BY plate ORDER BY count(*) DESC LIMIT 1",
         "refused: GROUP BY plate has no rule without declared keys"),
    Case("argmax", "rows of a candidate stay with it",
         "SELECT region FROM r1 GROUP BY region ORDER BY count(*) DESC LIMIT 1",
         "2",
         "SELECT red FROM r1 GROUP BY red ORDER BY count(*) DESC LIMIT 1",
         "4"),
    Case("average", "values have bounds",
         "SELECT avg(range(v, 0, 10)) FROM n1",
         "4, 20",
         "SELECT avg(v) FROM n1",
         "refused: avg(v) has no rule without a range"),
    Case("average", "the number of rows is public",
         "SELECT avg(range(v, 0, 10)) FROM n3",
         "0, 20",
         "SELECT avg(range(v, 0, 10)) FROM n1",
         "4, 20"),
    Case("average", "the range keeps what groups add up to",
         "SELECT avg(range(n, 0, 300)) FROM (SELECT k.key, count(q.plate) AS n FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 q ON "
         "q.plate = k.key GROUP BY 1) p",
         "0, 2",
         "SELECT avg(range(n, 2, 300)) FROM (SELECT k.key, count(q.plate) AS n FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 q ON "
         "q.plate = k.key GROUP BY 1) p",
         "0, 596"),
    Case("base table", "a padded chunk has all its rows",
         "SELECT count(*) FROM n3",
         "0",
         "SELECT count(*) FROM n1",
         "2"),
    Case("base table", "one frame lies in one chunk",
         "SELECT count(*) FROM n1",
         "2",
         "SELECT count(*) FROM n2",
         "6"),
    Case("column options", "a number has its bounds",
         "SELECT sum(v) FROM o1",
         "210",
         "SELECT sum(w) FROM o1",
         "refused: sum(w) has no rule without a range"),
    Case("column options", "a text has its keys",
         "SELECT plate, count(*) FROM o1 GROUP BY plate",
         "12",
         "SELECT plate, count(*) FROM n1 GROUP BY plate",
         "refused: GROUP BY plate has no rule without declared keys"),
    Case("count distinct", "values are declared",
         "SELECT count(DISTINCT plate) FROM o1",
         "4",
         "SELECT count(DISTINCT lower(plate)) FROM o1",
         "6"),
    Case("union all", "every part declares its keys",
         "SELECT plate, count(*) FROM (SELECT plate FROM o1 UNION ALL SELECT plate FROM o2) q GROUP BY plate",
         "36",
         "SELECT plate, count(*) FROM (SELECT plate FROM o1 UNION ALL SELECT plate FROM n1) q GROUP BY plate",
         "refused: GROUP BY plate has no rule without declared keys"),
    Case("choose chunks", "conditions read chunk and region alone",
         "SELECT count(*) FROM n1 WHERE chunk < '2026-03-01 06:00:00.5+00'",
         "1",
         "SELECT count(*) FROM n1 WHERE chunk < '2026-03-01 06:00:00.5+00' OR red",
         "2"),
    Case("choose chunks", "conditions are conjuncts of their own",
         "SELECT count(*) FROM n1 WHERE chunk < '2026-03-01 06:00:00.5+00' AND chunk IS NOT NULL",
         "1",
         "SELECT count(*) FROM n1 WHERE (chunk < '2026-03-01 06:00:00.5+00' AND red) OR v > 1",
         "2"),
    Case("range", "bounds are constants",
         "SELECT sum(range(v, 0, 10)) FROM n1",
         "20",
         "SELECT sum(range(v, 0, w)) FROM n1",
         "refused: invalid bounds of range"),
    Case("range", "what has bounds is never NULL",
         "SELECT count(range(v, 0, 1)) FROM n3",
         "0",
         "SELECT count(nullif(range(v, 0, 1), 0)) FROM n3",
         "2"),
    Case("range", "nothing is known of what is computed from it",
         "SELECT sum(range(v, 0, 1)) FROM n1",
         "2",
         "SELECT sum(range(v, 0, 1) + 1) FROM n1",
         "refused: sum(range(v, 0, 1) + 1) has no rule without a range"),
    Case("range", "every arm has bounds",
         "SELECT sum(CASE WHEN red THEN 1 ELSE 2 END) FROM n1",
         "4",
         "SELECT sum(CASE WHEN red THEN 1 ELSE v END) FROM n1",
         "refused: sum(CASE WHEN red THEN 1 ELSE v END) has no rule without a range"),
    Case("count", "the value is never NULL",
         "SELECT count(v) FROM n3",
         "0",
         "SELECT count(nullif(v, 0)) FROM n3",
         "2"),
    Case("count", "all rows have one place",
         "SELECT count(*) FROM n1 WHERE plate IN ('A') GROUP BY plate",
         "2",
         "SELECT count(*) FROM n1 WHERE plate IN ('A', 'B') GROUP BY plate",
         "4"),
    Case("count", "places of groups are functions of their key",
         "SELECT count(*) FROM (SELECT red, count(*) AS n FROM n1 GROUP BY red) q GROUP BY red",
         "4",
         "SELECT count(*) FROM (SELECT plate, count(*) > 1 AS many FROM n1 GROUP BY plate) q GROUP BY many",
         "8"),
    Case("count distinct", "rows are distinct, not groups",
         "SELECT count(DISTINCT plate) FROM n1",
         "2",
         "SELECT count(DISTINCT n) FROM (SELECT plate, count(*) AS n FROM n1 GROUP BY plate) q",
         "4"),
    Case("count distinct", "NULL is no value",
         "SELECT count(*) FROM n3",
         "0",
         "SELECT count(DISTINCT nullif(v, 0)) FROM n3",
         "2"),
    Case("distinct", "below are rows, not groups",
         "SELECT count(*) FROM (SELECT DISTINCT plate FROM n1) q",
         "2",
         "SELECT count(*) FROM (SELECT DISTINCT n FROM (SELECT plate, count(*) AS n FROM n1 GROUP BY plate) p) q",
         "4"),
    Case("distinct", "equal values look alike",
         "SELECT count(*) FROM (SELECT DISTINCT v FROM n1) q",
         "2",
         "SELECT count(*) FROM (SELECT DISTINCT chunk - '2026-03-01 06:00+00'::timestamptz AS x, red FROM n1) q",
         "refused: interval has no rule as a key"),
    Case("except", "sides are rows",
         "SELECT count(*) FROM (SELECT plate FROM n1 EXCEPT SELECT plate FROM n2) q",
         "8",
         "SELECT count(*) FROM (SELECT plate, n FROM (SELECT plate, count(*) AS n FROM n1 GROUP BY plate) p EXCEPT SELECT plate, "
         "v::int8 FROM n2) q",
         "10"),
    Case("intersect", "sides are rows",
         "SELECT count(*) FROM (SELECT plate FROM n1 INTERSECT SELECT plate FROM n2) q",
         "8",
         "SELECT count(*) FROM (SELECT plate, n FROM (SELECT plate, count(*) AS n FROM n1 GROUP BY plate) p INTERSECT SELECT plate, "
         "v::int8 FROM n2) q",
         "10"),
    Case("public extremes", "the argument is trusted",
         "SELECT max(chunk) FROM n1",
         "0",
         "SELECT max(v) FROM n1",
         "refused: aggregate max(float8) has no rule"),
    Case("public extremes", "chunks are chosen by trusted conditions alone",
         "SELECT max(chunk) FROM n1 WHERE chunk < '2026-03-01 06:00:02+00'",
         "0",
         "SELECT max(chunk) FROM n1 WHERE v > 0",
         "refused: aggregate max(timestamptz) has no rule"),
    Case("public extremes", "there is no FILTER",
         "SELECT min(chunk) FROM n1",
         "0",
         "SELECT min(chunk) FILTER (WHERE red) FROM n1",
         "refused: aggregate min(timestamptz) has no rule"),
    Case("public extremes", "group expressions are trusted",
         "SELECT max(chunk) FROM r1 GROUP BY region",
         "0",
         "SELECT max(chunk) FROM r1 GROUP BY red",
         "refused: aggregate max(timestamptz) has no rule"),
    Case("filter rows", "the condition never raises",
         "SELECT count(*) FROM n1 WHERE date_trunc('second', chunk) > '2026-03-01 06:00:01+00'",
         "2",
         "SELECT count(*) FROM (SELECT max(chunk) AS m FROM n1 GROUP BY plate) q WHERE date_trunc('second', m) > '2026-03-01 "
         "06:00:01+00'",
         "refused: function date_trunc(text, timestamptz) has no rule for values that an executable outputs"),
    Case("filter rows", "a pattern is a constant that does not raise",
         "SELECT count(*) FROM n1 WHERE plate LIKE 'A%'",
         "2",
         "SELECT count(*) FROM n1 WHERE plate LIKE 'A\\'",
         "refused: LIKE has no rule for a pattern that can raise an error"),
    Case("filter rows", "a public number of rows is given up",
         "SELECT count(*) FROM n3",
         "0",
         "SELECT count(*) FROM n3 WHERE v > 0",
         "2"),
    Case("group by bins", "keys are trusted",
         "SELECT sum(range(n, 0, 5)) FROM (SELECT date_trunc('minute', chunk) AS b, min(range(v, 0, 5)) AS n FROM n1 GROUP BY 1) q",
         "5",
         "SELECT sum(range(n, 0, 5)) FROM (SELECT red, min(range(v, 0, 5)) AS n FROM n1 GROUP BY 1) q",
         "20"),
    Case("group by bins", "the relation is local for its cells",
         "SELECT sum(range(n, 0, 5)) FROM (SELECT date_trunc('minute', chunk) AS b, min(range(v, 0, 5)) AS n FROM n1 GROUP BY 1) q",
         "5",
         "SELECT sum(range(n, 0, 5)) FROM (SELECT date_trunc('minute', chunk) AS b, min(range(v, 0, 5)) AS n FROM (SELECT chunk, v "
         "FROM n1 ORDER BY chunk, v LIMIT 3) p GROUP BY 1) q",
         "20"),
    Case("group by bins", "every chunk has its rows",
         "SELECT count(*) FROM (SELECT chunk, count(*) AS n FROM n3 GROUP BY 1) q",
         "0",
         "SELECT count(*) FROM (SELECT chunk, count(*) AS n FROM n1 GROUP BY 1) q",
         "2"),
    Case("group by trusted cells", "expressions are trusted",
         "SELECT count(*) FROM n1 GROUP BY chunk",
         "2",
         "SELECT count(*) FROM n1 GROUP BY plate",
         "refused: GROUP BY plate has no rule without declared keys"),
    Case("group by trusted cells", "the relation is local for them",
         "SELECT count(*) FROM (SELECT chunk, v FROM n1) q GROUP BY chunk",
         "2",
         "SELECT count(*) FROM (SELECT chunk, v FROM n1 ORDER BY chunk, v LIMIT 3) q GROUP BY chunk",
         "4"),
    Case("group by declared keys", "the list is of the very expression",
         "SELECT count(*) FROM n1 WHERE lower(plate) IN ('a', 'b') GROUP BY lower(plate)",
         "4",
         "SELECT count(*) FROM n1 WHERE lower(plate) IN ('a', 'b') GROUP BY plate",
         "refused: GROUP BY plate has no rule without declared keys"),
    Case("group by declared keys", "the list is a conjunct",
         "SELECT count(*) FROM n1 WHERE plate IN ('A') AND red GROUP BY plate",
         "2",
         "SELECT count(*) FROM n1 WHERE plate IN ('A') OR red GROUP BY plate",
         "refused: GROUP BY plate has no rule without declared keys"),
    Case("group by declared keys", "the list is constant",
         "SELECT count(*) FROM n1 WHERE v IN (1, 2) GROUP BY v",
         "4",
         "SELECT count(*) FROM n1 WHERE v IN (1, w) GROUP BY v",
         "refused: GROUP BY v has no rule without declared keys"),
    Case("group by", "keys are a function of the keys below",
         "SELECT count(*) FROM (SELECT plate, count(*) AS m FROM (SELECT plate, red, count(*) AS n FROM n1 GROUP BY plate, red) p "
         "GROUP BY plate) q",
         "2",
         "SELECT count(*) FROM (SELECT n, count(*) AS m FROM (SELECT plate, count(*) AS n FROM n1 GROUP BY plate) p GROUP BY n) q",
         "4"),
    Case("group by", "equal keys look alike",
         "SELECT count(*) FROM (SELECT v, count(*) AS n FROM n1 GROUP BY v) q",
         "2",
         "SELECT count(*) FROM (SELECT chunk - '2026-03-01 06:00+00'::timestamptz AS x, red, count(*) AS n FROM n1 GROUP BY 1, 2) q",
         "refused: interval has no rule as a key"),
    Case("having", "the condition does not fall",
         "SELECT count(*) FROM (SELECT plate FROM n1 GROUP BY plate HAVING count(*) >= 2) q",
         "2",
         "SELECT count(*) FROM (SELECT plate FROM n1 GROUP BY plate HAVING count(*) <= 1) q",
         "4"),
    Case("having", "it is compared with a constant",
         "SELECT count(*) FROM (SELECT plate FROM n1 GROUP BY plate HAVING count(*) > 1) q",
         "2",
         "SELECT count(*) FROM (SELECT plate FROM n1 GROUP BY plate HAVING count(*) > max(range(v, 0, 5))) q",
         "4"),
    Case("aggregate of groups", "sums are of an exact type",
         "SELECT count(*) FROM (SELECT plate, sum(range(v, 0, 1)) AS n FROM n1 GROUP BY plate) q",
         "2",
         "SELECT count(*) FROM (SELECT plate, sum(v) AS n FROM n1 GROUP BY plate) q",
         "refused: sum(v) has no rule in a subquery without a range"),
    Case("aggregate of groups", "a maximum rises if its values have bounds",
         "SELECT sum(range(n, 0, 10)) FROM (SELECT plate, max(range(v, 0, 10)) AS n FROM n1 GROUP BY plate) q",
         "20",
         "SELECT sum(range(n, 0, 10)) FROM (SELECT plate, max(v) AS n FROM n1 GROUP BY plate) q",
         "40"),
    Case("aggregate of groups", "a sum rises if its values are not negative",
         "SELECT count(*) FROM (SELECT plate FROM n1 GROUP BY plate HAVING sum(range(v, 0, 10)) > 5) q",
         "2",
         "SELECT count(*) FROM (SELECT plate FROM n1 GROUP BY plate HAVING sum(range(v, -1, 10)) > 5) q",
         "4"),
    Case("aggregate of groups", "a group has a row",
         "SELECT count(n) FROM (SELECT count(*) AS n FROM n1) q",
         "0",
         "SELECT count(n) FROM (SELECT max(range(v, 0, 10)) AS n FROM n1) q",
         "1"),
    Case("join", "rows are grouped by what they are joined on",
         "SELECT count(*) FROM (SELECT a.plate FROM n1 a JOIN n2 b ON a.plate = b.plate GROUP BY a.plate) q",
         "8",
         "SELECT count(*) FROM n1 a JOIN n2 b ON a.plate = b.plate",
         "refused: aggregate over joined rows has no rule"),
    Case("join", "columns are equated",
         "SELECT count(*) FROM (SELECT a.plate FROM n1 a JOIN n2 b ON a.plate = b.plate GROUP BY a.plate) q",
         "8",
         "SELECT count(*) FROM (SELECT a.plate FROM n1 a JOIN n2 b ON a.plate > b.plate GROUP BY a.plate) q",
         "refused: join has no rule without a GROUP BY of the columns it joins on"),
    Case("join", "no further condition on joined rows",
         "SELECT count(*) FROM (SELECT a.plate FROM n1 a LEFT JOIN n2 b ON a.plate = b.plate GROUP BY a.plate) q",
         "2",
         "SELECT count(*) FROM (SELECT a.plate FROM n1 a LEFT JOIN n2 b ON a.plate = b.plate WHERE b.v > a.v GROUP BY a.plate) q",
         "16"),
    Case("discrete Laplace", "values fit exact integers",
         "SELECT sum(CASE WHEN red THEN 1 ELSE 0 END) FROM n1",
         "2",
         "SELECT sum(CASE WHEN red THEN 9223372036854775807 ELSE 0 END) FROM n1",
         "refused: sum(CASE WHEN red THEN 9223372036854775807 ELSE 0 END) can exceed what the noise is exact for"),
    Case("limit", "no OFFSET",
         "SELECT count(*) FROM (SELECT v FROM n1 ORDER BY v LIMIT 1) q",
         "1",
         "SELECT count(*) FROM (SELECT v FROM n1 ORDER BY v LIMIT 1 OFFSET 1) q",
         "refused: OFFSET has no rule in a subquery"),
    Case("limit", "groups are rows before",
         "SELECT count(*) FROM (SELECT plate FROM n1 ORDER BY plate LIMIT 8) q GROUP BY plate > 'A'",
         "4",
         "SELECT count(*) FROM (SELECT plate, n FROM (SELECT plate, count(*) AS n FROM n1 GROUP BY plate) p ORDER BY plate, n LIMIT 8) "
         "q GROUP BY n > 1",
         "8"),
    Case("listed keys", "the match is a part of the key",
         "SELECT k.key, count(q.plate) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN (SELECT plate, max(v) AS v FROM n1 GROUP BY plate) q ON "
         "q.plate = k.key GROUP BY 1",
         "4",
         "SELECT k.key, count(q.plate) FROM (VALUES (1::float8), (2)) k(key) LEFT JOIN (SELECT plate, max(v) AS v FROM n1 GROUP BY plate) "
         "q ON q.v = k.key GROUP BY 1",
         "8"),
    Case("listed keys", "no condition on what was found",
         "SELECT k.key, count(*) FROM (VALUES ('A')) k(key) LEFT JOIN (SELECT plate, w, count(*) AS n FROM n1 GROUP BY plate, w) q ON "
         "q.plate = k.key GROUP BY 1",
         "2",
         "SELECT k.key, count(*) FROM (VALUES ('A')) k(key) LEFT JOIN (SELECT plate, w, count(*) AS n FROM n1 GROUP BY plate, w) q ON "
         "q.plate = k.key WHERE q.n = 1 GROUP BY 1",
         "4"),
    Case("union once", "the same table",
         "SELECT count(*) FROM (SELECT plate FROM n1 UNION SELECT plate FROM n1) q",
         "2",
         "SELECT count(*) FROM (SELECT plate FROM n1 UNION SELECT plate FROM o1) q",
         "8"),
    Case("union once", "the same conditions and columns",
         "SELECT count(*) FROM (SELECT v FROM n1 WHERE red UNION SELECT v FROM n1 WHERE red) q",
         "2",
         "SELECT count(*) FROM (SELECT v FROM n1 WHERE red UNION SELECT w FROM n1 WHERE red) q",
         "4"),
    Case("union once", "equal rows become one",
         "SELECT count(*) FROM (SELECT DISTINCT plate FROM (SELECT plate FROM n1 UNION ALL SELECT plate FROM n1) q) q",
         "2",
         "SELECT count(*) FROM (SELECT plate FROM n1 UNION ALL SELECT plate FROM n1) q",
         "4"),
    Case("regions apart", "borders are hard",
         "SELECT count(*) FROM (SELECT plate FROM r1 WHERE region = 'a' UNION ALL SELECT plate FROM r1 WHERE region = 'b') q",
         "2",
         "SELECT count(*) FROM (SELECT plate FROM r2 WHERE region = 'a' UNION ALL SELECT plate FROM r2 WHERE region = 'b') q",
         "6"),
    Case("regions apart", "no region is read by two parts",
         "SELECT count(*) FROM (SELECT a.plate FROM r1 a JOIN r1 b ON a.plate = b.plate WHERE a.region = 'a' AND b.region = 'b' "
         "GROUP BY 1) q",
         "2",
         "SELECT count(*) FROM (SELECT a.plate FROM r1 a JOIN r1 b ON a.plate = b.plate WHERE a.region = 'a' GROUP BY 1) q",
         "4"),
    Case("regions apart", "all parts are of one list of regions",
         "SELECT count(*) FROM (SELECT plate FROM r1 WHERE region = 'a' UNION ALL SELECT plate FROM r1 WHERE region = 'b') q",
         "2",
         "SELECT count(*) FROM (SELECT plate FROM r1 WHERE region = 'a' UNION ALL SELECT plate FROM n1) q",
         "4"),
    Case("listed keys", "the key is unique in the public rows",
         "SELECT k.key, count(q.v) FROM (VALUES (1::numeric), (2)) k(key) LEFT JOIN n1 q ON q.v::numeric = k.key GROUP BY 1",
         "4",
         "SELECT k.key, count(q.v) FROM (VALUES (1.0::numeric), (1.00)) k(key) LEFT JOIN n1 q ON q.v::numeric = k.key GROUP BY 1",
         "refused: join on \"k\" (column1) has no rule"),
    Case("listed keys", "groups are columns of the public rows",
         "SELECT k.key, count(q.v) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 q ON q.plate = k.key GROUP BY 1",
         "4",
         "SELECT q.red, count(q.v) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 q ON q.plate = k.key GROUP BY 1",
         "refused: \"k\" LEFT JOIN private rows has no rule without a GROUP BY of its own columns"),
    Case("listed keys", "the aggregate passes over the row of NULLs",
         "SELECT sum(range(n, 0, 1)) FROM (SELECT k.key, count(q.plate) AS n FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 q ON "
         "q.plate = k.key GROUP BY 1) p",
         "2",
         "SELECT sum(range(n, 0, 1)) FROM (SELECT k.key, count(coalesce(q.plate, 'x')) AS n FROM (VALUES ('A'), ('B')) k(key) LEFT "
         "JOIN n1 q ON q.plate = k.key GROUP BY 1) p",
         "4"),
    Case("look up", "the key is unique in the public rows",
         "SELECT count(*) FROM n1 a JOIN plates p ON p.plate = a.plate",
         "2",
         "SELECT count(*) FROM n1 a JOIN tolls p ON p.plate = a.plate",
         "refused: join on \"p\" (plate) has no rule"),
    Case("look up", "a LEFT JOIN matches on the key alone",
         "SELECT count(*) FROM n1 a LEFT JOIN plates p ON p.plate = a.plate",
         "2",
         "SELECT count(*) FROM n1 a LEFT JOIN plates p ON p.plate = a.plate AND a.v > 1",
         "refused: LEFT JOIN \"p\" has no rule for a condition beside the equalities of its key"),
    Case("look up", "equality is that of one type",
         "SELECT count(*) FROM n1 a JOIN (VALUES ('2026-03-01 06:00+00'::timestamptz), ('2026-03-01 06:00:01+00')) p(key) ON p.key = "
         "a.chunk",
         "2",
         "SELECT count(*) FROM n1 a JOIN (VALUES ('2026-03-01 06:00'::timestamp), ('2026-03-01 06:00:01')) p(key) ON p.key = a.chunk",
         "refused: join with \"p\" that equates no column has no rule"),
    Case("look up", "the match of a group depends on its key",
         "SELECT count(*) FROM (SELECT plate, count(*) AS n FROM n1 GROUP BY plate) q JOIN plates p ON p.plate = q.plate",
         "2",
         "SELECT count(*) FROM (SELECT plate, count(*) AS n FROM n1 GROUP BY plate) q JOIN (VALUES (1::int8), (2)) p(key) ON p.key = "
         "q.n",
         "4"),
    Case("project", "expressions never raise",
         "SELECT count(x) FROM (SELECT v::numeric AS x FROM n1) q",
         "2",
         "SELECT count(x) FROM (SELECT date_trunc('second', m) AS x FROM (SELECT max(chunk) AS m FROM n1 GROUP BY plate) p) q",
         "refused: function date_trunc(text, timestamptz) has no rule for values that an executable outputs"),
    Case("project", "the key is kept",
         "SELECT sum(range(n, 5, 10)) FROM (SELECT plate, n FROM (SELECT plate, max(range(v, 5, 10)) AS n FROM n1 GROUP BY plate) p) q",
         "20",
         "SELECT sum(range(n, 5, 10)) FROM (SELECT n FROM (SELECT plate, max(range(v, 5, 10)) AS n FROM n1 GROUP BY plate) p ORDER BY "
         "n LIMIT 50) q",
         "40"),
    Case("share epsilon", "shares add up to epsilon",
         "SELECT count(*) FROM n1",
         "2",
         "SELECT count(*), sum(range(v, 0, 1)) FROM n1",
         "4; 4"),
    Case("sum", "values have bounds",
         "SELECT sum(range(v, 0, 10)) FROM n1",
         "20",
         "SELECT sum(v) FROM n1",
         "refused: sum(v) has no rule without a range"),
    Case("sum", "rows are not made distinct",
         "SELECT sum(range(v, 0, 10)) FROM n1",
         "20",
         "SELECT sum(DISTINCT range(v, 0, 10)) FROM n1",
         "refused: sum(DISTINCT ...) has no rule"),
    Case("sum", "no row appears or vanishes",
         "SELECT sum(range(v, 30, 60)) FROM n3",
         "60",
         "SELECT sum(range(v, 30, 60)) FROM n1",
         "120"),
    Case("union all", "parts are rows",
         "SELECT count(v) FROM (SELECT plate, v FROM n1 UNION ALL SELECT plate, v FROM n2) q",
         "8",
         "SELECT count(n) FROM (SELECT plate, n FROM (SELECT plate, count(*) AS n FROM n1 GROUP BY plate) p UNION ALL SELECT plate, "
         "v::int8 FROM n2) q",
         "10"),
    Case("union all", "all parts are dense",
         "SELECT count(*) FROM (SELECT v FROM n3 UNION ALL SELECT v FROM s2) q",
         "0",
         "SELECT count(*) FROM (SELECT v FROM n3 UNION ALL SELECT v FROM n1) q",
         "2"),
    Case("variance", "values have bounds",
         "SELECT var_pop(range(v, 0, 10)) FROM n1",
         "6, 45/2, 225/2",
         "SELECT var_pop(v) FROM n1",
         "refused: var_pop(v) has no rule without a range"),
    Case("variance", "the number of rows is public",
         "SELECT var_pop(range(v, 0, 10)) FROM n3",
         "0, 45/2, 225/2",
         "SELECT var_pop(range(v, 0, 10)) FROM n1",
         "6, 45/2, 225/2"),
    Case("mask", "one appearance has one piece",
         "SELECT count(*) FROM m4",
         "4",
         "SELECT count(*) FROM m1",
         "8"),
    Case("mask", "the visible time comes in one piece",
         "SELECT count(*) FROM m4",
         "4",
         "SELECT count(*) FROM m3",
         "8"),
    Case("regions", "what holds of one region is said of one",
         "SELECT count(*) FROM r6 WHERE region = 'a'",
         "2",
         "SELECT count(*) FROM r6",
         "6"),
    Case("regions", "an event stays in its region",
         "SELECT count(*) FROM r1",
         "2",
         "SELECT count(*) FROM r2",
         "6"),
]


@pytest.fixture(scope="module")
def stand(stack: Any) -> Iterator[Stand]:
    found = Stand(stack.layout)
    yield found
    found.close()


def said(stand: Stand, statement: str) -> str:
    try:
        plan = stand.explain(statement).plan
    except psycopg.Error as error:
        return f"refused: {error.diag.message_primary}"
    return "; ".join(", ".join(map(str, output.scales or (output.scale,))) for output in plan.outputs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.hypothesis}")
def test_a_hypothesis_that_is_violated_costs_noise_or_is_refused(stand: Stand, case: Case) -> None:
    assert said(stand, case.holds) == case.claimed
    assert said(stand, case.broken) == case.instead
    assert case.claimed != case.instead and not case.claimed.startswith("refused")


@pytest.mark.parametrize("rule", RULES)
def test_the_note_of_a_rule_lists_its_hypotheses_and_the_code_that_checks_them(rule: str) -> None:
    note = (NOTES / f"{RULES[rule]}.md").read_text()
    assert "**Hypotheses, and where each is checked**" in note
    listed = dict(_LISTED.findall(note))
    assert set(listed) == {case.hypothesis for case in CASES if case.rule == rule}
    assert listed or "*an owner's promise*" in note
    for path in listed.values():
        assert _found(path), path


def _found(path: str) -> bool:
    """Whether the code is there: module.name or module.Class.name, of the calculus or its rules."""
    module, *names = path.split(".")
    for package in ("privid.calculus.rules", "privid.calculus"):
        try:
            found: Any = importlib.import_module(f"{package}.{module}")
            for name in names:
                found = getattr(found, name)
        except (ImportError, AttributeError):
            continue
        return True
    return False
