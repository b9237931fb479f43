"""What each kind of role sees of a city, and what it can change there: by every relation and every function of the extension."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from psycopg import sql

from .city import KINDS, VIEWERS, City, kinds_in

__all__ = ["Cell", "look"]

#: values for arguments, by their names: things of the city, so that whoever calls means what is not his
_NAMED = {
    "camera": ["southerncamera"], "name": ["southernmask", "southernregion", "southernprogram", "southernfile"],
    "executable": ["southernprogram"], "role": ["southernanalyst"], "statement": ["SELECT count(*) FROM southernanalyst.southerntable"],
    "statements": ["SELECT count(*) FROM southernanalyst.southerntable"], "chain": ["southerncamera"],
}
#: and by their types, where a name says nothing
_TYPED = {
    "text": "''", "bytea": "''", "numeric": "1", "integer": "1", "bigint": "1", "double precision": "1", "boolean": "false",
    "interval": "'1 s'", "jsonb": "'[]'", "polygon[]": "'{}'", "polygon": "'((0,0),(1,0),(1,1))'",
    "timestamp with time zone": "'2026-03-01'", "anycompatible": "1", "anycompatiblearray": "'{1}'::int[]", "text[]": "'{}'", "oid": "0",
    "anyenum": "NULL::privid.no_such", "privid.history_log": "NULL",
}


@dataclass(frozen=True)
class Cell:
    """Of one role and one object."""

    sees: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [", ".join(self.sees), *(["**changes " + ", ".join(self.changes) + "**"] if self.changes else [])]
        return "; ".join(part for part in parts if part) or "-"


def look(city: City) -> dict[str, dict[str, Cell]]:
    """By object, by role."""
    calls = {**_relations(city), **_functions(city)}
    return {name: {viewer: _cell(city, viewer, several) for viewer in VIEWERS} for name, several in sorted(calls.items())}


def _cell(city: City, viewer: str, calls: list[sql.Composed]) -> Cell:
    sees, changes = set[str](), set[str]()
    for call in calls:
        asked = kinds_in(call.as_string(None))
        told, changed = city.call(viewer, call)
        sees |= kinds_in(told) - asked  # who names something knows it already
        changes |= changed
    return Cell(tuple(kind for kind in KINDS if kind in sees), tuple(sorted(changes)))


def _relations(city: City) -> dict[str, list[sql.Composed]]:
    rows = city.stack.run("SELECT relname FROM pg_class WHERE relnamespace = 'privid'::regnamespace AND relkind IN ('r', 'v', 'S')",
                          user="privid")
    return {f"privid.{name}": [sql.SQL("SELECT t::text FROM privid.{} t").format(sql.Identifier(name))] for name, in rows}


def _functions(city: City) -> dict[str, list[sql.Composed]]:
    """Every function that somebody but the superuser may call, and that is called by name."""
    rows = city.stack.run("""
        SELECT p.oid::regprocedure::text, p.proname,
               coalesce(p.proargnames[1:p.pronargs], '{}'), ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) t)
        FROM pg_proc p
        WHERE p.pronamespace = 'privid'::regnamespace AND p.prokind = 'f'
          AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'language_handler'::regtype, 'fdw_handler'::regtype)
        """, user="privid")
    found = {}
    for identity, name, names, types in rows:
        values = [[sql.Literal(value) for value in _NAMED[argument]] if argument in _NAMED and type_ == "text" else [sql.SQL(_TYPED[type_])]
                  for argument, type_ in zip([*names, *[""] * (len(types) - len(names))], types, strict=True)]
        call = sql.SQL("SELECT * FROM privid.{}({})")
        found[identity] = [call.format(sql.Identifier(name), sql.SQL(", ").join(chosen)) for chosen in product(*values)]
    return found
