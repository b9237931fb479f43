"""One rule, one file, one proof beside it, one fixture in the tests. What has no rule here is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from privid.model import Evaluate

from ..algebra import Choose, Filter, Project, Relation, Scan
from ..certificate import Bound, Certificate
from ..tree import Aggregate
from . import base_table, choose_chunks, clamp, count, filter_rows, group_cells, group_keys, laplace, project, share_epsilon, sum

__all__ = ["AGGREGATES", "RULES", "certify"]

#: an aggregate over a certified relation, for a number of untrusted keys
AggregateRule: TypeAlias = Callable[[Aggregate, Certificate, int], Bound]

AGGREGATES: dict[str, AggregateRule] = {identity: rule.bound for rule in (count, sum) for identity in rule.IDENTITIES}

#: every rule by its name in derivations
RULES = {rule.RULE: rule.__name__.rpartition(".")[2] for rule in (
    base_table, choose_chunks, clamp, count, filter_rows, group_cells, group_keys, laplace, project, share_epsilon, sum)}


def certify(relation: Relation, evaluate: Evaluate) -> Certificate:
    """The certificate of a relation, from the certificates of what is below it."""
    match relation:
        case Scan():
            return base_table.certify(relation)
        case Choose():
            return choose_chunks.certify(relation, certify(relation.input, evaluate), evaluate)
        case Project():
            return project.certify(relation, certify(relation.input, evaluate))
        case Filter():
            return filter_rows.certify(relation.conditions, certify(relation.input, evaluate))
