"""Typed statements for the search that discovers: a release over any relation, every place for an expression, by the types of columns."""

from __future__ import annotations

from collections.abc import Sequence

from .calculus_grammar import Query
from .calculus_pairings import Pairings
from .calculus_shapes import Shapes
from .calculus_tape import Tape, production
from .calculus_typed import NUMBERS, Column
from .calculus_values import KEYS, OF_VALUES, Level
from .calculus_world import PLATES
from .statements_calls import Calls
from .statements_literals import LITERALS

__all__ = ["Levels"]

#: what a statement is made of: joins, lists and scans alone; operators over bare columns; expressions over little; or all of it
_STYLES = ("shape", "shape", "shape", "operators", "operators", "value", "value", "both")
_DEPTHS = {"operators": (0, 1, 1, 1, 1, 2, 2), "value": (0, 0, 0, 1), "both": (0, 1, 1, 2, 2, 2, 3)}


class Levels(Pairings):
    """Draws whole statements."""

    def __init__(self, rng: Tape, calls: Calls) -> None:
        super().__init__(rng, calls)
        self.shapes = Shapes(rng)

    @production("release")
    def release(self) -> Query:
        """A whole statement."""
        self.numbered, self.ctes, self.typed.used, self.typed.place, self.above = 0, [], [], "release", "release"
        style = self.rng.choice(_STYLES)
        if style == "shape":
            return self.shape()
        self.typed.simple, self.padded = style != "both", 0.7 if style == "value" else 0.3
        below = self.relation(self.rng.choice(_DEPTHS[style]))
        if style == "value":
            return self.of_values(below)
        self.plain, self.below = below.sql.startswith("@"), f"{below.top} {below.made}"
        keys, conditions, forms = list[str](), list[str](), set(below.forms)
        cols: Sequence[Column] = below.cols
        body = f"FROM {self.source(below, 'q')}"
        kind = self.seldom((*("none",) * 8, "bin", "bin", "list", "list", "type", "listed"), f"keys over {below.top}")
        if any(c.declared and c.type == "text" for c in cols) and self.chance(0.4):
            kind = "type"
        if kind == "bin" or self.chance(0.1):
            found = self.bin(cols)
            keys += [found[0]] if found else []
        if kind in ("list", "type") and (kind == "list" or {"boolean", "anyenum"} & set(self.typed.reachable(cols))):
            keys.append(self._declared(cols, conditions, kind))
        elif kind == "listed":
            cols, body, keys = self._listing(below)
            found = self.bin(cols) if self.chance(0.5) else None
            keys += [found[0]] if found else []
        forms.add(f"keys: {kind}")
        number = self.rng.choice((1,) * 9 + (2,) if self.simple else (1, 1, 1, 1, 2, 3))  # one alone may change by all that is allowed
        aggs = tuple(dict.fromkeys(self.aggregate(cols, "release")[0] for _ in range(number)))
        where = self.where(Level("", tuple(cols)), 0.25, *conditions)
        argmax = len(keys) == 1 and kind != "listed" and aggs[0].fn in ("count", "sum") and self.chance(0.12)
        if argmax:
            aggs = aggs[:1]
            forms.add("argmax")
        head = f"WITH {', '.join(self.ctes)} " if self.ctes else ""
        return Query(head, tuple(dict.fromkeys(keys)), aggs, body + where, frozenset(forms), 0, argmax)

    def of_values(self, below: Level) -> Query:
        """One aggregate of an expression over little: what is known of a value is all that its noise is made for."""
        self.typed.simple, self.below = False, f"{below.top} {below.made}"
        found = self.bin(below.cols) if self.chance(0.15) else None
        agg = self.aggregate(below.cols, "release", OF_VALUES)[0]
        head = f"WITH {', '.join(self.ctes)} " if self.ctes else ""
        return Query(head, (found[0],) if found else (), (agg,), f"FROM {self.source(below, 'q')}", below.forms | {"value"}, 0)

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
        of = self.matched_by(own, [t for t in dict.fromkeys(c.type for c in own) if t in KEYS])
        direct = [c for c in own if c.type == of]
        matched = self.typed.one_of(direct).text if direct else self.value(of, own, 1)
        public, cols = self.public(of, "k")
        return (*own, *own, *cols), f"FROM {public} LEFT JOIN {item} ON {matched} = {cols[0].text}", \
            [self.rng.choice([cols[0].text] * 3 + [c.text for c in cols])]
