"""UNION ALL: what changes in the parts adds up; a segment of one camera changes only the parts that read it.

Proof: union_all.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from ..certificate import Certificate, Change, Facts, Interval, Place, Rows, step
from ..tree import Expr
from . import apart

__all__ = ["RULE", "certify"]

RULE = "union all"


def certify(parts: Sequence[Certificate], form: Any) -> Certificate:
    parts = [rebased(part) for part in parts]
    changes: dict[str, Change] = {}
    for name in dict.fromkeys(name for part in parts for name in part.changes):
        own = [(apart.where(part.leaves, name), part.changes[name]) for part in parts if name in part.changes]
        changes[name] = apart.worst(own, lambda some: reduce(_added, some), _greatest)
    columns = {number: _column([part.columns[number] for part in parts]) for number in parts[0].columns}
    cameras = {name: camera for part in parts for name, camera in part.cameras.items()}
    found = Certificate(columns=columns, kind=Rows(), changes=changes, cameras=cameras,
                        leaves=tuple(leaf for part in parts for leaf in part.leaves), rows=sum(part.rows for part in parts),
                        full=all(part.full for part in parts), linear=all(part.linear for part in parts), form=form)
    says = f"{len(parts)} parts, end to end" + (f", of {len(changes)} cameras" if len(changes) > 1 else "")
    says += apart.says([part.leaves for part in parts], list(changes))
    found.derivation.update(step(RULE, says, found.bound, [part.derivation for part in parts]))
    return found


def rebased(part: Certificate) -> Certificate:
    """A KEY relation as rows."""
    if not part.keyed:
        return part
    columns = {number: facts.unmoved() for number, facts in part.columns.items()}
    return replace(part, columns=columns, kind=Rows(), changes=part.each(lambda one: one.rebased(True)))


def _added(a: Change, b: Change) -> Change:
    sigma = None if a.sigma is None or b.sigma is None else a.sigma + b.sigma
    ups: Mapping[int, Interval] = {col: (low + b.ups[col][0], high + b.ups[col][1]) for col, (low, high) in a.ups.items() if col in b.ups}
    return Change(a.tau + b.tau, a.n + b.n, sigma=sigma, ups=ups)


def _greatest(changes: Sequence[Change]) -> Change:
    """Of changes of which one happens: whatever happens is within this."""
    sigmas = [one.sigma for one in changes if one.sigma is not None]
    shared = set.intersection(*(set(one.ups) for one in changes))
    return Change(max(one.tau for one in changes), max(one.n for one in changes),
                  sigma=max(sigmas) if len(sigmas) == len(changes) else None,
                  ups={col: (min(one.ups[col][0] for one in changes), max(one.ups[col][1] for one in changes)) for col in shared})


def _column(facts: Sequence[Facts]) -> Facts:
    """What holds in every part."""
    places = {f.place for f in facts}
    trusted = Place.OUTPUT not in places
    cells: dict[int, Expr] = {leaf: cell for f in facts for leaf, cell in f.cells.items()} if trusted else {}
    lows, highs = [f.low for f in facts if f.low is not None], [f.high for f in facts if f.high is not None]
    bounded = len(lows) == len(highs) == len(facts)
    grids = {f.grid for f in facts}
    return Facts(facts[0].type, Place.OUTPUT if not trusted else Place.LISTED if Place.LISTED in places else Place.CELL,
                 nullable=any(f.nullable for f in facts), low=min(lows) if bounded else None, high=max(highs) if bounded else None,
                 grid=grids.pop() if len(grids) == 1 else None, labels=_labels(facts), cells=cells)


def _labels(facts: Sequence[Facts]) -> tuple[str, ...] | None:
    """Of texts, those of all parts: equal texts print alike. Of another type, those that every part has."""
    each = [f.labels for f in facts if f.labels is not None]
    if len(each) < len(facts) or (facts[0].type != "text" and len(set(each)) > 1):
        return None
    return tuple(dict.fromkeys(label for labels in each for label in labels))
