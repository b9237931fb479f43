"""What the room and the served database must have in common: an expression means the same in both."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Protocol

import psycopg

from privid.errors import PrividError

__all__ = ["Connection", "Facts", "Served", "check_facts", "check_time_zones", "read_facts",
           "read_time_zones"]

Connection = psycopg.Connection[tuple[object, ...]]


class Served(Protocol):
    """Connections to the served database, as a pool lends them."""

    def connection(self) -> AbstractContextManager[Connection]: ...


@dataclass(frozen=True)
class Facts:
    """How a database writes, compares and sorts text, and which PostgreSQL does it."""

    server_version: str
    encoding: str
    collate: str
    ctype: str
    provider: str
    icu_locale: str
    collation_version: str


_NAMES = {"server_version": "server version", "encoding": "encoding", "collate": "LC_COLLATE",
          "ctype": "LC_CTYPE", "provider": "locale provider", "icu_locale": "ICU locale",
          "collation_version": "version of the collation"}

#: The collation's version is that of the library on the machine, which decides, not that which was
#: noted when the database was made.
_FACTS = """
    SELECT current_setting('server_version_num'), pg_encoding_to_char(encoding),
           datcollate, datctype,
           CASE datlocprovider WHEN 'i' THEN 'icu' ELSE 'libc' END, coalesce(daticulocale, ''),
           coalesce(pg_database_collation_actual_version(oid), '')
    FROM pg_catalog.pg_database WHERE datname = current_database()"""

#: How many zones there are, a digest of their names, and one of the local time in each, every 37 days
#: from 1970 to 2045. What lies below posix/ is there a second time only.
_TIME_ZONES = """
    WITH zones AS MATERIALIZED (SELECT name FROM pg_catalog.pg_timezone_names)
    SELECT (SELECT count(*) FROM zones), (SELECT sum(hashtextextended(name, 0)) FROM zones),
           (SELECT sum(timestamp_hash_extended(moment AT TIME ZONE name, seed))
            FROM (SELECT name, hashtextextended(name, 1) AS seed
                  FROM zones WHERE name NOT LIKE 'posix/%') several,
                 generate_series(timestamptz '1970-01-01 00:00+00', '2045-01-01 00:00+00',
                                 '37 days') moment)"""


def read_facts(conn: Connection) -> Facts:
    """Of the database that the connection is to."""
    row = conn.execute(_FACTS).fetchone()
    assert row is not None
    facts = Facts(*map(str, row))
    if facts.encoding != "UTF8":
        raise PrividError(f"the database has encoding {facts.encoding}, not UTF8",
                          detail="The engine evaluates queries in UTF8 only.",
                          hint="Create a database with ENCODING 'UTF8', and the extension there.")
    return facts


def read_time_zones(conn: Connection) -> str:
    """A digest of the time zone data."""
    row = conn.execute(_TIME_ZONES).fetchone()
    assert row is not None
    return " ".join(map(str, row))


def check_facts(served: Facts, room: Facts) -> None:
    """Refuses a room in which text would be compared otherwise."""
    for field in fields(Facts):
        wanted, found = getattr(served, field.name), getattr(room, field.name)
        if wanted != found:
            hint = ("Restart the served PostgreSQL if it was upgraded, or name its pg_config by "
                    "PG_CONFIG when the engine starts."
                    if field.name == "server_version" else
                    "Run the engine on a machine with the same locales and ICU library as the served "
                    "PostgreSQL.")
            raise _unlike(_NAMES[field.name], f'"{wanted}"', f'"{found}"', hint)


def check_time_zones(served: str, room: str) -> None:
    """Refuses a room in which the hours of a day would be others."""
    if served != room:
        raise _unlike("time zone data", _zones(served), _zones(room),
                      "Install the same version of the time zone data (package tzdata) for both, and "
                      "restart both.")


def _zones(digest: str) -> str:
    count, *sums = digest.split()
    return f"{count} zones (digest {' '.join(sums)})"


def _unlike(name: str, served: str, room: str, hint: str) -> PrividError:
    return PrividError(f"the engine's own server differs from the served database in its {name}",
                       detail=f"The served database has {served}, the engine's own server {room}.",
                       hint=hint)
