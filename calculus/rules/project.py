"""Projection: columns computed from a row and nothing else change no bound.

Proof: project.md.
"""

from __future__ import annotations

from dataclasses import replace

from ..algebra import Project
from ..certificate import Row, step

__all__ = ["RULE", "certify"]

RULE = "project"


def certify(node: Project, below: Row) -> Row:
    says = f"{', '.join(node.columns)}: computed row by row, without errors"
    return replace(below, derivation=step(RULE, says, below.bound, [below.derivation]))
