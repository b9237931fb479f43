"""EXCEPT: what the left side has and the right has not.

Proof: except_rows.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..certificate import Certificate, Change, step
from . import union_all

__all__ = ["RULE", "certify"]

RULE = "except"


def certify(left: Certificate, right: Certificate, form: Any) -> Certificate:
    both = union_all.certify((left, right), form)

    def change(one: Change) -> Change:
        return Change(tau=one.tau, n=one.tau)

    # rows of the result are rows of the left side, so its columns are described by that side
    columns = {number: replace(left.columns[number].unmoved(), place=facts.place, cells=facts.cells)
               for number, facts in both.columns.items()}
    found = replace(both, columns=columns, changes=both.each(change), rows=left.rows, full=False)
    says = "a row more in the result needs a row more on the left or a row less on the right"
    return replace(found, derivation=step(RULE, says, found.bound, [left.derivation, right.derivation]))
