"""The groups of a release: trusted cells times declared keys, in the order of the statement's columns."""

from __future__ import annotations

from itertools import product
from math import prod

from privid.errors import NoRule
from privid.model import Evaluate, Key

from .algebra import Release
from .certificate import Cells, Row, step
from .rules import group_cells, group_keys
from .tree import position

__all__ = ["groups"]


def groups(release: Release, row: Row, evaluate: Evaluate) -> Cells:
    """Every group of the answer. Without GROUP BY there is one, without columns."""
    trusted = [g.expr for g in release.group if release.trust.trusted(g.expr)]
    untrusted = [g.expr for g in release.group if not release.trust.trusted(g.expr)]
    found = group_cells.cells(trusted, row, evaluate) if trusted else [()]
    lists = [group_keys.declared(e, release.conditions, release.table) for e in untrusted]
    combinations = prod(len(keys) for keys in lists)
    if len(found) * combinations > group_cells.MAX_KEYS:
        raise NoRule(f"GROUP BY has no rule for more than {group_cells.MAX_KEYS} groups", position=position(release.group[0].expr.loc),
                     detail=f"{len(found)} cells with {combinations} keys each would be released, every one of them.",
                     hint="Declare fewer keys, or group by longer bins.")
    derivation = row.derivation
    if trusted:
        derivation = step(group_cells.RULE, group_cells.says(trusted, found), row.bound, [derivation])
    if untrusted:
        derivation = step(group_keys.RULE, group_keys.says(untrusted, combinations), row.bound, [derivation])
    keys = tuple(_in_order(release, cell, choice) for cell in found for choice in product(*lists))
    return Cells(keys, combinations, derivation)


def _in_order(release: Release, cell: Key, choice: Key) -> Key:
    """One value for each group column, as the statement orders them."""
    cells, choices = iter(cell), iter(choice)
    return tuple(next(cells) if release.trust.trusted(g.expr) else next(choices) for g in release.group)
