"""Random relations below a release: tables, projections, groups, DISTINCT, LIMIT, set operations, joins.

A table is written @name@, so that one text serves the foreign table and the ordinary one with the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .calculus_expressions import NUMBERS, RANGES, Col, Expressions, Rel
from .calculus_world import TABLES

__all__ = ["TABLE", "Relations"]

TABLE = re.compile(r"@(\w+)@")

BASE = (Col("chunk", "time"), Col("plate", "text"), Col("v", "num"), Col("w", "num"), Col("red", "bool"), Col("size", "enum"))
BOUNDED = tuple(Col(c.name, c.kind, c.name in ("plate", "v")) for c in BASE)
#: trusted, like a bin of time
REGION = Col("region", "bin")


@dataclass
class Relations(Expressions):
    """Draws relations; the tables may be restricted, as may the operators."""

    tables: Sequence[str] = tuple(TABLES)
    operators: Sequence[str] = ("filter", "filter", "group", "group", "group", "distinct", "limit", "union all", "union", "setop", "join",
                                "join", "public join", "listed", "apart")
    numbered: int = 0
    ctes: list[str] = field(default_factory=list)

    def name(self, stem: str) -> str:
        self.numbered += 1
        return f"{stem}{self.numbered}"

    def table(self) -> Rel:
        name = self.rng.choice(list(self.tables))
        site = TABLES[name]
        stride = "+" if site.step > site.size else "-" if site.step < site.size else "0"
        views = (("pad", site.pad), ("mask", site.mask), ("regions", site.regions), ("column options", site.bounded))
        forms = {"table", f"stride {stride}", *(form for form, there in views if there)}
        return Rel(f"@{name}@", (REGION, *BASE) if site.regions else BOUNDED if site.bounded else BASE, frozenset(forms))

    def relation(self, depth: int) -> Rel:
        if depth == 0:
            return self.table()
        build: dict[str, Callable[[int], Rel]] = {
            "filter": self.filtered, "group": self.grouped, "distinct": self.distinct, "limit": self.limited, "union all": self.union_all,
            "union": self.union, "setop": self.setop, "join": self.joined, "public join": self.public_joined, "listed": self.listed,
            "apart": self.apart}
        return build[self.rng.choice(list(self.operators))](depth)

    def source(self, rel: Rel, alias: str) -> str:
        """A relation in FROM: a table, a subquery, or a CTE."""
        if rel.sql.startswith("@"):
            return f"{rel.sql} AS {alias}"
        if self.chance(0.15):
            name = self.name("c")
            self.ctes.append(f"{name} AS ({rel.sql})")
            return f"{name} AS {alias}"
        return f"({rel.sql}) AS {alias}"

    def filtered(self, depth: int) -> Rel:
        """SELECT expressions FROM … WHERE."""
        below = self.relation(depth - 1)
        columns, cols, forms = [], [], set(below.forms) | {"project"}
        for c in below.cols:
            if self.chance(0.85) or c.name == "plate" or len(below.cols) == 1:
                columns.append(c.name)
                cols.append(c)
        if not cols:
            columns, cols = [below.cols[0].name], [below.cols[0]]
        if self.chance(0.5) and below.of("num"):
            name = self.name("x")
            columns.append(f"{self.number(below)} AS {name}")
            cols.append(Col(name, "num"))
            forms.add("expression")
        if self.chance(0.15) and below.of("text"):
            name = self.name("t")
            columns.append(f"{self.text(below)} AS {name}")
            cols.append(Col(name, "text"))
        if self.chance(0.2) and below.of("time"):
            name = self.name("b")
            columns.append(f"{self.bin(below)} AS {name}")
            cols.append(Col(name, "bin"))
        where, more = self.where(below, 0.8)
        source = self.source(below, "q")
        return Rel(f"SELECT {', '.join(columns)} FROM {source}{where}", tuple(cols), frozenset(forms | more), below.depth + 1)

    def grouped(self, depth: int) -> Rel:
        """GROUP BY an untrusted key, a bin, or both, with aggregates and HAVING."""
        below = self.relation(depth - 1)
        keys: list[tuple[str, Col]] = []
        forms = set(below.forms) | {"nested group"}
        plain = below.of("text", "enum", "bool", "num") if self.chance(0.2) else below.of("text", "enum")
        if plain and self.chance(0.85):
            c = self.rng.choice(plain)
            keys.append((c.name, c))
            forms.add("group by key")
        if below.of("time", "bin") and (not keys or self.chance(0.3)):
            keys.append((self.bin(below), Col(self.name("b"), "bin")))
            forms.add("group by bin")
        if plain and self.chance(0.2):
            c = self.rng.choice(plain)
            keys.append((c.name, c))
        keys = list({e: (e, c) for e, c in keys}.values())
        aggs: list[tuple[str, Col]] = []
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            expression, kind, form = self.inner_aggregate(below)
            aggs.append((expression, Col(self.name("n"), kind)))
            forms.add(form)
        having = ""
        if self.chance(0.35):
            having = f" HAVING {self.having(below)}"
            forms.add("having")
        where, more = self.where(below, 0.3)
        columns = [f"{e} AS {c.name}" for e, c in (*keys, *aggs)]
        group = f" GROUP BY {', '.join(e for e, _ in keys)}" if keys else ""
        return Rel(f"SELECT {', '.join(columns)} FROM {self.source(below, 'q')}{where}{group}{having}",
                   tuple(c for _, c in (*keys, *aggs)), frozenset(forms | more), below.depth + 1)

    def inner_aggregate(self, below: Rel) -> tuple[str, str, str]:
        """Expression, kind and form of an aggregate that is an intermediate step."""
        kind = self.rng.choice(("count", "count", "count value", "count distinct", "sum", "max", "min", "spread", "avg", "var", "last",
                                "gap"))
        if kind == "count" or not below.of("num", "text"):
            return "count(*)", "num", "inner count"
        if kind in ("last", "gap") and below.of("time"):
            c = self.rng.choice(below.of("time")).name
            return (f"max({c})", "moment", "inner max") if kind == "last" else \
                (f"extract(epoch FROM max({c}) - min({c}))", "num", "inner first to last")
        if kind in ("count value", "count distinct"):
            c = self.rng.choice(below.of("num", "text")).name
            value = c if self.chance(0.6) else f"nullif({c}, {c})" if self.chance(0.1) else c
            return f"count({'DISTINCT ' if kind == 'count distinct' else ''}{value})", "num", f"inner {kind}"
        if not below.of("num"):
            return "max(plate)" if any(c.name == "plate" for c in below.cols) else "count(*)", \
                "text" if any(c.name == "plate" for c in below.cols) else "num", "inner max"
        value = self.ranged(below) if self.chance(0.7) else self.number(below)
        if kind == "spread":
            return f"max({value}) - min({value})", "num", "inner spread"
        if kind == "var":
            return f"{self.rng.choice(('var_pop', 'stddev_samp'))}({value})", "num", "inner var"
        if kind in ("last", "gap"):
            kind = "max"
        return f"{kind}({value})", "num", f"inner {kind}"

    def having(self, below: Rel) -> str:
        """A condition on groups, made so that its truth may rise, fall or do either as rows are added."""
        condition = self.group_condition(below)
        kind = self.rng.random()
        if kind < 0.1:
            return f"NOT ({condition})"
        if kind < 0.25:
            return f"({condition} {self.rng.choice(('AND', 'OR'))} {self.group_condition(below)})"
        return f"({condition}) IS NOT TRUE" if kind < 0.3 else condition

    def group_condition(self, below: Rel) -> str:
        value, other = self.group_value(below), self.group_value(below)
        if self.chance(0.5):
            k = self.rng.choice(NUMBERS)
            value = self.rng.choice((f"-({value})", f"({value}) * 2", f"3 - ({value})", f"abs({value})", f"greatest({value}, {k})",
                                     f"least({value}, {other})", f"coalesce({value}, {k})", f"nullif({value}, 2)", f"({value}) * ({other})",
                                     f"({value}) + ({other})", f"({value}) - ({other})", f"CASE WHEN {other} > 1 THEN {value} ELSE 1 END",
                                     f"round({value})", f"({value}) / 2", f"({value}) / -2", f"({value}) * -1"))
        k = self.rng.choice(("1", "1", "2", "2", "3", "-2", "5"))
        compare = self.rng.choice(("=", ">=", "<=", ">", "<", "<>"))
        return self.rng.choice((f"{value} {compare} {k}",) * 6 + (
            f"{k} {compare} {value}", f"{value} BETWEEN 1 AND 2", f"{value} IN (1, 3)", f"{value} IS NOT NULL", f"{value} IS NULL",
            f"{value} IS DISTINCT FROM {k}", f"{value} {compare} {other}"))

    def group_value(self, below: Rel) -> str:
        choices = ["count(*)", "count(*)"]
        if below.of("num"):
            c = self.ranged(below)
            choices += [f"max({c})", f"sum({c})", f"avg({c})", f"min({c})", f"max({c}) - min({c})", f"count({self.number(below)})"]
        if any(c.name == "plate" for c in below.cols):
            choices.append("count(DISTINCT plate)")
        return self.rng.choice(choices)

    def distinct(self, depth: int) -> Rel:
        below = self.relation(depth - 1)
        kept = self.some(below.cols)
        where, more = self.where(below, 0.3)
        return Rel(f"SELECT DISTINCT {', '.join(c.name for c in kept)} FROM {self.source(below, 'q')}{where}", kept,
                   below.forms | {"distinct"} | more, below.depth + 1)

    def limited(self, depth: int) -> Rel:
        below = self.relation(depth - 1)
        kept = self.some(below.cols)
        order = list(kept)
        self.rng.shuffle(order)
        sort = ", ".join(f"{c.name}{self.rng.choice(('', '', ' DESC'))}" for c in order)
        offset = f" OFFSET {self.rng.choice((1, 2))}" if self.chance(0.2) else ""
        where, more = self.where(below, 0.3)
        return Rel(f"SELECT {', '.join(c.name for c in kept)} FROM {self.source(below, 'q')}{where} ORDER BY {sort} "
                   f"LIMIT {self.rng.choice((1, 2, 3, 5, 8))}{offset}", kept,
                   below.forms | {"limit"} | ({"offset"} if offset else set()) | more, below.depth + 1)

    def some(self, cols: Sequence[Col]) -> tuple[Col, ...]:
        kept = tuple(c for c in cols if self.chance(0.6))
        return kept or (cols[0],)

    def sides(self, depth: int, number: int) -> tuple[list[Rel], list[str], tuple[Col, ...]]:
        """Relations with the same columns, as SELECTs."""
        below = [self.relation(self.rng.randrange(depth)) for _ in range(number)]
        kinds = [k for k in ("time", "text", "num", "bool") if all(r.of(k) for r in below) and (k in ("text", "num") or self.chance(0.5))]
        if not kinds:
            below = [self.table() for _ in range(number)]
            kinds = ["text", "num"]
        cols = tuple(Col({"time": "chunk", "text": "plate", "num": "v", "bool": "red"}[k], k) for k in kinds)
        selects = []
        literal = self.chance(0.3)
        for i, r in enumerate(below):
            chosen = [self.rng.choice(r.of(k)).name for k in kinds]
            shown = [f"{a}{'::float8' if c.kind == 'num' else ''} AS {c.name}" for a, c in zip(chosen, cols, strict=True)]
            if literal:
                shown.append(f"'{'abc'[i]}' AS side")
            where, _ = self.where(r, 0.3)
            selects.append(f"SELECT {', '.join(shown)} FROM {self.source(r, 'q')}{where}")
        return below, selects, cols + ((Col("side", "text"),) if literal else ())

    def combined(self, depth: int, word: str, form: str, number: int = 2) -> Rel:
        below, selects, cols = self.sides(depth, number)
        if self.chance(0.15):  # the same relation more than once
            below, selects, form = below[:1] * number, selects[:1] * number, f"{form}, repeated"
        cameras = {TABLES[t].camera for r in below for t in TABLE.findall(r.sql)}
        forms = frozenset().union(*(r.forms for r in below)) | {form} | ({"two cameras"} if len(cameras) > 1 else set())
        return Rel(f" {word} ".join(selects), cols, forms, max(r.depth for r in below) + 1)

    def union_all(self, depth: int) -> Rel:
        return self.combined(depth, "UNION ALL", "union all", self.rng.choice((2, 2, 3)))

    def union(self, depth: int) -> Rel:
        return self.combined(depth, "UNION", "union")

    def setop(self, depth: int) -> Rel:
        word = self.rng.choice(("INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        return self.combined(depth, word, word.lower())

    def joined(self, depth: int) -> Rel:
        """Two relations joined on plate, then grouped by it."""
        left, right = (self.with_plate(self.relation(self.rng.randrange(depth))) for _ in range(2))
        kind = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        forms = left.forms | right.forms | {kind.lower()}
        cameras = {TABLES[t].camera for r in (left, right) for t in TABLE.findall(r.sql)}
        if len(cameras) > 1:
            forms |= {"two cameras"}
        numbers = [f"{a}.{c.name}" for a, r in (("a", left), ("b", right)) for c in r.of("num")] or ["1"]
        value = self.rng.choice(numbers)
        if len(numbers) > 1 and self.chance(0.3):
            value = f"{value} * {self.rng.choice(numbers)}"
        lo, hi = self.rng.choice(RANGES)
        aggregate = self.rng.choice(("count(*)", f"max(range({value}, {lo}, {hi}))", f"avg(range({value}, {lo}, {hi}))",
                                     f"sum(range({value}, {lo}, {hi}))", f"count({value})", f"min(range({value}, {lo}, {hi}))",
                                     "count(DISTINCT a.plate)"))
        key = {"RIGHT JOIN": "b.plate", "FULL JOIN": "plate"}.get(kind, "a.plate")
        on = "USING (plate)" if kind == "FULL JOIN" or self.chance(0.3) else "ON a.plate = b.plate"
        where = ""
        if kind == "LEFT JOIN" and self.chance(0.3):
            where = " WHERE b.plate IS NULL"
            forms |= {"anti join"}
        elif self.chance(0.15):
            where = f" WHERE {key} IN ('A', 'B', 'D')"
        having = f" HAVING count(*) {self.rng.choice(('>=', '=', '<='))} {self.rng.choice((1, 2))}" if self.chance(0.15) else ""
        name = self.name("n")
        sides = f"{self.source(left, 'a')} {kind} {self.source(right, 'b')} {on}"
        if kind == "JOIN" and self.chance(0.15):
            third = self.table()
            sides += f" JOIN {self.source(third, 'c')} {'USING (plate)' if on.startswith('USING') else 'ON c.plate = a.plate'}"
            forms |= third.forms | {"three-way join"}
        return Rel(f"SELECT {key} AS plate, {aggregate} AS {name} FROM {sides}{where} GROUP BY {key}{having}",
                   (Col("plate", "text"), Col(name, "num")),
                   forms | ({"having"} if having else set()), max(left.depth, right.depth) + 1)

    def with_plate(self, rel: Rel) -> Rel:
        return rel if any(c.name == "plate" for c in rel.cols) else self.table()

    def public_joined(self, depth: int) -> Rel:
        """Each row with its row of a public table."""
        below = self.with_plate(self.relation(depth - 1))
        public, unique = ("plates", True) if self.chance(0.9) else ("tolls", False)
        kind = self.rng.choice(("JOIN", "LEFT JOIN"))
        kept = self.some([c for c in below.cols if c.name not in ("owner", "weight")])
        columns = [f"a.{c.name}" for c in kept] + (["p.owner", "p.weight"] if unique else ["p.toll AS weight"])
        cols = (*kept, *((Col("owner", "text"),) if unique else ()), Col("weight", "num"))
        return Rel(f"SELECT {', '.join(columns)} FROM {self.source(below, 'a')} {kind} {public} p ON p.plate = a.plate", cols,
                   below.forms | {"public join" if unique else "public join, not unique"}, below.depth + 1)

    def listed(self, depth: int) -> Rel:
        """Public keys with what is found under them, none left out."""
        below = self.with_plate(self.relation(depth - 1))
        counted = self.rng.choice(["plate", *(c.name for c in below.of("num"))])
        name = self.name("n")
        aggregate = self.rng.choice((f"count(q.{counted})", "count(*)", "max(range(length(q.plate), 0, 1))",
                                     f"count(DISTINCT q.{counted})"))
        public, more = self.public_keys()
        return Rel(f"SELECT k.key AS plate, {aggregate} AS {name} FROM {public} LEFT JOIN {self.source(below, 'q')} ON q.plate = k.key "
                   f"GROUP BY k.key", (Col("plate", "text"), Col(name, "num")), below.forms | {"nested listing", more}, below.depth + 1)

    def apart(self, depth: int) -> Rel:
        """A table with regions against itself: parts of it in the same or in different regions, end to end or joined."""
        name = self.rng.choice([t for t in self.tables if TABLES[t].regions] or ["r1"])
        one, other = (self.rng.choice(TABLES[name].regions) for _ in range(2))
        forms = frozenset({"regions", "hard regions apart" if TABLES[name].hard and one != other else "regions of one table"})
        cols = (Col("plate", "text"), Col("v", "num"))
        if self.chance(0.5):
            word = self.rng.choice(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
            return Rel(f"SELECT plate, v FROM @{name}@ q WHERE region = '{one}' {word} SELECT plate, v FROM @{name}@ q "
                       f"WHERE region = '{other}'", cols, forms, 1)
        kind = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
        anti = " AND b.plate IS NULL" if kind == "LEFT JOIN" and self.chance(0.5) else ""
        value = self.rng.choice(("count(*)", "max(range(a.v, 0, 10))", "sum(range(b.v, 0, 10))"))
        return Rel(f"SELECT a.plate, {value} AS v FROM @{name}@ a {kind} (SELECT plate, v FROM @{name}@ q WHERE region = '{other}') b "
                   f"ON a.plate = b.plate WHERE a.region = '{one}'{anti} GROUP BY a.plate", cols, forms, 2)

    def public_keys(self, values: Sequence[str] = ("A", "B", "C", "Z")) -> tuple[str, str]:
        """A FROM item k with a column key, and its form."""
        if self.chance(0.3):
            return "plates AS k(key, keeper, load)", "keys by public table"
        return f"(VALUES {', '.join(f'({v!r})' for v in values)}) AS k(key)", "keys by values"
