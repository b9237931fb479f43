"""Typed statements for the search that discovers: every operator below a release, every place for an expression, by the types of columns.

A table is written @name@, as in calculus_relations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import sqrt

from .calculus_grammar import Agg, Query
from .calculus_shapes import Shapes
from .calculus_tape import Tape, production
from .calculus_typed import NUMBERS, TEXTS, Column, Typed
from .calculus_world import KIND, PLATES, TABLES
from .statements_calls import Calls
from .statements_literals import LITERALS
from .statements_world import TYPE

__all__ = ["Level", "Levels"]

_BASE = (Column("chunk", "timestamptz", True), Column("plate", "text"), Column("v", "float8"), Column("w", "float8"),
         Column("red", "boolean"), Column("size", "anyenum"))
_BOUNDED = tuple(Column(c.text, c.type, c.trusted, c.text in ("plate", "v")) for c in _BASE)
_KEYS = ("text", "anyenum", "boolean", "int8", "int4", "numeric", "float8")
_BINS = ("timestamptz", "text", "numeric", "date", "float8", "boolean", "int4", "timestamp", "time")
_SUMS = ("sum", "avg", "variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp")
_OPERATORS = ("project", "project", *("group",) * 4, "one group", "distinct", "limit", "union", "join", "join", "look up", "listed",
              "scans")
#: values that are equal, and written differently
_ALIKE = {"float8": ("'0'", "'-0'", "'0.0'"), "numeric": ("'1'", "'1.0'", "'1.00'"), "text": ("'A'", "'A'", "'B'"),
          "interval": ("'1 second'", "'1000 ms'", "'1 day -23:59:59'"), "int4": ("1", "'01'", "2")}


@dataclass(frozen=True)
class Level:
    """A relation: a table, or a SELECT."""

    sql: str
    cols: tuple[Column, ...]
    forms: frozenset[str] = frozenset()
    #: the operator that makes it
    top: str = "table"

    def of(self, *types: str) -> list[Column]:
        return [c for c in self.cols if c.type in types]

    def under(self, alias: str) -> tuple[Column, ...]:
        return tuple(Column(f"{alias}.{c.text}", c.type, c.trusted, c.declared) for c in self.cols)


class Levels:
    """Draws whole statements."""

    def __init__(self, rng: Tape, calls: Calls) -> None:
        self.rng, self.calls = rng, calls
        self.typed, self.shapes = Typed(rng, calls), Shapes(rng)
        self.numbered, self.ctes = 0, list[str]()
        #: the release reads a table itself
        self.plain = True
        #: columns stand for themselves, mostly, and conditions are few: what is left is which operators stand over which
        self.simple = False
        #: the operator for which a relation is drawn now, and that of the one of which aggregates are
        self.above, self.below = "release", "table"
        self._extremes = [c for c in calls.aggregates if c.name in ("min", "max")]
        self._quantiles = [c for c in calls.aggregates if c.name.startswith("percentile_")]
        self._sums = [c for c in calls.aggregates if c.name in _SUMS]

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
        found = self.rng.preferring(options, lambda option: 1 / sqrt(1 + self.typed.met.accepted[option, place]))
        self.typed.used.append((found, place))
        return found

    def depth(self) -> int:
        return self.rng.choice((0, 0, 0, 1, 1, 2, 3)) if not self.simple else self.rng.choice((0,) * 9 + (1,))

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
            else:
                found.append(Column(f"CASE WHEN {self.typed.condition(cols, 1)} THEN {self.typed.literal(kind)} "
                                    f"ELSE {self.typed.literal(kind)} END", kind))
        return found

    def summand(self, kind: str, cols: Sequence[Column]) -> str:
        """What is added up: with a range, mostly, where its type is that of a range; or made of bounded values."""
        declared = [c.text for c in cols if c.declared and c.type == kind]
        if declared and self.chance(0.6):
            return self.rng.choice(declared)
        if kind == "numeric" and self.chance(0.85):
            return self.typed.range(self.value("float8", cols))
        pick = self.rng.random()
        if pick < 0.5:
            return self.rng.choice([c.text for c in self.with_bounds(cols, kind) if c.type == kind])
        return self.typed.of(kind, self.with_bounds(cols), self.rng.choice((1, 1, 2))) if pick < 0.9 else self.value(kind, cols)

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
    def aggregate(self, cols: Sequence[Column], place: str) -> tuple[Agg, Column]:
        """Any listed aggregate, and the column that it makes."""
        kind = self.seldom((*("count",) * 2, *("count value",) * 3, *("sum",) * 3, *("other sum",) * 2, "extreme"),
                           f"{place} over {self.below}")
        with self.at(f"{place} {kind}"):
            if kind == "count":
                return self._filtered(Agg("count"), "int8", cols)
            if kind == "count value":
                of = self.rng.choice((*NUMBERS, *self.typed.reachable(cols)))
                return self._filtered(Agg("count", self.value(of, cols), self.chance(0.25)), "int8", cols)
            if kind == "extreme":
                trusted = [c for c in cols if c.trusted and c.type == "timestamptz"]
                if place == "release" and not (trusted and self.plain) and self.chance(0.95):
                    return self._filtered(Agg("count"), "int8", cols)
                if trusted and self.chance(0.4 if place == "group" else 0.95):
                    with self.at("extreme time"):
                        return self._filtered(Agg(self.rng.choice(("min", "max")), self.typed.of("timestamptz", trusted, self.rng.choice(
                            (0, 0, 1, 2)), trusted=True)), "timestamptz", cols, 0.05)
                call = self.rng.preferring(self._extremes, lambda c: self.typed.met.weight((c.name + c.types[0], place)))
                self.typed.used.append((call.name + call.types[0], place))
                value = self.summand(call.types[0], cols) if call.types[0] in NUMBERS else self.value(call.types[0], cols)
                return self._filtered(Agg(call.name, value), call.types[0], cols)
            pool = [c for c in self._sums if (c.name == "sum") == (kind == "sum")]
            if kind == "other sum" and place == "release":
                pool += self._quantiles
            call = self.rng.preferring(pool, lambda c: self.typed.met.weight((c.name + c.types[0], place)) * (
                4 if c.types[0] == "numeric" or c in self._quantiles else 1))
            self.typed.used.append((call.name + call.types[0], place))
            if call in self._quantiles:
                fraction = self.rng.choice(("0.5", "0.5", "0.25", "0.9", "0", "1"))
                return self._filtered(Agg(call.name, self.summand("numeric", cols), fraction=fraction), "numeric", cols)
            return self._filtered(Agg(call.name, self.summand(call.types[0], cols)), call.result, cols)

    def _filtered(self, agg: Agg, type_: str, cols: Sequence[Column], p: float = 0.15) -> tuple[Agg, Column]:
        condition = self.condition(cols, "filter") if self.chance(p / 3 if self.simple else p) else None
        found = replace(agg, filter=condition)
        return found, Column(found.sql(), type_)

    @production("bin")
    def bin(self, cols: Sequence[Column]) -> tuple[str, str] | None:
        """A public function of chunk or region, and its type."""
        trusted = [c for c in cols if c.trusted]
        if not trusted:
            return None
        if self.chance(0.4):
            column = self.rng.choice(trusted)
            return column.text, column.type
        if self.chance(0.4) and any(c.text.endswith("chunk") for c in trusted):
            chunk = next(c.text for c in trusted if c.text.endswith("chunk"))
            bins = (f"date_trunc('second', {chunk})", f"date_bin('2 seconds', {chunk}, '2026-03-01 06:00+00')")
            return self.rng.choice(bins), "timestamptz"
        kind = self.rng.choice([t for t in _BINS if t in self.typed.reachable(trusted, True)])
        with self.at("bin"):
            return self.typed.of(kind, trusted, self.rng.choice((1, 2, 2)), trusted=True), kind

    # Relations

    def table(self) -> Level:
        site = TABLES[self.rng.choice(sorted(TABLES))]
        forms = {f"stride {'+' if site.step > site.size else '-' if site.step < site.size else '0'}",
                 *(form for form, there in (("pad", site.pad), ("mask", site.mask), ("regions", site.regions),
                                                    ("column options", site.bounded)) if there)}
        base = _BOUNDED if site.bounded else _BASE
        return Level(f"@{site.name}@", (Column("region", "text", True), *base) if site.regions else base, frozenset(forms))

    @production("relation")
    def relation(self, depth: int) -> Level:
        if depth <= 0:
            return self.table()
        build: dict[str, Callable[[int], Level]] = {
            "project": self.projected, "group": self.grouped, "one group": self.one_group, "distinct": self.distinct,
            "limit": self.limited, "union": self.combined, "join": self.joined, "look up": self.looked_up, "listed": self.listed,
            "scans": self.scans}
        name, above = self.seldom(_OPERATORS, f"under {self.above}"), self.above
        self.above = name
        found = build[name](depth)
        self.above = above
        return replace(found, top=name)

    def source(self, rel: Level, alias: str) -> str:
        if rel.sql.startswith("@"):
            return f"{rel.sql} AS {alias}"
        if self.chance(0.05):
            name = self.name("c")
            self.ctes.append(f"{name} AS ({rel.sql})")
            return f"{name} AS {alias}"
        return f"({rel.sql}) AS {alias}"

    def some(self, cols: Sequence[Column], p: float = 0.7) -> list[Column]:
        return [c for c in cols if self.chance(p)] or [self.rng.choice(cols)]

    @production("column")
    def computed(self, cols: Sequence[Column], place: str) -> tuple[str, str, bool]:
        """An expression, its type, and whether it is trusted."""
        if any(c.trusted for c in cols) and self.chance(0.2):
            found = self.bin(cols)
            assert found is not None
            return *found, True
        types = self.typed.reachable(cols)
        kind = self.rng.choice([t for t in (*NUMBERS, *NUMBERS, "text", "boolean", "interval") if t in types] or ["int4"])
        with self.at(place):
            return self.value(kind, cols), kind, False

    def projected(self, depth: int) -> Level:
        """SELECT expressions FROM … WHERE."""
        below = self.relation(depth - 1)
        shown = [(c.text, c) for c in self.some(below.cols, 0.85)]
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            text, kind, trusted = self.computed(below.cols, "projection")
            shown.append((text, Column(self.name("x"), kind, trusted)))
        columns = ", ".join(text if text == c.text else f"{text} AS {c.text}" for text, c in shown)
        return Level(f"SELECT {columns} FROM {self.source(below, 'q')}{self.where(below, 0.3)}", tuple(c for _, c in shown),
                     below.forms | {"project"})

    def grouped(self, depth: int) -> Level:
        """GROUP BY columns, expressions and bins, with aggregates, what is computed of them, and HAVING."""
        below = self.relation(depth - 1)
        keys: dict[str, Column] = {}
        plain = [c for c in below.cols if c.type in _KEYS and not c.trusted]
        if plain and self.chance(0.85):
            chosen = self.rng.choice(below.of("text") if below.of("text") and self.chance(0.5) else plain)
            keys[chosen.text] = chosen
        if not keys or self.chance(0.25):
            found = self.bin(below.cols)
            if found:
                keys[found[0]] = Column(self.name("b"), found[1], True)
        if not keys or self.chance(0.15):
            kind = self.rng.choice([t for t in _KEYS if t in self.typed.reachable(below.cols)] or ["int4"])
            with self.at("group key"):
                keys[self.value(kind, below.cols, self.rng.choice((1, 1, 2)))] = Column(self.name("k"), kind)
        return self._over_groups(below, keys, "group")

    def one_group(self, depth: int) -> Level:
        return self._over_groups(self.relation(depth - 1), {}, "one group")

    def _over_groups(self, below: Level, keys: dict[str, Column], form: str) -> Level:
        self.below = below.top
        made = self.aggregates(below.cols, tuple(Column(text, c.type, c.trusted) for text, c in keys.items()))
        where = self.where(below, 0.15)
        columns = ", ".join(f"{text} AS {c.text}" for text, c in (*keys.items(), *made))
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        return Level(f"SELECT {columns} FROM {self.source(below, 'q')}{where}{group}{self._having}",
                     (*keys.values(), *(c for _, c in made)), below.forms | {form})

    _having = ""

    def aggregates(self, cols: Sequence[Column], keys: Sequence[Column]) -> list[tuple[str, Column]]:
        """Of groups: aggregates, or what is computed of them; and a condition on them for HAVING."""
        drawn = [self.aggregate(cols, "group")[1] for _ in range(self.rng.choice((1, 1, 2)))]
        made: list[tuple[str, Column]] = []
        for column in drawn:
            if self.chance(0.15):
                text, kind, _ = self.computed((*drawn, *keys), "of aggregates")
                made.append((text, Column(self.name("n"), kind)))
            else:
                made.append((column.text, Column(self.name("n"), column.type)))
        self._having = ""
        if self.chance(0.3):
            more = self.aggregate(cols, "group")[1]
            self._having = f" HAVING {self.condition((more, drawn[0], *keys), 'having')}"
        return made

    def distinct(self, depth: int) -> Level:
        below = self.relation(depth - 1)
        found = self.bin(below.cols) if self.chance(0.25) else None
        if found:  # as many as there are bins
            name = self.name("b")
            return Level(f"SELECT DISTINCT {found[0]} AS {name} FROM {self.source(below, 'q')}{self.where(below, 0.5)}",
                         (Column(name, found[1], True),), below.forms | {"distinct"})
        kept = self.some(below.cols, 0.5)
        return Level(f"SELECT DISTINCT {', '.join(c.text for c in kept)} FROM {self.source(below, 'q')}{self.where(below, 0.2)}",
                     tuple(kept), below.forms | {"distinct"})

    def limited(self, depth: int) -> Level:
        below = self.relation(depth - 1)
        kept = self.some(below.cols, 0.6)
        order = list(kept)
        self.rng.shuffle(order)
        sort = ", ".join(f"{c.text}{self.rng.choice(('', ' DESC'))}" for c in order)
        offset = f" OFFSET {self.rng.choice((1, 2))}" if self.chance(0.03) else ""
        return Level(f"SELECT {', '.join(c.text for c in kept)} FROM {self.source(below, 'q')}{self.where(below, 0.2)} ORDER BY {sort} "
                     f"LIMIT {self.rng.choice((1, 2, 3, 5, 8))}{offset}", tuple(kept), below.forms | {"limit"})

    def combined(self, depth: int) -> Level:
        """UNION, INTERSECT, EXCEPT, with and without ALL, of relations with columns of the same types; or of numbers of several types,
        which PostgreSQL converts."""
        word = self.seldom(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"), "set operation")
        sides = [self.relation(self.rng.randrange(depth)) for _ in range(2 if word != "UNION ALL" else self.rng.choice((2, 2, 3)))]
        if self.chance(0.25):  # one relation against itself, with other conditions or columns
            sides = [sides[0] for _ in sides]
        shared = [t for t in dict.fromkeys(c.type for c in sides[0].cols) if all(side.of(t) for side in sides)]
        if not shared:
            sides, shared = [self.table() for _ in sides], ["text", "float8"]
        types = [t for t in shared if self.chance(0.35)] or [self.rng.choice(shared)]
        literal, names = self.chance(0.25), [self.name("u") for _ in types]
        selects, trusted, declared, alike = list[str](), [True for _ in types], [False for _ in types], self.chance(0.6)
        picks: dict[str, Column] = {}
        mixed, shown_types = self.chance(0.3), list(types)
        for i, side in enumerate(sides):
            chosen = [picks[t] if alike and picks.get(t) in side.cols else self.rng.choice(side.of(t)) for t in types]
            picks = dict(zip(types, chosen, strict=True))
            declared = [c.declared or known for c, known in zip(chosen, declared, strict=True)]
            trusted = [a and c.trusted for a, c in zip(trusted, chosen, strict=True)]
            if mixed and types[0] in NUMBERS:
                kind = self.rng.choice(NUMBERS)
                chosen[0], trusted[0] = Column(self.value(kind, side.cols), kind, False), False
                shown_types[0] = min(shown_types[0], kind, key=NUMBERS.index)
            shown = [f"{c.text} AS {name}" for c, name in zip(chosen, names, strict=True)]
            shown += [f"'{'abc'[i]}' AS side"] if literal else []
            selects.append(f"SELECT {', '.join(shown)} FROM {self.source(side, 'q')}{self.where(side, 0.2)}")
        cols = tuple(Column(name, t, is_trusted, is_declared)
                     for name, t, is_trusted, is_declared in zip(names, shown_types, trusted, declared, strict=True))
        return Level(f" {word} ".join(selects), (*cols, *((Column("side", "text", True),) if literal and word == "UNION ALL" else ())),
                     frozenset().union(*(s.forms for s in sides)) | {word.lower()})

    def joined(self, depth: int) -> Level:
        """Relations joined on columns of one type, with conditions on both, grouped by what they are joined on."""
        left, right = (self.relation(self.rng.randrange(depth)) for _ in range(2))
        shared = [t for t in dict.fromkeys(c.type for c in left.cols) if t in _KEYS and right.of(t)]
        if not shared:
            left, right, shared = self.table(), self.table(), ["text"]
        kind = self.seldom(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"), "join")
        of = self.rng.choice(["text"] if "text" in shared and self.chance(0.6) else shared)
        a, b = (f"{alias}.{self.rng.choice(side.of(of)).text}" for alias, side in (("a", left), ("b", right)))
        cols = (*left.under("a"), *right.under("b"))
        key, more = {"RIGHT JOIN": b, "FULL JOIN": f"coalesce({a}, {b})"}.get(kind, a), ""
        others = [f"b.{c.text}" for c in right.of(of) if f"b.{c.text}" != b]
        if others and self.chance(0.2):  # equal to two columns of the other side
            more = f" AND {a} = {(other := self.rng.choice(others))}"
            key = f"coalesce({', '.join(self.rng.sample((a, b, other), 2))})" if kind == "FULL JOIN" else key
        on = f"{a} = {b}{more}" + (f" AND {self.condition(cols, 'join')}" if self.chance(0.15) else "")
        self.below = kind
        made = self.aggregates(cols, (Column(key, of),))
        where = f" WHERE {b} IS NULL" if kind == "LEFT JOIN" and self.chance(0.3) else \
            f" WHERE {self.condition(cols, 'where')}" if self.chance(0.25) else ""
        third, where, forms = self._third(a, of, where)
        columns = ", ".join([f"{key} AS {(name := self.name('k'))}", *(f"{text} AS {c.text}" for text, c in made)])
        return Level(f"SELECT {columns} FROM {self.source(left, 'a')} {kind} {self.source(right, 'b')} ON {on}{third}{where} "
                     f"GROUP BY {key}{self._having}", (Column(name, of), *(c for _, c in made)),
                     left.forms | right.forms | {kind.lower()} | forms)

    def _third(self, key: str, of: str, where: str) -> tuple[str, str, set[str]]:
        """A further side, joined on the same key or asked with IN."""
        if not self.chance(0.25):
            return "", where, set()
        side = self.table()
        column = self.rng.choice([c.text for c in side.of(of)] or [""])
        if not column:
            return "", where, set()
        if self.chance(0.5):
            return f" JOIN {self.source(side, 'c')} ON {key} = c.{column}", where, {"three-way join"}
        asked = f"{key} IN (SELECT {column} FROM {self.source(side, 'q')})"
        return "", f"{where} AND {asked}" if where else f" WHERE {asked}", {"semi-join"}

    def scans(self, _: int) -> Level:
        """Several scans of one table with regions, each of one or two of them, end to end."""
        site = TABLES[self.rng.choice([name for name in sorted(TABLES) if TABLES[name].regions])]
        often, parts = self.rng.choice(site.regions), list[str]()
        for _ in range(self.rng.choice((2, 3, 5, 8))):
            chosen = [often] if self.chance(0.6) else self.rng.sample(site.regions, self.rng.choice((1, 1, 2)))
            parts.append(f"SELECT plate, v FROM @{site.name}@ q WHERE region IN ({', '.join(map(repr, chosen))})")
        return Level(" UNION ALL ".join(parts), (Column("plate", "text"), Column("v", "float8")), frozenset({"regions", "scans"}))

    def under_list(self, below: Level) -> tuple[tuple[Column, ...], str]:
        """What is listed, as an item of FROM, and its columns: a relation, two that are joined, or one under another list."""
        kind = self.seldom(("one", "one", "one", "joined", "listed"), "under a list")
        own = below.under("q")
        if kind == "one" or not below.of("text"):
            return own, self.source(below, "q")
        match = f"q.{self.rng.choice(below.of('text')).text}"
        if kind == "listed":
            public, cols = self.public("text", "l")
            return (*own, *cols), f"({public} LEFT JOIN {self.source(below, 'q')} ON {match} = {cols[0].text})"
        other, how = self.table(), self.rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
        return (*own, *other.under("r")), f"({self.source(below, 'q')} {how} {self.source(other, 'r')} ON {match} = r.plate)"

    def public(self, of: str, alias: str) -> tuple[str, list[Column]]:
        """Public rows with a key of a type and a number: a table, or VALUES with keys that may be equal and written differently."""
        if of == "text" and self.chance(0.5):
            name = self.rng.choice(("plates",) * 7 + ("tolls",))
            more = [Column(f"{alias}.owner", "text"), Column(f"{alias}.weight", "float8")] if name == "plates" else \
                [Column(f"{alias}.toll", "float8")]
            return f"{name} AS {alias}", [Column(f"{alias}.plate", "text"), *more]
        pool = [*(repr(p) for p in PLATES), *TEXTS[:12]] if of == "text" else [x.replace(TYPE, KIND) for x in LITERALS[of]]
        chosen = self.rng.sample(pool, min(len(pool), self.rng.choice((1, 2, 3, 4, 6, 8))))
        if of in _ALIKE and self.chance(0.2):
            chosen += self.rng.sample(_ALIKE[of], 2)
        cast = KIND if of == "anyenum" else of
        same = self.chance(0.3)  # groups by it are fewer than keys
        values = ", ".join(f"({x}::{cast}, {1 if same else self.rng.choice((0, 1, 2, 5, i))})" for i, x in enumerate(chosen))
        return f"(VALUES {values}) AS {alias}(plate, weight)", [Column(f"{alias}.plate", of), Column(f"{alias}.weight", "int4")]

    def looked_up(self, depth: int) -> Level:
        """Each row with the public row that a value of it equals, and further conditions."""
        below = self.relation(depth - 1)
        own = below.under("a")
        kind, of = self.rng.choice(("JOIN", "LEFT JOIN")), self.rng.choice((
            *("text",) * 7, *("float8", "numeric") * 2, "int8", "int4", "interval", "timestamptz", "anyenum", "boolean", "date"))
        direct = [c.text for c in own if c.type == of]
        with self.at("look up"):
            matched = self.rng.choice(direct) if direct and self.chance(0.6) else self.value(of, own, self.rng.choice((1, 1, 2)))
        public, cols = self.public(of, "p")
        on = f"{cols[0].text} = {matched}" + (f" AND {self.condition((*own, *cols), 'join')}" if self.chance(0.35) else "")
        kept = [c for c in self.some(below.cols, 0.7) if c.text not in ("owner", "weight", "toll")]
        made = [Column(c.text.removeprefix("p."), c.type) for c in cols[1:]]
        columns = ", ".join((*(f"a.{c.text}" for c in kept), *(c.text for c in cols[1:])))
        return Level(f"SELECT {columns} FROM {self.source(below, 'a')} {kind} {public} ON {on}", (*kept, *made),
                     below.forms | {f"look up, {kind.lower()}"})

    def listed(self, depth: int) -> Level:
        """Public keys with any aggregate of what is found under them."""
        below = self.relation(depth - 1)
        own, item = self.under_list(below)
        types = [t for t in dict.fromkeys(c.type for c in own) if t in _KEYS]
        of = "text" if "text" in types and self.chance(0.6) else self.rng.choice(types or ["int4"])
        direct = [c.text for c in own if c.type == of]
        with self.at("listed key"):
            matched = self.rng.choice(direct) if direct and self.chance(0.8) else self.value(of, own, 1)
        public, cols = self.public(of, "k")
        on = f"{matched} = {cols[0].text}" + (f" AND {self.condition(own, 'join')}" if self.chance(0.15) else "")
        self.below = "listed"
        made = self.aggregates((*own, *own, *cols), (cols[0],))
        columns = ", ".join([f"{cols[0].text} AS {(name := self.name('k'))}", *(f"{text} AS {c.text}" for text, c in made)])
        return Level(f"SELECT {columns} FROM {public} LEFT JOIN {item} ON {on} GROUP BY {cols[0].text}{self._having}",
                     (Column(name, of), *(c for _, c in made)), below.forms | {"listed"})

    # Releases

    @production("release")
    def release(self) -> Query:
        """A whole statement."""
        self.numbered, self.ctes, self.typed.used, self.typed.place, self.above = 0, [], [], "release", "release"
        if self.chance(0.2):
            return self.shape()
        self.simple = self.chance(0.5)
        below = self.relation(self.rng.choice((0, 1, 1, 2, 2, 2, 3)))
        self.plain, self.below = below.sql.startswith("@"), below.top
        keys, conditions, forms = list[str](), list[str](), set(below.forms)
        cols: Sequence[Column] = below.cols
        body = f"FROM {self.source(below, 'q')}"
        kind = self.seldom(("none", "none", "none", "bin", "bin", "list", "list", "type", "listed"), f"keys over {below.top}")
        if kind == "bin" or self.chance(0.1):
            found = self.bin(cols)
            keys += [found[0]] if found else []
        if kind in ("list", "type") and (kind == "list" or {"boolean", "anyenum"} & set(self.typed.reachable(cols))):
            keys.append(self._declared(cols, conditions, kind))
        elif kind == "listed" and not keys:
            cols, body, keys = self._listing(below)
        forms.add(f"keys: {kind}")
        aggs = tuple(dict.fromkeys(self.aggregate(cols, "release")[0] for _ in range(self.rng.choice((1, 1, 1, 1, 2, 3)))))
        where = self.where(Level("", tuple(cols)), 0.25, *conditions)
        argmax = len(keys) == 1 and kind != "listed" and aggs[0].fn in ("count", "sum") and self.chance(0.12)
        if argmax:
            aggs = aggs[:1]
            forms.add("argmax")
        head = f"WITH {', '.join(self.ctes)} " if self.ctes else ""
        return Query(head, tuple(dict.fromkeys(keys)), aggs, body + where, frozenset(forms), 0, argmax)

    @production("shape")
    def shape(self) -> Query:
        """A small statement of joins, lists and scans alone."""
        return self.shapes.draw()

    def _declared(self, cols: Sequence[Column], conditions: list[str], kind: str) -> str:
        """An untrusted key, with a list of what it may be, or of a type that says so."""
        declared = [c.text for c in cols if c.declared and c.type == "text"]
        if kind == "type" and declared and self.chance(0.6):
            return self.rng.choice(declared)
        of = self.rng.choice([t for t in (("boolean", "anyenum") if kind == "type" else ("text", "text", *NUMBERS))
                              if t in self.typed.reachable(cols)] or ["int4"])
        direct = [c.text for c in cols if c.type == of and not c.trusted]
        with self.at("declared key"):
            key = self.rng.choice(direct) if direct and self.chance(0.6) else self.value(of, cols, self.rng.choice((1, 1, 2)))
        if kind == "list":
            pool = [repr(p) for p in PLATES] if of == "text" and self.chance(0.7) else \
                ["0", "1", "2", "5", "10"] if of != "text" and self.chance(0.5) else list(LITERALS[of])
            conditions.append(f"{key} IN ({', '.join(self.rng.sample(pool, min(len(pool), self.rng.choice((1, 2, 3)))))})")
        return key

    def _listing(self, below: Level) -> tuple[Sequence[Column], str, list[str]]:
        own, item = self.under_list(below)
        types = [t for t in dict.fromkeys(c.type for c in own) if t in _KEYS] or ["int4"]
        of = "text" if "text" in types and self.chance(0.7) else self.rng.choice(types)
        direct = [c.text for c in own if c.type == of]
        matched = self.rng.choice(direct) if direct else self.value(of, own, 1)
        public, cols = self.public(of, "k")
        return (*own, *own, *cols), f"FROM {public} LEFT JOIN {item} ON {matched} = {cols[0].text}", \
            [self.rng.choice([cols[0].text] * 3 + [c.text for c in cols])]
