"""Each aggregate of a release to its rule: filter first, then count, sum, average, variance or argmax."""

from __future__ import annotations

from dataclasses import replace

from privid.errors import NoRule
from privid.model import Evaluate

from . import show
from .algebra import Release
from .certificate import Bound, Cells, Certificate, Joined, Keyed, Rows
from .draft import Draft, linear
from .expressions import Scope, conjuncts
from .functions import names
from .rules import (
    AGGREGATES,
    argmax,
    average,
    count,
    count_distinct,
    count_groups,
    extremes,
    filter_rows,
    having,
    listing,
    quantile,
    variance,
)
from .rules import sum as sum_rule
from .tree import Aggregate, Col, position, walk

__all__ = ["draft"]



def draft(agg: Aggregate, release: Release, cells: Cells, evaluate: Evaluate) -> Draft:
    """Of one aggregate."""
    found = _draft(agg, release, cells, evaluate)
    return replace(found, protected=any(one.tau for one in release.relation.changes.values()))


def _draft(agg: Aggregate, release: Release, cells: Cells, evaluate: Evaluate) -> Draft:
    if extremes.applies(agg, release):
        return extremes.draft(agg, release, cells, evaluate)
    if count_groups.applies(agg, release):
        return count_groups.draft(agg, release, cells, evaluate)
    if agg.name not in AGGREGATES:
        name = names(agg.name)[1]
        raise NoRule(f"aggregate {show.signature(agg.name)} has no rule", position=position(agg.loc),
                     detail=f"The rule for {name} in the level that is released is missing: one row may decide it.",
                     hint=_instead(agg, release.scope))
    row, scope = replace(release.relation, derivation=cells.derivation), release.scope
    row = _filtered(agg, row, scope, release)
    if row.join is not None and not agg.distinct:
        raise NoRule("aggregate over joined rows has no rule", position=position(agg.loc if agg.loc >= 0 else row.join.loc),
                     detail="One row can match any number of rows of the other side, so no noise would hide it.",
                     hint=f"Group by the join key in a subquery, for example SELECT sum({show.in_range('n', 0, 10)}) FROM (SELECT "
                          "a.plate, count(*) AS n FROM a JOIN b ON a.plate = b.plate GROUP BY a.plate) q. Where the join picks the largest "
                          "groups, leave it out and write ORDER BY and LIMIT after the release, where they are free.")
    if agg.name in average.IDENTITIES or agg.name in variance.IDENTITIES or agg.name in quantile.IDENTITIES:
        _refuse_argmax(agg, release)
        if agg.name in quantile.IDENTITIES:
            return quantile.draft(agg, row, scope, cells)
        if agg.name in average.IDENTITIES:
            return average.draft(agg, row, scope, cells)
        return variance.draft(agg, row, scope, cells)
    if agg.distinct and agg.name in count.IDENTITIES:
        bound: Bound = count_distinct.bound(agg, row, scope, cells, release.group, evaluate)
        collect = None
    elif agg.name in count.IDENTITIES:
        bound, collect = count.bound(agg, row, scope, cells), None
    else:
        bound, collect = sum_rule.bound(agg, row, scope, cells), sum_rule.summand(agg, row, scope).collect
    if release.argmax is not None:
        if len(release.aggs) != 1:
            raise NoRule("argmax has no rule beside other aggregates", position=position(agg.loc),
                         detail="The winner is all that is released.", hint="Release the other aggregates in a statement of their own.")
        return argmax.draft(agg, bound, collect)
    return linear(agg, bound, collect)


def _instead(agg: Aggregate, scope: Scope) -> str:
    """What can be asked in the place of an aggregate without a rule."""
    bins = [found for found in (show.bins(arg, scope.trusted) for arg in agg.args) if found is not None]
    if bins:
        return f"Count by bins of the value instead: SELECT {bins[0]}, count(*) ... GROUP BY 1; or use it in a subquery that groups."
    if names(agg.name)[1] in ("min", "max"):
        columns = sorted({node.name for arg in agg.args for node in walk(arg) if isinstance(node, Col)})
        return (f"Count instead, for example count(*) or count(DISTINCT {columns[0] if columns else 'value'}), or use it in a subquery "
                "that groups.")
    value = show.in_range("value", "low", "high")
    return f"Use count(*), count(value), sum({value}), avg({value}) or variance({value})."


def _filtered(agg: Aggregate, row: Certificate, scope: Scope, release: Release) -> Certificate:
    conditions = conjuncts(agg.filter)
    listed = row.listing
    if listed is not None:
        width = len(listed.public.columns)
        matched = listing.matched_only([*conditions, *release.conditions], width)
        name = names(agg.name)[1]
        clean = name == "count" or (name == "sum" and bool(agg.args) and scope.facts(agg.args[0]).low == 0)
        if not matched and not clean:
            raise NoRule(f"{show.aggregate(agg)} has no rule for keys without rows", position=position(agg.loc),
                         detail=f'A key of "{listed.public.alias}" without a match has one row of NULLs, which would count as a value.',
                         hint=f"Leave it out: {show.aggregate(agg)} FILTER (WHERE column IS NOT NULL), with a column of the foreign table.")
        row = replace(row, kind=Rows() if listed.key is None else Keyed(listed.key))
    if not conditions:
        return row
    if isinstance(row.kind, Joined):
        return replace(row, kind=replace(row.kind, filtered=True))
    return having.certify(conditions, row, scope) if row.keyed else filter_rows.certify(conditions, row)


def _refuse_argmax(agg: Aggregate, release: Release) -> None:
    if release.argmax is not None:
        raise NoRule(f"argmax of {show.aggregate(agg)} has no rule", position=position(agg.loc),
                     detail="Scores must be counts or sums.", hint=f"Order by count(*) or by sum({show.in_range('value', 'low', 'high')}).")
