"""What each kind of role sees of a city, and what it can change there: by every relation and every function of the extension."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

from psycopg import sql

from .city import KINDS, VIEWERS, City, Sitting, kinds_in

__all__ = ["Cell", "cell", "functions", "look"]

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
    done: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        parts = [", ".join(self.sees), *(["**changes " + ", ".join(self.changes) + "**"] if self.changes else [])]
        return "; ".join(part for part in parts if part) or "-"

    def attempted(self) -> str:
        """The same of something that is either done or refused."""
        return str(replace(self, sees=())).replace("-", "may") if self.done else "-"


def look(city: City) -> dict[str, dict[str, Cell]]:
    """By object, by role."""
    calls = dict(sorted({**_relations(city), **functions(city)}.items()))
    found: dict[str, dict[str, Cell]] = {name: {} for name in calls}
    for viewer in VIEWERS:
        with city.sitting(viewer) as sitting:
            for name, several in calls.items():
                found[name][viewer] = cell(sitting, several)
    return found


def cell(sitting: Sitting, calls: list[sql.Composed]) -> Cell:
    sees, changes, done = set[str](), set[str](), False
    for call in calls:
        asked = kinds_in(call.as_string(None))
        told, changed, refused = sitting.call(call)
        sees |= kinds_in(told) - asked  # who names something knows it already
        changes |= changed
        done = done or refused is None
    return Cell(tuple(kind for kind in KINDS if kind in sees), tuple(sorted(changes)), done)


def _relations(city: City) -> dict[str, list[sql.Composed]]:
    """Of the extension, and what the standard's catalog says of foreign tables and their servers."""
    rows = city.stack.run("""
        SELECT relnamespace::regnamespace::text, relname FROM pg_class
        WHERE relkind IN ('r', 'v', 'S')
          AND (relnamespace = 'privid'::regnamespace OR relnamespace = 'information_schema'::regnamespace AND relname LIKE 'foreign\\_%%')
        """, user="privid")
    return {f"{schema}.{name}": [sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(schema, name))] for schema, name in rows}


def functions(city: City) -> dict[str, list[sql.Composed]]:
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
