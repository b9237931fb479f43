"""Where trusted expressions change along the chunks, found by looking at few of them.

Proof: solve.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from privid.errors import InvalidValue, NoRule
from privid.model import Key, SetWise, Span, Table

from .deparse import deparse_all
from .functions import names
from .tree import AnyOf, Call, Col, Const, DistinctFrom, Expr, walk
from .weight import Keys

__all__ = ["FEW", "MOST", "Witnesses", "solve", "witnesses"]

#: so few chunks are evaluated one by one in one go
FEW = 4_000
#: more runs than this are not looked for one by one
MOST = 50_000
#: chunks that are looked at together, as long as there are so many
_AT_ONCE = 3_000
#: values that are kept while runs are looked for
_VALUES = 1_000_000
#: items of a list that are compared one by one
_ITEMS = 100

_ORDERS = ("<", "<=", ">", ">=")
_MOMENTS = ("date", "timestamp", "timestamptz")
#: on which part of the local time a unit, a field, or a function of ours depends: never on a finer one
_DAYS = ("day", "days", "week", "weeks", "month", "months", "quarter", "year", "years", "decade", "century", "millennium")
_UNITS = {**dict.fromkeys(_DAYS, "day"), "hour": "hour", "hours": "hour", "minute": "minute", "minutes": "minute"}
_FIELDS = {**_UNITS, **dict.fromkeys(("dow", "isodow", "doy", "isoyear"), "day")}
_OWN = {"minute": "minute", "hour": "hour", "day": "day", "week": "day", "month": "day", "year": "day"}


@dataclass
class Witnesses:
    """Expressions of chunk that never come back to a value they have left, while the local time of the zones runs on without a jump, and
    which together decide the values asked for. None of the zones is the session's."""

    expressions: dict[Expr, None] = field(default_factory=dict)
    zones: set[str | None] = field(default_factory=set)

    def collect(self, expr: Expr) -> bool:
        """Whether it is decided by what has been collected."""
        if not any(_is_chunk(node) for node in walk(expr)):
            return True  # the same for all chunks of a region
        if self._compared(expr) or self._local(expr) or self._bin(expr):
            return True
        return bool(expr.args) and all(map(self.collect, expr.args))

    def _compared(self, expr: Expr) -> bool:
        """The moment itself beside constants: on one side of each, then on the other."""
        if not isinstance(expr, Call | AnyOf | DistinctFrom):
            return False
        _, op, types = names(expr.fn)
        if len(types) != 2 or not set(types) <= set(_MOMENTS) or op not in (*_ORDERS, "=", "<>"):
            return False
        pairs = [(expr.args[0], item) for item in (expr.args[1:] if isinstance(expr, AnyOf) else expr.args[1:2])]
        sides = [set(map(_is_chunk, pair)) == {True, False} and any(isinstance(side, Const) for side in pair) for pair in pairs]
        if not pairs or not all(sides) or len(pairs) > _ITEMS:
            return False
        for pair in pairs:
            for order in ((op,) if op in _ORDERS else ("<", "<=")):
                self.expressions.setdefault(Call(type="boolean", fn=f"pg_catalog.{order}({','.join(types)})", args=pair))
        return True

    def _local(self, expr: Expr) -> bool:
        """A part of the local time, the rest cut off."""
        if not isinstance(expr, Call):
            return False
        schema, name, types = names(expr.fn)
        part, moment, zone = None, None, None
        match name, types:
            case "date_trunc", ("text", "timestamptz" | "timestamp"):
                part, moment = _word(expr.args[0], _UNITS), expr.args[1]
            case "date_trunc", ("text", "timestamptz", "text"):
                part, moment, zone = _word(expr.args[0], _UNITS), expr.args[1], expr.args[2]
            case "extract" | "date_part", ("text", "timestamptz" | "timestamp"):
                part, moment = _word(expr.args[0], _FIELDS), expr.args[1]
            case "date", ("timestamptz" | "timestamp",):
                part, moment = "day", expr.args[0]
            case _, ("timestamptz",) if schema in ("privid", "public"):
                part, moment = _OWN.get(name), expr.args[0]
        if part is None or moment is None:
            return False
        if zone is not None:
            if not _is_chunk(moment):
                return False
            moment = Call(type="timestamp", fn="pg_catalog.timezone(text,timestamptz)", args=(zone, moment))
        local = self._local_time(moment)
        if local is None:
            return False
        self.expressions.setdefault(Call(type="timestamp", fn="pg_catalog.date_trunc(text,timestamp)",
                                         args=(Const(type="text", value=part), local)))
        return True

    def _local_time(self, expr: Expr) -> Expr | None:
        """Of the chunk, as a timestamp without a zone."""
        if _is_chunk(expr):
            expr = Call(type="timestamp", fn="pg_catalog.timestamp(timestamptz)", args=(expr,))
        if not isinstance(expr, Call) or not _is_chunk(expr.args[-1]):
            return None
        if expr.fn == "pg_catalog.timestamp(timestamptz)":
            self.zones.add(None)
            return expr
        if expr.fn == "pg_catalog.timezone(text,timestamptz)" and isinstance(expr.args[0], Const) and expr.args[0].value is not None:
            self.zones.add(expr.args[0].value)
            return expr
        return None

    def _bin(self, expr: Expr) -> bool:
        """Bins of one length, counted from a constant."""
        if not isinstance(expr, Call):
            return False
        schema, name, types = names(expr.fn)
        if schema in ("privid", "public") and name == "bin" and types == ("timestamptz", "interval"):
            fits = _is_chunk(expr.args[0]) and isinstance(expr.args[1], Const)
        elif name == "date_bin" and types == ("interval", "timestamptz", "timestamptz"):
            fits = _is_chunk(expr.args[1]) and isinstance(expr.args[0], Const) and isinstance(expr.args[2], Const)
        else:
            return False
        if fits:  # its text is to tell moments apart, whatever the session's settings
            utc = Const(type="text", value="UTC")
            self.expressions.setdefault(Call(type="timestamp", fn="pg_catalog.timezone(text,timestamptz)", args=(utc, expr)))
        return fits


def witnesses(expressions: Sequence[Expr]) -> Witnesses | None:
    """What decides all of these; None if that is not known for some part of them."""
    found = Witnesses()
    return found if all(map(found.collect, expressions)) else None


def solve(expressions: Sequence[Expr], table: Table, spans: Sequence[Span], regions: Sequence[str],
          evaluate: SetWise) -> list[tuple[int, int, list[Key]]] | None:
    """Runs of chunks in which all of these have one value, in the regions asked for; None if there is no way but to look at every chunk."""
    found = witnesses(expressions)
    if found is None or sum(hi - lo for lo, hi in spans) <= FEW:
        return None
    # all that the values depend on: the moments of the chunks, the regions, and the expressions, under the settings of one request
    sql, grid, camera = deparse_all(expressions), table.grid, table.camera
    asked = (tuple(sql), camera.starts, camera.footage.fps, grid.first, grid.step, tuple(spans), tuple(regions))
    if asked not in evaluate.solved:
        evaluate.solved[asked] = _solved(found, sql, table, spans, regions, evaluate)
    known: list[tuple[int, int, list[Key]]] | None = evaluate.solved[asked]
    return known


def _solved(found: Witnesses, sql: Sequence[str], table: Table, spans: Sequence[Span], regions: Sequence[str],
            evaluate: SetWise) -> list[tuple[int, int, list[Key]]] | None:
    pieces = list(spans)
    try:
        with evaluate.together():
            steady = evaluate.steady(table, pieces, found.zones) if found.zones else pieces
            runs = None if steady is None else _changes(deparse_all(list(found.expressions)), table, steady, evaluate)
            if runs is None:
                return None
            ends = [end for lo, hi in runs for end in (lo, hi - 1)]
            known = Keys(most=None)
            values = [[known.one(key) for key in evaluate.at(sql, table, ends, region)] for region in regions]
    except InvalidValue:
        return None  # a part that is not always evaluated can raise: whether it does, each chunk tells
    except NoRule:
        return None  # too much to be kept: who asks may not want to keep it
    if not all(map(_same_at_both_ends, values)):
        return None  # what the proof excludes
    joined: list[tuple[int, int, list[Key]]] = []
    for n, (lo, hi) in enumerate(runs):
        keys = [found[2 * n] for found in values]
        if joined and joined[-1][1] == lo and joined[-1][2] == keys:
            lo = joined.pop()[0]
        joined.append((lo, hi, keys))
    return joined


def _changes(sql: Sequence[str], table: Table, pieces: Sequence[Span], evaluate: SetWise) -> list[Span] | None:
    """The pieces, divided wherever some of the values change. Where both ends are alike, so is all that lies between."""
    if len(pieces) > MOST:
        return None
    doubtful = [(lo, hi - 1) for lo, hi in pieces]
    ends = sorted({end for pair in doubtful for end in pair})
    if len(ends) * len(sql) > _VALUES:
        return None
    known = dict(zip(ends, evaluate.at(sql, table, ends), strict=True))
    begins: list[int] = [lo for lo, _ in pieces]
    while doubtful := [(a, b) for a, b in doubtful if known[a] != known[b]]:
        begins += (b for a, b in doubtful if b == a + 1)
        doubtful = [(a, b) for a, b in doubtful if b > a + 1]
        if len(begins) + len(doubtful) > MOST:
            return None
        parts = max(2, _AT_ONCE // max(1, len(doubtful)))  # two, when they are many; more, to ask less often
        doubtful = [part for a, b in doubtful for part in pairwise(sorted({a + (b - a) * n // parts for n in range(parts + 1)}))]
        between = sorted({end for pair in doubtful for end in pair if end not in known})
        if (len(known) + len(between)) * len(sql) > _VALUES:
            return None
        known.update(zip(between, evaluate.at(sql, table, between), strict=True))
    return list(_spans(sorted(begins), pieces))


def _same_at_both_ends(values: Sequence[Key]) -> bool:
    return values[0::2] == values[1::2]


def _spans(begins: Sequence[int], pieces: Sequence[Span]) -> Iterator[Span]:
    following = iter([*begins[1:], pieces[-1][1]] if pieces else [])
    at = 0
    for begin, then in zip(begins, following, strict=True):
        while pieces[at][1] <= begin:
            at += 1
        yield begin, min(then, pieces[at][1])


def _is_chunk(expr: Expr) -> bool:
    return isinstance(expr, Col) and expr.name == "chunk" and expr.type == "timestamptz"


def _word(expr: Expr, known: dict[str, str]) -> str | None:
    return known.get(expr.value.lower()) if isinstance(expr, Const) and expr.value is not None else None
