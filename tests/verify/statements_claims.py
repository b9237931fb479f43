"""What a release claims, and whether the values of both sides can be explained by it.

One event may change a value by what is claimed; the rest of a difference must be noise. What is
claimed is read from EXPLAIN, and compared for counts and sums only, whose bounds need no fact about
arithmetic.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from .statements_seen import Values

__all__ = ["Claim", "claim_of", "too_far"]

#: noise is less than so many of its scales, but once in a search of this size and far beyond
_SCALES = 25


@dataclass(frozen=True)
class Claim:
    """Of each aggregate."""

    sensitivity: tuple[float, ...]
    scale: tuple[float, ...]


def claim_of(explained: Values) -> Claim | None:
    """Of a statement that is one release, with noise or without."""
    try:
        found = list(_plans(json.loads(explained[1][0][0] or "")))
    except (ValueError, IndexError):
        return None
    if len(found) != 1:
        return None
    sensitivity, scale = (_numbers(found[0].get(name)) for name in ("Sensitivity", "Noise Scale"))
    return None if sensitivity is None or scale is None else Claim(sensitivity, scale)


def _plans(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [plan for item in node for plan in _plans(item)]
    if not isinstance(node, dict):
        return []
    own = [node["Privid"]] if isinstance(node.get("Privid"), dict) else []
    return own + [plan for value in node.values() for plan in _plans(value)]


def _numbers(value: Any) -> tuple[float, ...] | None:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(item, int | float) for item in values):
        return None
    return tuple(float(item) for item in values)


def too_far(claim: Claim, one: Values, other: Values, keys: int) -> str | None:
    """A value that differs by more than the claim and its noise explain.

    Keys stand in the same order; where they do not, that was found before.
    """
    for left, right in zip(one[1], other[1], strict=False):
        for i, (sensitivity, scale) in enumerate(zip(claim.sensitivity, claim.scale, strict=True)):
            a, b = left[keys + i], right[keys + i]
            change = _difference(a, b)
            most = sensitivity + 2 * _SCALES * scale
            if change is not None and change > most * 1.001 + 1e-6:
                return (f"{one[0][keys + i]} is {a} and {b}; claimed is {sensitivity:g}, "
                        f"the noise has scale {scale:g}")
    return None


def _difference(one: str | None, other: str | None) -> float | None:
    try:
        return abs(float(Decimal(one or "x") - Decimal(other or "x")))
    except (InvalidOperation, OverflowError):
        return None
