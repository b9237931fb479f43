"""Random expressions over the columns of a relation: numbers, texts, bins of time, conditions."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .calculus_world import SIZES, STARTS

__all__ = ["NUMBERS", "PLATES", "RANGES", "Col", "Expressions", "Rel"]

NUMBERS = ("-5", "0", "1", "2", "3", "5", "10", "30")
RANGES = ((0, 10), (0, 1), (0, 3), (-5, 5), (30, 60), (-60, -30), (0, 100), (-20, 60), (0, 0.5), (2, 5), (5, 5))
PLATES = ("A", "B", "C", "D", "Z")


@dataclass(frozen=True)
class Col:
    name: str
    kind: str  # text, num, bool, enum, time, bin (a public function of chunk), gap (an interval)
    declared: bool = False  # its options bound it


@dataclass(frozen=True)
class Rel:
    """A relation: a table, or a SELECT in parentheses."""

    sql: str
    cols: tuple[Col, ...]
    forms: frozenset[str] = frozenset()
    depth: int = 0
    cte: bool = False

    def of(self, *kinds: str) -> list[Col]:
        return [c for c in self.cols if c.kind in kinds]


@dataclass
class Expressions:
    """Draws expressions."""

    rng: random.Random

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def number(self, rel: Rel) -> str:
        """A number computed from a row."""
        choose = self.rng.choice
        columns = [c.name for c in rel.of("num")]
        if not columns:
            return f"length({choose(rel.of('text')).name})" if rel.of("text") else "1"
        a, b = choose(columns), choose(columns)
        if self.chance(0.5):
            return a
        k = choose(NUMBERS)
        return choose((f"{a} * 2", f"{a} + {k}", f"-({a})", f"abs({a})", f"{a} - {b}", f"{a} * {b}", f"({a}) / 2", f"floor({a})",
                       f"nullif({a}, {k})", f"coalesce(nullif({a}, {k}), {b})", f"CASE WHEN {self.condition(rel)} THEN {a} ELSE {k} END",
                       f"CASE WHEN {self.condition(rel)} THEN {a} END", f"greatest({a}, {k})", f"least({a}, {b})",
                       f"3 - ({a})", f"({a}) * -1", f"({a}) / -2", f"round({a})", f"sign({a})", f"coalesce({a}, {k})",
                       f"greatest({a}, {b})"))

    def ranged(self, rel: Rel) -> str:
        plain = [c.name for c in rel.of("num") if c.declared]
        if plain and self.chance(0.4):
            return self.rng.choice((*plain * 3, f"least({plain[0]}, 3)", f"CASE WHEN {self.condition(rel)} THEN {plain[0]} ELSE 2 END"))
        lo, hi = self.rng.choice(RANGES)
        value = self.number(rel)
        if self.chance(0.12):
            return f"least(greatest({value}, {lo}), {hi})"
        return f"range({value}, {lo}, {hi})"

    def text(self, rel: Rel) -> str:
        c = self.rng.choice(rel.of("text")).name
        return self.rng.choice((f"lower({c})", f"nullif({c}, 'A')", f"left({c}, 1)", f"coalesce(nullif({c}, 'B'), 'A')", f"{c} || 'x'"))

    def bin(self, rel: Rel) -> str:
        """A public function of chunk."""
        bins = [c.name for c in rel.of("bin")]
        times = [c.name for c in rel.of("time")]
        if bins and (not times or self.chance(0.5)):
            return self.rng.choice(bins)
        c = self.rng.choice(times)
        return self.rng.choice((f"date_trunc('second', {c})", f"date_bin('2 seconds', {c}, '2026-03-01 06:00+00')", f"hour({c})",
                                f"floor(extract(second FROM {c}) / 2)", f"bin({c}, '1 second')", c))

    def condition(self, rel: Rel) -> str:
        """On what executables output."""
        choose = self.rng.choice
        found: list[str] = []
        for c in rel.cols:
            if c.kind == "num":
                found += [f"{c.name} {choose(('<', '<=', '>', '>=', '=', '<>'))} {choose(NUMBERS)}", f"{c.name} BETWEEN 1 AND 10",
                          f"{c.name} IS NOT NULL", f"NOT ({c.name} > {choose(NUMBERS)})", f"-({c.name}) >= -2",
                          f"{c.name} IS DISTINCT FROM 2",
                          f"coalesce({c.name}, 0) < 3", f"({c.name} > 1) IS NOT TRUE", f"{c.name} IN (1, 2, 5)"]
            elif c.kind == "text":
                found += [f"{c.name} = '{choose(PLATES)}'", f"{c.name} IN ('A', 'C', 'E')", f"{c.name} <> 'A'", f"{c.name} LIKE 'A%'"]
            elif c.kind == "bool":
                found += [c.name, f"NOT {c.name}", f"{c.name} IS NOT TRUE"]
            elif c.kind == "enum":
                found += [f"{c.name} = '{choose(SIZES)}'", f"{c.name} > 'small'"]
        if not found:
            return "true"
        first = choose(found)
        return f"({first} {choose(('AND', 'OR'))} {choose(found)})" if self.chance(0.25) else first

    def trusted(self, rel: Rel) -> str:
        c = self.rng.choice(rel.of("time")).name
        at = f"'{STARTS.isoformat()}'::timestamptz + interval '{self.rng.choice(('0.5', '1', '1.5', '2', '3'))} seconds'"
        return self.rng.choice((f"{c} >= {at}", f"{c} < {at}", f"extract(second FROM {c}) < 2", f"date_trunc('second', {c}) <> {at}",
                                f"extract(milliseconds FROM {c}) IN (0, 500, 1000, 1500, 2000, 3000)"))

    def where(self, rel: Rel, p: float, *extra: str) -> tuple[str, frozenset[str]]:
        conditions, forms = list(extra), set()
        if self.chance(p * 0.8) and rel.of("num", "text", "bool", "enum"):
            conditions.append(self.condition(rel))
            forms.add("where")
        if self.chance(p * 0.3) and rel.of("time"):
            conditions.append(self.trusted(rel))
            forms.add("where on chunk")
        if self.chance(p * 0.4) and any(c.name == "region" for c in rel.cols):
            conditions.append(self.rng.choice(("region = 'a'", "region IN ('a', 'c')", "region <> 'a'",
                                               "NOT region = ANY (ARRAY['b', 'c'])",
                                               *([f"(region = 'a' OR {self.trusted(rel)})"] if rel.of("time") else []))))
            forms.add("where on region")
        self.rng.shuffle(conditions)
        return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), frozenset(forms)
