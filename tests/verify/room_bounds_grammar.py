"""Statements whose inner queries may take long: the grammar of the calculus' verification with typed
expressions, and joins by every pair of types that can be equal, long lists, large limits, conditions
that set keys to constants, and public tables of many rows and of long ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product

from .calculus_expressions import Col, Rel
from .calculus_grammar import Agg, Grammar
from .calculus_relations import BASE, TABLE
from .calculus_world import KIND, SIZES
from .room_bounds_stand import TABLES as SHAPES
from .room_bounds_stand import THIN, Fill
from .statements_calls import Calls
from .statements_expressions import Typed

__all__ = ["FILLS", "BoundsGrammar", "drawn_fills"]

#: the grammar's tables, by their names there
NAMES = {"n1": "tiny", "n2": "small", "n3": "large", "s1": "thin", "s2": "few", "s3": "grid"}
_THIN = tuple(col for col in BASE if col.name in ("chunk", "v", "w"))

_WHOLE, _MOMENTS = ("int4", "int8"), ("date", "timestamp", "timestamptz")
#: types that = compares, with each other
_PAIRS = (*product(_WHOLE, _WHOLE), *product(_MOMENTS, _MOMENTS), ("float8", "float8"),
          ("numeric", "numeric"), ("text", "text"), ("boolean", "boolean"))
_NUMBERS = (*product(_WHOLE, _WHOLE), *(("float8", "float8"),) * 6)
_TIMES = tuple(product(_MOMENTS, _MOMENTS))
_COUNTS = (3, 9, 50, 700, 3_000)


class _Typed(Typed):
    """With the labels of these tables' enum."""

    def literal(self, kind: str) -> str:
        if kind == "anyenum":
            return f"'{self.rng.choice(SIZES)}'::{KIND}"
        return super().literal(kind)


@dataclass
class BoundsGrammar(Grammar):
    """Draws statements; many are refused, which is as good."""

    tables: Sequence[str] = tuple(NAMES)
    operators: Sequence[str] = ("filter", "filter", "group", "distinct", "limit", "union all", "union",
                                "setop", *("join",) * 8, "public join", "public join", "listed")
    calls: Calls = field(default_factory=Calls)
    odd: float = 0.3

    def __post_init__(self) -> None:
        self.typed = _Typed(self.rng, self.calls, forbidden=0)

    def statement(self) -> str:
        while True:
            with suppress(IndexError):  # the grammar wants a text of a table that has none
                text = self.over_join() if self.chance(0.5) else self.release().sql()
                return TABLE.sub(lambda found: NAMES[found[1]], text)

    def over_join(self) -> str:
        """What is joined takes longest."""
        self.numbered, self.ctes = 0, []
        if self.chance(0.5):
            return self.over_class() if self.chance(0.2) else self.over_groups()
        rel = self.joined(self.rng.choice((1, 1, 2)))
        head = f"WITH {', '.join(self.ctes)} " if self.ctes else ""
        return f"{head}SELECT count(*) AS c0 FROM ({rel.sql}) AS q"

    def over_class(self) -> str:
        """Expressions of one relation that are all to equal one column: of these PostgreSQL makes a class, and
        compares them with each other."""
        tests = [f"length(left(plate || '{chr(97 + i)}', 1024)) = b.k" for i in range(self.rng.choice((1, 2, 6, 12)))]
        more = [f"JOIN (VALUES (1024), (2)) AS l{i}(k) ON l{i}.k = b.k" for i in range(self.rng.choice((0, 0, 1, 3)))]
        return f"SELECT count(*) AS c0 FROM @s1@ AS q JOIN (VALUES (1024), (2)) AS b(k) ON {' AND '.join(tests)} {' '.join(more)}"

    def over_groups(self) -> str:
        """Groups of which PostgreSQL expects few and a program makes many, joined by a value that most of
        them may have: the side of which PostgreSQL makes a hash table. Rows may be long, or become so."""
        table = self.rng.choice(("heap", "heap", "thin", "large"))
        groups = self.rng.choice(("w", "w", "v, w", "w, chunk"))
        key = self.rng.choice(("max(v)", "max(v)", "min(v)", "count(*)::float8"))
        plate = ", max(plate) AS p" if table == "large" else ""
        side = f"(SELECT w, {key} AS k{plate} FROM {table} GROUP BY {groups}) AS a"
        if plate and self.chance(0.5):
            side = f"(SELECT w, k, left(p, 1) AS p FROM {side}) AS a"
        shown = "a.p || p.u" if plate else "a.w"
        joined = f"{side} {self.rng.choice(('JOIN', 'LEFT JOIN'))} many AS p ON a.k = p.k"
        if self.chance(0.3):  # beside others, in whatever order PostgreSQL joins them
            joined += " JOIN many AS o ON a.w = o.k"
        if self.chance(0.3):
            joined = f"{joined} GROUP BY 1"
        return f"SELECT count(*) AS c0 FROM (SELECT {shown} AS x FROM {joined}) AS q WHERE x IS NOT NULL"

    def table(self) -> Rel:
        name = self.rng.choice(list(self.tables))
        cols = _THIN if SHAPES[NAMES[name]].columns == THIN else BASE
        return Rel(f"@{name}@", cols, frozenset({"table"}))

    def with_plate(self, rel: Rel) -> Rel:
        while not any(c.name == "plate" for c in rel.cols):
            rel = self.table()
        return rel

    # Expressions

    def number(self, rel: Rel) -> str:
        return f"({self.typed.of('float8', rel, 2)})" if self.chance(self.odd) else super().number(rel)

    def condition(self, rel: Rel) -> str:
        if self.chance(0.25) and rel.of("num", "time"):
            return self.long_list(rel)
        if self.chance(0.1) and rel.of("text"):
            return self.long_texts(rel)
        if self.chance(self.odd):
            return f"({self.typed.condition(rel, 2)})"
        return super().condition(rel)

    def long_list(self, rel: Rel) -> str:
        """A value of one type among many of another."""
        left, right = self.rng.choice(_PAIRS[:-2])
        value = self.as_type(rel, left)
        if value is None:
            return super().condition(rel)
        items = ",".join(self.item(right, i) for i in range(self.rng.choice(_COUNTS)))
        word, none = self.rng.choice((("= ANY", "false"), ("<> ALL", "true")))
        test = f"({value}) {word} ('{{{items}}}'::{right}[])"
        if self.chance(0.3):
            return f"CASE WHEN {super().condition(rel)} THEN {test} ELSE {none} END"
        return test

    def long_texts(self, rel: Rel) -> str:
        """Many calls on texts, long constants among them, and units that are none."""
        column = self.rng.choice(rel.of("text")).name
        moment = next((c.name for c in rel.of("time")), "timestamptz '2026-03-01 06:00:00+00'")
        long = f"repeat('{self.rng.choice(('a', '%a', '_'))}', {self.rng.choice((100, 4000, 8000, 100_000))})"
        form = self.rng.choice((
            f"right({column}, -{{0}}) = 'x'", f"({column} || {long}) = '{{0}}'", f"{column} LIKE {long}", f"{column} ILIKE '%{{0}}%'",
            f"right({column} || {column} || {column}, -{{0}}) = 'x'", f"strpos({column}, {long}) = {{0}}", f"upper({column}) = {long}",
            f"""pg_catalog."extract"({column}, ({moment})::timestamptz - timestamptz '2000-01-01 00:00:00+00') = {{0}}"""))
        tests = " OR ".join(form.format(i) for i in range(1, self.rng.choice((1, 30, 300))))
        return f"(({tests or 'true'}) IS NOT TRUE)"

    @staticmethod
    def item(kind: str, i: int) -> str:
        return f"2030-01-{i % 28 + 1:02}" if kind in _MOMENTS else str(10_000 + i)

    def as_type(self, rel: Rel, kind: str) -> str | None:
        """Something of a row, as a value of a type."""
        wanted = {"text": "text", "boolean": "bool"}.get(kind, "time" if kind in _MOMENTS else "num")
        cols = rel.of(wanted)
        first = next((c for c in cols if c.name == "v" and self.chance(0.5)), None)
        return f"({(first or self.rng.choice(cols)).name})::{kind}" if cols else None

    # Relations

    def filtered(self, depth: int) -> Rel:
        """Now and then with a condition as a column."""
        rel = super().filtered(depth)
        if not self.chance(0.2):
            return rel
        name = self.name("y")
        return Rel(f"SELECT {', '.join(c.name for c in rel.cols)}, {self.condition(rel)} AS {name} "
                   f"FROM ({rel.sql}) AS q", (*rel.cols, Col(name, "bool")), rel.forms, rel.depth)

    def limited(self, depth: int) -> Rel:
        rel = super().limited(depth)
        head, _, tail = rel.sql.rpartition(" LIMIT ")
        return Rel(f"{head} LIMIT {self.rng.choice((tail, '100', '2000', '9000'))}", rel.cols,
                   rel.forms, rel.depth)

    def joined(self, depth: int) -> Rel:
        """Joined by a key of any types, then grouped by it; often it is set to a constant."""
        if self.chance(0.3):
            return super().joined(depth)
        left, right = self.rng.choice(self.rng.choice((_NUMBERS, _TIMES, _PAIRS)))
        sides = [self.keyed(depth, kind) for kind in (left, right)]
        on, sql = "a.k = b.k", f"({sides[0].sql}) AS a"
        if self.chance(0.2):
            on += f" AND {self.rng.choice(('a.m <> b.m', 'a.m + b.m > 0', 'a.m = b.m'))}"
        sql += f" {self.rng.choice(('JOIN', 'JOIN', 'JOIN', 'LEFT JOIN'))} ({sides[1].sql}) AS b ON {on}"
        if self.chance(0.2):
            sql += f" JOIN ({self.keyed(depth, left).sql}) AS c ON a.k = c.k"
        where = f" WHERE a.k = {self.constant(left)}" if self.chance(0.4) else ""
        forms = sides[0].forms | sides[1].forms | {"join"}
        return Rel(f"SELECT a.k AS k, count(*) AS n FROM {sql}{where} GROUP BY a.k",
                   (Col("n", "num"),), forms, max(side.depth for side in sides) + 1)

    def keyed(self, depth: int, kind: str) -> Rel:
        """A relation with columns k and m, of which k has this type."""
        below = self.relation(self.rng.randrange(depth))
        if kind in _MOMENTS and self.chance(0.7):  # where moments, or rows of one moment, are many
            below = Rel(self.rng.choice(("@s3@", "@s3@", "@s1@", "@s2@")), _THIN)
        if self.as_type(below, kind) is None or not below.of("num"):
            below = self.table()
        value = self.as_type(below, kind)
        while value is None:
            below = self.table()
            value = self.as_type(below, kind)
        m, source = self.rng.choice(below.of("num")).name, self.source(below, "q")
        where, _ = self.where(below, 0.3)
        sql = f"SELECT {value} AS k, {m} AS m FROM {source}{where}"
        if self.chance(0.6):
            keys = self.rng.choice(("k", "k", "k, m") if kind in _MOMENTS else ("k", "k, m"))
            having = f" HAVING count(*) {self.rng.choice(('= 1', '>= 1', '> 0'))}" if self.chance(0.5) else ""
            m = "m" if keys == "k, m" else "count(*) AS m"
            sql = f"SELECT k, {m} FROM ({sql}) AS r GROUP BY {keys}{having}"
        return Rel(sql, (Col("k", kind), Col("m", "num")), below.forms, below.depth + 1)

    def constant(self, kind: str) -> str:
        """What rows may have; all of them, at worst."""
        if kind in _MOMENTS:
            return f"'2026-03-01 06:00+00'::timestamptz::{kind}"
        return {"text": "'A'", "boolean": "true"}.get(kind, "7")

    def public_joined(self, depth: int) -> Rel:
        below = self.relation(depth - 1)
        lookups = {"num": ("many p ON p.k = a.{c}", "many p ON p.k = a.{c} AND a.{c} = 7"),
                   "text": ("longer p ON p.t = a.{c}", "long p ON p.t = a.{c}", "long p ON p.t = a.{c} AND p.u > a.{c}"),
                   "time": ("days p ON p.d = a.{c}::date",)}
        choices = [(c, on) for c in below.cols for on in lookups.get(c.kind, ())]
        if not choices:
            return super().public_joined(depth)
        c, on = self.rng.choice(choices)
        kept = self.some(below.cols)
        more = {"num": ("p.n", "p.u"), "text": ("p.k", "p.u"), "time": ("p.n", "p.at")}[c.kind]
        shown = ", ".join([f"a.{col.name}" for col in kept] + [f"{more[0]} AS pn", f"{more[1]} AS pu"])
        cols = (*kept, Col("pn", "num"), *((Col("pu", "text"),) if c.kind != "time" else ()))
        kind = self.rng.choice(("JOIN", "LEFT JOIN"))
        return Rel(f"SELECT {shown} FROM {self.source(below, 'a')} {kind} {on.format(c=c.name)}", cols,
                   below.forms | {"public join"}, below.depth + 1)

    def aggregate(self, below: Rel, forms: set[str]) -> Agg:
        if self.chance(0.1) and below.of("num"):
            return Agg("count", self.number(below), distinct=True)
        return super().aggregate(below, forms)


_LETTER = "\U0001d49c"

#: the worst that a program may write: all rows alike, or none, or so that they meet public rows
FILLS: dict[str, Fill] = {
    "alike": lambda i: ("A", 7.0, float(i), True, "small"),
    "ones": lambda i: ("A", 1.0, 1.0, True, "large"),
    "different": lambda i: (f"k{i}", float(i), -float(i), i % 2 > 0, SIZES[i % 3]),
    "long and alike": lambda i: (_LETTER * 1024, 2.0, 5.0, True, "medium"),
    "long and different": lambda i: ("a" * 1018 + f"{i:06}", 1.0 + i / 7, 1e-9 * i, False, "small"),
    "public": lambda i: ("x" * 30 + str(1 + i % 300), float(i % 1_500), 7.0, True, "small"),
    "one partner": lambda i: ("x" * 30 + "7", 7.0, float(i), True, "small"),
    "one in most": lambda i: ("A" if i % 20 else f"k{i}", 7.0 if i % 20 else float(i), float(i), True, "small"),
    "one in half": lambda i: (_LETTER * 1000 if i % 2 else f"{i:06}", 7.0 if i % 2 else float(i), float(i), False, "small"),
    "digits": lambda i: ("9" * 300 + str(i), 1.2345678901234e-80 * (i + 1), 1e300, True, "large"),
}


def drawn_fills(rng: random.Random) -> dict[str, Fill]:
    """Rows of two kinds. All alike is what costs most, mostly; or almost all."""
    first = rng.choice(("alike", "alike", "one in most"))
    return {name: FILLS[name] for name in (first, rng.choice(list(FILLS)))}


