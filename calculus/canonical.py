"""The text of a release without what does not matter: equal text, equal release.

In it: the executable by content, the policy, the chunks that are read, the columns that the executable fills (it knows them by
name), every expression in its normal form (normal.py), and, where a moment is used or made or a LIMIT orders rows by what they print, the
settings on which text forms depend.
Not in it: conditions on trusted columns that chose the chunks, aliases, positions, object numbers, the statement's own text; nor epsilon,
noise and the files that chunks come from, which the engine adds to what it compares (engine/identity.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from privid.model import Grid, Span, Table, TableUse

from .normal import form_of, normal, normal_aggregate, normal_conditions
from .tree import Aggregate, Expr

__all__ = ["canonical", "form_of_aggregate", "form_of_conditions", "form_of_expr", "form_of_scan", "form_of_view",
           "frames_of"]

#: changes whenever a rule changes what the same text releases
EDITION = 3
_SETTINGS = ("TimeZone", "DateStyle", "IntervalStyle", "timezone_abbreviations")
#: types whose text form depends on them, or what is made of them; nothing else does without a value of one of them in between
_SETTINGS_TYPES = {"timestamptz", "timestamp", "date", "time", "timetz", "interval"}


def canonical(relation: Any, group: Sequence[Expr], aggs: Sequence[Aggregate], answer: Mapping[str, Any],
              settings: Mapping[str, Any]) -> str:
    body = {"edition": EDITION, "relation": relation, "group": list(map(form_of_expr, group)), "aggs": list(map(form_of_aggregate, aggs))}
    moments = any(_prints(part) for part in body.values())
    return json.dumps({**body, "settings": {name: settings.get(name) for name in _SETTINGS} if moments else None, **answer},
                      sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _prints(form: Any) -> bool:
    """Does the value of some expression, or of a part of one, depend on the session's settings, or its text? LIMIT puts all columns in
    order by their texts."""
    match form:
        case ["limit", *_]:
            return True
        case [str(), [str() as type_, *_], list()] if type_ in _SETTINGS_TYPES:  # normal.form_of: any expression
            return True
        case list():
            return any(map(_prints, form))
        case _:
            return False


def _form_of_table(table: Table) -> dict[str, Any]:
    camera, footage = table.camera, table.camera.footage
    return {
        "camera": camera.name, "starts": camera.starts.isoformat(), "rho": str(camera.rho), "k": camera.k,
        "fps": str(footage.fps), "size": [footage.width, footage.height],
        # nothing of the files: people see this text, and a digest of the video would tell one video from another
        "chunk": [table.grid.size, table.grid.step],
        "executable": table.executable.sha256, "timeout": str(table.timeout), "max_rows": table.max_rows, "pad": table.pad,
        # whoever declares the column failed later asks the same as before: an expression that names it has its number, which no other has
        "columns": [[c.attno, c.name, c.type, c.type_name, c.trusted, repr(c.default), c.labels, *c.domain]
                    for c in table.columns if not c.tells_failure],
        **form_of_view(table),
    }


def form_of_view(table: Table) -> dict[str, Any]:
    """What a table shows of the picture, when it is not all. Masks and regions are published, so their content may be seen here."""
    mask, regions, found = table.mask, table.regions, dict[str, Any]()
    if mask is not None:
        found["mask"] = [str(mask.rho), mask.pieces, mask.shapes, None if mask.bitmap is None else sha256(mask.bitmap).hexdigest(),
                         *([] if mask.visible is None else [str(mask.visible)])]
    if regions is not None:
        found["regions"] = [regions.boundary, regions.straddle, [[part.name, part.shape] for part in regions.parts],
                            *([] if regions.rho is None else [str(regions.rho), regions.pieces, str(regions.visible)]),
                            *([] if regions.cells is None else [regions.cells.cell, regions.cells.size, str(regions.cells.speed)])]
    return found


def form_of_scan(use: TableUse) -> list[Any]:
    """A table and the runs of it that are read, wherever its window begins and whatever condition chose them: the first frames of each
    stretch of chunks, and how many there are."""
    read = frames_of(use.table.grid, use.by_region)
    return ["scan", _form_of_table(use.table), [read[0]] if all(spans == read[0] for spans in read) else read]


def frames_of(grid: Grid, by_region: Sequence[Sequence[Span]]) -> list[list[list[int]]]:
    """For each region the first frame of each stretch of chunks, and how many they are."""
    return [[[grid.frames(lo)[0], hi - lo] for lo, hi in spans] for spans in by_region]


def form_of_aggregate(agg: Aggregate) -> list[Any]:
    found = normal_aggregate(agg)
    return [found.name, found.star, found.distinct, found.type, [form_of(a) for a in found.args],
            None if found.filter is None else form_of(found.filter)]


def form_of_conditions(conditions: Iterable[Expr]) -> list[Any]:
    """Of conditions that must all hold."""
    return [form_of(condition) for condition in normal_conditions(conditions)]


def form_of_expr(expr: Expr) -> list[Any]:
    return form_of(normal(expr))
