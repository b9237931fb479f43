"""Each rule of the calculus with a mistake in it that somebody might make, and a statement whose bound rests on the rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count as count_up
from types import SimpleNamespace
from typing import Any

import pytest

from privid.calculus import algebra, analysis, bounds, facts, joins, same
from privid.calculus.certificate import AnyRelation, Certificate, Change, Facts, Joined, Leaf, Listed, Motion, Rows
from privid.calculus.expressions import columns_of
from privid.calculus.functions import names
from privid.calculus.rules import (
    apart,
    argmax,
    average,
    base_table,
    choose_chunks,
    clamp,
    count,
    count_distinct,
    distinct,
    except_rows,
    extremes,
    filter_rows,
    group_bins,
    group_cells,
    group_keys,
    group_rows,
    having,
    inner_aggregates,
    intersect,
    join,
    laplace,
    limit,
    listing,
    lookup,
    mask,
    quantile,
    regions,
    share_epsilon,
    union_all,
    variance,
)
from privid.calculus.rules import sum as sum_rule
from privid.calculus.sources import Scanned
from privid.calculus.tree import Call, Expr, JoinKind
from privid.sandbox import rows as reading
from tests.verify.calculus_grammar import Agg, Query

__all__ = ["WEAKNESSES", "Weakness"]

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Weakness:
    """A mistake, and where it shows."""

    rule: str
    mistake: str
    make: Callable[[Patch], None]
    query: Query
    #: the rule as it is refuses the statement
    refused: bool = False
    #: the mistake is in how a program's output is read, so that rows are other ones
    rows: bool = False


def _query(aggs: str | list[Agg], body: str, *keys: str, depth: int = 0, is_argmax: bool = False, forms: tuple[str, ...] = ()) -> Query:
    chosen = (Agg("count"),) if aggs == "count" else tuple(aggs)
    return Query("", keys, chosen, body, frozenset(forms), depth, is_argmax)  # type: ignore[arg-type]


def _sum(value: str) -> list[Agg]:
    return [Agg("sum", value)]


def _wrap(module: Any, name: str, change: Callable[..., Any], user: Any = None) -> Callable[[Patch], None]:
    """The function with another result; `change` gets the right one, then the arguments. `user`: the module that has imported it."""
    right = getattr(module, name)
    return lambda patch: patch.setattr(user or module, name, lambda *args, **options: change(right(*args, **options), *args))


def _bit(found: Facts, judge: facts.Judge, expr: Expr) -> Facts:
    """The cast of any boolean bounded."""
    number = isinstance(expr, Call) and expr.fn == "pg_catalog.int4(boolean)"
    return replace(found, nullable=False, low=Fraction(0), high=Fraction(1)) if number else found


def _instead(module: Any, name: str, other: Callable[..., Any]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(module, name, other)


def _unchanging(part: Certificate) -> Certificate:
    return replace(part, changes=part.each(lambda one: Change(0, 0)))


def _left_only(module: Any) -> Callable[[Patch], None]:
    right = union_all.certify
    weak = SimpleNamespace(certify=lambda parts, form: right([parts[0], *map(_unchanging, parts[1:])], form))
    return lambda patch: patch.setattr(module, "union_all", weak)


def _halved(found: Any) -> Any:
    return replace(found, scale=found.scale / 2, scales=tuple(s / 2 for s in found.scales))


def _finer(found: Any, *places: int) -> Any:
    return replace(found, parts=tuple(replace(p, unit=p.unit / 2) if i in places else p for i, p in enumerate(found.parts)))


def _keys_pass(patch: Patch) -> None:
    """The reader of output overlooks the option keys."""
    right = reading._converter
    patch.setattr(reading, "_converter", lambda column: right(replace(column, keys=None)))


def _bounds_pass(patch: Patch) -> None:
    """It overlooks low and high, and the inner query adds up what it gets. Either lock alone holds."""
    right, clamp_of = reading._converter, clamp.clamp_of
    patch.setattr(reading, "_converter", lambda column: right(replace(column, bounds=None)))
    patch.setattr(sum_rule, "clamp_of", lambda *args: replace(found, collect=None) if (found := clamp_of(*args)) else None)


def _pass_as_rows(kind: type[Joined] | type[Listed]) -> Callable[[Patch], None]:
    """A list over relations that have no bound of their own takes them for what their numbers say."""
    right = joins.ListedRows._rows

    def rows(self: joins.ListedRows, below: AnyRelation) -> Certificate:
        if not isinstance(below, kind):
            return right(self, below)
        if isinstance(below, Listed):
            return below.matched
        return Certificate(kind=Rows(), columns=below.columns, changes=below.changes, cameras=below.cameras, leaves=below.leaves,
                           rows=below.rows, full=below.full, linear=below.linear, form=below.form, derivation=below.derivation)

    return lambda patch: patch.setattr(joins.ListedRows, "_rows", rows)


def _outer_forgotten(patch: Patch) -> None:
    """Of several joins the last decides what they are."""
    right = join.certify

    def certify(left: AnyRelation, *rest: Any) -> Joined:
        return right(replace(left, how=JoinKind.INNER, anti=False) if isinstance(left, Joined) else left, *rest)

    patch.setattr(join, "certify", certify)


def _two_columns(found: frozenset[int] | None, key: Expr, joined: Joined) -> frozenset[int] | None:
    """Any two columns are enough to group a full join by."""
    if found is not None or joined.how is not JoinKind.FULL or len(columns_of(key)) < 2:
        return found
    return next((equal for equal in joined.classes if columns_of(key) <= equal), None)


def _same_bounds(leaves: tuple[Leaf, ...]) -> bool:
    """Scans with the same chunks, and the same bounds where something is promised of regions, whichever regions they read."""
    first: dict[int, Any] = {}
    known = [(leaf.use.table.index, (leaf.use.chunks, leaf.use.table.visible_in_region and regions.views(leaf.use))) for leaf in leaves]
    return all(first.setdefault(index, scanned) == scanned for index, scanned in known)


_numbers = count_up()
_GROUPED = "FROM (SELECT plate, {agg} AS n FROM @n1@ q GROUP BY plate) q"

WEAKNESSES = [
    Weakness("base table", "one chunk less", _wrap(base_table, "chunks_touched", lambda m, *_: max(0, m - 1)),
             _query("count", "FROM @n2@ q")),
    Weakness("mask", "one piece of several", _instead(mask, "met", lambda table, reach, gain=1: reach(table.r)),
             _query("count", "FROM @m1@ q")),
    Weakness("mask", "the visible time as one piece, as published",
             _instead(mask, "met", lambda table, reach, gain=1: reach(table.visible.total)), _query("count", "FROM @m3@ q")),
    Weakness("regions", "an event over a grid that stands still",
             _instead(regions, "_crossed", lambda table: 2 if table.regions.cells else None), _query("count", "FROM @r7@ q")),
    Weakness("regions", "what holds of one region for all that are crossed", _instead(regions, "_visited", lambda use: 1),
             _query("count", "FROM @r5@ q", "region")),
    Weakness("mask", "one piece of several touches the cells", _instead(mask, "met", lambda table, reach, gain=1: reach(table.r)),
             _query(_sum("range(n, 0, 1)"), "FROM (SELECT chunk AS b, count(*) AS n FROM @m1@ q GROUP BY 1) q", depth=1)),
    Weakness("regions", "counterexample 14: one region of a soft border", _instead(regions, "factor", lambda use: 1),
             _query("count", "FROM @r2@ q")),
    Weakness("regions", "the straddle of one frame for a whole chunk", _instead(regions, "factor", lambda use: 1),
             _query("count", "FROM @r3@ q WHERE region <> 'c'", "region")),
    Weakness("regions", "events that cross taken for ones that stay", _instead(regions, "stays", lambda table: True),
             _query(_sum("range(n, 0, 1)"), "FROM (SELECT region, count(*) AS n FROM @r2@ q GROUP BY 1) q", depth=1)),
    Weakness("column options", "a text that is no key is kept, and counted", _keys_pass,
             _query([Agg("count", "plate", distinct=True)], "FROM @o1@ q"), rows=True),
    Weakness("column options", "a text that is no key is kept, and has a group", _keys_pass, _query("count", "FROM @o2@ q", "plate"),
             rows=True),
    Weakness("column options", "a number outside its bounds is kept, and added up", _bounds_pass, _query(_sum("v"), "FROM @o1@ q"),
             rows=True),
    Weakness("regions apart", "soft borders taken for hard ones", _instead(apart, "where", lambda leaves, camera: apart.Where(
             leaves[0].use.table.regions, frozenset(i for i, spans in enumerate(leaves[0].use.by_region) if spans))),
             _query("count", "FROM (SELECT a.plate FROM @r2@ a JOIN @r2@ b ON a.plate = b.plate WHERE a.region = 'a' AND b.region = 'b' "
                    "GROUP BY a.plate) q", depth=1)),
    Weakness("regions apart", "one region taken for two", _wrap(apart, "where", lambda found, *_: found and replace(
             found, places=frozenset({next(_numbers) % 2}))),
             _query("count", "FROM (SELECT plate FROM @r1@ q WHERE region = 'a' UNION ALL SELECT plate FROM @r1@ q WHERE region = 'a') q",
                    depth=1)),
    Weakness("choose chunks", "the last chunk left out", _wrap(choose_chunks, "spans_of", lambda s, *_: ((s[0][0], s[0][1] - 1),)),
             _query("count", "FROM @n1@ q WHERE chunk < '2026-03-01 06:00:02+00'")),
    Weakness("range", "half as wide", _wrap(sum_rule, "clamp_of", lambda c, *_: replace(c, high=(c.low + c.high) / 2)),
             _query(_sum("range(v, 0, 10)"), "FROM @n1@ q")),
    Weakness("range", "one that does not reach 0 taken for one that keeps what groups add up to",
             _instead(clamp, "_keeps_sums", lambda *_: True), _query(_sum("range(n, 2, 300)"), _GROUPED.format(agg="count(*)"), depth=1)),
    Weakness("sum", "the width of the range instead of its distance from zero",
             _instead(sum_rule, "row_bound", lambda tau, single, pair, keys: tau * pair), _query(_sum("range(v, 30, 60)"), "FROM @n1@ q")),
    Weakness("sum", "rows that move between keys counted once",
             _instead(sum_rule, "row_bound", lambda tau, single, pair, keys: tau * single),
             _query(_sum("range(v, 0, 10)"), "FROM @n1@ q WHERE plate IN ('A', 'B')", "plate")),
    Weakness("count", "NULL overlooked", _instead(count, "dense_bound", lambda *_: Fraction(0)),
             _query([Agg("count", "nullif(v, 0)")], "FROM @n3@ q")),
    Weakness("count", "rows that move between keys counted once", _instead(count, "row_bound", lambda tau, *_: Fraction(tau)),
             _query("count", "FROM @n1@ q", "size")),
    Weakness("count distinct", "as if it were count(*)",
             lambda patch: patch.setattr(count_distinct, "distinct", SimpleNamespace(certify=lambda columns, row, *_: row)),
             _query([Agg("count", "plate", distinct=True)], "FROM @n3@ q")),
    Weakness("count distinct", "charged in proportion where the keys are fewer than the rows",
             _wrap(count_distinct, "bound", lambda found, *_: replace(found, linear=True)),
             _query([Agg("count", "plate", distinct=True)], "FROM @o2@ q")),
    Weakness("distinct", "the number of rows stays public", _wrap(distinct, "certify", lambda found, columns, below, *_: replace(
             found, changes={name: replace(one, n=below.changes[name].n) for name, one in found.changes.items()})),
             _query("count", "FROM (SELECT DISTINCT plate FROM @n3@ q) q", depth=1)),
    Weakness("except", "the right side overlooked", _left_only(except_rows),
             _query("count", "FROM (SELECT plate FROM @n1@ q EXCEPT SELECT plate FROM @n2@ q) q", depth=1)),
    Weakness("intersect", "the right side overlooked", _left_only(intersect),
             _query("count", "FROM (SELECT plate FROM @n1@ q INTERSECT SELECT plate FROM @n2@ q) q", depth=1)),
    Weakness("union all", "the keys of the left side taken for those of both",
             _instead(union_all, "_labels", lambda facts: facts[0].labels),
             _query("count", "FROM (SELECT plate FROM @o1@ q UNION ALL SELECT plate FROM @n1@ q) q", "plate", depth=1), refused=True),
    Weakness("union all", "the right side overlooked",
             _wrap(union_all, "_added", lambda found, a, b: a),
             _query("count", "FROM (SELECT v FROM @n1@ q UNION ALL SELECT w FROM @n1@ q) q", depth=1)),
    Weakness("union once", "the same table taken for the same relation", _wrap(same, "same_part", lambda found, *_: True, algebra),
             _query("count", "FROM (SELECT v FROM @n1@ q UNION SELECT w FROM @n1@ q) q", depth=1)),
    Weakness("union once", "conditions overlooked",
             _instead(same, "_same_source", lambda one, other: same._same_base(one.base, other.base)),
             _query("count", "FROM (SELECT v FROM @n1@ q WHERE chunk < '2026-03-01 06:00:01+00' UNION SELECT v FROM @n1@ q) q", depth=1)),
    Weakness("union once", "UNION ALL taken for UNION", _instead(union_all, "_added", lambda a, b: a),
             _query("count", "FROM (SELECT v FROM @n1@ q UNION ALL SELECT v FROM @n1@ q) q", depth=1)),
    Weakness("public extremes", "a condition on a program's output taken for one on chunks",
             _wrap(extremes, "applies", lambda found, agg, release: found or (agg.args and agg.args[0].type == "timestamptz")),
             _query([Agg("min", "chunk")], "FROM @n1@ q WHERE v > 0"), refused=True),
    Weakness("public extremes", "the last chunk left out", _wrap(extremes, "_moments", lambda found, *_: list(found)[:-1]),
             _query([Agg("max", "chunk")], "FROM @r1@ q", "region")),
    Weakness("public groups", "a condition on a program's output taken for one on chunks",
             _instead(algebra, "_whole", lambda source, scope: isinstance(source.base, Scanned)),
             _query("count", "FROM (SELECT DISTINCT date_trunc('second', chunk) AS b FROM @n1@ q WHERE v > 0) q", depth=1)),
    Weakness("range", "a boolean that may be NULL taken for 0 or 1", _wrap(facts.Judge, "_facts", _bit),
             _query([Agg("count", "(1 / v > 0)::int")], "FROM @n3@ q")),
    Weakness("filter rows", "the number of rows stays public", _instead(filter_rows, "certify", lambda conditions, below: below),
             _query("count", "FROM @n3@ q WHERE v > 0")),
    Weakness("group by bins", "one bin only", _wrap(group_bins, "_touched", lambda beta, *_: min(beta, 1)),
             _query(_sum("range(n, 0, 1)"),
                    "FROM (SELECT date_trunc('second', chunk) AS b, count(*) AS n FROM @n1@ q GROUP BY 1) q", depth=1)),
    Weakness("group by trusted cells", "a cell left out", _wrap(group_cells, "cells", lambda found, *_: found[:-1]),
             _query("count", "FROM @n1@ q", "date_trunc('second', chunk)")),
    Weakness("group by declared keys", "a key left out", _wrap(group_keys, "declared", lambda found, *_: found[:-1]),
             _query("count", "FROM @n1@ q", "size")),
    Weakness("group by", "groups treated as rows, as the paper does",
             _wrap(group_rows, "certify", lambda found, *_: replace(found, kind=Rows())),
             _query(_sum("range(n, 0, 10)"), _GROUPED.format(agg="avg(range(v, 0, 10))"), depth=1)),
    Weakness("having", "groups that leave overlooked", _instead(having, "certify", lambda conditions, below, scope: below),
             _query("count", "FROM (SELECT plate FROM @n1@ q GROUP BY plate HAVING count(*) = 1) q", depth=1)),
    Weakness("having", "a condition taken for one that stays true", _instead(facts.Judge, "_compared", lambda *_: Motion.RISES),
             _query("count", "FROM (SELECT plate FROM @n1@ q GROUP BY plate HAVING count(*) <= 1) q", depth=1)),
    Weakness("aggregate of groups", "min taken for one that does not fall",
             _wrap(inner_aggregates, "describe", lambda found, *_: replace(found, motion=Motion.RISES)),
             _query(_sum("range(n, 2, 10)"), _GROUPED.format(agg="min(range(v, 2, 10))"), depth=1)),
    Weakness("aggregate of groups", "an average changed by what it gains only",
             _wrap(inner_aggregates, "ups", lambda up, *_: None if up is None else (Fraction(0), up[1])),
             _query(_sum("range(n, 0, 10)"), _GROUPED.format(agg="avg(range(v, 0, 10))"), depth=1)),
    Weakness("aggregate of groups", "an average of no rows taken for a value",
             lambda patch: patch.setattr(Facts, "of_nothing", lambda self: self),
             _query([Agg("count", "n")], "FROM (SELECT avg(range(v, 2, 10)) AS n FROM @n1@ q) q", depth=1)),
    Weakness("join", "the second side overlooked", _wrap(join, "_parts", lambda parts, side, offset, *_: parts if not offset else {}),
             _query("count", "FROM (SELECT a.plate FROM @n1@ a JOIN @n2@ b ON a.plate = b.plate GROUP BY a.plate) q", depth=1)),
    Weakness("limit", "half of the rows that change", _wrap(limit, "certify", lambda found, *_: replace(found, changes=found.each(
             lambda one: Change(one.tau // 2, one.n // 2)))),
             _query(_sum("range(v, 0, 10)"), "FROM (SELECT v FROM @n1@ q ORDER BY v DESC LIMIT 3) q", depth=1)),
    Weakness("limit", "cells taken for independent", _wrap(limit, "certify", lambda found, limit, below, *_: replace(found, columns={
             n: replace(f, place=below.columns[n].place) for n, f in found.columns.items()})),
             _query("count", "FROM (SELECT chunk FROM @n1@ q ORDER BY chunk LIMIT 3) q", "chunk", depth=1)),
    Weakness("limit", "charged in proportion", _wrap(limit, "certify", lambda found, *_: replace(found, linear=True)),
             _query("count", "FROM (SELECT v FROM @n2@ q ORDER BY v LIMIT 1) q", depth=1)),
    Weakness("listed keys", "half of the rows that change", _wrap(listing, "certify", lambda found, *_: replace(found, changes=found.each(
             lambda one: replace(one, tau=one.tau // 2, n=one.n // 2)))),
             _query([Agg("count", "q.plate")], "FROM (VALUES ('A'), ('B')) AS k(key) LEFT JOIN @n1@ q ON q.plate = k.key", "k.key")),
    Weakness("listed keys", "a match by what is no part of the key taken for one by the key",
             _wrap(listing, "certify", lambda found, *_: replace(found, within=True)),
             _query([Agg("count", "q.n")], "FROM (VALUES (1::float8), (2)) AS k(key) LEFT JOIN "
                    "(SELECT plate, avg(range(v, 0, 10))::float8 AS n FROM @n1@ q GROUP BY plate) q ON q.n = k.key", "k.key", depth=1)),
    Weakness("listed keys", "a condition on what was found overlooked", _instead(
             listing, "certify",
             lambda public, below, equated, _, *rest, right=listing.certify: right(public, below, equated, False, *rest)),
             _query("count", "FROM (VALUES ('A')) AS k(key) LEFT JOIN (SELECT plate, w, count(*) AS n FROM @n1@ q GROUP BY plate, w) q "
                    "ON q.plate = k.key WHERE q.n = 1", "k.key", depth=1)),
    Weakness("listed keys", "groups under a listed key that only come, and never go",
             _wrap(inner_aggregates, "ups", lambda up, *_: None if up is None else (max(up[0], Fraction(0)), up[1])),
             _query(_sum("range(n, 0, 5)"), "FROM (SELECT k.key, count(q.plate) AS n FROM (VALUES ('A'), ('B')) AS k(key) LEFT JOIN "
                    "(SELECT plate FROM @n1@ q GROUP BY plate HAVING count(*) = 1) q ON q.plate = k.key GROUP BY k.key) q", depth=2)),
    Weakness("listed keys", "joined rows taken for rows", _pass_as_rows(Joined),
             _query([Agg("count", "a.v")], "FROM (VALUES ('A'), ('B')) AS k(key) LEFT JOIN (@n2@ a JOIN @s1@ b ON a.plate = b.plate) "
                    "ON a.plate = k.key", "k.key"), refused=True),
    Weakness("listed keys", "rows under another list taken for rows", _pass_as_rows(Listed),
             _query([Agg("count", filter="l.key IS NOT NULL AND (q.v IS NULL OR q.v > 5)")],
                    "FROM (VALUES ('x')) AS k(key) LEFT JOIN ((VALUES ('A', 'x'), ('B', 'x'), ('C', 'x'), ('D', 'x')) AS l(key, kind) "
                    "LEFT JOIN @s1@ q ON q.plate = l.key) ON l.kind = k.key", "k.key"), refused=True),
    Weakness("listed keys", "the row of NULLs counted in a release",
             _instead(listing, "counts_rows", lambda agg, listed: names(agg.name)[1] == "count"),
             _query([Agg("count", filter="q.v IS NULL OR q.v > 5")], "FROM (VALUES ('A', 'x'), ('B', 'x'), ('C', 'x'), ('D', 'x')) "
                    "AS k(key, kind) LEFT JOIN @s1@ q ON q.plate = k.key", "k.kind"), refused=True),
    Weakness("listed keys", "a cell that is NULL taken for one that no row of NULLs has",
             _instead(bounds, "_check_nulls", lambda agg, listed, release, cells, right=bounds._check_nulls: right(
                 agg, listed, release, replace(cells, trusted=()))),
             _query("count", "FROM (VALUES ('A'), ('B'), ('C'), ('D')) AS k(key) LEFT JOIN @n1@ q ON q.plate = k.key",
                    "1 / (extract(second FROM q.chunk) - 2)", "k.key", forms=("keys: listed",)), refused=True),
    Weakness("join", "an outer join forgotten below an inner one", _outer_forgotten,
             _query("count", "FROM (SELECT a.plate FROM (@n2@ a LEFT JOIN @s1@ b ON a.plate = b.plate) JOIN @n2@ c ON a.plate = c.plate "
                    "WHERE b.v IS NULL OR b.v > 5 GROUP BY a.plate) q", depth=1), refused=True),
    Weakness("join", "a full join grouped by one side", _wrap(join, "_class_of", _two_columns),
             _query("count", "FROM (SELECT coalesce(b.plate, b.other) AS k FROM @n2@ a FULL JOIN (SELECT plate, CASE WHEN red THEN plate "
                    "ELSE 'z' END AS other FROM @s1@ q) b ON a.plate = b.plate AND a.plate = b.other GROUP BY 1) q", depth=2),
             refused=True),
    Weakness("regions", "one share for scans of different regions", _instead(analysis, "_alike", _same_bounds),
             _query("count", "FROM (" + " UNION ALL ".join(f"SELECT v FROM @r6@ q WHERE region = '{c}'" for c in "abcccccc") + ") q",
                    depth=1)),
    Weakness("look up", "a public table without a unique key", _instead(lookup, "check_unique", lambda *_: None),
             _query("count", "FROM (SELECT a.plate FROM @n1@ a JOIN tolls t ON t.plate = a.plate) q", depth=1), refused=True),
    Weakness("project", "the key dropped for nothing", lambda patch: patch.setattr(Change, "rebased", lambda one, keyed: replace(
             one, appear=0, vanish=0)),
             _query(_sum("range(n, 0, 10)"), "FROM (SELECT n FROM (SELECT plate, max(range(v, 0, 10)) AS n FROM @n1@ q "
                    "GROUP BY plate HAVING count(*) = 1) q ORDER BY n DESC LIMIT 50) q", depth=2)),
    Weakness("share epsilon", "the whole for each", _wrap(share_epsilon, "split", lambda found, weights, epsilon: [epsilon for _ in found]),
             _query([Agg("count"), Agg("sum", "range(v, 0, 10)")], "FROM @n1@ q")),
    Weakness("share epsilon", "a camera charged nine tenths of what it loses", _wrap(analysis, "_costs", lambda found, *_: tuple(
             replace(cost, epsilon=cost.epsilon * Fraction(9, 10)) for cost in found)),
             _query("count", "FROM (SELECT plate FROM @n1@ q UNION ALL SELECT plate FROM @s1@ q) q", depth=1)),
    Weakness("average", "half the noise on the sum", _wrap(average, "draft", lambda found, *_: _finer(found, 1)),
             _query([Agg("avg", "range(v, 0, 10)")], "FROM @n1@ q")),
    Weakness("average", "half the noise on the count", _wrap(average, "draft", lambda found, *_: _finer(found, 0)),
             _query([Agg("avg", "range(v, 0, 10)")], "FROM @n1@ q")),
    Weakness("average", "a number of rows that is not public taken for one that is", _instead(average, "is_size_public", lambda *_: True),
             _query([Agg("avg", "range(v, 0, 10)")], "FROM @n1@ q")),
    Weakness("average", "half of what the sum of bins can change", _wrap(average, "changed_by", lambda found, *_: {
             name: delta / 2 for name, delta in found.items()}),
             _query([Agg("avg", "range(n, 0, 300)")],
                    "FROM (SELECT date_trunc('second', chunk) AS b, count(DISTINCT plate) AS n FROM @n3@ q GROUP BY 1) q", depth=1)),
    Weakness("variance", "half the noise on the squares", _wrap(variance, "draft", lambda found, *_: _finer(found, 2)),
             _query([Agg("var_pop", "range(v, 0, 10)")], "FROM @n1@ q")),
    Weakness("quantile", "one score instead of the distance of two", _wrap(quantile, "draft", lambda found, *_: replace(
             found, weights={name: w / 2 for name, w in found.weights.items()})),
             _query([Agg("percentile_cont", "range(v, 0, 10)", fraction="0.5")], "FROM @n1@ q")),
    Weakness("quantile", "a row that goes from one key to another counted once", _wrap(
             quantile, "draft", lambda found, agg, row, scope, cells: found if cells.untrusted == 1 else replace(
                 found, weights={name: w / 2 for name, w in found.weights.items()})),
             _query([Agg("percentile_disc", "range(v, 0, 10)", fraction="0.9")], "FROM @n1@ q WHERE plate IN ('A', 'B')", "plate")),
    Weakness("quantile", "a group that changes taken for one row", _instead(quantile, "_rows", lambda one, keyed: one.tau),
             _query([Agg("percentile_cont", "range(n, 0, 10)", fraction="0.5")], _GROUPED.format(agg="avg(range(v, 0, 10))"), depth=1)),
    Weakness("argmax", "one score instead of the distance of two", _wrap(argmax, "draft", lambda found, *_: replace(
             found, weights={name: w / 2 for name, w in found.weights.items()})),
             _query("count", "FROM @n1@ q WHERE plate IN ('A', 'B')", "plate", is_argmax=True)),
    Weakness("discrete Laplace", "half the scale", _wrap(laplace, "output", lambda found, *_: _halved(found)),
             _query("count", "FROM @n1@ q")),
]
