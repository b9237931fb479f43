"""Relations of two: joined with each other, looked up among public rows, listed under public keys."""

from __future__ import annotations

from collections.abc import Sequence

from .calculus_operators import Operators
from .calculus_typed import NUMBERS, TEXTS, Column
from .calculus_values import KEYS, Level
from .calculus_world import KIND, PLATES
from .statements_literals import LITERALS
from .statements_world import TYPE

__all__ = ["Pairings"]

#: values that are equal, and written differently
_ALIKE = {"float8": ("'0'", "'-0'", "'0.0'"), "numeric": ("'1'", "'1.0'", "'1.00'"), "text": ("'A'", "'A'", "'B'"),
          "interval": ("'1 second'", "'1000 ms'", "'1 day -23:59:59'"), "int4": ("1", "'01'", "2")}


class Pairings(Operators):
    """Draws them, over any relations."""

    def joined(self, depth: int) -> Level:
        """Relations joined on columns of one type, with conditions on both, grouped by what they are joined on."""
        left, right = (self.relation(self.rng.randrange(depth)) for _ in range(2))
        shared = [t for t in dict.fromkeys(c.type for c in left.cols) if t in KEYS and right.of(t)]
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

    def matched_by(self, own: Sequence[Column], types: Sequence[str]) -> str:
        """The type of what is matched: text, that of what some operator has made, or any."""
        made = [c.type for c in own if c.made and c.type in types]
        if made and self.chance(0.4):
            return self.rng.choice(made)
        return "text" if "text" in types and self.chance(0.6) else self.rng.choice(types or ["int4"])

    def public(self, of: str, alias: str) -> tuple[str, list[Column]]:
        """Public rows with a key of a type and a number: a table, or VALUES with keys that may be equal and written differently."""
        if of == "text" and self.chance(0.5):
            name = self.rng.choice(("plates",) * 7 + ("tolls",))
            more = [Column(f"{alias}.owner", "text"), Column(f"{alias}.weight", "float8")] if name == "plates" else \
                [Column(f"{alias}.toll", "float8")]
            return f"{name} AS {alias}", [Column(f"{alias}.plate", "text"), *more]
        if self.simple and (of == "text" or of in NUMBERS):
            pool = list(map(repr, PLATES)) if of == "text" else ["0", "1", "2", "3", "5", "10"]
        else:
            pool = [*map(repr, PLATES), *TEXTS[:12]] if of == "text" else [x.replace(TYPE, KIND) for x in LITERALS[of]]
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
        on = f"{cols[0].text} = {matched}" + (f" AND {self.condition((*own, *cols), 'join')}" if self.chance(0.5) else "")
        kept = [c for c in self.some(below.cols, 0.7) if c.text not in ("owner", "weight", "toll")]
        made = [Column(c.text.removeprefix("p."), c.type, made=True) for c in cols[1:]]
        columns = ", ".join((*(f"a.{c.text}" for c in kept), *(c.text for c in cols[1:])))
        return Level(f"SELECT {columns} FROM {self.source(below, 'a')} {kind} {public} ON {on}", (*kept, *made),
                     below.forms | {f"look up, {kind.lower()}"})

    def listed(self, depth: int) -> Level:
        """Public keys with any aggregate of what is found under them."""
        below = self.relation(depth - 1)
        own, item = self.under_list(below)
        types = [t for t in dict.fromkeys(c.type for c in own) if t in KEYS]
        of = self.matched_by(own, types)
        direct = [c for c in own if c.type == of]
        with self.at("listed key"):
            matched = self.typed.one_of(direct).text if direct and self.chance(0.8) else self.value(of, own, 1)
        public, cols = self.public(of, "k")
        on = f"{matched} = {cols[0].text}" + (f" AND {self.condition(own, 'join')}" if self.chance(0.15) else "")
        self.below = "listed"
        made = self.aggregates((*own, *own, *cols), (cols[0],))
        columns = ", ".join([f"{cols[0].text} AS {(name := self.name('k'))}", *(f"{text} AS {c.text}" for text, c in made)])
        return Level(f"SELECT {columns} FROM {public} LEFT JOIN {item} ON {on} GROUP BY {cols[0].text}{self._having}",
                     (Column(name, of), *(c for _, c in made)), below.forms | {"listed"})
