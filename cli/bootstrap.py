"""What the database of a stack holds from the start: the extension and a first role of each kind."""

from __future__ import annotations

import psycopg
from psycopg import sql

from .library import offered_version
from .postgres import Postgres
from .terminal import CommandFailed

__all__ = ["bootstrap"]

#: the login roles of a stack and the group roles that make them what they are
_PEOPLE = {"owner": "privid_owner", "analyst": "privid_analyst"}

_LOCKS_CLOSED = """
DO $$
DECLARE
    one regprocedure;
BEGIN
    FOR one IN SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^pg_(try_)?advisory_' LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one);
    END LOOP;
END
$$"""


def bootstrap(postgres: Postgres) -> None:
    """Creates what is missing and brings the extension to the version of the library; does nothing on a stack that is complete."""
    try:
        with postgres.connect(dbname="postgres") as connection:
            if not connection.execute("SELECT FROM pg_database WHERE datname = 'privid'").fetchall():
                connection.execute("CREATE DATABASE privid")
        with postgres.connect() as connection:
            _extension(connection)
            _people(connection)
    except psycopg.Error as error:
        raise CommandFailed(f"could not prepare the database: {str(error).strip().splitlines()[0]}",
                            f'See "{postgres.layout.log / "postgresql.log"}".') from None


def _extension(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    installed = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'privid'").fetchone()
    if installed is None:
        connection.execute("CREATE EXTENSION privid")
        _close_locks(connection)
    elif installed[0] != offered_version():
        connection.execute("ALTER EXTENSION privid UPDATE")
        _close_locks(connection)
    # the superuser happens to be called like the extension's schema, which is no place for what he creates by hand
    connection.execute("ALTER ROLE privid IN DATABASE privid SET search_path = public")
    # the engine's own role; the socket's directory is private, so it needs no password
    connection.execute("ALTER ROLE privid_engine LOGIN")


def _close_locks(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Nobody fills PostgreSQL's table of locks, which all sessions share, with a function. An operator may grant it again."""
    connection.execute(_LOCKS_CLOSED)


def _people(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    for person, group in _PEOPLE.items():
        if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (person,)).fetchall():
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE {}").format(sql.Identifier(person), sql.Identifier(group)))
            if person == "owner":
                # the first owner has all videos; whoever adds another gives each a folder (docs/owners.md)
                connection.execute("SELECT privid.grant_folder('owner', '.')")
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {0} AUTHORIZATION {0}").format(sql.Identifier(person)))
