"""Random statements over the whole grammar that the calculus speaks, written as an analyst would write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .calculus_expressions import PLATES, Rel
from .calculus_relations import TABLE, Relations

__all__ = ["Agg", "Grammar", "Query"]

EXTREMES = (("min", "chunk"), ("max", "chunk"), ("max", "date_trunc('second', chunk)"), ("min", "bin(chunk, '2 seconds')"))


@dataclass(frozen=True)
class Agg:
    """One aggregate of the release."""

    fn: str
    arg: str | None = None
    distinct: bool = False
    filter: str | None = None
    #: of a quantile
    fraction: str | None = None

    def sql(self, fn: str | None = None, arg: str | None = None) -> str:
        inside = arg or self.arg or "*"
        tail = f" FILTER (WHERE {self.filter})" if self.filter else ""
        if self.fraction is not None and fn is None:
            return f"{self.fn}({self.fraction}) WITHIN GROUP (ORDER BY {inside}){tail}"
        return f"{fn or self.fn}({'DISTINCT ' if self.distinct else ''}{inside}){tail}"


@dataclass(frozen=True)
class Query:
    """A release: head (WITH), keys, aggregates, and everything from FROM on."""

    head: str
    keys: tuple[str, ...]
    aggs: tuple[Agg, ...]
    body: str
    forms: frozenset[str]
    depth: int
    #: only the key with the largest value of the one aggregate is asked for
    argmax: bool = False

    def sql(self, columns: Sequence[str] | None = None) -> str:
        """The statement, or the same with other columns in the place of its aggregates."""
        wanted = [f"{k} AS k{i}" for i, k in enumerate(self.keys)]
        wanted += [f"{c} AS c{i}" for i, c in enumerate(columns if columns is not None else [a.sql() for a in self.aggs])]
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        if self.argmax and columns is None:
            if self.aggs[0] == Agg("count") and len(self.body) % 2:
                return f"{self.head}SELECT privid.argmax({self.keys[0]}) AS k0 {self.body}"
            return f"{self.head}SELECT {self.keys[0]} AS k0 {self.body}{group} ORDER BY {self.aggs[0].sql()} DESC LIMIT 1"
        return f"{self.head}SELECT {', '.join(wanted)} {self.body}{group}"

    @property
    def tables(self) -> list[str]:
        return sorted(set(TABLE.findall(self.head + self.body)))

    @property
    def claimed(self) -> str:
        """Over the foreign tables."""
        return TABLE.sub(r"\1", self.sql())

    def true(self, columns: Sequence[str] | None = None) -> str:
        """Over the ordinary tables, for each world z.world."""
        return TABLE.sub(r"(SELECT chunk, region, plate, v, w, red, size FROM truth_\1 WHERE world = z.world)", self.sql(columns))

    def over(self, prefix: str, columns: Sequence[str] | None = None) -> str:
        """Over tables with a prefix."""
        return TABLE.sub(rf"{prefix}\1", self.sql(columns))


@dataclass
class Grammar(Relations):
    """Draws whole statements."""

    aggregates: Sequence[str] = ("count", "count value", "count distinct", "sum", "sum", "avg", "var")
    #: tables of which the first and the last chunk are asked
    extremes: Sequence[str] = ()

    def release(self, depth: int | None = None) -> Query:
        """A whole statement."""
        self.numbered, self.ctes = 0, []
        below = self.relation(self.rng.choice((0, 0, 1, 1, 1, 2, 2, 3)) if depth is None else depth)
        keys: list[str] = []
        declared: list[str] = []
        forms = set(below.forms)
        if below.of("time", "bin") and self.chance(0.3):
            keys.append(self.bin(below))
            forms.add("release by bin")
        listing = self.declare(below, keys, declared, forms) if self.chance(0.4) else None
        # what is written twice is released once
        aggs = tuple(dict.fromkeys(self.aggregate(below, forms) for _ in range(self.rng.choice((1, 1, 1, 2, 3)))))
        if below.sql.strip("@") in self.extremes and self.chance(0.3):
            aggs = (*aggs[:self.rng.choice((0, 1, 2))], Agg(*self.rng.choice(EXTREMES)))
            forms.add("extreme")
        if len(aggs) > 1:
            forms.add("several aggregates")
        if listing is not None:
            key, values = listing
            where, more = self.where(below, 0.3)
            public, form = self.public_keys(values)
            forms.add(form)
            body = f"FROM {public} LEFT JOIN {self.source(below, 'q')} ON q.{key} = k.key{where}"
            keys = ["k.keeper" if form == "keys by public table" and self.chance(0.3) else "k.key"]
        else:
            where, more = self.where(below, 0.4, *declared)
            body = f"FROM {self.source(below, 'q')}{where}"
        head = f"WITH {', '.join(self.ctes)} " if self.ctes else ""
        if head:
            forms.add("cte")
        argmax = len(keys) == 1 and listing is None and aggs[0].fn in ("count", "sum") and self.chance(0.15)
        if argmax:
            aggs = aggs[:1]
            forms = {f for f in forms if f not in ("several aggregates", "extreme", *self.aggregates)} | {"argmax"}
        return Query(head, tuple(dict.fromkeys(keys)), aggs, body, frozenset(forms | more), below.depth, argmax)

    def declare(self, below: Rel, keys: list[str], declared: list[str], forms: set[str]) -> tuple[str, Sequence[str]] | None:
        """Untrusted keys, declared in one of the ways that people write."""
        choices = [c for c in below.of("text", "bool", "enum") if c.name != "side" or self.chance(0.5)]
        if not choices:
            return None
        c = self.rng.choice(choices)
        if c.kind == "text":
            values = self.rng.sample(PLATES if c.name != "owner" else ("ann", "bob", "dan"), self.rng.choice((1, 2, 3)))
            if c.name == "side":
                keys.append(c.name)
                forms.add("release by side")
                return None
            if c.declared and self.chance(0.6):
                keys.append(c.name)
                forms.add("keys by option")
                return None
            if not keys and self.chance(0.2):
                return c.name, values
            listed = ", ".join(f"'{x}'" for x in values)
            declared.append(self.rng.choice((f"{c.name} IN ({listed})", f"{c.name} = ANY (ARRAY[{listed}])")))
            forms.add("keys by list")
        else:
            forms.add(f"keys by {c.kind}")
        keys.append(c.name)
        return None

    def aggregate(self, below: Rel, forms: set[str]) -> Agg:
        kind = self.rng.choice(list(self.aggregates))
        condition = self.condition(below) if self.chance(0.12) else None
        if condition:
            forms.add("filter clause")
        if kind in ("sum", "avg", "var", "quantile") and not below.of("num"):
            kind = "count"
        forms.add(kind)
        if kind == "count":
            return Agg("count", None, filter=condition)
        if kind == "count value":
            value = self.number(below) if below.of("num") else below.cols[0].name
            return Agg("count", value, filter=condition)
        if kind == "count distinct":
            c = self.rng.choice(below.cols).name
            return Agg("count", c if self.chance(0.8) else f"nullif({c}, {c})", distinct=True, filter=condition)
        value = self.ranged(below)
        if kind == "var":
            return Agg(self.rng.choice(("var_pop", "var_samp", "variance", "stddev", "stddev_pop", "stddev_samp")), value, filter=condition)
        if kind == "quantile":
            name = self.rng.choice(("percentile_cont", "percentile_disc"))
            return Agg(name, value, filter=condition, fraction=self.rng.choice(("0.5", "0.5", "0.25", "0.9", "0", "1")))
        return Agg(kind, value, filter=condition)
