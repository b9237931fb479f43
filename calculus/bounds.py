"""Each aggregate of a release to its rule: filter first, then count, sum, average, variance or argmax."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from privid.errors import NoRule
from privid.model import Evaluate

from . import show
from .algebra import Release
from .certificate import Bound, Cells, Certificate, Joined, Listed
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
    scope, counts_distinct = release.scope, agg.distinct and agg.name in count.IDENTITIES
    row = _counted(agg, release, cells)
    if isinstance(row, Joined) and not counts_distinct:
        raise NoRule("aggregate over joined rows has no rule", position=position(agg.loc if agg.loc >= 0 else row.loc),
                     detail="One row can match any number of rows of the other side, so no noise would hide it.",
                     hint=f"Group by the join key in a subquery, for example SELECT sum({show.in_range('n', 0, 10)}) FROM (SELECT "
                          "a.plate, count(*) AS n FROM a JOIN b ON a.plate = b.plate GROUP BY a.plate) q. Where the join picks the largest "
                          "groups, leave it out and write ORDER BY and LIMIT after the release, where they are free.")
    if isinstance(row, Joined) or counts_distinct:
        bound: Bound = count_distinct.bound(agg, row, scope, cells, release.group, evaluate)
        return _released(agg, release, bound, None)
    if agg.name in average.IDENTITIES or agg.name in variance.IDENTITIES or agg.name in quantile.IDENTITIES:
        _refuse_argmax(agg, release)
        if agg.name in quantile.IDENTITIES:
            return quantile.draft(agg, row, scope, cells)
        if agg.name in average.IDENTITIES:
            return average.draft(agg, row, scope, cells)
        return variance.draft(agg, row, scope, cells)
    if agg.name in count.IDENTITIES:
        return _released(agg, release, count.bound(agg, row, scope, cells), None)
    return _released(agg, release, sum_rule.bound(agg, row, scope, cells), sum_rule.summand(agg, row, scope).collect)


def _released(agg: Aggregate, release: Release, bound: Bound, collect: tuple[str, str] | None) -> Draft:
    """A count or a sum: with noise of its own, or as the score of an argmax."""
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


def _counted(agg: Aggregate, release: Release, cells: Cells) -> Certificate | Joined:
    """The rows that the aggregate is of: those that its filter leaves, and under listed keys those that have a match."""
    row, scope, conditions = release.relation, release.scope, conjuncts(agg.filter)
    match row:
        case Joined():
            return replace(row, filtered=row.filtered or bool(conditions), derivation=cells.derivation)
        case Listed():
            _check_nulls(agg, row, release, cells)
            row = row.matched
        case Certificate():
            pass
        case _:
            assert_never(row)
    row = replace(row, derivation=cells.derivation)
    if not conditions:
        return row
    return having.certify(conditions, row, scope) if row.keyed else filter_rows.certify(conditions, row)


def _check_nulls(agg: Aggregate, listed: Listed, release: Release, cells: Cells) -> None:
    """A key without a match has one row of NULLs, which is there until the first match comes. Of a trusted cell it is in none that is
    released, unless one of these is NULL: then it would go from there to another."""
    nowhere = not any(key[place] is None for key in cells.keys for place in cells.trusted)
    if listing.passes_over_nulls(agg, listed, release.conditions) or (nowhere and listing.counts_rows(agg, listed)):
        return
    leave = f"{show.aggregate(agg)} FILTER (WHERE column IS NOT NULL)" if agg.filter is None else "add AND column IS NOT NULL to its FILTER"
    raise NoRule(f"{show.aggregate(agg)} has no rule for keys without rows", position=position(agg.loc),
                 detail=f'A key of "{listed.public.alias}" without a match has one row of NULLs, which would count as a value.',
                 hint=f"Leave it out: {leave}, with a column of the foreign table.")


def _refuse_argmax(agg: Aggregate, release: Release) -> None:
    if release.argmax is not None:
        raise NoRule(f"argmax of {show.aggregate(agg)} has no rule", position=position(agg.loc),
                     detail="Scores must be counts or sums.", hint=f"Order by count(*) or by sum({show.in_range('value', 'low', 'high')}).")
