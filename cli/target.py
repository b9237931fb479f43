"""Which database a command speaks to: that of an embedded stack, or any that PostgreSQL can name.

In this order: --dsn, --data, the variables PGSERVICE, PGHOST, PGHOSTADDR, PGPORT and PGDATABASE if
one of them is set, the default stack.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .stack import Stack
from .terminal import CommandFailed

__all__ = ["Connection", "Target", "find_target", "names_a_server", "read_dsn", "reported", "value"]

Connection = psycopg.Connection[tuple[Any, ...]]

#: Variables of libpq that say where a database is. Those that say who asks or how (PGUSER,
#: PGSSLMODE, ...) apply as well, but do not mean by themselves that another server is wanted.
_NAMING = ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE")

#: Where Debian's servers have their sockets, and Debian's psql looks for them; psycopg brings a
#: libpq of its own, which looks elsewhere.
_SOCKETS = Path("/run/postgresql")

_PASSWORD = ("Give the password in PGPASSWORD, in a password file (PGPASSFILE) or with the service "
             "(PGSERVICE).")
_AUTHORITY = "sslrootcert must name the certificate of the authority that signed the server's."
_CROWDED = "Close sessions that are not in use, or raise max_connections."

#: What PostgreSQL and libpq say when a connection fails, as patterns -> what to do. {user} and
#: {database} are those that they name.
_CONNECTING = {
    "is not permitted to log in": 'Run as a superuser: ALTER ROLE "{user}" LOGIN.',
    "Peer authentication failed":
        'Let your operating-system user connect as "{user}": a line with map= in pg_hba.conf and '
        "the user in pg_ident.conf; then reload the server.",
    'role "privid_engine" does not exist':
        "CREATE EXTENSION privid makes it, in the database that the engine shall serve.",
    "authentication method requirement":
        "The engine sends no password that could be read: write scram-sha-256 into pg_hba.conf, "
        "and give the role a password anew. Is it PostgreSQL that listens there?",
    "requirepeer specifies":
        "Somebody else listens on the socket of PostgreSQL: who, and is PostgreSQL down?",
    "no pg_hba.conf entry":
        'Add a line for database "{database}" and role "{user}" to pg_hba.conf, and reload the '
        "server.",
    "password authentication failed": _PASSWORD,
    "no password supplied": _PASSWORD,
    "definition of service":
        "Services are listed in the file that PGSERVICEFILE names, ~/.pg_service.conf by itself.",
    "certificate verify failed": _AUTHORITY,
    "root certificate file": _AUTHORITY,
    "does not match host name":
        "Connect by the name in the server's certificate, or have one made for this name.",
    "server does not support SSL": "Set ssl = on with a certificate in postgresql.conf.",
    "too many connections": _CROWDED,
    "too many clients": _CROWDED,
    "is starting up": "Try again in a moment.",
    "Connection refused":
        "Is the server running, and does it listen there? See listen_addresses and port.",
    "No such file or directory":
        "Is the server running, and is its socket in that directory? See unix_socket_directories.",
    'database ".*" does not exist': 'Is "{database}" the right name? CREATE DATABASE makes it.',
}
#: SQLSTATEs of "there is no such schema, table, function or type"
_ABSENT = {"3F000", "42P01", "42883", "42704"}


def names_a_server() -> bool:
    """Whether the environment says where a database is."""
    return any(os.environ.get(name) for name in _NAMING)


def read_dsn(text: str) -> str:
    """A connection string; for argparse. A bad one is not repeated: it may hold a password."""
    try:
        conninfo_to_dict(text)
    except psycopg.Error as error:
        example = "write it like 'host=db.example.org dbname=cameras user=ana'"
        raise argparse.ArgumentTypeError(f"{str(error).strip()}; {example}") from None
    return text


def find_target(options: argparse.Namespace) -> Target:
    """What --dsn, --data and the environment mean."""
    if options.dsn is not None or (options.data is None and names_a_server()):
        return Target(None, options.dsn or "")
    return Target(Stack(options.data), "")


class Target:
    """A database that a command speaks to."""

    def __init__(self, stack: Stack | None, dsn: str) -> None:
        self.stack = stack
        self.dsn = dsn

    def connect(self, user: str | None = None, usual: str = "privid") -> Connection:
        """A connection that commits each statement.

        On a stack the usual role is meant unless one is given; elsewhere, the one libpq finds.
        """
        if self.stack is None:
            try:
                return psycopg.connect(self.conninfo(user), autocommit=True)
            except psycopg.Error as error:
                raise _unreached(error) from None
        if self.stack.postgres.pid() is None:
            raise CommandFailed(f'the stack in "{self.stack.layout.data}" is not running',
                                "Start it with privid up.")
        with reported():
            return self.stack.postgres.connect(user=user or usual)

    def conninfo(self, user: str | None = None) -> str:
        """What libpq is given for a database elsewhere."""
        given: dict[str, Any] = conninfo_to_dict(self.dsn)
        wanted: dict[str, Any] = {"fallback_application_name": "privid"}
        if not os.environ.get("PGCONNECT_TIMEOUT"):
            wanted["connect_timeout"] = 10
        if _SOCKETS.is_dir() and not any(name in given or os.environ.get(f"PG{name.upper()}")
                                         for name in ("service", "host", "hostaddr")):
            wanted["host"] = str(_SOCKETS)
        return make_conninfo(**wanted | given | ({"user": user} if user else {}))


def _unreached(error: psycopg.Error) -> CommandFailed:
    text = str(error).strip() or "no reason was given"
    names = {name: found[1] if (found := re.search(pattern, text)) else "..."
             for name, pattern in (("user", r'(?:user|role) "([^"]+)"'),
                                   ("database", r'database "([^"]+)"'))}
    hint = next((hint.format(**names) for words, hint in _CONNECTING.items()
                 if re.search(words, text)), None)
    reason = text.splitlines()[0].removeprefix("connection failed: ")
    return CommandFailed(f"could not connect: {reason}", hint)


def value(connection: Connection, statement: LiteralString, *values: object) -> Any:
    """The one value of a statement; None where there is no row."""
    row = connection.execute(statement, values or None).fetchone()
    return None if row is None else row[0]


@contextmanager
def reported() -> Iterator[None]:
    """What PostgreSQL refuses is told as it tells it, with its hint or one of ours."""
    try:
        yield
    except psycopg.Error as error:
        told = error.diag
        message = told.message_primary or str(error).strip().splitlines()[0]
        hint = told.message_hint
        if error.sqlstate in _ABSENT and "privid" in message:
            # of a function PostgreSQL would hint at the types of its arguments
            hint = ("Is this the right database? A superuser makes one ready with CREATE EXTENSION "
                    "privid.")
        raise CommandFailed(message, hint) from None
