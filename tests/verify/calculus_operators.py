"""Operators of typed statements: tables, projections, groups, DISTINCT, LIMIT and set operations, each over any other.

A table is written @name@, as in calculus_relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .calculus_tape import production
from .calculus_typed import NUMBERS, Column
from .calculus_values import KEYS, Level, Values
from .calculus_world import KINDS, TABLES

__all__ = ["Operators"]

_BASE = (Column("chunk", "timestamptz", True), Column("plate", "text"), Column("v", "float8"), Column("w", "float8"),
         Column("red", "boolean"), Column("size", "anyenum"))
_BOUNDED = tuple(replace(c, declared=c.text in ("plate", "v")) for c in _BASE)
#: tables whose number of rows is public: how many of them have a value is then all that is told of it
_PADDED = [site.name for site in TABLES.values() if site.pad]
#: methods that draw a relation over others
_OPERATORS = ("projected", "projected", *("grouped",) * 4, "one_group", "distinct", "limited", "combined", "joined", "joined",
              "looked_up", "listed", "scans")


class Operators(Values):
    """Draws relations."""

    def table(self) -> Level:
        site = TABLES[self.rng.choice(_PADDED if self.chance(self.padded) else KINDS[self.rng.choice(sorted(KINDS))])]
        forms = {f"stride {'+' if site.step > site.size else '-' if site.step < site.size else '0'}",
                 *(form for form, there in (("pad", site.pad), ("mask", site.mask), ("regions", site.regions),
                                                    ("column options", site.bounded)) if there)}
        base = _BOUNDED if site.bounded else _BASE
        return Level(f"@{site.name}@", (Column("region", "text", True), *base) if site.regions else base, frozenset(forms))

    @production("relation")
    def relation(self, depth: int) -> Level:
        if depth <= 0:
            return self.table()
        name, above = self.seldom(_OPERATORS, f"under {self.above}"), self.above
        self.above, self.made = name, ""
        found: Level = getattr(self, name)(depth)
        self.above = above
        return replace(found, top=name, made=self.made)

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

    def projected(self, depth: int) -> Level:
        """SELECT expressions FROM … WHERE."""
        below = self.relation(depth - 1)
        shown = [(c.text, c) for c in self.some(below.cols, 0.85)]
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            text, kind, trusted = self.computed(below.cols, "projection")
            shown.append((text, Column(self.name("x"), kind, trusted, made=True)))
        columns = ", ".join(text if text == c.text else f"{text} AS {c.text}" for text, c in shown)
        return Level(f"SELECT {columns} FROM {self.source(below, 'q')}{self.where(below, 0.3)}", tuple(c for _, c in shown),
                     below.forms | {"project"})

    def grouped(self, depth: int) -> Level:
        """GROUP BY columns, expressions and bins, with aggregates, what is computed of them, and HAVING."""
        below = self.relation(depth - 1)
        keys: dict[str, Column] = {}
        plain = [c for c in below.cols if c.type in KEYS and not c.trusted]
        if plain and self.chance(0.85):
            chosen = self.rng.choice(below.of("text") if below.of("text") and self.chance(0.5) else plain)
            keys[chosen.text] = chosen
        if not keys or self.chance(0.25):
            found = self.bin(below.cols)
            if found:
                keys[found[0]] = Column(self.name("b"), found[1], True, made=True)
        if not keys or self.chance(0.15):
            kind = self.rng.choice([t for t in KEYS if t in self.typed.reachable(below.cols)] or ["int4"])
            with self.at("group key"):
                keys[self.value(kind, below.cols, self.rng.choice((1, 1, 2)))] = Column(self.name("k"), kind, made=True)
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

    def distinct(self, depth: int) -> Level:
        below = self.relation(depth - 1)
        found = self.bin(below.cols) if self.chance(0.25) else None
        if found:  # as many as there are bins
            name = self.name("b")
            return Level(f"SELECT DISTINCT {found[0]} AS {name} FROM {self.source(below, 'q')}{self.where(below, 0.5)}",
                         (Column(name, found[1], True, made=True),), below.forms | {"distinct"})
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
                     f"LIMIT {self.rng.choice((1, 2, 3, 5, 8, 50))}{offset}", tuple(kept), below.forms | {"limit"})

    def combined(self, depth: int) -> Level:
        """UNION, INTERSECT, EXCEPT, with and without ALL, of relations with columns of the same types; or of numbers of several types,
        which PostgreSQL converts; or of what is computed from time."""
        word = self.seldom(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"), "set operation")
        sides = [self.relation(self.rng.randrange(depth)) for _ in range(2 if word != "UNION ALL" else self.rng.choice((2, 2, 3)))]
        if itself := self.chance(0.25):  # one relation, with other conditions or columns
            sides = [sides[0] for _ in sides]
        shared = [t for t in dict.fromkeys(c.type for c in sides[0].cols) if all(side.of(t) for side in sides)]
        if not shared:
            sides, shared = [self.table() for _ in sides], ["text", "float8"]
        types = [t for t in shared if self.chance(0.25 if self.simple else 0.35)] or [
            "text" if "text" in shared and self.chance(0.4) else self.rng.choice(shared)]
        literal, names = self.chance(0.25), [self.name("u") for _ in types]
        selects, trusted, declared, alike = list[str](), [True for _ in types], [False for _ in types], self.chance(0.6)
        picks: dict[str, Column] = {}
        mixed, timed, shown_types = self.chance(0.3), self.chance(0.5), list(types)
        for i, side in enumerate(sides):
            chosen = [picks[t] if alike and picks.get(t) in side.cols else self.rng.choice(side.of(t)) for t in types]
            picks = dict(zip(types, chosen, strict=True))
            declared = [c.declared or known for c, known in zip(chosen, declared, strict=True)]
            trusted = [a and c.trusted for a, c in zip(trusted, chosen, strict=True)]
            if mixed and types[0] in NUMBERS:
                kind = self.rng.choice(NUMBERS)
                chosen[0], trusted[0] = Column(self.value(kind, side.cols), kind, False), False
                shown_types[0] = min(shown_types[0], kind, key=NUMBERS.index)
            for place, c in enumerate(chosen):
                if c.trusted and timed and (found := self.bin(side.cols, 0.0)) is not None and found[1] == c.type:
                    chosen[place] = replace(c, text=found[0])
            shown = [f"{c.text} AS {name}" for c, name in zip(chosen, names, strict=True)]
            shown += [f"'{'abc'[i]}' AS side"] if literal else []
            selects.append(f"SELECT {', '.join(shown)} FROM {self.source(side, 'q')}{self.where(side, 0.7 if itself else 0.2)}")
        cols = tuple(Column(name, t, is_trusted, is_declared, made=timed and is_trusted)
                     for name, t, is_trusted, is_declared in zip(names, shown_types, trusted, declared, strict=True))
        return Level(f" {word} ".join(selects), (*cols, *((Column("side", "text", True),) if literal and word == "UNION ALL" else ())),
                     frozenset().union(*(s.forms for s in sides)) | {word.lower()})
    def scans(self, _: int) -> Level:
        """Several scans of one table with regions, each of one or two of them, end to end."""
        site = TABLES[self.rng.choice([name for name in sorted(TABLES) if TABLES[name].regions])]
        often, parts = self.rng.choice(site.regions), list[str]()
        for _ in range(self.rng.choice((2, 3, 5, 8))):
            chosen = [often] if self.chance(0.6) else self.rng.sample(site.regions, self.rng.choice((1, 1, 2)))
            parts.append(f"SELECT plate, v FROM @{site.name}@ q WHERE region IN ({', '.join(map(repr, chosen))})")
        return Level(" UNION ALL ".join(parts), (Column("plate", "text"), Column("v", "float8")), frozenset({"regions", "scans"}))
