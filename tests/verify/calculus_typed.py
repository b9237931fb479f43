"""Typed expressions drawn from the allow-list: every listed function, operator and cast over columns of the types that it takes.

A call that accepted statements have not had yet, in the place where the expression will stand, is drawn rather than one that they have;
one that is refused there again and again is drawn less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from privid.calculus.functions import FUNCTIONS, FunctionClass

from .calculus_tape import Tape, production
from .calculus_world import KIND, PLATES
from .statements_calls import Call, Calls
from .statements_literals import FIELDS, FORMATS, LITERALS, PATTERNS, TYPES, ZONES
from .statements_world import TYPE

__all__ = ["NUMBERS", "TEXTS", "Column", "Typed", "identity"]

#: of the type text itself, the same in every session
TEXTS = tuple(text for text in LITERALS["text"] if not text.startswith("current") and ("::" not in text or text.endswith("::text")))

NUMBERS = ("float8", "numeric", "int8", "int4")
_TOLD = {("date_trunc", 0): FIELDS, ("extract", 0): FIELDS, ("date_part", 0): FIELDS, ("timezone", 0): ZONES, ("date_trunc", 2): ZONES,
         ("to_char", 1): FORMATS, ("like", 1): PATTERNS, ("notlike", 1): PATTERNS, ("~~", 1): PATTERNS, ("!~~", 1): PATTERNS}
_WHOLE = ("0", "1", "2", "3", "-1", "5", "7", "9", "10", "11", "100")
#: bounds of ranges: near zero and far from it, wide and narrow, and some half-way between points of a coarser grid
_NEAR = ("-100", "-7", "-5", "-3", "-1", "0", "0", "0", "0", "0.5", "1", "2", "5", "10", "30", "60", "2.34565")
_FAR = ("-1e18", "-1e15", "1e9", "1e15", "9e17")
_WIDTHS = ("0", "0.5", "1", "2", "3", "10", "30", "250")
#: the ends of types, and what is no number: where arithmetic and conversions have no result
_ENDS = {"float8": ("1e308::float8", "-1e308::float8", "5e-324::float8", "'NaN'::float8", "'Infinity'::float8"),
         "numeric": ("1e100::numeric", "1e-100::numeric", "'NaN'::numeric", "'Infinity'::numeric", "9e18::numeric"),
         "int8": ("9223372036854775807", "'-9223372036854775808'::int8", "2147483648"),
         "int4": ("2147483647", "'-2147483648'::int4"),
         "timestamptz": ("'infinity'::timestamptz", "'-infinity'::timestamptz", "NULL::timestamptz",
                         "'4714-11-24 00:00:00+00 BC'::timestamptz", "'294276-12-31 23:59:59+00'::timestamptz")}
#: what statements say that people write to look at little
_SMALL = {"text": tuple(map(repr, PLATES[:4])), **dict.fromkeys(NUMBERS, ("0", "1", "2", "5", "10"))}
_LOWS, _HIGHS = ("0", "0", "0", "1", "2", "-3"), ("0.5", "1", "3", "5", "10", "30", "3.45675", "2.34565")
#: how a value of a type is had from a column of another
_FROM: dict[str, tuple[tuple[str, str], ...]] = {
    "float8": (("int8", "({})::float8"), ("numeric", "({})::float8"), ("int4", "({})::float8"), ("text", "({})::float8")),
    "numeric": (("float8", "({})::numeric"), ("int8", "({})::numeric"), ("int4", "({})::numeric")),
    "int8": (("float8", "({})::int8"), ("numeric", "({})::int8"), ("int4", "({})::int8"), ("text", "({})::int8")),
    "int4": (("boolean", "({})::int4"), ("float8", "({})::int4"), ("int8", "({})::int4"), ("numeric", "({})::int4"), ("text", "({})::int4"),
             ("text", "length({})")),
    "text": (("float8", "({})::text"), ("numeric", "({})::text"), ("int8", "({})::text"), ("anyenum", "({})::text"),
             ("boolean", "({})::text"), ("timestamptz", "({})::text")),
    "boolean": (("text", "({})::boolean"), ("text", "({} = 'A')"), ("float8", "({} > 1)"), ("int8", "({} >= 2)"),
                ("timestamptz", "({} < '2026-03-01 06:00:01+00')")),
    "timestamp": (("timestamptz", "({})::timestamp"),),
    "date": (("timestamptz", "({})::date"),),
    "time": (("timestamptz", "({})::time"),),
    "interval": (("timestamptz", "({} - '2026-03-01 06:00:00+00'::timestamptz)"),),
}


def identity(call: Call) -> str:
    return f"{call.schema}.{call.name}({','.join(call.types)})" if call.kind != "cast" else f"cast({call.types[0]},{call.result})"


@dataclass(frozen=True)
class Column:
    """Anything with a type that an expression can be made of: a column, an aggregate, a range."""

    text: str
    type: str
    #: computed from chunk and region alone
    trusted: bool = False
    declared: bool = False  # a column whose options bound it
    made: bool = False  # by some operator: no column of a table


@dataclass
class Met:
    """How often a call was drawn for a place, and how often the statement was accepted."""

    drawn: Counter[tuple[str, str]] = field(default_factory=Counter)
    accepted: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: met in some place
    anywhere: set[str] = field(default_factory=set)

    def weight(self, entry: tuple[str, str]) -> float:
        accepted = self.accepted[entry]
        return ((accepted + 1) / (self.drawn[entry] + 1) / (1 + accepted) + 0.01) * (1 if entry[0] in self.anywhere else 4)

    def note(self, entries: Iterable[tuple[str, str]], accepted: bool) -> bool:
        """Whether one is new among those that were accepted."""
        new, entries = False, set(entries)
        self.drawn.update(entries)
        if accepted:
            new = any(not self.accepted[entry] for entry in entries)
            self.accepted.update(entries)
            self.anywhere |= {entry for entry, _ in entries}
        return new


class Typed:
    """Draws expressions."""

    def __init__(self, rng: Tape, calls: Calls) -> None:
        self.rng, self.met = rng, Met()
        self.place = "release"
        #: columns stand for themselves, and constants are few and small
        self.simple = False
        self.used: list[tuple[str, str]] = []
        self._trusted_only = {identity(c) for of in calls.allowed.values() for c in of
                              if FUNCTIONS[identity(c)].kind is FunctionClass.TRUSTED_ONLY}
        self._all = {kind: list(of) for kind, of in calls.allowed.items()}
        self._total = {kind: [c for c in of if identity(c) not in self._trusted_only] for kind, of in calls.allowed.items()}

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    @production("expression")
    def of(self, kind: str, cols: Sequence[Column], depth: int, *, trusted: bool = False, live: bool = True) -> str:
        """An expression of a type; a trusted one reads trusted columns alone. `live`: some column is read."""
        if depth <= 0:
            return self.leaf(kind, cols, trusted, live)
        pick = self.rng.random()
        if pick < 0.15:
            return self.leaf(kind, cols, trusted, live)
        if pick < 0.25 and kind in NUMBERS:
            return f"({self.of(self.rng.choice([t for t in NUMBERS if t != kind]), cols, depth - 1, trusted=trusted, live=live)})::{kind}"
        if pick < 0.68:
            return self.call(kind, cols, depth, trusted)
        if pick < 0.8:
            tail = f" ELSE {self.of(kind, cols, depth - 1, trusted=trusted, live=False)}" if self.chance(0.8) else ""
            return f"CASE WHEN {self.condition(cols, depth - 1, trusted=trusted)} THEN " \
                   f"{self.of(kind, cols, depth - 1, trusted=trusted, live=False)}{tail} END"
        if pick < 0.9:
            name = self.rng.choice(("coalesce", "coalesce", "nullif", "greatest", "least"))
            return f"{name}({self.of(kind, cols, depth - 1, trusted=trusted)}, " \
                   f"{self.of(kind, cols, depth - 1, trusted=trusted, live=False)})"
        if kind == "boolean":
            return f"({self.condition(cols, depth - 1, trusted=trusted)})"
        if kind == "numeric" and not trusted:
            return self.range(self.of("float8", cols, depth - 1))
        return self.call(kind, cols, depth, trusted)

    def range(self, value: str) -> str:
        low, high = self.bounds()
        name = "privid.range" if self.chance(0.1) else "range"
        return f"{name}({value}, {low}, {high})"

    @production("bounds")
    def bounds(self) -> tuple[str, str]:
        if self.simple:
            low, high = sorted((self.rng.choice(_LOWS), self.rng.choice(_HIGHS)), key=float)
            return low, high
        if self.chance(0.75):
            low, high = sorted((self.rng.choice(_NEAR), self.rng.choice(_NEAR)), key=float)
            return low, high
        low, width = self.rng.choice(_FAR), self.rng.choice((*_WIDTHS, "1e15"))
        return (low, f"{low}::numeric + {width}") if self.chance(0.7) else ("0", low.lstrip("-"))

    def leaf(self, kind: str, cols: Sequence[Column], trusted: bool = False, live: bool = True) -> str:
        """A column, or what a column of another type is in this one; a literal where none need be read."""
        if not live and self.chance(0.7):
            return self.literal(kind)
        readable = [c for c in cols if c.trusted or not trusted]
        own = [c for c in readable if c.type == kind]
        if own and self.chance(0.97 if self.simple else 0.8):
            column = self.one_of(own).text  # of a table, never NULL
            return column if trusted or self.chance(0.92) else f"nullif({column}, {self.literal(kind)})"
        ways = [form.format(c.text) for c in readable for source, form in _FROM.get(kind, ()) if source == c.type
                and (c.trusted or c.type != "timestamptz")]
        plain = [form.format(c.text) for c in readable for source, form in _FROM.get(kind, ()) if source == c.type and c.type in NUMBERS]
        if plain and self.chance(0.85):
            return self.rng.choice(plain)
        if ways:
            return self.rng.choice(ways)
        return self.rng.choice(own).text if own else self.literal(kind)

    def one_of(self, cols: Sequence[Column]) -> Column:
        """Rather what an operator has made than what was there before it."""
        made = [c for c in cols if c.made]
        return self.rng.choice(made if made and self.chance(0.6) else cols)

    def end(self, kind: str) -> str:
        """Of a type, more often than literals are."""
        return self.rng.choice(_ENDS[kind]) if kind in _ENDS and self.chance(0.15 if self.simple else 0.4) else self.literal(kind)

    @production("literal")
    def literal(self, kind: str) -> str:
        if self.simple and kind in _SMALL and self.chance(0.9):
            value = self.rng.choice(_SMALL[kind])
            return value if kind in ("int4", "text") else f"{value}::{kind}"
        if kind in ("int4", "float8", "numeric", "int8") and self.chance(0.4):
            value = self.rng.choice(_WHOLE)
            return value if kind == "int4" else f"{value}::{kind}"
        return self.rng.choice(TEXTS if kind == "text" else LITERALS[kind]).replace(TYPE, KIND)

    def reachable(self, cols: Sequence[Column], trusted: bool = False) -> list[str]:
        """Types of which a value can be had from some column."""
        own = {c.type for c in cols if c.trusted or not trusted}
        return [t for t in TYPES if t in own or any(source in own for source, _ in _FROM.get(t, ()))]

    def call(self, kind: str, cols: Sequence[Column], depth: int, trusted: bool) -> str:
        """A listed call with some column in it. What may raise reads trusted columns, or, rarely, others: then it must be refused."""
        daring = self.chance(0.01)
        pool = self._all if daring or trusted or any(c.trusted for c in cols) else self._total
        if not pool.get(kind):
            return self.leaf(kind, cols, trusted)
        call = self.rng.preferring(pool[kind], lambda c: self.met.weight((identity(c), self.place)))
        self.used.append((identity(call), self.place))
        below = trusted or (not daring and identity(call) in self._trusted_only)
        types = self.reachable(cols, below)
        living = self.rng.choice([i for i, t in enumerate(call.types) if t in types and (call.name, i) not in _TOLD] or [0])
        written = [self.argument(call, i, cols, depth - 1, below, i == living) for i in range(len(call.types))]
        return call.write(written, self.rng).replace(TYPE, KIND)

    def argument(self, call: Call, place: int, cols: Sequence[Column], depth: int, trusted: bool, live: bool) -> str:
        told = _TOLD.get((call.name, place))
        if told and self.chance(0.97):
            return self.rng.choice(told)
        return self.of(call.types[place], cols, depth if self.chance(0.6) else 0, trusted=trusted, live=live or not self.chance(0.6))

    @production("condition")
    def condition(self, cols: Sequence[Column], depth: int = 2, *, trusted: bool = False) -> str:
        """True, false or NULL."""
        types = [c for c in cols if (c.trusted or not trusted) and c.type in LITERALS]
        kind = self.one_of(types).type if types and self.chance(0.6) else self.rng.choice(self.reachable(cols, trusted) or ["int4"])
        pick = self.rng.random()
        if kind == "boolean" or pick < 0.15:
            text = self.of("boolean", cols, max(depth, 1), trusted=trusted)
            return text if self.chance(0.6) else f"({text}) IS {self.rng.choice(('NOT TRUE', 'UNKNOWN', 'NOT FALSE', 'TRUE'))}"
        one = self.of(kind, cols, depth - 1, trusted=trusted)
        other = self.literal(kind) if self.chance(0.9 if self.simple else 0.7) else self.of(kind, cols, depth - 1, trusted=trusted)
        if pick < 0.6:
            return f"({one} {self.rng.choice(('<', '<=', '>', '>=', '=', '<>', '='))} {other})"
        if pick < 0.66:
            return f"({one}) IS {self.rng.choice(('', 'NOT '))}NULL"
        if pick < 0.7:  # true of a row of NULLs
            return f"({one} IS NULL OR {one} {self.rng.choice(('<', '>', '=', '<>'))} {other})"
        if pick < 0.78:
            return f"({one}) IS {self.rng.choice(('', 'NOT '))}DISTINCT FROM ({other})"
        if pick < 0.88:
            return f"({one}) IN ({self.literal(kind)}, {self.literal(kind)})"
        return f"({self.condition(cols, depth - 1, trusted=trusted)} {self.rng.choice(('AND', 'OR'))} " \
               f"{self.condition(cols, depth - 1, trusted=trusted)})"
