"""The search that is not told where to look: statements made from the allow-list, on all values.

Every function, operator and cast that a release may contain is drawn, over every type, nested, in every
place where an expression may stand; rows have the ends and oddities of their types. What the room evaluates
is compared with the claim.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from .calculus_expressions import Col, Rel
from .calculus_grammar import Agg, Grammar, Query
from .calculus_search import Searcher
from .calculus_stand import Stand, own_postgres
from .calculus_world import KIND, TABLES
from .statements_calls import Calls, read_calls
from .statements_expressions import Typed
from .statements_literals import LITERALS
from .statements_world import TYPE

__all__ = ["Discovering", "Discovery", "main"]

_NUMBERS = ("float8", "numeric", "int4", "int8")
_BINS = ("timestamptz", "text", "numeric", "date", "float8", "boolean", "int4")
_BOUNDS = ((0, 10), (0, 1), (-5, 5), (30, 60), (0, 3), (0, "1e15"), (0, "1e18"), (0, 0.5), (5, 5), (-3, 7))


@dataclass
class Discovering(Grammar):
    """Draws statements with expressions from the list in all places."""

    tables: Sequence[str] = tuple(TABLES)
    operators: Sequence[str] = ("filter", "group", "distinct", "limit", "union all", "union", "setop", "join", "public join", "listed")
    calls: Calls = field(default_factory=Calls)
    typed: Typed = field(init=False)
    #: the chance of an expression from the list, where the plainer grammar has one of its own
    odd: float = 0.5

    def __post_init__(self) -> None:
        self.typed = Typed(self.rng, self.calls, forbidden=0.0)

    def release(self, depth: int | None = None) -> Query:
        return super().release(self.rng.choice((0, 1, 1, 2, 2, 2, 3)) if depth is None else depth)

    def of(self, kind: str, rel: Rel, depth: int | None = None, *, trusted: bool = False) -> str:
        text = self.typed.of(kind, rel, depth or self.rng.choice((1, 1, 2, 2, 3)), trusted=trusted)
        return f"({text})".replace(TYPE, KIND)

    def number(self, rel: Rel) -> str:
        """Over the columns, and over what has bounds."""
        if not self.chance(self.odd):
            return super().number(rel)
        if rel.of("num") and self.chance(0.4):
            return self.bounded(rel, self.rng.choice((1, 2, 3)))
        return self.of(self.rng.choice(_NUMBERS), rel)

    def bounded(self, rel: Rel, depth: int) -> str:
        """Arithmetic, casts and choices of what has bounds: ranges, numbers, and columns that may be counts."""
        if depth == 0:
            column, (low, high) = self.rng.choice(rel.of("num")).name, self.rng.choice(_BOUNDS)
            return self.rng.choice((f"range({column}, {low}, {high})",) * 3 + (column, self.typed.literal(self.rng.choice(_NUMBERS)),
                                                                               self.rng.choice(("1", "2", "3", "10"))))
        a, b = self.bounded(rel, depth - 1), self.bounded(rel, depth - 1)
        kind = self.rng.choice(_NUMBERS)
        return self.rng.choice((
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})", f"({a})::{kind}", f"(({a})::{kind} * ({b})::{kind})",
            f"(({a})::{kind} / ({b})::{kind})", f"(({a})::{kind} + ({b})::{kind})", f"(- ({a}))", f"abs({a})", f"floor({a})",
            f"coalesce(({a})::{kind}, ({b})::{kind})", f"least(({a})::{kind}, ({b})::{kind})",
            f"CASE WHEN {self.condition(rel)} THEN ({a})::{kind} ELSE ({b})::{kind} END"))

    def ranged(self, rel: Rel) -> str:
        """What is summed: mostly with a range, and now and then without, which must be refused or right."""
        if self.chance(0.35):
            return self.number(rel)
        low, high = self.rng.choice(_BOUNDS)
        return f"range({self.number(rel)}, {low}, {high})"

    def text(self, rel: Rel) -> str:
        return self.of("text", rel) if self.chance(self.odd) else super().text(rel)

    def bin(self, rel: Rel) -> str:
        if rel.of("time") and self.chance(self.odd / 3):
            return self.of(self.rng.choice(_BINS), rel, trusted=True)
        return super().bin(rel)

    def condition(self, rel: Rel) -> str:
        if self.chance(self.odd):
            return f"({self.typed.condition(rel, self.rng.choice((1, 2)))})".replace(TYPE, KIND)
        return super().condition(rel)

    def trusted(self, rel: Rel) -> str:
        return self.of("boolean", rel, trusted=True) if self.chance(self.odd / 2) else super().trusted(rel)

    def group_condition(self, below: Rel) -> str:
        """On aggregates in the place of columns."""
        if not self.chance(self.odd):
            return super().group_condition(below)
        values = {f"agg{i}": self.group_value(below) for i in range(2)}
        kind = self.rng.choice(("boolean", "float8", "int8", "numeric"))
        text = self.of(kind, Rel("", tuple(Col(name, "num") for name in values)), 2)
        for name, value in values.items():
            text = text.replace(name, value)
        return text if kind == "boolean" else f"{text} {self.rng.choice(('>=', '>', '<', '=', '<>'))} {self.rng.choice(('1', '2', '0'))}"

    def declare(self, below: Rel, keys: list[str], declared: list[str], forms: set[str]) -> tuple[str, Sequence[str]] | None:
        """Untrusted keys of any type, with a list of what they may be."""
        if not self.chance(self.odd / 2):
            return super().declare(below, keys, declared, forms)
        kind = self.rng.choice(("float8", "numeric", "int4", "int8", "text", "boolean"))
        key = self.of(kind, below, 2)
        if kind != "boolean":
            several = self.rng.sample(LITERALS[kind], min(3, len(LITERALS[kind])))
            declared.append(f"{key} IN ({', '.join(several)})")
        keys.append(key)
        forms.add(f"keys by {kind}")
        return None

    def public_joined(self, depth: int) -> Rel:
        """Each row with a public row: found by more than its key, or by a value of any type."""
        if not self.chance(self.odd):
            return super().public_joined(depth)
        below = self.with_plate(self.relation(depth - 1))
        kind, kept = self.rng.choice(("JOIN", "LEFT JOIN")), self.some([c for c in below.cols if c.name not in ("owner", "weight")])
        columns = [f"a.{c.name}" for c in kept]
        own = Rel("", tuple(Col(f"a.{c.name}", c.kind) for c in below.cols))
        if self.chance(0.5):
            on = f"p.plate = a.plate AND {self.condition(own)}"
            return Rel(f"SELECT {', '.join([*columns, 'p.owner', 'p.weight'])} FROM {self.source(below, 'a')} {kind} plates p ON {on}",
                       (*kept, Col("owner", "text"), Col("weight", "num")), below.forms | {"public join"}, below.depth + 1)
        of = self.rng.choice(("float8", "numeric", "int4", "text", "interval", "timestamptz"))
        several = self.rng.sample(LITERALS[of], min(len(LITERALS[of]), self.rng.choice((2, 3, 6, 12))))
        values = ", ".join(f"({value}, {i})" for i, value in enumerate(several))
        on = f"p.key = {self.of(of, own, 2, trusted=of in ('interval', 'timestamptz'))}"
        return Rel(f"SELECT {', '.join([*columns, 'p.i AS weight'])} FROM {self.source(below, 'a')} {kind} (VALUES {values}) AS p(key, i) "
                   f"ON {on}", (*kept, Col("weight", "num")), below.forms | {"lookup"}, below.depth + 1)

    def listed(self, depth: int) -> Rel:
        """Public keys with any aggregate of what is found under them, also of what is missing."""
        if not self.chance(self.odd):
            return super().listed(depth)
        below = self.with_plate(self.relation(depth - 1))
        own = Rel("", tuple(Col(f"q.{c.name}", c.kind) for c in below.cols))
        value = self.rng.choice((self.number(own), self.ranged(own), self.text(own)))
        kept = f" FILTER (WHERE {self.condition(own)})" if self.chance(0.4) else ""
        fn, name = self.rng.choice(("count", "count", "sum", "max", "avg")), self.name("n")
        public, more = self.public_keys()
        return Rel(f"SELECT k.key AS plate, {fn}({value}){kept} AS {name} FROM {public} LEFT JOIN {self.source(below, 'q')} "
                   f"ON q.plate = k.key GROUP BY k.key", (Col("plate", "text"), Col(name, "num")),
                   below.forms | {"nested listing", more}, below.depth + 1)

    def aggregate(self, below: Rel, forms: set[str]) -> Agg:
        """Any listed aggregate now and then, of a value of its type."""
        if not self.chance(self.odd / 2):
            return super().aggregate(below, forms)
        call = self.rng.choice(self.calls.aggregates)
        forms.add("any aggregate")
        if not call.types:
            return Agg("count")
        kind = self.rng.choice(("text", *_NUMBERS)) if call.types[0] == "any" else call.types[0]
        value = self.of(kind, below, 2)
        if call.name not in ("count", "min", "max") and kind != "interval" and self.chance(0.8):
            low, high = self.rng.choice(_BOUNDS)
            value = f"range({value}, {low}, {high})"
        return Agg(call.name, value, distinct=call.name == "count" and self.chance(0.3))


class Discovery(Searcher):
    """Searches, and keeps which entries of the list accepted statements had."""

    odd = 0.25

    def __init__(self, stand: Stand, seed: int) -> None:
        self.calls = read_calls(stand.claims)
        super().__init__(stand, seed, Discovering(random.Random(seed), calls=self.calls))
        self.met: set[str] = set()

    def run(self, pairs: int, **options: int) -> Any:
        return super().run(pairs, **(options or {"rounds": 2, "fresh": 14, "size": 10}))

    def is_refusal(self, error: psycopg.Error) -> bool:
        """What is drawn need not be SQL: casts that do not exist, constants that raise."""
        return (error.sqlstate or "")[:2] in ("22", "42", "0A")

    def claim(self, query: Any) -> Any:
        found = super().claim(query)
        if found is not None and any(output.public is not None for output in found.plan.outputs):
            return None  # first and last chunks are evaluated nowhere; the plainer search looks at them
        if found is not None and len(found.plan.outputs) != len(query.aggs):
            return None  # two that PostgreSQL finds the same are released once
        if found is not None:
            self.met |= set(_identities(found.request["select"]))
        return found

    def covered(self) -> tuple[int, list[str]]:
        """How many entries of the list there are, and those that no accepted statement had."""
        listed = {f"{c.schema}.{c.name}({','.join(c.types)})" if c.kind != "cast" else f"cast({c.types[0]},{c.result})"
                  for calls in self.calls.allowed.values() for c in calls}
        return len(listed), sorted(listed - self.met)


def _identities(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("fn"), str):
            yield node["fn"]
        for value in node.values():
            yield from _identities(value)
    elif isinstance(node, list):
        for value in node:
            yield from _identities(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begun = time.monotonic()
    with own_postgres() as layout:
        stand = Stand(layout)
        try:
            search = Discovery(stand, options.seed)
            while search.tally.pairs < options.pairs:
                search.run(min(20_000, options.pairs - search.tally.pairs))
                listed, missing = search.covered()
                print(f"{search.tally.pairs:>9} pairs, {search.tally.accepted['all']} statements, {len(search.tally.findings)} violations, "
                      f"{100 - 100 * len(missing) / listed:.0f} % of the list, {time.monotonic() - begun:.0f} s", flush=True)
        finally:
            stand.close()
    print(search.tally.report())
    print(f"not met: {', '.join(missing) or 'nothing'}")
    for finding in search.tally.findings[:20]:
        print(f"\nVIOLATION: {finding}")
    return 1 if search.tally.findings or search.tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
