"""Theorems 1 to 3 of the calculus: by how much a sum over rows may change, for one number or for one number for each key.

Each row adds a vector φ(row) to the answer. Two facts about φ are enough for rows:
- single: the most that one row adds, in absolute value;
- pair: the most by which what one row adds differs from what another adds, in the same place of the answer.
For keys it is the interval of what one key can change from the core to a version.
"""

from __future__ import annotations

from fractions import Fraction

__all__ = ["dense_bound", "key_bound", "row_bound"]


def row_bound(tau: int, single: Fraction, pair: Fraction, keys: int) -> Fraction:
    """L1 bound under ROW(τ), for a number for each of `keys` untrusted keys (1: no such keys).

    τ times the diameter of {0} ∪ φ(rows). Rows under two different keys are up to 2·single apart.
    """
    alone = max(single, pair)
    return tau * (alone if keys == 1 else min(keys * alone, max(alone, 2 * single)))


def dense_bound(sigma: int, single: Fraction, pair: Fraction, keys: int) -> Fraction:
    """L1 bound when σ row slots change and none appears or vanishes: σ times the diameter of φ(rows)."""
    return sigma * (pair if keys == 1 else max(pair, 2 * single))


def key_bound(tau: int, least: Fraction, most: Fraction, keys: int) -> Fraction:
    """L1 bound under KEY(τ) when a key stays in its place: τ times the diameter of the increments, which lie in [least, most] ∋ 0."""
    alone = most - least
    return tau * (alone if keys == 1 else min(keys * alone, max(alone, 2 * max(-least, most))))
