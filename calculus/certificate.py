"""What a rule knows of a relation, and how it says so.

A certificate holds for any two videos that differ in ONE segment (calculus: Lemma 1); the number of segments enters with the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from privid.model import Key, TableUse

__all__ = ["Bound", "Cells", "Certificate", "Derivation", "Row", "step"]

#: an operator's rule, what it says, the bound it gives, and the operators below it
Derivation: TypeAlias = dict[str, Any]


def step(rule: str, says: str, bound: str, inputs: Sequence[Derivation] = ()) -> Derivation:
    return {"rule": rule, "says": says, "bound": bound, "inputs": list(inputs)}


@dataclass(frozen=True)
class Row:
    """ROW(τ): both versions of the relation are a common core plus at most τ rows each.

    Rows belong to the chunk that produced them and trusted columns are kept, so the same holds cell by cell (calculus 2.1).
    """

    tau: int
    #: by how much the number of rows may change
    n: int
    #: when the number of rows is public: how many of the row slots may change
    sigma: int | None
    #: the chunks from which the rows come
    use: TableUse
    derivation: Derivation = field(compare=False, default_factory=dict)

    @property
    def bound(self) -> str:
        return f"ROW(τ={self.tau}), N={self.n}" + ("" if self.sigma is None else f", dense σ={self.sigma}")


#: every kind of certificate; a KEY certificate joins here with the rules that need it
Certificate: TypeAlias = Row


@dataclass(frozen=True)
class Cells:
    """The groups of a release: fixed by the statement, whatever the video shows."""

    keys: tuple[Key, ...]
    #: how many of them one trusted cell has: 1 without untrusted keys
    untrusted: int
    derivation: Derivation = field(compare=False)


@dataclass(frozen=True)
class Bound:
    """One aggregate over all groups: what one segment may change, in the L1 sense, and the grid of its values."""

    sensitivity: Fraction
    step: Fraction
    #: no value of the answer is larger, in absolute value
    largest: Fraction
    derivation: Derivation = field(compare=False)
