"""The text of a release without what does not matter: equal text, equal release.

In it: the footage and the executable by content, the policy, the chunks, the columns that the executable fills (it knows them by
name), every expression, and, where a trusted column is used, the settings on which its text forms depend.
Not in it: aliases, positions, object numbers, the statement's own text, epsilon (the ledger adds it).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from privid.model import Table, TableUse

from .algebra import Release
from .certificate import Bound, Cells
from .tree import Aggregate, Col, Expr, walk

__all__ = ["canonical"]

#: changes whenever a rule changes what the same text releases
EDITION = 1
_SETTINGS = ("TimeZone", "DateStyle", "IntervalStyle")


def canonical(release: Release, use: TableUse, cells: Cells, bounds: list[Bound], settings: Mapping[str, Any]) -> str:
    exprs = [*release.conditions, *(g.expr for g in release.group)]
    for agg in release.aggs:
        exprs += [*agg.args, *([agg.filter] if agg.filter is not None else [])]
    trusted = {c.attno for c in release.table.columns if c.trusted}
    moments = any(isinstance(node, Col) and node.col in trusted for e in exprs for node in walk(e))
    body = {
        "edition": EDITION,
        "table": _table(release.table),
        "chunks": use.chunks,
        "where": [_expr(e) for e in release.conditions],
        "group": [_expr(g.expr) for g in release.group],
        "keys": cells.keys,
        "aggs": [_aggregate(a) for a in release.aggs],
        "bounds": [[str(b.sensitivity), str(b.step)] for b in bounds],
        "settings": {name: settings.get(name) for name in _SETTINGS} if moments else None,
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _table(table: Table) -> dict[str, Any]:
    camera, footage, grid = table.camera, table.camera.footage, table.grid
    return {
        "camera": camera.name, "starts": camera.starts.isoformat(), "rho": str(camera.rho), "k": camera.k,
        "fps": str(footage.fps), "size": [footage.width, footage.height],
        "files": [[f.sha256, f.first_frame, f.frames] for f in footage.files],
        "grid": [grid.first, grid.count, grid.size, grid.step],
        "executable": table.executable.sha256, "timeout": str(table.timeout), "max_rows": table.max_rows, "pad": table.pad,
        "columns": [[c.attno, c.name, c.type, c.type_name, c.trusted, repr(c.default), c.labels] for c in table.columns],
    }


def _aggregate(agg: Aggregate) -> list[Any]:
    return [agg.name, agg.star, agg.distinct, agg.type, [_expr(a) for a in agg.args], None if agg.filter is None else _expr(agg.filter)]


def _expr(expr: Expr) -> list[Any]:
    """Kind, the fields that count in comparisons, and the parts."""
    own = [getattr(expr, f.name) for f in fields(expr) if f.compare and f.name != "args"]
    return [type(expr).__name__, own, [_expr(a) for a in expr.args]]
