"""The calls that random statements are made of, read from the product and from the catalog.

What a release may contain is what privid.allowed_calls() lists: every function, operator, cast and
aggregate there is drawn. Other functions of pg_catalog over the same types are drawn too, more
rarely: they must be refused, in the same words on both sides.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

from .statements_literals import TYPES
from .statements_world import TYPE, Connection

__all__ = ["Call", "Calls", "read_calls"]

_SHORT = {"double precision": "float8", "integer": "int4", "bigint": "int8",
          "timestamp with time zone": "timestamptz", "timestamp without time zone": "timestamp",
          "time without time zone": "time"}



def _short(name: str) -> str:
    return _SHORT.get(name, name)


#: names that are no function's name unless a schema stands before them
_KEYWORDS = ("extract", "position", "like", "notlike", "time", "timestamp", "interval")


@dataclass(frozen=True)
class Call:
    """One function, operator, cast or aggregate, by its identity."""

    kind: str
    schema: str
    name: str
    types: tuple[str, ...]
    result: str

    def write(self, arguments: list[str], rng: random.Random) -> str:
        """The call as an analyst would write it, or with every name qualified."""
        if self.kind == "cast":
            target = TYPE if self.result == "anyenum" else self.result
            return rng.choice((f"({arguments[0]})::{target}", f"CAST({arguments[0]} AS {target})"))
        if self.kind == "operator":
            name = f"OPERATOR({self.schema}.{self.name})" if rng.random() < 0.1 else self.name
            if len(arguments) == 1:
                return f"({name} {arguments[0]})"
            return f"({arguments[0]} {name} {arguments[1]})"
        if self.name == "extract" and arguments[0].startswith("'") and rng.random() < 0.8:
            return f"extract({arguments[0]} FROM {arguments[1]})"
        # the name of a type, alone, would be read as one
        plain = self.schema == "public" or (
            self.schema == "pg_catalog" and self.name not in (*_KEYWORDS, *TYPES))
        short = plain and rng.random() < 0.8
        return f"{self.name if short else self._qualified()}({', '.join(arguments)})"

    def _qualified(self) -> str:
        return f'{self.schema}."{self.name}"'


def _lists() -> dict[str, list[Call]]:
    return defaultdict(list)


@dataclass
class Calls:
    """By the type that they yield."""

    allowed: dict[str, list[Call]] = field(default_factory=_lists)
    refused: dict[str, list[Call]] = field(default_factory=_lists)
    aggregates: list[Call] = field(default_factory=list)


def read_calls(connection: Connection) -> Calls:
    """As this server has them, in an order of their names, so that a seed means the same search."""
    found, known = Calls(), set[str]()
    listed = connection.execute("SELECT kind, identity FROM privid.allowed_calls()").fetchall()
    for kind, identity in sorted(listed):
        path, _, inside = identity.partition("(")
        types = tuple(t for t in inside.rstrip(")").split(",") if t)
        known.add(identity)
        if kind == "cast":
            found.allowed[types[1]].append(Call(kind, "", path, types[:1], types[1]))
            continue
        schema, _, name = path.partition(".")
        result = "int8" if name == "count" else _result(connection, kind, path, types)
        call = Call(kind, schema, name, types, result)
        if kind == "aggregate":
            found.aggregates.append(call)
        elif result in TYPES:
            found.allowed[result].append(call)
    _read_refused(connection, found, known)
    return found


def _result(connection: Connection, kind: str, path: str, types: tuple[str, ...]) -> str:
    if kind == "operator":
        arguments = ",".join(types if len(types) == 2 else ("NONE", *types))
        row = connection.execute("SELECT oprresult::regtype::text FROM pg_operator "
                                 "WHERE oid = to_regoperator(%s)",
                                 (f"{path}({arguments})",)).fetchone()
    else:
        row = connection.execute("SELECT prorettype::regtype::text FROM pg_proc "
                                 "WHERE oid = to_regprocedure(%s)",
                                 (f"{path}({','.join(types)})",)).fetchone()
    assert row is not None, (path, types)
    return _short(row[0])


#: those that wait, lock, look up files or tables, or change the server are left alone
_CANDIDATES = """
    SELECT p.proname, array(SELECT t::regtype::text
                            FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY u(t, i) ORDER BY i),
           p.prorettype::regtype::text
    FROM pg_proc p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT p.proretset
      AND p.pronargs BETWEEN 1 AND 3 AND p.provolatile IN ('i', 's')
      AND p.proname !~ '^(pg_|has_|inet_|txid_|query_to|table_to|schema_to|database_to)'
    ORDER BY 1, 2, 3"""


def _read_refused(connection: Connection, found: Calls, known: set[str]) -> None:
    """Functions of pg_catalog over our types that are not in the list."""
    for name, long, returned in connection.execute(_CANDIDATES).fetchall():
        types, result = tuple(map(_short, long)), _short(returned)
        identity = f"pg_catalog.{name}({','.join(types)})"
        if {*types, result} <= {*TYPES} and identity not in known:
            found.refused[result].append(Call("function", "pg_catalog", name, types, result))
