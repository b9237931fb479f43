"""The text of a release without what does not matter: equal text, equal release.

In it: the executable by content, the footage by its extent, the policy, the chunks, the columns that the executable fills (it knows them by
name), every expression, and, where a trusted column is used, the settings on which its text forms depend.
Not in it: aliases, positions, object numbers, the statement's own text, epsilon (the ledger adds it).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from typing import Any

from privid.model import Table

from .tree import Aggregate, Expr

__all__ = ["canonical", "form_of_aggregate", "form_of_expr", "form_of_table", "form_of_view"]

#: changes whenever a rule changes what the same text releases
EDITION = 2
_SETTINGS = ("TimeZone", "DateStyle", "IntervalStyle")


def canonical(relation: Any, group: Sequence[Expr], aggs: Sequence[Aggregate], answer: Mapping[str, Any], moments: bool,
              settings: Mapping[str, Any]) -> str:
    """`moments`: some trusted column is used."""
    body = {
        "edition": EDITION,
        "relation": relation,
        "group": [form_of_expr(e) for e in group],
        "aggs": [form_of_aggregate(a) for a in aggs],
        "settings": {name: settings.get(name) for name in _SETTINGS} if moments else None,
        **answer,
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def form_of_table(table: Table) -> dict[str, Any]:
    camera, footage, grid = table.camera, table.camera.footage, table.grid
    return {
        "camera": camera.name, "starts": camera.starts.isoformat(), "rho": str(camera.rho), "k": camera.k,
        "fps": str(footage.fps), "size": [footage.width, footage.height],
        # not what the files hold: people see this text, and a digest of the video would tell one video from another
        "files": [[f.first_frame, f.frames] for f in footage.files],
        "grid": [grid.first, grid.count, grid.size, grid.step],
        "executable": table.executable.sha256, "timeout": str(table.timeout), "max_rows": table.max_rows, "pad": table.pad,
        "columns": [[c.attno, c.name, c.type, c.type_name, c.trusted, repr(c.default), c.labels, *c.domain] for c in table.columns],
        **form_of_view(table),
    }


def form_of_view(table: Table) -> dict[str, Any]:
    """What a table shows of the picture, when it is not all. Masks and regions are published, so their content may be seen here."""
    mask, regions, found = table.mask, table.regions, dict[str, Any]()
    if mask is not None:
        found["mask"] = [str(mask.rho), mask.pieces, mask.shapes, None if mask.bitmap is None else sha256(mask.bitmap).hexdigest()]
    if regions is not None:
        found["regions"] = [regions.boundary, regions.straddle, [[part.name, part.shape] for part in regions.parts]]
    return found


def form_of_aggregate(agg: Aggregate) -> list[Any]:
    return [agg.name, agg.star, agg.distinct, agg.type, [form_of_expr(a) for a in agg.args],
            None if agg.filter is None else form_of_expr(agg.filter)]


def form_of_expr(expr: Expr) -> list[Any]:
    """Kind, the fields that count in comparisons, and the parts."""
    own = [getattr(expr, name) for name in _own_fields(type(expr))]
    return [type(expr).__name__, own, [form_of_expr(a) for a in expr.args]]


_OWN: dict[type[Expr], tuple[str, ...]] = {}


def _own_fields(kind: type[Expr]) -> tuple[str, ...]:
    if kind not in _OWN:
        _OWN[kind] = tuple(f.name for f in fields(kind) if f.compare and f.name != "args")
    return _OWN[kind]
