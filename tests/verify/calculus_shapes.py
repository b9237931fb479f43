"""Small statements in which little stands but joins, look-ups, lists, scans and times: which over which, by which key, on what condition.

Where every column and constant is drawn from everything there is, few statements are left whose answer an event changes by all that it may.
These have tables below, few keys, and conditions that rows meet.
"""

from __future__ import annotations

from .calculus_grammar import Agg, Query
from .calculus_tape import Tape
from .calculus_times import Times
from .calculus_world import KINDS, PLATES, TABLES

__all__ = ["Shapes"]

_JOINS = ("JOIN", "LEFT JOIN", "LEFT JOIN", "FULL JOIN")


class Shapes:
    """Draws such statements from a tape."""

    def __init__(self, rng: Tape) -> None:
        self.rng, self.times = rng, Times(rng)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def draw(self) -> Query:
        name = self.rng.choice(("joined", "joined", "listed", "listed", "looked_up", "looked_up", "times", "times", "scans", "groups",
                                "groups", "sets"))
        keys, agg, body = {"joined": self.joined, "listed": self.listed, "looked_up": self.looked_up, "times": self.times.draw,
                           "scans": self.scans, "groups": self.groups, "sets": self.sets}[name]()
        # rows of keys without a match have no cell, and are in no answer
        forms = {f"shape: {name}", *({"keys: listed"} if len(keys) > 1 else ())}
        return Query("", keys, (agg,), body, frozenset(forms), 0)

    def table(self) -> str:
        return f"@{self.rng.choice(KINDS[self.rng.choice(sorted(KINDS))])}@"

    def condition(self, value: str) -> str:
        """Met by some rows; by those of NULLs, or not."""
        compared = f"{value} {self.rng.choice(('>', '<', '=', '<='))} {self.rng.choice((0, 1, 2, 5))}"
        return self.rng.choice((f"{value} IS NULL OR {compared}", f"{value} IS NULL OR {compared}", compared, f"{value} IS NULL"))

    def value(self, column: str) -> str:
        """A number that is never NULL, between bounds."""
        low, high = self.rng.choice((0, 0, 2)), self.rng.choice((3, 5, 10))
        return f"range({self.rng.choice((column, f'coalesce({column}, {high})'))}, {low}, {high})"

    def total(self, n: str) -> Agg:
        bounds = f"{self.rng.choice((0, 0, 2))}, {self.rng.choice((3, 10))}"
        if self.chance(0.1):
            return Agg("percentile_cont", f"range({n}, {bounds})", fraction=self.rng.choice(("0.5", "0.9")))
        return self.rng.choice((Agg("count"), Agg("count", n), Agg("sum", f"range({n}, {bounds})"), Agg("sum", f"range({n}, {bounds})")))

    def aggregate(self, column: str) -> str:
        return self.rng.choice(("count(*)", f"count({column})", f"max({self.value(column)})", f"min({self.value(column)})",
                                f"sum({self.value(column)})", f"avg({self.value(column)})"))

    def having(self) -> str:
        """Met by groups of few rows, or of more."""
        return f" HAVING count(*) {self.rng.choice(('=', '<=', '>=', '<'))} {self.rng.choice((1, 2, 3))}"

    def groups(self) -> tuple[tuple[str, ...], Agg, str]:
        """Groups by plate, or all rows as one, with a condition on them."""
        having = self.having() if self.chance(0.6) else ""
        if self.chance(0.15):
            return (), self.total("n"), f"FROM (SELECT {self.aggregate('v')} AS n FROM {self.table()} q) q"
        below = f"SELECT plate, {self.aggregate('v')} AS n FROM {self.table()} q GROUP BY plate{having}"
        if self.chance(0.4):
            below = f"SELECT n FROM ({below}) q ORDER BY n{self.rng.choice(('', ' DESC'))} LIMIT {self.rng.choice((1, 5, 50))}"
        return (), self.total("n"), f"FROM ({below}) q"

    def joined(self) -> tuple[tuple[str, ...], Agg, str]:
        kind = self.rng.choice(_JOINS)
        two = self.chance(0.5 if kind == "FULL JOIN" else 0.3)
        right = f"(SELECT plate, v, CASE WHEN red THEN plate ELSE 'z' END AS other FROM {self.table()} q)" if two else self.table()
        on = "a.plate = b.plate AND a.plate = b.other" if two else "a.plate = b.plate"
        sides = ("a.plate", "b.plate", "b.other") if two else ("a.plate", "b.plate")
        key = f"coalesce({', '.join(self.rng.sample(sides, 2))})" if kind == "FULL JOIN" else "a.plate"
        conditions = [f"({self.condition('b.v')})"] if self.chance(0.5) else []
        third = ""
        if self.chance(0.4):
            if self.chance(0.5):
                third = f" JOIN {self.table()} c ON a.plate = c.plate"
            else:
                conditions.append(f"a.plate IN (SELECT plate FROM {self.table()} q)")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        joined = f"FROM {self.table()} a {kind} {right} b ON {on}{third}{where}"
        if self.chance(0.15):
            return (), Agg("count", key, True), joined
        having = self.having() if self.chance(0.3) else ""
        return (), self.total("n"), f"FROM (SELECT {key} AS k, {self.aggregate('b.v')} AS n {joined} GROUP BY 1{having}) q"

    def sets(self) -> tuple[tuple[str, ...], Agg, str]:
        """Two relations in a set operation: of one table, or of two, of all their rows or some."""
        word = self.rng.choice(("UNION", "UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        column, tables = self.rng.choice(("plate", "plate", "v")), [self.table()] * 2 if self.chance(0.5) else [self.table(), self.table()]
        sides = [f"SELECT {column if self.chance(0.9) or column == 'plate' else 'w'} AS u FROM {table} q{self.some()}" for table in tables]
        if column == "plate" and self.chance(0.4):  # an option of the column, or a condition, says what it may be
            where = f" WHERE u IN ({', '.join(map(repr, PLATES[:3]))})" if self.chance(0.5) else ""
            return ("u",), Agg("count"), f"FROM ({f' {word} '.join(sides)}) q{where}"
        shown = Agg("sum", "range(u, 0, 3)") if column == "v" and self.chance(0.5) else Agg("count")
        return (), shown, f"FROM ({f' {word} '.join(sides)}) q"

    def some(self) -> str:
        """A condition on chunks or on values, or none."""
        return self.rng.choice(("", "", f" WHERE chunk {self.rng.choice('<>')} '2026-03-01 06:00:01+00'", f" WHERE {self.condition('v')}"))

    def grouped(self, having: str = "") -> str:
        """Groups by plate, or by plate and another column, as an item of FROM."""
        return f"(SELECT plate, w, {self.aggregate('v')} AS v FROM {self.table()} q GROUP BY plate, w{having})" if self.chance(0.5) else \
            f"(SELECT plate, {self.aggregate('v')} AS v FROM {self.table()} q GROUP BY plate{having})"

    def keyed(self, of: str, alias: str) -> str:
        """Public rows with a key of a kind and a number."""
        if of == "text" and self.chance(0.5):
            return f"plates AS {alias}(key, owner, weight)" if self.chance(0.85) else f"tolls AS {alias}(key, weight)"
        known = [repr(p) for p in PLATES] if of == "text" else ["0", "1", "2", "3", "5", "10"]
        chosen = self.rng.sample(known, 4)
        if self.chance(0.2):  # two that are equal, and may be written differently
            chosen[0] = chosen[1] if of == "text" or self.chance(0.3) else "'-0'" if chosen[1] == "0" else f"'{chosen[1]}.0'"
        chosen = chosen if of == "text" else [f"{number}::{of}" for number in chosen]
        values = ", ".join(f"({key}, {self.rng.choice((0, 1, 2, 5))})" for key in chosen)
        return f"(VALUES {values}) AS {alias}(key, weight)"

    def looked_up(self) -> tuple[tuple[str, ...], Agg, str]:
        """Rows or groups with the public row that one of their columns equals, and conditions on either side."""
        item = f"{self.grouped()} a" if self.chance(0.5) else f"{self.table()} a"
        by, kind = self.rng.choice(("plate", "v")), self.rng.choice(("JOIN", "LEFT JOIN"))
        of = "text" if by == "plate" else self.rng.choice(("float8", "float8", "numeric"))
        match = "a.plate" if by == "plate" else f"a.v::{of}"
        on = f"p.key = {match}" + (f" AND ({self.condition(self.rng.choice(('a.v', 'a.v', 'p.weight')))})" if self.chance(0.5) else "")
        where = f" WHERE {self.condition(self.rng.choice(('a.v', 'p.weight')))}" if self.chance(0.4) else ""
        column = self.rng.choice(("a.v", "p.weight", "p.weight"))
        shown = self.rng.choice((Agg("count"), Agg("count", column), Agg("sum", self.value(column)), Agg("sum", self.value(column)),
                                 Agg("count", column, True)))
        return (), shown, f"FROM {item} {kind} {self.keyed(of, 'p')} ON {on}{where}"

    def listed(self) -> tuple[tuple[str, ...], Agg, str]:
        kinds = self.rng.choice((("x",), ("x",), ("x", "y")))
        values = ", ".join(f"({p!r}, {self.rng.choice(kinds)!r})" for p in self.rng.sample(list(PLATES), min(4, len(PLATES))))
        what = self.rng.choice(("one", "one", "groups", "joined", "listed"))
        item, match, column, on = f"{self.table()} q", "q.plate", "q.v", "k.key"
        public = f"(VALUES {values}) AS k(key, kind)"
        if what == "groups":
            item = f"{self.grouped(self.rng.choice(('', ' HAVING count(*) = 1')))} q"
            if self.chance(0.4):  # by what groups have, not by what they are
                match, public = "q.v::float8", self.keyed("float8", "k").replace("(key, weight)", "(key, kind)")
        elif what == "joined":
            item = f"({self.table()} q {self.rng.choice(_JOINS[:2])} {self.table()} r ON q.plate = r.plate)"
        elif what == "listed":
            item, match = f"((VALUES {values}) AS l(key, kind) LEFT JOIN {item} ON q.plate = l.key)", "l.kind"
            public = f"(VALUES {', '.join(f'({kind!r}, {kind!r})' for kind in kinds)}) AS k(key, kind)"
        where = f" WHERE {self.condition(column)}" if self.chance(0.25) else ""
        shown = self.rng.choice((Agg("count"), Agg("count", column), Agg("sum", self.value(column)), Agg("count", column, True)))
        if self.chance(0.4):
            more = "l.key IS NOT NULL AND " if what == "listed" else ""
            shown = Agg(shown.fn, shown.arg, shown.distinct, f"{more}({self.condition(column)})")
        body = f"FROM {public} LEFT JOIN {item} ON {match} = {on}{where}"
        key = self.rng.choice(("k.key", "k.kind", "k.kind"))
        if self.chance(0.3):
            return (), self.total("n"), f"FROM (SELECT {key} AS key, {shown.sql()} AS n {body} GROUP BY 1) q"
        return (key,), shown, body

    def scans(self) -> tuple[tuple[str, ...], Agg, str]:
        """Several scans of one table, in regions or at times that differ."""
        site = TABLES[self.rng.choice([name for name in sorted(TABLES) if TABLES[name].regions])]
        often, parts = self.rng.choice(site.regions), list[str]()
        for _ in range(self.rng.choice((2, 3, 5, 8))):
            region = often if self.chance(0.7) else self.rng.choice(site.regions)
            parts.append(f"SELECT plate, v FROM @{site.name}@ q WHERE region = '{region}'")
        return (), self.rng.choice((Agg("count"), Agg("sum", "range(v, 0, 10)"))), f"FROM ({' UNION ALL '.join(parts)}) q"
