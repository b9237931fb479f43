"""Random statements that may be releases, with what is known of their columns.

Columns named k... are public keys, those named c... have noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .calculus_expressions import Rel
from .calculus_grammar import Agg, Query
from .calculus_relations import BASE
from .statements_grammar import TypedGrammar
from .statements_literals import LITERALS, TYPES

__all__ = ["Release", "Releases"]

#: forms over which the change of a count or a sum is claimed without any fact about arithmetic
_PLAIN = frozenset((
    "table", "stride +", "stride 0", "stride -", "pad", "regions", "where", "where on chunk",
    "where on region", "cte", "public join", "keys by values", "keys by public table",
    "keys by list", "keys by bool", "keys by enum", "count", "sum", "several aggregates",
    "release by bin", "lookup", "constant key"))

#: expressions that are the same for every row, of types that statements seldom group by
_CONSTANTS = ("current_user", "session_user", "current_date", "1+1", "'x'::text", "'x'::name",
              "'x' COLLATE \"C\"", "current_schema", "NULL::text", "'NaN'::float8", "true",
              "lower('X' COLLATE \"POSIX\")", "current_setting('DateStyle')", "interval '1 day'")

_MOMENTS = ("timestamptz", "timestamp", "date", "time", "interval")
#: public tables to look values of a type up in
_LOOKUPS = {"text": ("words", "c1"), "int4": ("words", "n"), "interval": ("spans", "span"),
            "numeric": ("spans", "price"), "timestamptz": ("spans", "at"),
            "float8": ("plates", "weight")}


@dataclass(frozen=True)
class Release:
    text: str
    forms: frozenset[str]
    #: types and literals of $1, $2, ...
    parameters: tuple[tuple[str, str], ...] = ()
    #: how many keys and aggregates its rows have, where both sides' values can be compared
    plain: tuple[int, int] | None = None
    keyed: bool = False


@dataclass
class Releases(TypedGrammar):
    """Draws them."""

    def draw(self, *, parametrised: bool = False) -> Release:
        """One of any kind."""
        self.typed.parameters, self.typed.parametrised = [], parametrised
        kind = self.rng.random()
        if kind < 0.1:
            return self.lookup()
        if kind < 0.16:
            return self.simple()
        query = self.release(self.rng.choice((0, 0, 0, 1, 1, 2)))
        if self.chance(0.15) and not query.argmax:
            query = self.with_key(query)
        # which key has won is noise, too
        text = query.claimed.replace(" AS k0", " AS c0") if query.argmax else query.claimed
        plain = (len(query.keys), len(query.aggs)) if _is_plain(query) else None
        keyed = bool(query.keys) and not query.argmax
        return Release(text, query.forms, tuple(self.typed.parameters), plain, keyed)

    def with_key(self, query: Query) -> Query:
        """Grouped by something more: a constant, or a condition."""
        if "FROM @" not in query.body or self.chance(0.6):
            constant = self.rng.choice(_CONSTANTS)
            return replace(query, keys=(*query.keys, constant),
                           forms=query.forms | {"constant key"},
                           aggs=query.aggs if self.chance(0.6) else ())
        condition = f"({self.typed.condition(Rel('', BASE), 2)})"
        return replace(query, keys=(*query.keys, condition),
                       forms=query.forms | {"condition as key"})

    def simple(self, public: str | None = None) -> Release:
        """Counts and sums of rows, or of rows with their row of a public table."""
        below = self.public_joined(1) if self.chance(0.6) else self.table()
        below = self.joined_with(public, 1) if public else below
        sums = [Agg("sum", f"range({c.name}, 0, 10)") for c in below.of("num") if self.chance(0.5)]
        aggs = [Agg("count"), *sums]
        aggs = self.rng.sample(aggs, self.rng.randint(1, len(aggs)))
        where, _ = self.where(below, 0.3)
        keys = tuple(c.name for c in below.of("bool", "enum") if self.chance(0.2))
        body = f"FROM {self.source(below, 'q')}{where}"
        head = f"WITH {', '.join(self.ctes)} " if self.ctes else ""
        self.ctes = []
        query = Query(head, keys, tuple(aggs), body, below.forms | {"simple"}, 0)
        return Release(query.claimed, query.forms, tuple(self.typed.parameters),
                       (len(keys), len(aggs)), bool(keys))

    def listing(self) -> Release:
        """Public keys, each with what is found under it."""
        below, public = self.table(), "words AS k(a, b, key, n)"
        if self.chance(0.5):
            keys = ("A", "B", "C", "D", "X", "", *self.strange_keys())
            values = ", ".join(f"('{key}')" for key in self.rng.sample(keys, len(keys)))
            public = f"(VALUES {values}) AS k(key)"
        aggregate = self.rng.choice(("count(q.plate)", "count(*)", "sum(range(q.v, 0, 10))",
                                     "count(DISTINCT q.size)"))
        text = (f"SELECT k.key AS k0, {aggregate} AS c0 FROM {public} LEFT JOIN {below.sql} AS q "
                f"ON q.plate = k.key GROUP BY k.key")
        return Release(text.replace("@", ""), below.forms | {"listing"}, keyed=True)

    def slow(self) -> Release:
        """A condition that takes long for some rows, in a release that may be anything."""
        below, kind = self.table(), self.rng.random()
        condition = self.typed.heavy(below)
        if kind < 0.3:
            key = self.rng.choice(_CONSTANTS)
            text = f"SELECT {key} AS k0 FROM {below.sql} AS q WHERE {condition} GROUP BY 1"
        elif kind < 0.5:
            text = f"SELECT ({condition}) AS k0, count(*) AS c0 FROM {below.sql} AS q GROUP BY 1"
        else:
            aggregate = self.rng.choice(("count(*)", "sum(range(v, 0, 1))"))
            text = f"SELECT {aggregate} AS c0 FROM {below.sql} AS q WHERE {condition}"
        return Release(text.replace("@", ""), below.forms | {"slow"}, keyed=kind < 0.5)

    def lookup(self) -> Release:
        """Rows joined with listed values of any type, some of which may be equal."""
        below = self.table()
        kind = self.rng.choice([t for t in TYPES if t not in ("boolean", "anyenum")])
        number = min(len(LITERALS[kind]), self.rng.choice((2, 3, 6, 12)))
        several = self.rng.sample(LITERALS[kind], number)
        values = ", ".join(f"({value}, {i})" for i, value in enumerate(several))
        source, key = f"(VALUES {values}) AS k(key, i)", "key"
        if kind in _LOOKUPS and self.chance(0.4):
            public, key = _LOOKUPS[kind]
            source = f"{public} AS k"
        value = ""
        while not any(c.name in value for c in below.cols):
            value = self.typed.of(kind, below, 2, trusted=kind in _MOMENTS)
        aggregate = self.rng.choice(("count(*)", "count(*)", "sum(range(v, 0, 10))"))
        keyed = self.chance(0.4)
        if keyed:
            text = (f"SELECT k.{key} AS k0, {aggregate} AS c0 FROM {source} "
                    f"LEFT JOIN {below.sql} AS q ON {value} = k.{key} GROUP BY k.{key}")
        else:
            where, _ = self.where(below, 0.3)
            text = (f"SELECT {aggregate} AS c0 FROM {below.sql} AS q "
                    f"{self.rng.choice(('JOIN', 'LEFT JOIN'))} {source} "
                    f"ON {value} = k.{key}{where}")
        return Release(text.replace("@", ""), below.forms | {"lookup"},
                       tuple(self.typed.parameters), (int(keyed), 1), keyed)


def _is_plain(query: Query) -> bool:
    def counted(agg: Agg) -> bool:
        alone = not agg.distinct and agg.filter is None
        of_range = agg.fn == "sum" and (agg.arg or "").startswith("range(")
        return alone and (of_range or (agg.fn == "count" and agg.arg is None))

    return query.forms <= _PLAIN and not query.argmax and all(map(counted, query.aggs))
