"""Statements whose bounds were once too small: each is refused, or has the noise that its worst event needs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from privid.calculus.functions import FUNCTIONS, names
from tests.verify.calculus_stand import Stand

_BOTH = "n2 a JOIN s1 b ON a.plate = b.plate"

#: a listed key whose group a later join drops, and the same by WHERE and by IN
DROPPED = (
    "SELECT count(*) FROM (SELECT k.key, count(*) AS n FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 t ON t.plate = k.key "
    "JOIN (VALUES ('A', 1), ('B', 2)) p(id, w) ON p.id = t.plate GROUP BY k.key) q",
    "SELECT count(*) FROM (SELECT k.key, count(*) AS n FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 t ON t.plate = k.key "
    "LEFT JOIN (VALUES ('A', 1), ('B', 2)) p(id, w) ON p.id = t.plate WHERE p.w IS NOT NULL GROUP BY k.key) q",
    "SELECT count(*) FROM (SELECT k.key, count(*) AS n FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 t ON t.plate = k.key "
    "WHERE t.plate IN (SELECT id FROM (VALUES ('A'), ('B')) p(id)) GROUP BY k.key) q",
)

#: trusted expressions that may raise, on values that no chunk has: of two scans, and of a key without a match
UNTRIED = (
    "SELECT sum(range(n, 0, 9)) FROM (SELECT a.plate, count(*) AS n FROM n1 a JOIN n1 b ON a.plate = b.plate AND date_trunc("
    "CASE WHEN a.chunk = b.chunk THEN 'bad' ELSE 'hour' END, a.chunk) IS NOT NULL GROUP BY a.plate) q",
    "SELECT sum(range(n, 0, 9)) FROM (SELECT plate, count(*) AS n FROM (SELECT a.plate, CASE WHEN a.chunk > b.chunk THEN 'bad' ELSE "
    "'hour' END AS unit, a.chunk FROM n1 a JOIN n1 b ON a.plate = b.plate) z WHERE date_trunc(unit, chunk) IS NOT NULL GROUP BY plate) q",
    "SELECT k.key, count(t.v) FILTER (WHERE date_trunc(CASE WHEN t.chunk IS NULL THEN 'bad' ELSE 'hour' END, "
    "coalesce(t.chunk, '2026-03-01'::timestamptz)) IS NOT NULL) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN n1 t ON t.plate = k.key "
    "GROUP BY k.key",
    "SELECT k.key, coalesce(t.chunk, '2026-03-01 06:00+00'), count(*) FROM (VALUES ('A')) k(key) LEFT JOIN n1 t ON t.plate = k.key "
    "GROUP BY 1, 2",
)

#: listed keys over rows that have no bound of their own: joined ones, and those of another list
LISTED_OVER = (
    f"SELECT k.key, count(a.v) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN ({_BOTH}) ON a.plate = k.key GROUP BY k.key",
    f"SELECT k.key FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN ({_BOTH}) ON a.plate = k.key GROUP BY k.key "
    "ORDER BY count(a.v) DESC LIMIT 1",
    "SELECT k.key, avg(range(a.v, 0, 10)) FILTER (WHERE a.v IS NOT NULL) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN "
    f"({_BOTH}) ON a.plate = k.key GROUP BY k.key",
    f"SELECT sum(n) FROM (SELECT k.key, count(a.v) AS n FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN ({_BOTH}) ON a.plate = k.key "
    "GROUP BY k.key) q",
    "SELECT k.key, count(*) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN (s1 a JOIN s1 b ON a.plate = b.plate) ON a.plate = k.key "
    "GROUP BY k.key",
    f"SELECT k.key, count(a.v) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN ({_BOTH} LEFT JOIN plates p ON p.plate = a.plate) "
    "ON a.plate = k.key GROUP BY k.key",
    "SELECT k.key, count(*) FILTER (WHERE l.key IS NOT NULL AND (q.v IS NULL OR q.v > 5)) FROM (VALUES ('x')) k(key) LEFT JOIN "
    "((VALUES ('A', 'x'), ('B', 'x'), ('C', 'x')) l(key, kind) LEFT JOIN s1 q ON q.plate = l.key) ON l.kind = k.key GROUP BY k.key",
    "SELECT sum(range(n, 0, 9)) FROM (SELECT k.key, count(l.key) AS n FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN "
    "((VALUES ('A'), ('B')) l(key) LEFT JOIN s1 q ON q.plate = l.key) ON l.key = k.key GROUP BY k.key) z",
)

_OR_NULL = "(b.v IS NULL OR b.v > 5)"
#: an outer join below another join, which once was taken for an inner one
OUTER_BELOW = (
    f"SELECT count(*) FROM (SELECT a.plate FROM (n2 a LEFT JOIN s1 b ON a.plate = b.plate) JOIN n2 c ON a.plate = c.plate WHERE {_OR_NULL} "
    "GROUP BY a.plate) q",
    "SELECT count(*) FROM (SELECT a.plate FROM n2 a LEFT JOIN s1 b ON a.plate = b.plate WHERE a.plate IN (SELECT plate FROM n2) AND "
    f"{_OR_NULL} GROUP BY a.plate) q",
    "SELECT count(DISTINCT a.plate) FROM (n2 a FULL JOIN s1 b ON a.plate = b.plate) JOIN n2 c ON a.plate = c.plate WHERE " + _OR_NULL,
    "SELECT sum(range(x, 0, 10)) FROM (SELECT a.plate, max(range(coalesce(b.v, 10), 0, 10)) AS x FROM (n2 a LEFT JOIN s1 b ON a.plate = "
    "b.plate) JOIN n2 c ON a.plate = c.plate GROUP BY a.plate) q",
    "SELECT count(*) FROM (SELECT a.plate FROM (SELECT a.plate FROM n2 a LEFT JOIN s1 b ON a.plate = b.plate WHERE b.plate IS NULL) a JOIN "
    "n2 c ON a.plate = c.plate GROUP BY a.plate) q",
)

_KINDS = "(VALUES ('A', 'x'), ('B', 'x'), ('C', 'x'), ('D', 'x')) k(key, kind) LEFT JOIN s1 q ON q.plate = k.key"
#: aggregates to which the row of NULLs of a key without a match counts, until the first match comes
NULLS_COUNT = (
    f"SELECT k.kind, count(*) FROM {_KINDS} WHERE q.v IS NULL OR q.v > 5 GROUP BY k.kind",
    f"SELECT k.kind, count(*) FILTER (WHERE q.v IS NULL OR q.v > 5) FROM {_KINDS} GROUP BY k.kind",
    f"SELECT k.kind, count(CASE WHEN q.v IS NULL OR q.v > 5 THEN 1 END) FROM {_KINDS} GROUP BY k.kind",
    f"SELECT k.kind, sum(range(coalesce(q.v, 10), 0, 10)) FROM {_KINDS} GROUP BY k.kind",
    f"SELECT k.kind, sum(CASE WHEN q.red THEN 0 ELSE 1 END) FROM {_KINDS} GROUP BY k.kind",
    f"SELECT k.kind, count(DISTINCT coalesce(q.v::text, k.key)) FROM {_KINDS} GROUP BY k.kind",
)

_ONE_SIDE = "(SELECT plate, CASE WHEN red THEN plate ELSE 'z' END AS other, v FROM s1) b"
#: a full join grouped by columns of one side: the other side's rows without a partner are all in one group
OF_ONE_SIDE = (
    f"SELECT count(*) FROM (SELECT coalesce(b.plate, b.other) FROM n2 a FULL JOIN {_ONE_SIDE} ON a.plate = b.plate AND a.plate = b.other "
    "GROUP BY 1) q",
    f"SELECT count(*) FROM (SELECT coalesce(b.plate, b.other), coalesce(a.v, b.v) FROM n2 a FULL JOIN {_ONE_SIDE} ON a.plate = b.plate AND "
    "a.plate = b.other AND a.v = b.v GROUP BY 1, 2) q",
)

#: constants and public texts with which a call recurses, holds memory or takes time for the rows alone that have them
LONG = (
    "SELECT count(*) FROM n1 WHERE ((CASE WHEN plate = 'A' THEN repeat('a', 40000) ELSE '' END) LIKE repeat('%a', 40000)) IS NOT TRUE",
    "SELECT count(*) FROM n1 WHERE plate LIKE repeat('%a', 4097)",
    "SELECT count(*) FROM n1 LEFT JOIN (VALUES ('A', repeat('a', 1000000)), ('Z', '')) p(key, b) ON plate = key WHERE right(b, -1) = 'x'",
    """SELECT count(*) FROM n1 LEFT JOIN (VALUES ('A', repeat('a', 1000000)), ('Z', '')) p(key, b) ON plate = key
    WHERE (pg_catalog."extract"(b, chunk - timestamptz '2000-01-01 00:00:00+00') = 1) IS NOT TRUE""",
    """SELECT count(*) FROM n1 WHERE pg_catalog."extract"(plate, chunk - timestamptz '2000-01-01 00:00:00+00') = 1""",
    "SELECT count(*) FROM n1 WHERE date_trunc(CASE WHEN chunk > '2026-03-01 06:00:02+00' THEN 'hour' ELSE 'day' END, chunk) = chunk",
    "SELECT count(*) FROM n1 WHERE upper(upper(upper(upper(upper(upper(plate)))))) = 'A'",
)

#: from first to last seen, of times that are not those of chunks: too far apart they have no difference
_FAR = """CASE WHEN chunk < timestamptz '2026-03-01 06:00:02+00' THEN timestamptz '4714-11-24 00:00:00+00 BC'
    WHEN chunk < timestamptz '2026-03-01 06:00:03+00' THEN timestamptz '2000-01-01 00:00:00+00'
    ELSE timestamptz '294276-12-31 23:59:59+00' END"""
_SPAN = "SELECT plate, extract(epoch FROM max(t) - min(t)) AS span FROM (SELECT DISTINCT plate, {} AS t FROM n1) u GROUP BY plate"
SPANS = (f"SELECT sum(range(span::float8, 0, 10)) FROM ({_SPAN}) g", f"SELECT count(*) FROM ({_SPAN}) g WHERE span > 5")


@pytest.fixture(scope="module")
def stand(stack: Any) -> Iterator[Stand]:
    found = Stand(stack.layout)
    yield found
    found.close()


def scale(stand: Stand, statement: str) -> Fraction | None:
    """Of the noise at epsilon 1; None if it is refused."""
    try:
        return stand.explain(statement).plan.outputs[0].scale
    except psycopg.Error as refused:
        assert refused.diag.sqlstate == "PV002" and refused.diag.message_hint, refused
        return None


@pytest.mark.parametrize("statement", (*DROPPED, *UNTRIED, *LONG, *LISTED_OVER, *OUTER_BELOW, *NULLS_COUNT, *OF_ONE_SIDE))
def test_it_is_refused(stand: Stand, statement: str) -> None:
    assert scale(stand, statement) is None


@pytest.mark.parametrize("statement", SPANS)
def test_a_span_of_times_that_are_not_those_of_chunks_may_fall(stand: Stand, statement: str) -> None:
    """Twice the noise of a span of chunks, which only grows."""
    near = scale(stand, statement.format("chunk"))
    assert near is not None
    for time in (_FAR, "date_trunc('second', chunk)", "chunk + interval '1 day'", "timestamptz 'infinity'"):
        far = scale(stand, statement.format(time))
        assert far is None or far == 2 * near, time


def test_where_above_an_outer_join_counts_for_both_sides(stand: Stand) -> None:
    joined = ("SELECT count(*) FROM (SELECT a.plate, count(*) AS n FROM (SELECT DISTINCT plate FROM n1) a LEFT JOIN (SELECT DISTINCT plate "
              "FROM s1) b ON a.plate = b.plate LEFT JOIN (VALUES ('A', 1), ('B', 2)) p(id, w) ON p.id = b.plate{} GROUP BY a.plate) q")
    plan = stand.explain(joined.format(" WHERE p.w IS NOT NULL")).plan
    assert {cost.camera for cost in plan.costs if cost.epsilon} == {"verify_north", "verify_south"}
    plain = stand.explain(joined.format("")).plan
    assert plan.outputs[0].scale > plain.outputs[0].scale


def test_a_group_of_listed_keys_has_as_many_rows_as_the_list_and_the_table(stand: Stand) -> None:
    listed = ", ".join(f"('{n}', 1)" for n in range(1000))
    found = scale(stand, f"SELECT sum(n) FROM (SELECT k.g, count(*) AS n FROM (VALUES {listed}) k(id, g) LEFT JOIN n1 t ON t.plate = k.id "
                         "GROUP BY k.g) q WHERE n <> 1000")
    assert found is not None and found >= 1000


def test_a_cast_that_rounds_keeps_no_bound_of_a_sum(stand: Stand) -> None:
    form = "SELECT sum(range({}, 0, 1)) FROM (SELECT plate, sum(range(v, 0, 0.0029)) AS s FROM n1 GROUP BY plate) q"
    plain, rounded = scale(stand, form.format("s")), scale(stand, form.format("s::int8"))
    assert plain is not None and rounded is not None and plain < 1 <= rounded
    below = scale(stand, "SELECT sum(range(s, 0, 1)) FROM (SELECT plate, sum(range(v, 0, 0.0029))::int8 AS s FROM n1 GROUP BY plate) q")
    assert below is not None and below >= 1


def test_what_looks_at_the_form_of_a_key_is_judged_by_the_form_that_it_will_see(stand: Stand) -> None:
    """Keys are evaluated without trailing zeros: no chunk has a second of less than five characters when it prints 5.000000."""
    form = ("SELECT count(*) FROM (SELECT k FROM (SELECT extract(second FROM chunk) AS k, v FROM n1 WHERE v = 1 GROUP BY 1, 2) q{} "
            "UNION ALL SELECT 1.0 FROM n1) z")
    found = scale(stand, form.format(" WHERE length(k::text) < 5"))
    assert found == scale(stand, form.format("")) and found


def test_of_equal_intervals_none_stands_for_the_others(stand: Stand) -> None:
    assert scale(stand, "SELECT sum(range(extract(day FROM i)::float8, 0, 1)) FROM (SELECT plate, min(CASE WHEN red THEN interval '1 day' "
                        "ELSE interval '24 hours' END) AS i, count(DISTINCT red) FROM n1 GROUP BY plate) q") is None


def test_calls_that_may_raise_are_tried_one_by_one(stand: Stand) -> None:
    """PostgreSQL takes a common part out of an OR."""
    early = "chunk < '2026-03-01 06:00:02+00'"
    bad = f"date_trunc(CASE WHEN {early} THEN 'hour' ELSE 'bad' END, chunk)"
    with pytest.raises(psycopg.Error, match="unit"):
        stand.explain(f"SELECT count(*) FROM (SELECT plate FROM n1 WHERE ({early} AND v = 1) OR ({early} AND {bad} IS NOT NULL) UNION ALL "
                      "SELECT plate FROM n1) q")


def test_a_join_across_types_has_no_rule(stand: Stand) -> None:
    assert scale(stand, "SELECT sum(range(n, 0, 9)) FROM (SELECT a.t, count(*) AS n FROM (SELECT date_trunc('hour', chunk)::timestamp AS t "
                        "FROM n1) a JOIN (SELECT chunk AS t FROM s1) b ON a.t = b.t GROUP BY a.t) q") is None


def test_a_condition_that_raises_does_so_before_the_charge_whatever_stands_before_it(stand: Stand) -> None:
    with pytest.raises(psycopg.Error, match="unit") as raised:
        stand.explain("SELECT count(*) FROM (SELECT plate FROM n1 WHERE chunk < '2026-03-01 06:00:02+00' AND date_trunc(CASE WHEN "
                      "chunk < '2026-03-01 06:00:02+00' THEN 'hour' ELSE 'bad' END, chunk) IS NOT NULL UNION ALL SELECT plate FROM n1) q")
    assert raised.value.diag.sqlstate != "XX000"


def test_what_is_called_on_a_missing_chunk_is_not_evaluated(stand: Stand) -> None:
    """Scope._foreseen takes listed calls, but for range, to be NULL where a column is."""
    types = ("array_to_string(ARRAY(SELECT t.typname::text FROM unnest({}) WITH ORDINALITY a(o, n) JOIN pg_type t ON t.oid = a.o "
             "ORDER BY n), ',')")
    with psycopg.connect(host=str(stand.layout.run), port=stand.layout.socket_port, dbname="privid", user="privid") as connection:
        lax = {tuple(row) for row in connection.execute(f"""
            SELECT proname::text, {types.format('proargtypes::oid[]')} FROM pg_proc
            WHERE pronamespace = 'pg_catalog'::regnamespace AND NOT proisstrict
            UNION ALL SELECT o.oprname::text, {types.format("array_remove(ARRAY[o.oprleft, o.oprright], 0::oid)")}
            FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode WHERE NOT p.proisstrict""".encode()).fetchall()}
    called = {(names(fn)[1], ",".join("bool" if t == "boolean" else t for t in names(fn)[2])) for fn in FUNCTIONS}
    assert len(called) > 200 and not called & lax


#: what the refusals above tell people to write instead
INSTEAD = (
    "SELECT k.key, sum(range(q.n, 0, 10)) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN (SELECT a.plate, count(*) AS n FROM n2 a JOIN s1 b "
    "ON a.plate = b.plate GROUP BY a.plate) q ON q.plate = k.key GROUP BY k.key",
    "SELECT k.key, count(q.key) FROM (VALUES ('A'), ('B')) k(key) LEFT JOIN (SELECT l.key, count(q.v) AS n FROM (VALUES ('A'), ('B')) "
    "l(key) LEFT JOIN s1 q ON q.plate = l.key GROUP BY l.key) q ON q.key = k.key GROUP BY k.key",
    f"SELECT count(*) FROM (SELECT q.plate FROM (SELECT a.plate FROM n2 a LEFT JOIN s1 b ON a.plate = b.plate WHERE {_OR_NULL} "
    "GROUP BY a.plate) q JOIN n2 c ON q.plate = c.plate GROUP BY q.plate) z",
    f"SELECT k.kind, count(*) FILTER (WHERE q.v IS NOT NULL AND (q.red OR q.v > 5)) FROM {_KINDS} GROUP BY k.kind",
    f"SELECT k.kind, sum(range(coalesce(q.v, 10), 0, 10)) FILTER (WHERE q.plate IS NOT NULL) FROM {_KINDS} GROUP BY k.kind",
    f"SELECT k.key, count(*), count(q.v), sum(range(q.v, 0, 10)) FROM {_KINDS} GROUP BY k.key",
    f"SELECT k.kind, count(*) FROM {_KINDS} GROUP BY k.kind",
    "SELECT count(*) FROM (SELECT coalesce(a.plate, b.plate) FROM n2 a FULL JOIN s1 b ON a.plate = b.plate GROUP BY 1) q",
)


@pytest.mark.parametrize("statement", INSTEAD)
def test_what_a_refusal_tells_to_write_is_accepted(stand: Stand, statement: str) -> None:
    assert scale(stand, statement)


def _parts(regions: str) -> str:
    return " UNION ALL ".join(f"SELECT v FROM r6 WHERE region = '{region}'" for region in regions)


@pytest.mark.parametrize(("regions", "proportional"), [("a", True), ("aa", True), ("abc", False), ("abccccccc", False)])
def test_scans_of_one_table_are_charged_in_proportion_if_they_read_the_same_runs(stand: Stand, regions: str, proportional: bool) -> None:
    """A share that follows from all scans together says nothing of one event, which is in the regions of some of them."""
    assert stand.explain(f"SELECT count(*) FROM ({_parts(regions)}) q").plan.linear is proportional


def test_averages_that_are_put_on_the_grid_when_they_are_collected_move_by_a_step_each(stand: Stand) -> None:
    grouped = "SELECT plate, avg(range(v, 0, 1e-18)) AS a FROM n2 GROUP BY plate"
    assert (scale(stand, f"SELECT sum(a) FROM ({grouped}) q") or 0) >= Fraction(12, 10**18)
