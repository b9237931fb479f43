"""Projection: columns computed from a row and nothing else change no bound, unless the key is dropped.

Proof: project.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..certificate import AnyRelation, Certificate, Change, Facts, Keyed, Rows, step
from ..expressions import Scope
from ..tree import Col, Expr
from .clamp import ups_of

__all__ = ["RULE", "certify", "named"]

RULE = "project"


def named(columns: Sequence[str], below: AnyRelation) -> AnyRelation:
    """For people: columns were computed on the way."""
    says = f"{', '.join(columns)}: computed row by row, without errors"
    return replace(below, derivation=step(RULE, says, below.bound, [below.derivation]))


def certify(columns: Sequence[Expr], below: Certificate, scope: Scope, form: Any) -> Certificate:
    """Columns 1, 2, … of a new relation."""
    places = {expr.col: number for number, expr in enumerate(columns, 1) if isinstance(expr, Col)}
    keeps = below.key is not None and below.key <= places.keys()
    facts: dict[int, Facts] = {number: scope.facts(expr) for number, expr in enumerate(columns, 1)}

    def change(name: str, one: Change) -> Change:
        ups = {number: up for number, expr in enumerate(columns, 1) if (up := ups_of(expr, below, scope, name)) is not None}
        return replace(one if keeps or not below.keyed else one.rebased(True), ups=ups)

    changes = {name: change(name, one) for name, one in below.changes.items()}
    key = frozenset(places[col] for col in below.key) if below.key is not None and keeps else None
    if key is None and below.keyed:
        facts = {number: fact.unmoved() for number, fact in facts.items()}
    found = replace(below, columns=facts, kind=Rows() if key is None else Keyed(key), changes=changes, form=form)
    if not below.keyed or keeps:
        return found
    return replace(found, derivation=step(RULE, "the key is dropped: each changed key is a row less and a row more", found.bound,
                                          [below.derivation]))
