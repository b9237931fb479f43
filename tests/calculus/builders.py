"""Requests as the library writes them, and tables as the engine makes them, in few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from privid import calculus
from privid.model import Camera, Column, Evaluate, Executable, Footage, Grid, Key, Mask, Plan, Region, Regions, Table, VideoFile

Json = dict[str, Any]

STARTS = datetime(2026, 3, 1, 6, tzinfo=UTC)
SETTINGS = {"TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "timezone_abbreviations": "Default"}

COLUMNS = (
    Column("chunk", 1, "timestamptz", "timestamptz", True, None),
    Column("region", 2, "text", "text", True, None),
    Column("speed", 3, "float8", "float8", False, 0.0),
    Column("plate", 4, "text", "text", False, ""),
    Column("red", 5, "boolean", "boolean", False, False),
    Column("kind", 6, "enum", "public.kind", False, "car", ("car", "bike", "bus")),
)
SQUARE = ((0.0, 0.0), (8.0, 0.0), (8.0, 8.0), (0.0, 8.0))
_BY_NAME = {c.name: c for c in COLUMNS}


def table(*, chunks: int = 1440, size: int = 50, step: int | None = None, r: int = 490, k: int = 1, max_rows: int = 3, pad: bool = False,
          fps: int = 10, content: bytes = b"count", name: str = "people", camera: str = "campus", index: int = 0,
          mask_r: int | None = None, pieces: int = 1, regions: Sequence[str] = (), boundary: str = "soft", straddle: int = 2,
          apart: bool = True, visible: int | None = None, region_r: int | None = None, region_pieces: int = 1,
          region_visible: int | None = None, options: Mapping[str, Sequence[Any]] | None = None) -> Table:
    """A table over one camera; r is in frames, as are mask_r, what a mask leaves of it, visible, all of that, and region_r. Options of
    columns: two bounds, or keys."""
    def seconds(frames: int | None) -> Fraction | None:
        return None if frames is None else Fraction(frames, fps)

    step = size if step is None else step
    frames = size + step * max(chunks - 1, 0)
    footage = Footage((VideoFile("street.mp4", "ab" * 32, 0, frames),), Fraction(fps), 64, 48)
    filmed = Camera(camera, "olga", STARTS, Fraction(r, fps), k, Fraction(1), Fraction(1, 10), footage)
    mask = None if mask_r is None else Mask("benches", Fraction(mask_r, fps), pieces, (SQUARE,), visible=seconds(visible))
    parts = tuple(Region(part, tuple((x + 8 * i, y) for x, y in SQUARE)) for i, part in enumerate(regions))
    cut = Regions("crosswalks", boundary, straddle, parts, apart, seconds(region_r), region_pieces, seconds(region_visible))
    return Table(index, name, "ana", filmed, Grid(0, chunks, size, step), _with_options(options or {}),
                 Executable("count", content.hex(), content), Fraction(1), max_rows, pad, mask=mask, regions=cut if parts else None)


def _with_options(options: Mapping[str, Sequence[Any]]) -> tuple[Column, ...]:
    return tuple(c if c.name not in options else replace(c, bounds=(Fraction(options[c.name][0]), Fraction(options[c.name][1])))
                 if c.type == "float8" else replace(c, keys=tuple(options[c.name])) for c in COLUMNS)


def col(name: str, *, loc: int = -1, rel: int = 1) -> Json:
    column = _BY_NAME[name]
    type_ = column.type_name if column.type == "enum" else column.type
    return {"e": "col", "rel": rel, "col": column.attno, "name": name, "type": type_, "loc": loc}


def position(number: int, type_: str, name: str, *, rel: int = 1, loc: int = -1) -> Json:
    """A column of a subquery."""
    return {"e": "col", "rel": rel, "col": number, "name": name, "type": type_, "loc": loc}


def const(value: str | float | None, type_: str = "float8", *, loc: int = -1) -> Json:
    return {"e": "const", "value": None if value is None else str(value), "type": type_, "loc": loc}


def call(fn: str, *args: Json, type_: str = "boolean", loc: int = -1) -> Json:
    return {"e": "call", "fn": fn if "." in fn.split("(")[0] else f"pg_catalog.{fn}", "args": list(args), "type": type_, "loc": loc}


def compare(name: str, op: str, value: str | float, *, loc: int = -1) -> Json:
    """column op constant, for an untrusted column or chunk."""
    type_ = col(name)["type"]
    word = "anyenum" if type_ == "public.kind" else type_
    return call(f"{op}({word},{word})", col(name), const(value, type_), loc=loc)


def in_list(subject: Json, values: Sequence[str | float | None], *, loc: int = -1) -> Json:
    word = "anyenum" if subject["type"] == "public.kind" else subject["type"]
    items = [const(v, subject["type"]) for v in values]
    return {"e": "any", "fn": f"pg_catalog.=({word},{word})", "all": False, "type": "boolean", "loc": loc,
            "args": [subject, {"e": "array", "items": items, "type": "array", "loc": -1}]}


def case(type_: str, *whens: tuple[Json, Json], otherwise: Json | None = None) -> Json:
    """CASE WHEN ... THEN ... ELSE ... END"""
    return {"e": "case", "type": type_, "whens": [list(when) for when in whens], "else": otherwise, "loc": -1}


def both(*args: Json) -> Json:
    return {"e": "and", "args": list(args), "type": "boolean", "loc": -1}


def either(*args: Json) -> Json:
    return {"e": "or", "args": list(args), "type": "boolean", "loc": -1}


def clamp(value: Json, low: float | str | None, high: float | str | None, *, loc: int = -1) -> Json:
    return call("public.range(float8,float8,float8)", value, const(low), const(high), type_="numeric", loc=loc)


def trunc(unit: str = "hour", value: Json | None = None) -> Json:
    return call("date_trunc(text,timestamptz)", const(unit, "text"), value or col("chunk"), type_="timestamptz")


def aggregate(name: str, *args: Json, type_: str = "numeric", star: bool = False, distinct: bool = False, filter: Json | None = None,
              loc: int = -1) -> Json:
    return {"name": f"pg_catalog.{name}", "args": list(args), "star": star, "distinct": distinct, "filter": filter, "type": type_,
            "loc": loc}


def count(value: Json | None = None, **more: Any) -> Json:
    if value is None:
        return aggregate("count()", type_="int8", star=True, **more)
    return aggregate("count(any)", value, type_="int8", **more)


def total(value: Json, **more: Any) -> Json:
    return aggregate("sum(numeric)", value, **more)


def plain(name: str, value: Json, **more: Any) -> Json:
    """An aggregate of a float8."""
    return aggregate(f"{name}(float8)", value, type_="float8", **more)


def group(*exprs: Json) -> list[Json]:
    return [{"expr": e, "name": f"g{i}", "type": e["type"]} for i, e in enumerate(exprs)]


def select(aggs: Sequence[Json] = (), *, by: Sequence[Json] = (), where: Json | None = None, source: Json | None = None,
           targets: Sequence[tuple[str, Json]] = (), **more: Any) -> Json:
    return {"from": [source or {"kind": "table", "rel": 1, "table": 0}], "where": where, "group": group(*by), "aggs": list(aggs),
            "targets": [{"name": n, "expr": e} for n, e in targets], "distinct": False, "limit": None, "offset": None, **more}


def subquery(inner: Json, rel: int = 1) -> Json:
    return {"kind": "subquery", "rel": rel, "alias": "q", "select": inner}


def scan(table: int = 0, rel: int = 1) -> Json:
    return {"kind": "table", "rel": rel, "table": table}


def rows(*columns: Json, **more: Any) -> Json:
    """A subquery's SELECT that only projects."""
    return select(targets=[(str(c.get("name", "v")), c) for c in columns], **more)


def grouped(aggs: Sequence[Json], by: Sequence[Json] = (), having: Json | None = None, targets: Sequence[Json] | None = None,
            **more: Any) -> Json:
    """A subquery's SELECT that groups: its columns are the keys, then the aggregates."""
    every = [*(key(i, e["type"]) for i, e in enumerate(by)), *(agg(i, a["type"]) for i, a in enumerate(aggs))]
    shown = every if targets is None else targets
    return select(aggs, by=by, targets=[(f"c{i}", e) for i, e in enumerate(shown)], having=having, grouped=True, **more)


def setop(kind: str, left: Json, right: Json, *types: str, all: bool = False, **more: Any) -> Json:
    return {"setop": kind, "all": all, "left": left, "right": right, "columns": [{"name": f"c{i}", "type": t} for i, t in enumerate(types)],
            **more}


def union_all(first: Json, *others: Json, types: Sequence[str]) -> Json:
    for other in others:
        first = setop("union", first, other, *types, all=True)
    return first


def join(kind: str, left: Json, right: Json, on: Json | None, loc: int = -1) -> Json:
    return {"kind": "join", "join": kind, "left": left, "right": right, "on": on, "loc": loc}


def equal(a: Json, b: Json) -> Json:
    return call(f"=({a['type']},{b['type']})", a, b)


def values(*keys: str | tuple[str, ...], rel: int = 3, type_: str = "text") -> Json:
    listed = [k if isinstance(k, tuple) else (k,) for k in keys]
    columns = [{"name": f"column{i + 1}", "number": i + 1, "type": type_} for i in range(len(listed[0]))]
    return {"kind": "rows", "rel": rel, "alias": "k", "columns": columns, "rows": [list(row) for row in listed]}


def relation(*columns: str, unique: Sequence[Sequence[int]] = ((1,),), rel: int = 4, count: int = 2) -> Json:
    """An ordinary table with some rows; columns that are not unique have one value."""
    keyed = {number for key in unique for number in key}
    listed = [[f"{name}{row}" if number in keyed else name for number, name in enumerate(columns, 1)] for row in range(count)]
    return {"kind": "rows", "rel": rel, "alias": "plates", "rows": listed,
            "columns": [{"name": n, "number": i, "type": "text"} for i, n in enumerate(columns, 1)]}


class TextRows:
    """Public rows whose types are such that equal values print alike; PostgreSQL's own equality is the business of tests/room."""

    def is_unique(self, columns: Sequence[tuple[str, Sequence[str] | None]], rows: Sequence[Key], places: Sequence[int]) -> bool:
        found = [key for row in rows if None not in (key := tuple(row[place] for place in places))]
        return len(set(found)) == len(found)

    def matching(self, columns: Sequence[tuple[str, Sequence[str] | None]], rows: Sequence[Key], condition: str) -> list[Key]:
        raise AssertionError("no test of the rules has a condition on public rows")


def analyse(asked: Json, tables: Sequence[Table], epsilon: Fraction, evaluate: Evaluate) -> Plan:
    """A request, as the engine judges it."""
    return calculus.analyse(calculus.exact(calculus.parse_select(asked["select"]), tables), asked["settings"], tables, epsilon, evaluate,
                            TextRows())


def shift() -> Json:
    """extract(epoch FROM max(chunk) - min(chunk)) / 3600, with max and min the first aggregates of the level."""
    span = call("-(timestamptz,timestamptz)", agg(0, "timestamptz"), agg(1, "timestamptz"), type_="interval")
    return call("/(numeric,numeric)", call("extract(text,interval)", const("epoch", "text"), span, type_="numeric"), const(3600, "numeric"),
                type_="numeric")


def latest() -> Json:
    return aggregate("max(timestamptz)", col("chunk"), type_="timestamptz")


def earliest() -> Json:
    return aggregate("min(timestamptz)", col("chunk"), type_="timestamptz")


def mean(value: Json, **more: Any) -> Json:
    return aggregate(f"avg({value['type']})", value, type_="numeric", **more)


def percentile(fraction: str | None, value: Json, *, disc: bool = False, type_: str = "float8", **more: Any) -> Json:
    """percentile_cont(fraction) WITHIN GROUP (ORDER BY value); PostgreSQL casts its value to float8."""
    share = call("float8(numeric)", const(fraction, "numeric"), type_="float8")
    if disc:
        return aggregate("percentile_disc(float8,anyelement)", share, value, type_=type_, **more)
    given = value if value["type"] == "float8" else call(f"float8({value['type']})", value, type_="float8")
    return aggregate("percentile_cont(float8,float8)", share, given, type_="float8", **more)


def ranged(value: Json, low: float, high: float) -> Json:
    """range of a number that is not float8."""
    return clamp(call(f"float8({value['type']})", value, type_="float8") if value["type"] != "float8" else value, low, high)


def at_least(value: Json, least: float, op: str = ">=") -> Json:
    return call(f"{op}({value['type']},{value['type']})", value, const(least, value["type"]))


def test(value: Json, negated: bool) -> Json:
    return {"e": "isnotnull" if negated else "isnull", "args": [value], "type": "boolean", "loc": -1}


def agg(index: int, type_: str = "int8") -> Json:
    """An aggregate of a grouped subquery."""
    return {"e": "agg", "index": index, "type": type_, "loc": -1}


def key(index: int, type_: str = "text") -> Json:
    """A group column of a grouped subquery."""
    return {"e": "group", "index": index, "type": type_, "loc": -1}


test.__test__ = False  # type: ignore[attr-defined]


def request(body: Json, settings: dict[str, str] | None = None) -> Json:
    return {"role": "ana", "login": "ana", "database": "privid", "epsilon": "1", "reuse": True, "query": "SELECT ...",
            "settings": settings or SETTINGS, "tables": [], "select": body}
