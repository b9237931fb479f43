"""Values, conditions, aggregates and bins of typed statements: what stands in the places for expressions, by the types of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from .calculus_grammar import Agg
from .calculus_tape import Tape, production
from .calculus_typed import NUMBERS, Column, Typed
from .statements_calls import Calls

__all__ = ["KEYS", "OF_VALUES", "Level", "Values"]

#: types that rows are grouped and joined by
KEYS = ("text", "anyenum", "boolean", "int8", "int4", "numeric", "float8")
_BINS = ("timestamptz", "text", "numeric", "date", "float8", "boolean", "int4", "timestamp", "time")
#: listed aggregates, by what can be asked of them
_AGGREGATES = {"sum": ("sum",), "average": ("avg",), "extreme": ("min", "max"), "quantile": ("percentile_cont", "percentile_disc"),
               "variance": ("variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp")}
_RELEASED = ("count", "count value", "count value", "count distinct", "sum", "sum", "average", "variance", "quantile", "extreme")
#: those that are of a value, and of the rows that have one
OF_VALUES = ("count value", "count value", "count distinct", "sum", "sum", "average", "variance", "quantile")
_GROUPED = ("count", "count value", "count distinct", "sum", "sum", "average", "variance", "extreme", "extreme", "span")


@dataclass(frozen=True)
class Level:
    """A relation: a table, or a SELECT."""

    sql: str
    cols: tuple[Column, ...]
    forms: frozenset[str] = frozenset()
    #: the operator that makes it, and the first aggregate of its groups
    top: str = "table"
    made: str = ""

    def of(self, *types: str) -> list[Column]:
        return [c for c in self.cols if c.type in types]

    def under(self, alias: str) -> tuple[Column, ...]:
        return tuple(replace(c, text=f"{alias}.{c.text}") for c in self.cols)


class Values:
    """Draws what statements are made of."""

    def __init__(self, rng: Tape, calls: Calls) -> None:
        self.rng, self.calls = rng, calls
        self.typed = Typed(rng, calls)
        self.numbered, self.ctes = 0, list[str]()
        #: the release reads a table itself
        self.plain = True
        #: the operator for which a relation is drawn now, and that of the one of which aggregates are
        self.above, self.below = "release", "table"
        #: the chance of a table whose number of rows is public
        self.padded = 0.3
        #: what the last aggregate is
        self.kind = ""
        self._listed = {kind: [c for c in calls.aggregates if c.name in of] for kind, of in _AGGREGATES.items()}

    @property
    def simple(self) -> bool:
        """Columns stand for themselves, mostly, and conditions are few: what is left is which operators stand over which."""
        return self.typed.simple

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def name(self, stem: str) -> str:
        self.numbered += 1
        return f"{stem}{self.numbered}"

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Expressions that are drawn now stand there."""
        before, self.typed.place = self.typed.place, place
        yield
        self.typed.place = before

    def seldom(self, options: Sequence[str], place: str) -> str:
        """One of them, rather one that accepted statements have seldom had there."""
        found = self.rng.preferring(options, lambda option: 1 / (1 + self.typed.met.accepted[option, place]))
        self.typed.used.append((found, place))
        return found

    def depth(self) -> int:
        return self.rng.choice((0, 0, 0, 1, 1, 2, 3)) if not self.simple else self.rng.choice((0,) * 8 + (1, 1))

    # Values

    @production("value")
    def value(self, kind: str, cols: Sequence[Column], depth: int | None = None) -> str:
        """Of columns, and of what has bounds beside them."""
        depth = self.depth() if depth is None else min(depth, self.depth()) if self.simple else depth
        if kind in NUMBERS and depth and self.chance(0.5):
            cols = self.with_bounds(cols)
        return self.typed.of(kind, cols, depth)

    def with_bounds(self, cols: Sequence[Column], *wanted: str) -> list[Column]:
        """Ranges, and choices among constants: two, in the place of other numbers."""
        counts = [c for c in cols if c.type == "int8"]
        found = [c for c in cols if c.type not in NUMBERS] + counts
        for kind in wanted or [self.rng.choice(("numeric", "int4", "int8", "numeric")) for _ in range(2)]:
            if kind == "numeric" and self.chance(0.7):
                found.append(Column(self.typed.range(self.typed.leaf("float8", cols)), "numeric"))
            elif kind == "int4" and self.chance(0.4):
                found.append(Column(f"({self.typed.condition(cols, 1)})::int4", "int4"))
            else:
                found.append(Column(f"CASE WHEN {self.typed.condition(cols, 1)} THEN {self.typed.end(kind)} "
                                    f"ELSE {self.typed.literal(kind)} END", kind))
        return found

    @production("summand")
    def summand(self, kind: str, cols: Sequence[Column]) -> str:
        """What is added up: something with bounds, as it is or converted, or what is computed of it; most simply a range."""
        declared = [c.text for c in cols if c.declared and c.type in NUMBERS]
        if declared and self.chance(0.6 if self.simple else 0.3):
            return self.rng.choice(declared)
        made = [c for c in cols if c.made and c.type in NUMBERS]  # as an aggregate of groups it may have bounds
        form = self.rng.choice((*(("range",) * (8 if self.simple else 2) if kind == "numeric" else ()), *(("made",) * 2 if made else ()),
                                "bounded", "converted", "converted", "arithmetic", "arithmetic", "expression"))
        if form == "range":
            return self.typed.range(self.value("float8", cols))
        if form == "made":
            column = self.rng.choice(made)
            return column.text if column.type == kind else f"({column.text})::{kind}"
        source = self.rng.choice([t for t in NUMBERS if t != kind]) if form == "converted" else kind
        bounded = self.with_bounds(cols, source, source)
        own = [c.text for c in bounded if c.type == source]
        if form == "converted":
            return f"({self.rng.choice(own)})::{kind}"
        if form == "bounded":
            return self.rng.choice(own)
        if form == "arithmetic":
            other = self.typed.end(kind) if self.chance(0.5) else self.rng.choice(own)
            return f"({self.rng.choice(own)} {self.rng.choice('+-*/')} {other})"
        return self.typed.of(kind, bounded, self.rng.choice((1, 1, 2)))

    @production("condition")
    def condition(self, cols: Sequence[Column], place: str) -> str:
        with self.at(place):
            return self.typed.condition(cols, 1 if self.simple else self.rng.choice((1, 1, 2)))

    def where(self, below: Level, p: float, *more: str) -> str:
        found, p = list(more), p / 3 if self.simple else p
        if self.chance(p):
            found.append(self.condition(below.cols, "where"))
        trusted = [c for c in below.cols if c.trusted]
        if trusted and self.chance(p / 2):
            with self.at("chosen chunks"):
                found.append(self.typed.condition(trusted, self.rng.choice((1, 2, 2)), trusted=True))
        return f" WHERE {' AND '.join(f'({c})' for c in found)}" if found else ""

    @production("aggregate")
    def aggregate(self, cols: Sequence[Column], place: str, kinds: Sequence[str] = ()) -> tuple[Agg, Column]:
        """Any listed aggregate, or one of some kinds, and the column that it makes."""
        kind = self.seldom(kinds or (_RELEASED if place == "release" else _GROUPED), f"{place} over {self.below}")
        if place == "group" and any(c.made and c.trusted and c.type == "timestamptz" for c in cols) and self.chance(0.3):
            kind = self.rng.choice(("extreme", "span"))
        self.kind = kind
        with self.at(f"{place} {kind}"):
            if kind in ("count value", "count distinct"):
                of = self.typed.one_of(cols).type if self.simple else self.rng.choice((*NUMBERS, *self.typed.reachable(cols)))
                value = self.value(of, cols) if self.chance(0.6 if self.simple else 0.4) else self.summand(self.rng.choice(NUMBERS), cols)
                return self._filtered(Agg("count", value, kind == "count distinct"), "int8", cols)
            if kind in ("extreme", "span"):
                found = self._of_time(cols, place, kind)
                if found is not None:
                    return found
                kind = "count" if place == "release" and self.chance(0.95) else "extreme"
            if kind == "count":
                return self._filtered(Agg("count"), "int8", cols)
            return self._of_values(cols, place, kind)

    def _of_time(self, cols: Sequence[Column], place: str, kind: str) -> tuple[Agg, Column] | None:
        """The first and the last of trusted times, or how long it is from one to the other."""
        trusted = [c for c in cols if c.trusted and c.type == "timestamptz"]
        if not trusted or (place == "release" and not self.plain and self.chance(0.95)):
            return None
        if kind == "span":
            time = self.typed.one_of(trusted).text
            return Agg("count"), Column(f"extract(epoch FROM max({time}) - min({time}))", "numeric")
        if self.chance(0.6 if place == "group" else 0.05):
            return None
        with self.at("extreme time"):
            value = self.typed.of("timestamptz", trusted, self.rng.choice((0, 0, 1, 2)), trusted=True)
            return self._filtered(Agg(self.rng.choice(("min", "max")), value), "timestamptz", cols, 0.05)

    def _of_values(self, cols: Sequence[Column], place: str, kind: str) -> tuple[Agg, Column]:
        """Sums and the like, of numbers; extremes of anything."""
        pool = [c for c in self._listed[kind] if not self.simple or c.types[-1] in ("numeric", "anyelement", "float8")]
        call = self.rng.preferring(pool, lambda c: self.typed.met.weight((c.name + c.types[0], place)) * (
            2 if c.types[0] == "numeric" else 1))
        self.typed.used.append((call.name + call.types[0], place))
        if kind == "quantile":
            fraction = self.rng.choice(("0.5", "0.25", "0.1", "0.9", "0", "1"))
            return self._filtered(Agg(call.name, self.summand("numeric", cols), fraction=fraction), "numeric", cols)
        of = self.rng.choice(("numeric", "numeric", "numeric", "int4", "int8", "float8")) if self.simple else call.types[0]
        value = self.summand(of, cols) if of in NUMBERS else self.value(of, cols)
        return self._filtered(Agg(call.name, value), of if kind == "extreme" else call.result, cols)

    def _filtered(self, agg: Agg, type_: str, cols: Sequence[Column], p: float = 0.15) -> tuple[Agg, Column]:
        condition = self.condition(cols, "filter") if self.chance(p / 3 if self.simple else p) else None
        found = replace(agg, filter=condition)
        return found, Column(found.sql(), type_)

    @production("bin")
    def bin(self, cols: Sequence[Column], bare: float = 0.4) -> tuple[str, str] | None:
        """A public function of chunk or region, and its type. `bare`: the chance of such a column itself."""
        trusted = [c for c in cols if c.trusted]
        if not trusted:
            return None
        if self.chance(bare):
            column = self.rng.choice(trusted)
            return column.text, column.type
        if self.chance(0.8 if self.simple else 0.4) and any(c.text.endswith("chunk") for c in trusted):
            chunk = next(c.text for c in trusted if c.text.endswith("chunk"))
            bins = (f"date_trunc('second', {chunk})", f"date_bin('2 seconds', {chunk}, '2026-03-01 06:00+00')",
                    f"CASE WHEN {chunk} {self.rng.choice('<>')} '2026-03-01 06:00:01+00' THEN "
                    f"{self.typed.end('timestamptz')} ELSE {chunk} END")
            return self.rng.choice(bins), "timestamptz"
        kind = self.rng.choice([t for t in _BINS if t in self.typed.reachable(trusted, True)])
        with self.at("bin"):
            return self.typed.of(kind, trusted, self.rng.choice((1, 2, 2)), trusted=True), kind

    @production("column")
    def computed(self, cols: Sequence[Column], place: str) -> tuple[str, str, bool]:
        """An expression, its type, and whether it is trusted."""
        if any(c.trusted for c in cols) and self.chance(0.3):
            found = self.bin(cols, 0.1)
            assert found is not None
            return *found, True
        types = self.typed.reachable(cols)
        kind = self.rng.choice([t for t in (*NUMBERS, *NUMBERS, "text", "boolean", "interval") if t in types] or ["int4"])
        with self.at(place):
            return self.value(kind, cols), kind, False

    _having = made = ""

    def aggregates(self, cols: Sequence[Column], keys: Sequence[Column]) -> list[tuple[str, Column]]:
        """Of groups: aggregates, or what is computed of them; and a condition on them for HAVING."""
        drawn = [self.aggregate(cols, "group")[1]]
        self.made = self.kind
        drawn += [self.aggregate(cols, "group")[1]] if self.chance(0.1 if self.simple else 0.3) else []
        made: list[tuple[str, Column]] = []
        for column in drawn:
            if self.chance(0.15):
                text, kind, _ = self.computed((*drawn, *keys), "of aggregates")
                made.append((text, Column(self.name("n"), kind, made=True)))
            else:
                made.append((column.text, Column(self.name("n"), column.type, made=True)))
        self._having = ""
        if self.chance(0.3):
            more = self.aggregate(cols, "group")[1]
            self._having = f" HAVING {self.condition((more, drawn[0], *keys), 'having')}"
        return made
