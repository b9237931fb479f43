"""The plan as a whole: EXPLAIN, and the text by which an identical release is known."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from privid.calculus import explain
from privid.model import Evaluate, Plan, Table

from .builders import (
    SETTINGS,
    Json,
    analyse,
    both,
    clamp,
    col,
    compare,
    const,
    count,
    earliest,
    equal,
    grouped,
    in_list,
    join,
    latest,
    mean,
    position,
    relation,
    request,
    rows,
    scan,
    select,
    subquery,
    table,
    total,
    trunc,
    union_all,
)


def plan(body: Json, evaluate: Evaluate, on: Table | None = None, epsilon: Fraction = Fraction(1, 2), **settings: str) -> Plan:
    return analyse(request(body, {**SETTINGS, **settings}), [on or table()], epsilon, evaluate)


def shown(p: Plan) -> tuple[dict[str, Any], list[str]]:
    return explain(p, frames_charged=72_489, budget_remaining=Fraction(3, 4), slots=1440, seconds=Fraction(2881, 2),
                   allowance=Fraction(1, 4))


def test_explain_has_every_key_in_order_and_plain_values_for_one_aggregate(evaluate: Evaluate) -> None:
    body, _ = shown(plan(select([count()], by=[trunc()]), evaluate))
    assert list(body) == ["Sensitivity", "Mechanism", "Noise Scale", "Epsilon", "Error 95%", "Chunks", "Frames Charged", "Budget Remaining",
                          "Slots", "Seconds", "Allowance", "Keys", "Aggregates", "Derivation"]
    derivation = body.pop("Derivation")
    assert body == {"Sensitivity": 33, "Mechanism": "discrete Laplace", "Noise Scale": 66, "Epsilon": 0.5, "Error 95%": 198, "Chunks": 1440,
                    "Frames Charged": 72_489, "Budget Remaining": 0.75, "Slots": 1440, "Seconds": 1440.5, "Allowance": 0.25,
                    "Keys": 2, "Aggregates": "count(*)"}
    assert json.loads(json.dumps(derivation)) == derivation
    assert derivation["inputs"][0]["inputs"][0]["rule"] == "group by trusted cells"


def test_explain_has_lists_for_several_aggregates(evaluate: Evaluate) -> None:
    body, lines = shown(plan(select([count(), total(clamp(col("speed"), 0, 3))]), evaluate, table(pad=True)))
    assert body["Sensitivity"] == [0, 99] and body["Mechanism"] == ["exact", "discrete Laplace"] and body["Epsilon"] == [0, 0.5]
    assert body["Aggregates"] == ["count(*)", "sum(range(speed, 0, 3))"]
    assert lines[0] == "count(*): exact, nothing protected can change it"


def test_explain_says_the_same_in_words(evaluate: Evaluate) -> None:
    _, lines = shown(plan(select([count()], where=compare("speed", ">", 3)), evaluate))
    assert lines == [
        "count(*): discrete Laplace noise of scale 66 (sensitivity 33, epsilon 0.5); within +/-198 with probability 95 %",
        "Reads 1440 chunks in 1440 slots, 1440.5 s",
        "Computes for 0.25 s after the last slot, whatever the rows",
        "Charges epsilon 0.5 to 72489 frames; 0.75 remains where least is left",
        "Derivation:",
        "  discrete Laplace: scale K*delta/epsilon with K=1, on the grid of the values -> scale 66",
        "    count: count(*) changes by at most 33 -> delta=33",
        "      filter rows: speed > 3: decided row by row, without errors -> ROW(tau=33), N=33",
        '        base table: "people": a segment of 490 frames meets at most 11 chunks (50 frames every 50), 11 of the 1440 in the window, '
        "with at most 3 rows each -> ROW(tau=33), N=33"]


def test_explain_of_a_release_that_costs_nothing_says_so(evaluate: Evaluate) -> None:
    free = plan(select([count()]), evaluate, table(r=0))
    body, lines = explain(free, frames_charged=0, budget_remaining=None, slots=0, seconds=Fraction(0))
    assert body["Mechanism"] == "exact" and body["Budget Remaining"] is None
    assert "Charges nothing" in lines


def test_explain_hints_at_what_would_be_more_accurate(evaluate: Evaluate) -> None:
    _, lines = shown(plan(select([total(clamp(col("speed"), 30, 60))]), evaluate))
    assert lines[-1] == "Hint: With the option pad 'on' sum(range(speed, 30, 60)) would change by at most 990 instead of 1980."


BASE = select([count(), total(clamp(col("speed", loc=3), 0, 3), loc=9)], by=[trunc()], where=compare("speed", ">", 3, loc=77))


def test_positions_and_names_do_not_make_another_release(evaluate: Evaluate) -> None:
    other = select([count(loc=1), total(clamp(col("speed", loc=30), 0, 3), loc=90)], by=[trunc()], where=compare("speed", ">", 3))
    other["group"][0]["name"] = "hour of the day"
    renamed = replace(table(), name="people_again", index=0, owner="ben")
    assert plan(BASE, evaluate).canonical == plan(other, evaluate, renamed).canonical


def test_a_subquery_that_only_renames_does_not_make_another_release(evaluate: Evaluate) -> None:
    inner = select(targets=[("a", col("speed")), ("b", col("chunk"))])
    outer = select([count()], where=both(
        {**compare("speed", ">", 3), "args": [position(1, "float8", "a"), const(3)]}), source=subquery(inner))
    assert plan(outer, evaluate).canonical == plan(select([count()], where=compare("speed", ">", 3)), evaluate).canonical


@pytest.mark.parametrize("other", [
    select([count(), total(clamp(col("speed"), 0, 4))], by=[trunc()], where=compare("speed", ">", 3)),
    select([count(), total(clamp(col("speed"), 0, 3))], by=[trunc()], where=compare("speed", ">", 4)),
    select([count(), total(clamp(col("speed"), 0, 3))], by=[trunc("minute")], where=compare("speed", ">", 3)),
    select([total(clamp(col("speed"), 0, 3)), count()], by=[trunc()], where=compare("speed", ">", 3)),
    select([count(filter=col("red")), total(clamp(col("speed"), 0, 3))], by=[trunc()], where=compare("speed", ">", 3)),
    select([count(), total(clamp(col("speed"), 0, 3))], by=[trunc()], where=compare("speed", ">=", 3)),
], ids=["range", "constant", "bins", "order", "filter", "operator"])
def test_another_statement_is_another_release(other: Json, evaluate: Evaluate) -> None:
    assert plan(BASE, evaluate).canonical != plan(other, evaluate).canonical


@pytest.mark.parametrize("on", [
    table(content=b"other program"), table(max_rows=4), table(pad=True), table(r=491), table(k=2), table(chunks=1439),
    table(size=25, step=50),
    replace(table(), timeout=Fraction(2)),
    replace(table(), columns=tuple(replace(c, default=1.0) if c.name == "speed" else c for c in table().columns)),
], ids=["executable", "max_rows", "pad", "rho", "k", "window", "chunk", "timeout", "default"])
def test_other_data_or_options_are_another_release(on: Table, evaluate: Evaluate) -> None:
    assert plan(BASE, evaluate).canonical != plan(BASE, evaluate, on).canonical


def test_the_text_of_a_release_holds_no_digest_of_the_video(evaluate: Evaluate) -> None:
    """People see it; what the video holds is in the ledger's own key."""
    assert table().camera.footage.files[0].sha256 not in plan(BASE, evaluate).canonical


def test_the_time_zone_counts_only_where_a_trusted_column_is_used(evaluate: Evaluate) -> None:
    assert plan(BASE, evaluate).canonical != plan(BASE, evaluate, TimeZone="Asia/Tokyo").canonical
    plain = select([count()], where=in_list(col("plate"), ["A"]))
    assert plan(plain, evaluate).canonical == plan(plain, evaluate, TimeZone="Asia/Tokyo").canonical


def test_a_long_list_of_keys_is_analysed_quickly(evaluate: Evaluate) -> None:
    keys = [f"p{i}" for i in range(50_000)]
    assert len(plan(select([count()], by=[col("plate")], where=in_list(col("plate"), keys)), evaluate).keys) == 50_000


def test_a_histogram_of_24_keys_has_a_twelfth_of_the_noise_of_24_releases(evaluate: Evaluate) -> None:
    """The paper charges each key by itself: epsilon / 24 for each, so 24 times the noise of one."""
    keys = [f"p{i}" for i in range(24)]
    found = plan(select([count()], by=[col("plate")], where=in_list(col("plate"), keys)), evaluate, epsilon=Fraction(1))
    one = plan(select([count()], by=[col("plate")], where=in_list(col("plate"), keys[:1])), evaluate, epsilon=Fraction(1))
    assert found.outputs[0].scale * 12 == 24 * one.outputs[0].scale


def test_each_camera_is_charged_what_its_own_segments_lose(evaluate: Evaluate) -> None:
    tables = [table(index=i, camera=name, r=r, size=150, chunks=100) for i, (name, r) in enumerate((("north", 450), ("south", 1950)))]
    both_ = select([count()], source=subquery(union_all(rows(col("plate")), rows(col("plate"), source=scan(1)), types=["text"])))
    found = analyse(request(both_), tables, Fraction(1), evaluate)
    body, lines = shown(found)
    assert body["Cameras"] == [{"Camera": "north", "Sensitivity": 12, "Epsilon": 12 / 54},
                               {"Camera": "south", "Sensitivity": 42, "Epsilon": 42 / 54}]
    assert "Charges each camera what its own segments lose, over 72489 frames; 0.75 remains where least is left" in lines
    assert "Camera north: epsilon 0.222222 is charged" in lines and sum(cost.epsilon for cost in found.costs) == 1
    assert [use.table.camera.name for use in found.uses] == ["north", "south"]


def test_explain_of_an_average_tells_its_scales_and_how_to_do_better(evaluate: Evaluate) -> None:
    body, lines = shown(plan(select([mean(clamp(col("speed"), 0, 10))]), evaluate))
    assert body["Mechanism"] == "noisy average" and body["Noise Scale"] == 660
    assert lines[0] == ("avg(range(speed, 0, 10)): noisy average, noise scales count 132, sum 660 (epsilon 0.5); the answer stays within "
                        "[0, 10]")
    assert any("divided by it outside needs no noise on the count" in hint for hint in body["Hints"])


def test_a_table_read_twice_is_used_once_with_all_chunks(evaluate: Evaluate) -> None:
    early, late = compare("chunk", "<", "2026-03-01 06:00:15+00"), compare("chunk", ">=", "2026-03-01 07:59:50+00")
    parts = union_all(rows(col("plate"), where=early), rows(col("plate"), where=late), types=["text"])
    found = plan(select([count()], source=subquery(parts)), evaluate)
    assert [use.chunks for use in found.uses] == [((0, 3), (1438, 1440))]
    assert found.outputs[0].sensitivity == 15


def test_the_rows_of_a_public_table_are_a_part_of_the_release(evaluate: Evaluate) -> None:
    """The same rows, the same answer; other rows, another release. They can be many, and may be nobody else's business: a digest stands
    for them in the text that people see."""
    def joined(public: Json) -> str:
        on = equal(col("plate"), position(1, "text", "plate", rel=4))
        return plan(select([count()], source=join("inner", scan(), public, on)), evaluate).canonical

    first = joined(relation("plate", "owner"))
    assert first == joined(relation("plate", "owner"))
    assert first != joined(relation("plate", "owner", count=3))
    renamed = relation("plate", "owner")
    renamed["rows"][0][1] = "somebody else"
    assert first != joined(renamed)
    assert "plate0" not in first


def test_a_release_of_keys_only_reads_nothing_and_costs_nothing(evaluate: Evaluate) -> None:
    for by, where in (([trunc()], None), ([col("kind")], compare("speed", ">", 3)), ([col("plate")], in_list(col("plate"), ["A", "B"]))):
        found = plan(select([], by=by, where=where), evaluate)
        assert not found.reads and not found.epsilon and not found.outputs
        body, lines = explain(found, frames_charged=0, budget_remaining=None, slots=0, seconds=Fraction(0))
        assert body["Keys"] == len(found.keys) == {"timestamptz": 2, "public.kind": 3, "text": 2}[by[0]["type"]]
        assert f"Reads nothing, {len(found.keys)} groups" in lines and "Charges nothing" in lines


def test_a_public_extreme_reads_nothing_unless_something_else_does(evaluate: Evaluate) -> None:
    assert not plan(select([earliest(), latest()]), evaluate).reads
    beside = plan(select([latest(), count()]), evaluate)
    assert beside.reads and [o.public for o in beside.outputs] == [("2026-03-01 07:59:55+00",), None]
    assert [column.agg for column in beside.columns] == [1], "only the count is collected"


def test_a_release_is_linear_unless_something_caps_it(evaluate: Evaluate) -> None:
    assert plan(select([count()]), evaluate).linear
    assert plan(select([mean(clamp(col("speed"), 0, 1))], by=[trunc()]), evaluate).linear
    assert not plan(select([count()], source=subquery(rows(col("plate"), limit=const(5, "int8")))), evaluate).linear
    assert not plan(select([count()], source=subquery(grouped([count()], by=[trunc()]))), evaluate).linear


def test_what_a_limit_orders_by_makes_another_release(evaluate: Evaluate) -> None:
    def first(**order: Any) -> Json:
        by = [{"expr": col("speed"), "desc": False, "nulls_first": False, **order}]
        return select([count()], source=subquery(rows(col("plate"), limit=const(5, "int8"), order=by)))

    assert plan(first(), evaluate).canonical == plan(first(), evaluate).canonical
    assert plan(first(), evaluate).canonical != plan(first(desc=True), evaluate).canonical
    assert plan(first(), evaluate).canonical != plan(first(expr=col("plate")), evaluate).canonical


def test_two_scans_of_one_table_that_differ_are_not_charged_in_proportion(evaluate: Evaluate) -> None:
    """A segment that meets the chunk that both read costs more than its share of all chunks."""
    parts = union_all(rows(col("plate")), rows(col("plate"), where=compare("chunk", "<", "2026-03-01 06:00:05+00")), types=["text"])
    assert not plan(select([count()], source=subquery(parts)), evaluate).linear
    same = union_all(rows(col("plate")), rows(col("plate")), types=["text"])
    assert plan(select([count()], source=subquery(same)), evaluate).linear


def test_distinct_bins_are_not_charged_in_proportion(evaluate: Evaluate) -> None:
    assert not plan(select([count(trunc("minute"), distinct=True)]), evaluate).linear
