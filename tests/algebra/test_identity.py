"""Which statements are one release: other words for the same question over the same chunks, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import pytest

from privid.engine.identity import _output, in_order, reuse_key
from privid.model import Plan
from tests.algebra.misnomers import MISNOMERS
from tests.verify.calculus_identity import Identities, sought
from tests.verify.calculus_stand import Stand

#: of the faulty versions, some that a second of search finds; tests/verify/calculus_identity.py looks for all
QUICK = ("comparisons are turned", "letter case", "every count", "AND is OR", "chunks", "ON is WHERE", "the order of keys")

#: statements that are one release each; what dashboards, BI tools and people make of the same question
SAME: Sequence[tuple[str, ...]] = (
    # moving filters over chunks that stay
    ("SELECT count(*) FROM n1", "SELECT count(*) FROM n1 WHERE chunk > now() - interval '100 years'",
     "SELECT count(*) FROM n1 WHERE chunk BETWEEN '2026-03-01T05:59:00Z' AND '2026-03-01T07:00:00.123Z'",
     "SELECT count(*) FROM n1 WHERE chunk BETWEEN '2026-03-01T05:59:10Z' AND '2026-03-01T07:00:10.123Z'",
     "SELECT count(*) FROM n1 WHERE chunk >= '2026-03-01 06:00+00' AND extract(year FROM chunk) = 2026"),
    ("SELECT count(*) FROM n1 WHERE chunk >= '2026-03-01 06:00:00.6+00'",
     "SELECT count(*) FROM n1 WHERE chunk > '2026-03-01 06:00:00.5+00'",
     "SELECT count(*) FROM n1 WHERE NOT chunk < '2026-03-01 06:00:00.7+00'"),
    ("SELECT region, count(*) FROM r1 WHERE region = 'a' GROUP BY 1", "SELECT region, count(*) FROM r1 WHERE region <> 'b' GROUP BY 1",
     "SELECT region, count(*) FROM r1 WHERE region IN ('a', 'c') AND chunk < now() + interval '1 day' GROUP BY region"),
    # all rows are counted
    ("SELECT count(*) FROM n1 WHERE red", "SELECT count(1) FROM n1 WHERE red", "SELECT count(true) FROM n1 WHERE red AND true",
     "SELECT count(*) FROM n1 WHERE 1=1 AND red", "SELECT count(*) FILTER (WHERE true) FROM n1 WHERE red",
     "SELECT count(2.5) FROM n1 WHERE red",
     "SELECT count(*) AS n FROM n1 AS other WHERE other.red", "SELECT COUNT(*) FROM n1 WHERE (red) AND red"),
    # filters of one aggregate
    ("SELECT count(*) FILTER (WHERE chunk >= '2026-03-01 06:00:02+00'), count(*) FROM n1",
     "SELECT count(*) FILTER (WHERE '2026-03-01 06:00:01.7+00' < chunk), count(1) FROM n1",
     "SELECT count(*) FILTER (WHERE chunk > '2026-03-01 06:00:01.6+00' AND chunk < now() AND true), count(*) FROM n1"),
    ("SELECT count(*) FILTER (WHERE region = 'b' AND red) FROM r1", "SELECT count(*) FILTER (WHERE red AND region <> 'a') FROM r1"),
    # units
    ("SELECT date_trunc('minute', chunk), count(*) FROM n1 GROUP BY 1",
     "SELECT date_trunc('MINUTE', chunk) AS t, count(1) FROM n1 GROUP BY t",
     "SELECT date_trunc('Minute', chunk), count(*) FROM n1 GROUP BY date_trunc('Minute', chunk) ORDER BY 1"),
    # lists, and other words for them
    ("SELECT count(*) FROM n1 WHERE plate IN ('A', 'B')", "SELECT count(*) FROM n1 WHERE plate = 'A' OR plate = 'B'",
     "SELECT count(*) FROM n1 WHERE plate IN ('B', 'A', 'B')", "SELECT count(*) FROM n1 WHERE plate = ANY (ARRAY['B', 'A'])",
     "SELECT count(*) FROM n1 WHERE 'B' = plate OR plate IN ('A') OR false"),
    ("SELECT count(*) FROM n1 WHERE plate NOT IN ('A', 'B')", "SELECT count(*) FROM n1 WHERE plate <> 'B' AND plate <> 'A'",
     "SELECT count(*) FROM n1 WHERE plate <> ALL (ARRAY['A', 'B', 'B'])"),
    ("SELECT plate, count(*) FROM n1 WHERE plate IN ('A', 'B') GROUP BY 1",
     "SELECT plate, count(*) FROM n1 WHERE plate IN ('B', 'A') GROUP BY 1",
     "SELECT plate AS p, count(*) AS n FROM n1 WHERE plate IN ('B', 'A', 'A') GROUP BY plate ORDER BY n"),
    # order and repetition of conditions, sides of comparisons
    ("SELECT count(*) FROM n1 WHERE v > 3 AND red AND w < v", "SELECT count(*) FROM n1 WHERE red AND 3 < v AND v > w",
     "SELECT count(*) FROM n1 WHERE red AND (v > w AND (v > 3 AND red))",
     "SELECT count(*) FROM (SELECT v FROM n1 WHERE w < v AND red) q WHERE 3 < v"),
    ("SELECT count(*) FROM n1 WHERE v BETWEEN 1 AND 5 OR plate IS DISTINCT FROM 'A'",
     "SELECT count(*) FROM n1 WHERE 'A' IS DISTINCT FROM plate OR (5 >= v AND v >= 1)"),
    ("SELECT count(*) FROM n1 WHERE NOT (red OR v < 2)", "SELECT count(*) FROM n1 WHERE NOT NOT NOT (2 > v OR red)"),
    # wrapped or not
    ("SELECT sum(range(v, 0, 10)) FROM n2 WHERE red", "SELECT sum(range(v, 0, 10)) FROM (SELECT * FROM n2) q WHERE red",
     "WITH q AS (SELECT v AS x, red AS y FROM n2) SELECT sum(range(x, 0, 10)) AS s FROM q WHERE y",
     "SELECT * FROM (SELECT sum(range(x, 0, 10)) AS s FROM (SELECT v AS x FROM n2 WHERE red AND chunk < now()) q) z LIMIT 1000",
     "SELECT sum(range(v, 0, 10)) FROM verify_view WHERE red"),
    ("SELECT sum(range(n, 0, 5)) FROM (SELECT plate, count(*) AS n FROM n2 WHERE plate IN ('A', 'B') GROUP BY plate HAVING count(*) > 1) q",
     "SELECT sum(range(n, 0, 5)) FROM (SELECT plate, count(1) AS n FROM n2 GROUP BY plate) q WHERE 1 < n AND (plate = 'B' OR plate = 'A')"),
    # public relations: order of rows, names of columns
    ("SELECT k.key, count(q.v) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 q ON q.plate = k.key GROUP BY 1",
     "SELECT k.key, count(q.v) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 q ON k.key = q.plate AND q.chunk < now() GROUP BY 1",
     "SELECT z.p, count(q.v) FROM (VALUES ('C'), ('B'), ('A')) z(p) LEFT JOIN n1 q ON q.plate = z.p WHERE z.p <> 'C' GROUP BY 1"),
)

#: statements no two of which are one release
OTHERS: Sequence[tuple[str, ...]] = (
    ("SELECT count(*) FROM n1", "SELECT count(*) FROM n1 WHERE chunk > '2026-03-01 06:00:00+00'",
     "SELECT count(*) FROM n1 WHERE chunk < '2026-03-01 06:00:03+00'", "SELECT count(*) FROM n2", "SELECT count(*) FROM n1 WHERE red"),
    ("SELECT count(*) FROM r1", "SELECT count(*) FROM r1 WHERE region = 'a'", "SELECT count(*) FROM r1 WHERE region = 'b'"),
    ("SELECT count(*) FROM n1 WHERE plate = 'A'", "SELECT count(*) FROM n1 WHERE plate = 'a'", "SELECT count(*) FROM n1 WHERE plate <> 'A'",
     "SELECT count(*) FROM n1 WHERE plate IN ('A', 'B')", "SELECT count(*) FROM n1 WHERE plate < 'A'",
     "SELECT count(*) FROM n1 WHERE plate > 'A'",
     "SELECT count(*) FROM n1 WHERE plate <> 'A' OR plate <> 'B'", "SELECT count(*) FROM n1 WHERE plate NOT IN ('A', 'B')"),
    ("SELECT count(*) FROM n1 WHERE red AND v > 3", "SELECT count(*) FROM n1 WHERE red OR v > 3",
     "SELECT count(*) FROM n1 WHERE red AND v < 3",
     "SELECT count(*) FROM n1 WHERE red AND v >= 3", "SELECT count(*) FROM n1 WHERE NOT (red AND v > 3)"),
    ("SELECT count(*) FROM n1", "SELECT count(nullif(v, 1)) FROM n1", "SELECT count(DISTINCT v) FROM n1"),
    ("SELECT date_trunc('minute', chunk), count(*) FROM n1 GROUP BY 1", "SELECT date_trunc('second', chunk), count(*) FROM n1 GROUP BY 1"),
    ("SELECT plate, count(*) FROM n1 WHERE plate IN ('A', 'B') GROUP BY 1",
     "SELECT plate, count(*) FROM n1 WHERE plate IN ('A', 'C') GROUP BY 1",
     "SELECT plate, count(*) FROM n1 WHERE plate IN ('A', 'B', 'C') GROUP BY 1"),
    ("SELECT count(*) FILTER (WHERE chunk >= '2026-03-01 06:00:02+00'), count(*) FROM n1",
     "SELECT count(*) FILTER (WHERE chunk >= '2026-03-01 06:00:01+00'), count(*) FROM n1",
     "SELECT count(*) FILTER (WHERE red), count(*) FROM n1", "SELECT count(*) FILTER (WHERE NOT red), count(*) FROM n1",
     "SELECT count(*) FILTER (WHERE chunk >= '2026-03-01 06:00:02+00' OR red), count(*) FROM n1"),
    ("SELECT count(*) FILTER (WHERE region = 'b') FROM r1", "SELECT count(*) FILTER (WHERE region = 'a') FROM r1"),
    # of equal scores the first key wins
    ("SELECT plate FROM n1 WHERE plate IN ('A', 'B') GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
     "SELECT plate FROM n1 WHERE plate IN ('B', 'A') GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"),
    # a condition of a join, and one after it
    ("SELECT sum(range(n, 0, 5)) FROM (SELECT a.plate, count(*) AS n "
     "FROM n1 a LEFT JOIN n2 b ON a.plate = b.plate AND a.v > b.v GROUP BY 1) q",
     "SELECT sum(range(n, 0, 5)) FROM (SELECT a.plate, count(*) AS n "
     "FROM n1 a LEFT JOIN n2 b ON a.plate = b.plate WHERE a.v > b.v GROUP BY 1) q"),
    ("SELECT count(*) FROM (SELECT plate FROM n2 ORDER BY v LIMIT 3) q WHERE plate > 'A'",
     "SELECT count(*) FROM (SELECT plate FROM n2 WHERE plate > 'A' ORDER BY v LIMIT 3) q"),
)


@pytest.fixture(scope="module", autouse=True)
def view(stand: Stand) -> None:
    stand.claims.execute("CREATE OR REPLACE VIEW verify_view AS SELECT v, red FROM n2 WHERE chunk < now()")


def identity(stand: Stand, statement: str) -> str:
    return reuse_key(stand.explain(statement).plan, [])


@pytest.mark.parametrize("statements", SAME, ids=[one[0] for one in SAME])
def test_the_same_question_in_other_words_is_one_release(stand: Stand, statements: Sequence[str]) -> None:
    first = identity(stand, statements[0])
    assert not [statement for statement in statements if identity(stand, statement) != first]


def in_one_piece(plan: Plan) -> str:
    """The digest as it has been since edition 5, of one text."""
    groups = [list(key) for key in plan.keys] if plan.argmax is not None else sorted(([*key] for key in plan.keys), key=json.dumps)
    argmax = None if plan.argmax is None else list(plan.argmax)
    text = json.dumps([5, plan.canonical, str(plan.epsilon), str(plan.mechanism), argmax, groups,
                       [_output(output, plan) for output in plan.outputs], [column.as_message() for column in plan.columns]])
    return sha256(text.encode()).hexdigest()


def test_what_is_digested_piece_by_piece_has_the_digest_of_the_whole(stand: Stand) -> None:
    """Else no answer that was given before would be found again."""
    for statement in sorted({one for some in (*SAME, *OTHERS) for one in some})[::5]:
        plan = stand.explain(statement).plan
        assert reuse_key(plan, []) == in_one_piece(plan)
    for letter in "\"\\\n\x01é\u20ac\U0001d49c":
        odd = replace(plan, canonical=f"a{letter * (1 << 16)}b{letter}", keys=((letter, None), (letter * 3, "x")))
        assert reuse_key(odd, []) == in_one_piece(odd)
    public = stand.explain("SELECT hour(chunk), min(chunk), max(chunk) FROM n1 GROUP BY 1").plan
    assert public.outputs[0].public and reuse_key(public, []) == in_one_piece(public)


@pytest.mark.parametrize("statements", OTHERS, ids=[one[0] for one in OTHERS])
def test_another_question_is_another_release(stand: Stand, statements: Sequence[str]) -> None:
    found = [identity(stand, statement) for statement in statements]
    assert len(set(found)) == len(statements), [s for s, one in zip(statements, found, strict=True) if found.count(one) > 1]


#: what depends on the session's settings: rows that are put in order by what they print, and moments, wherever they come from
PRINTED = ("SELECT sum(range(v, 0, 10)) FROM (SELECT * FROM n1 LIMIT 3) q",
           "SELECT count(*) FROM (SELECT plate FROM n1 UNION ALL SELECT plate FROM n2 LIMIT 3) q",
           "SELECT count(*) FROM r1 WHERE CASE WHEN extract(hour FROM to_timestamp(length(region)::float8 * 3600)) = 1 "
           "THEN v > 0 ELSE v < 0 END",
           "SELECT count(*) FILTER (WHERE red = (to_timestamp(length(region))::text < 'b')) FROM r1",
           "SELECT count(*) FROM (SELECT v, length(to_timestamp(length(region))::date::text) AS n FROM r1) q WHERE n > v",
           "SELECT sum(range(n, 0, 5)) FROM (SELECT a.plate, count(*) AS n FROM r1 a JOIN r1 b "
           "ON a.plate = b.plate AND date_part('hour', to_timestamp(length(a.region))) > b.v GROUP BY 1) q")
#: what does not, though there are texts, numbers and labels
PLAIN = ("SELECT count(*) FROM n1 WHERE red", "SELECT plate, count(*) FROM n1 WHERE plate IN ('A', 'date') AND v > 3 GROUP BY 1",
         "SELECT count(*) FROM n1 WHERE chunk > '2026-03-01 06:00:01+00' AND v::text LIKE '1%'",
         "SELECT region, sum(range(v, 0, 10)) FROM r1 GROUP BY 1")


def in_zones(stand: Stand, statement: str) -> tuple[str, ...]:
    """Its identities in two time zones."""
    try:
        found = []
        for zone in ("UTC", "<AAA>0<BBB>-1,J1/0,J60/7:00:02"):
            stand.claims.execute("SELECT set_config('TimeZone', %s, false)", (zone,))
            found.append(identity(stand, statement))
        return tuple(found)
    finally:
        stand.claims.execute("RESET TimeZone")


@pytest.mark.parametrize("statement", PRINTED)
def test_what_depends_on_the_time_zone_is_another_release_in_another(stand: Stand, statement: str) -> None:
    first, second = in_zones(stand, statement)
    assert first != second


@pytest.mark.parametrize("statement", PLAIN)
def test_what_does_not_depend_on_it_is_one_release_in_all(stand: Stand, statement: str) -> None:
    first, second = in_zones(stand, statement)
    assert first == second


def test_statements_with_one_identity_have_the_same_exact_answers(stand: Stand) -> None:
    found = Identities(stand, 3).run(200, seconds=60)
    assert not found.findings, found.findings[0]
    assert found.compared > 50 and found.shared > 0.6 * found.alike, (found.compared, found.shared, found.alike)


@pytest.mark.parametrize("name", QUICK)
def test_a_normal_form_with_a_mistake_is_found(stand: Stand, name: str) -> None:
    misnomer = next(misnomer for misnomer in MISNOMERS if misnomer.name.startswith(name))
    assert sought(stand, misnomer, 1_000, seed=1, seconds=60).findings


def test_rows_of_a_stored_answer_are_found_by_their_keys(stand: Stand) -> None:
    plan = stand.explain("SELECT plate, red, count(*) FROM n1 WHERE plate IN ('B', 'A') GROUP BY 1, 2").plan
    rows = [(plate, red, f"{plate}{red}") for plate, red in reversed(plan.keys)]
    assert in_order(plan, rows) == [(*key, "".join(map(str, key))) for key in plan.keys]
    assert plan.keys[0][0] == "B"
    for other in (rows[1:], [*rows, rows[0]], [*rows[1:], ("C", "t", "1")], [(*row, "1") for row in rows]):
        assert in_order(plan, other) is None, "not an answer to this plan"
