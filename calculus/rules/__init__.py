"""One rule, one file, one proof beside it, one fixture in the tests. What has no rule here is refused."""

from __future__ import annotations

from . import (
    apart,
    argmax,
    average,
    base_table,
    choose_chunks,
    clamp,
    column_options,
    count,
    count_distinct,
    count_groups,
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
    project,
    quantile,
    regions,
    share_epsilon,
    sum,
    union_all,
    union_once,
    variance,
)

__all__ = ["AGGREGATES", "RULES"]

#: aggregates of the level that is released, by identity
AGGREGATES = {identity: rule.RULE for rule in (count, sum, average, variance, quantile) for identity in rule.IDENTITIES}

#: every rule by its name in derivations
RULES = {rule.RULE: rule.__name__.rpartition(".")[2] for rule in (
    base_table, column_options, mask, regions, choose_chunks, clamp, count, count_distinct, count_groups, distinct, except_rows, extremes,
    filter_rows, group_bins, group_cells, group_keys, group_rows, having, inner_aggregates, intersect, join, laplace, limit, listing,
    lookup, apart, project, share_epsilon, sum, union_all, union_once, average, variance, quantile, argmax)}
