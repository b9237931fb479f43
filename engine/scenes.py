"""Masks and regions that owners offer, as PostgreSQL keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, LiteralString, cast

from psycopg import sql

from privid.errors import InvalidValue, OutOfDate
from privid.ledger import Connection, Ledger
from privid.model import Cells, Mask, Polygon, Region, Regions, Table
from privid.quantities import parse_duration

__all__ = ["Scenes"]

#: by the camera's owner of now: what another has promised of a camera of this name is not promised of it
_OFFERED = sql.SQL("SELECT {} FROM {} JOIN privid.promisers USING (camera, owner, server_oid) "
                   "WHERE camera = %s AND name = coalesce(%s, name)")
_CORNER = re.compile(r"\(([^(),]+),([^(),]+)\)")


class Scenes:
    """Looked up each time: what an owner withdraws is gone with the next statement."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def mask(self, camera: str, name: str) -> Mask:
        """A mask of a camera, by name."""
        rho, pieces, visible, shapes, image = self._find("mask", "rho, pieces, visible, shapes::text[], image", camera, name)
        return Mask(name, parse_duration(rho, "rho"), pieces, tuple(map(_polygon, shapes)), None if image is None else bytes(image),
                    _duration(visible, "visible"))

    def regions(self, camera: str, name: str) -> Regions:
        """Regions of a camera, by the name of the set."""
        boundary, straddle, names, shapes, rho, pieces, visible, cells = self._find(
            "region", "boundary, straddle, regions, shapes::text[], rho, pieces, visible, cells", camera, name)
        return Regions(name, boundary, straddle, tuple(Region(part, _polygon(shape)) for part, shape in zip(names, shapes, strict=True)),
                       rho=_duration(rho, "rho"), pieces=pieces, visible=_duration(visible, "visible"),
                       cells=None if cells is None else _cells(cells))

    def confirm(self, connection: Connection, tables: Iterable[Table]) -> None:
        """Refuses what has been withdrawn since it was looked up. Masks and regions are never changed, and a name is not given again."""
        for table in tables:
            for kind, scene in (("mask", table.mask), ("region", table.regions)):
                if scene is not None:
                    row = connection.execute(_OFFERED.format(sql.SQL("withdrawn"), _store(kind)),
                                             (table.camera.name, scene.name)).fetchone()
                    if row is None or row[0]:
                        raise OutOfDate(f'{kind} "{scene.name}" of camera "{table.camera.name}" was withdrawn meanwhile',
                                        hint="Ask again, through what the camera's owner offers now.")

    def _find(self, kind: str, columns: LiteralString, camera: str, name: str) -> tuple[Any, ...]:
        words = f'regions "{name}" of camera "{camera}"' if kind == "region" else f'mask "{name}" of camera "{camera}"'
        with self._ledger.pool.connection() as connection:
            row = connection.execute(_OFFERED.format(sql.SQL("withdrawn, ") + sql.SQL(columns), _store(kind)), (camera, name)).fetchone()
            if row is not None and not row[0]:
                return cast("tuple[Any, ...]", row[1:])
            others = connection.execute(_OFFERED.format(sql.SQL("name"), _store(kind)) + sql.SQL(" AND NOT withdrawn"),
                                        (camera, None)).fetchall()
        if row is not None:
            raise InvalidValue(f"{words} {'were' if kind == 'region' else 'was'} withdrawn", hint=_hint(kind, name, others))
        raise InvalidValue(f"{words} {'do' if kind == 'region' else 'does'} not exist", hint=_hint(kind, name, others))


def _store(kind: str) -> sql.Identifier:
    return sql.Identifier("privid", f"{kind}_store")


def _hint(kind: str, name: str, others: Iterable[tuple[Any, ...]]) -> str:
    near = get_close_matches(name, [str(other) for (other,) in others], 1, 0.5)
    if near:
        return f'Perhaps you meant "{near[0]}".'
    return f"The view privid.{kind}s shows what the camera's owner offers; what is made in a transaction can be used after it."


def _duration(text: str | None, name: str) -> Fraction | None:
    return None if text is None else parse_duration(text, name)


def _cells(kept: dict[str, Any]) -> Cells:
    wide, high = kept["cell"]
    across, down = kept["size"]
    return Cells((int(wide), int(high)), (int(across), int(down)), Fraction(str(kept["speed"])))


def _polygon(text: str) -> Polygon:
    return tuple((float(x), float(y)) for x, y in _CORNER.findall(text[1:-1]))
