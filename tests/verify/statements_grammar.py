"""The grammar of the calculus' verification over the tables of statements_world, filled with typed
expressions: conditions, numbers, texts, bins, joins and aggregates of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .calculus_expressions import Rel
from .calculus_grammar import Agg, Grammar
from .calculus_relations import BASE, REGION
from .statements_calls import Calls
from .statements_expressions import Typed
from .statements_world import TABLES

__all__ = ["TypedGrammar"]

_OPERATORS = ("filter", "filter", "group", "group", "distinct", "limit", "union all", "union",
              "setop", "join", "public join", "public join", "listed")
_BINS = ("timestamptz", "text", "numeric", "date", "float8", "boolean", "int4")

#: columns by which each public table is joined; those of words have three collations
_KEYS = {"many": ("plate",), "plates": ("plate",), "words": ("k", "k", "k", "c1", "c2")}
_LISTS = ("words AS k(key, other, third, n)", "words AS k(other, key, third, n)",
          *("words AS k(a, b, key, n)",) * 4, "plates AS k(key, keeper, load)")


@dataclass
class TypedGrammar(Grammar):
    """Draws statements. Some are refused; those must be refused alike."""

    tables: Sequence[str] = tuple(TABLES)
    operators: Sequence[str] = _OPERATORS
    calls: Calls = field(default_factory=Calls)
    typed: Typed = field(init=False)
    #: the chances of a typed expression, and of one that takes long
    odd: float = 0.35
    heavy: float = 0.02

    def __post_init__(self) -> None:
        self.typed = Typed(self.rng, self.calls)

    def table(self) -> Rel:
        name = self.rng.choice(list(self.tables))
        site = TABLES[name]
        stride = "+" if site.step > site.size else "-" if site.step < site.size else "0"
        forms = {"table", f"stride {stride}"}
        forms |= {"pad"} if site.pad else set()
        forms |= {"regions"} if site.regions else set()
        return Rel(f"@{name}@", (REGION, *BASE) if site.regions else BASE, frozenset(forms))

    def number(self, rel: Rel) -> str:
        if self.chance(self.odd):
            return f"({self.typed.of('float8', rel, 2)})"
        return super().number(rel)

    def text(self, rel: Rel) -> str:
        if self.chance(self.odd):
            return f"({self.typed.of('text', rel, 2)})"
        return super().text(rel)

    def bin(self, rel: Rel) -> str:
        if rel.of("time") and self.chance(self.odd / 2):
            return f"({self.typed.of(self.rng.choice(_BINS), rel, 2, trusted=True)})"
        return super().bin(rel)

    def condition(self, rel: Rel) -> str:
        if self.chance(self.heavy):
            return f"({self.typed.heavy(rel)})"
        if self.chance(self.odd):
            return f"({self.typed.condition(rel, 2)})"
        return super().condition(rel)

    def trusted(self, rel: Rel) -> str:
        if self.chance(self.odd):
            return f"({self.typed.condition(rel, 2, trusted=True)})"
        return super().trusted(rel)

    def public_joined(self, depth: int) -> Rel:
        """Each row with its row of a public table: of the grammar's, or of those that change."""
        if self.chance(0.5):
            return super().public_joined(depth)
        return self.joined_with(self.rng.choice(("many", "words", "words", "plates")), depth)

    def joined_with(self, public: str, depth: int) -> Rel:
        below = self.with_plate(self.relation(depth - 1))
        key = self.rng.choice(_KEYS[public])
        kept = self.some([c for c in below.cols if c.name not in ("owner", "weight")])
        conditions = [f"p.{key} = a.plate", f"a.plate = p.{key}", f"lower(a.plate) = p.{key}",
                      f"p.{key} = a.plate AND true"]
        if public == "words":  # columns of two collations compared with each other
            conditions.append(f"coalesce(p.c1, p.c2) < a.plate AND p.{key} = a.plate")
        columns = ", ".join(f"a.{c.name}" for c in kept)
        kind = self.rng.choice(("JOIN", "LEFT JOIN"))
        return Rel(f"SELECT {columns} FROM {self.source(below, 'a')} {kind} {public} p "
                   f"ON {self.rng.choice(conditions)}", kept, below.forms | {"public join"},
                   below.depth + 1)

    def public_keys(self, values: Sequence[str] = ("A", "B", "C", "Z")) -> tuple[str, str]:
        if self.chance(0.4):
            return self.rng.choice(_LISTS), "keys by public table"
        more = self.strange_keys() if self.chance(0.2) else []
        return super().public_keys((*values, "X", *more))

    def strange_keys(self) -> list[str]:
        """Keys that nobody has, each time others: their order in a hash table is another one."""
        return [f"{self.rng.getrandbits(32):x}" for _ in range(self.rng.randint(8, 20))]

    def aggregate(self, below: Rel, forms: set[str]) -> Agg:
        """Any listed aggregate now and then, of a value of its type."""
        if not self.chance(0.1):
            return super().aggregate(below, forms)
        call = self.rng.choice(self.calls.aggregates)
        forms.add("any aggregate")
        if not call.types:
            return Agg("count")
        kind = "text" if call.types[0] == "any" else call.types[0]
        value = self.typed.of(kind, below, 2)
        if call.name not in ("count", "min", "max") and kind != "interval" and self.chance(0.6):
            value = f"range(({value})::float8, 0, 10)"
        return Agg(call.name, value, fraction="0.5" if call.name.startswith("percentile_") else None)
