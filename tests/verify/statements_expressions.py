"""Random expressions of a wanted type: allowed calls, and all else that PostgreSQL evaluates."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .calculus_expressions import Rel
from .statements_calls import Call, Calls
from .statements_literals import FIELDS, FORMATS, LITERALS, PATTERNS, TYPES, ZONES

__all__ = ["Typed"]

#: kinds of the columns of a relation (calculus_expressions.Col), and the type each may be taken for
_KINDS = {"text": "text", "bool": "boolean", "enum": "anyenum", "time": "timestamptz",
          "moment": "timestamptz"}
_MOMENTS = ("timestamptz", "timestamp", "date", "time", "interval")
_NUMBERS = ("float8", "numeric", "int8")

#: the most that a call is nested; deeper ones are rarely accepted and say little
_DEPTH = 3

#: what the arguments of some functions must be told
_TOLD = {("date_trunc", 0): FIELDS, ("extract", 0): FIELDS, ("date_part", 0): FIELDS,
         ("timezone", 0): ZONES, ("date_trunc", 2): ZONES, ("to_char", 1): FORMATS,
         ("like", 1): PATTERNS, ("notlike", 1): PATTERNS, ("~~", 1): PATTERNS, ("!~~", 1): PATTERNS}

_COLLATIONS = ("C", "POSIX", "default", "ucs_basic", "en_US", "und-x-icu")
_BOUNDS = (("0", "10"), ("-5", "5"), ("0", "'NaN'"), ("0", "1e18"), ("5", "5"))
_COMPARISONS = ("<", ">=", "=", "<>")


@dataclass
class Typed:
    """Draws expressions over the columns of a relation."""

    rng: random.Random
    calls: Calls
    #: the chance that a call is one that must be refused
    forbidden: float = 0.01
    #: types and literals of $1, $2, ...; a literal may become one when they are wanted
    parameters: list[tuple[str, str]] = field(default_factory=list)
    parametrised: bool = False

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def of(self, kind: str, rel: Rel, depth: int = _DEPTH, *, trusted: bool = False) -> str:
        """An expression of a type; a trusted one reads chunk and region alone."""
        if depth <= 0 or self.chance(0.25):
            return self.leaf(kind, rel, trusted)

        def below(of: str = kind) -> str:
            return self.of(of, rel, depth - 1, trusted=trusted)

        pick = self.rng.random()
        if pick < 0.62:
            return self.call(kind, rel, depth, trusted)
        if pick < 0.72:
            tail = f" ELSE {below()}" if self.chance(0.8) else ""
            return f"CASE WHEN {below('boolean')} THEN {below()}{tail} END"
        if pick < 0.82:
            name = self.rng.choice(("coalesce", "coalesce", "nullif", "greatest", "least"))
            return f"{name}({below()}, {below()})"
        if kind == "boolean":
            return self.condition(rel, depth, trusted)
        if kind == "text" and pick < 0.84:
            return f'({below()} COLLATE "{self.rng.choice(_COLLATIONS)}")'
        if kind == "float8" and pick < 0.9:
            low, high = self.rng.choice(_BOUNDS)
            return f"range({below()}, {low}, {high})::float8"
        if pick < 0.92:  # any cast, listed or not
            other = self.rng.choice([t for t in TYPES if t != "anyenum"])
            return f"({below(other)})::{'text' if kind == 'anyenum' else kind}"
        return self.leaf(kind, rel, trusted)

    def leaf(self, kind: str, rel: Rel, trusted: bool = False) -> str:
        """A column, mostly, or a literal."""
        columns = [c.name for c in rel.cols if (not trusted or c.name in ("chunk", "region")) and (
            _KINDS.get(c.kind) == kind or (c.kind == "num" and kind in _NUMBERS)
            or (c.name == "region" and kind == "text"))]
        if columns and self.chance(0.75):
            name = self.rng.choice(columns)
            # what a subquery computes may be of any type of numbers
            cast = kind in _NUMBERS and not (kind == "float8" and name in ("v", "w"))
            return f"({name})::{kind}" if cast else name
        value = self.literal(kind)
        plain = kind in ("text", "float8", "int4", "boolean") and value.count("'") in (0, 2)
        if self.parametrised and plain and self.chance(0.5):
            self.parameters.append((kind, value))
            return f"${len(self.parameters)}"
        return value

    def literal(self, kind: str) -> str:
        return self.rng.choice(LITERALS[kind])

    def call(self, kind: str, rel: Rel, depth: int, trusted: bool) -> str:
        pool = self.calls.refused if self.chance(self.forbidden) else self.calls.allowed
        if not pool[kind]:
            return self.leaf(kind, rel, trusted)
        call = self.rng.choice(pool[kind])
        places = range(len(call.types))
        return call.write([self.argument(call, i, rel, depth, trusted) for i in places], self.rng)

    def argument(self, call: Call, place: int, rel: Rel, depth: int, trusted: bool) -> str:
        """What a function wants to be told, mostly; anything else is refused, or makes it raise."""
        told = _TOLD.get((call.name, place))
        if told and self.chance(0.95):
            return self.rng.choice(told)
        kind = call.types[place]
        # functions of moments may raise, so they are accepted on chunk alone
        alone = trusted or (kind in _MOMENTS and self.chance(0.9))
        return self.of(kind, rel, depth - 1, trusted=alone)

    def condition(self, rel: Rel, depth: int = _DEPTH, trusted: bool = False) -> str:
        """True, false or NULL."""
        kind = self.rng.choice(("float8", "text", "text", "boolean", "anyenum", "timestamptz",
                                "numeric", "int4", "interval"))
        one, other, third, truth = (self.of(of, rel, depth - 1, trusted=trusted)
                                    for of in (kind, kind, kind, "boolean"))
        if self.chance(0.8):  # lists are accepted if they are constant
            other, third = self.literal(kind), self.literal(kind)
        sign = self.rng.choice(_COMPARISONS)
        test = self.rng.choice(("TRUE", "NOT TRUE", "UNKNOWN", "NOT FALSE"))
        word = self.rng.choice(("AND", "OR"))
        return self.rng.choice((
            f"({one}) IS NULL", f"({one}) IS NOT DISTINCT FROM ({other})",
            f"({one}) IS DISTINCT FROM ({other})", f"({one}) BETWEEN ({other}) AND ({third})",
            f"({one}) IN ({other}, {third})", f"({one}) = ANY (ARRAY[{other}, {third}])",
            f"({one}) <> ALL (ARRAY[{other}])", f"(({one}), ({other})) = (({third}), ({other}))",
            f"({truth}) IS {test}", f"({truth}) {word} ({one} = {other})",
            f"NOT ({one} {sign} {other})", f"({one} {sign} {other})"))

    def heavy(self, rel: Rel) -> str:
        """A condition that takes long where a row meets it.

        Texts and patterns are as long as an analyst cares to write them.
        """
        names = {c.name for c in rel.cols}
        if "plate" not in names:
            return self.condition(rel, 1)
        tests = ["plate = 'X'"]
        if names >= {"v", "w"}:
            tests += ["w > 1e300", "length(plate) > 500", "v > 1e17"]
        long = "a" * self.rng.choice((2000, 8000))
        pattern = "%" + "a" * self.rng.choice((300, 1000)) + "b%"
        slow = " OR ".join(f"'{long}' || left(plate, {i}) LIKE '{pattern}'"
                           for i in range(self.rng.choice((2, 6))))
        return f"CASE WHEN {self.rng.choice(tests)} THEN {slow} ELSE false END"
