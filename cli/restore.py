"""Restores a dump of one database into an empty one: privid restore cameras.dump --dsn dbname=cameras

The dump is one of pg_dump --format custom, and the role is a superuser. Stop the engine first. Roles
are no part of such a dump, and must be there already.

pg_restore would run functions of analysts as the superuser: while it copies rows, for constraints,
domains and generated columns, and in some definitions. Here, what belongs to a superuser is restored
first, when no such function is there yet, and then what belongs to each other role with the rights
of that role. All of it is one transaction: the dump is restored as a whole, or nothing of it.

Materialized views that read what belongs to another role, or ask about a camera, stay empty until their
owner refreshes them: code of the other role would run with the owner's rights, and the engine is down.

--without ROLE leaves out what belongs to a role, and what uses it, where that cannot be restored.
--extension-version is for dumps of an older version; ALTER EXTENSION privid UPDATE comes afterwards.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

import psycopg

from privid.errors import PrividError

from .archive import Archive, Entry
from .confined import Confined
from .library import postgres_build
from .options import dsn_option
from .restore_plan import Step, leave_out, leave_unread, make_plan
from .restore_rows import insert_rows
from .target import Connection, Target, names_a_server, value
from .terminal import CommandFailed, progress

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "restore a dump into an empty database"

_ROLES = ("Roles are no part of a dump of one database: restore them first, from pg_dumpall "
          "--roles-only.")

_CREATE = b"CREATE EXTENSION IF NOT EXISTS privid WITH SCHEMA privid"

#: an object of the database that none has when it is new
_ANY_OBJECT = """
WITH place AS (SELECT oid, nspname FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_(temp|toast)')
SELECT what FROM (
  SELECT oid, 'schema "' || nspname || '"' FROM place
  UNION ALL SELECT oid, 'extension "' || extname || '"' FROM pg_catalog.pg_extension
  UNION ALL SELECT c.oid, 'relation "' || c.relname || '"' FROM pg_catalog.pg_class c JOIN place p ON p.oid = c.relnamespace
  UNION ALL SELECT c.oid, 'function "' || c.proname || '"' FROM pg_catalog.pg_proc c JOIN place p ON p.oid = c.pronamespace
  UNION ALL SELECT c.oid, 'type "' || c.typname || '"' FROM pg_catalog.pg_type c JOIN place p ON p.oid = c.typnamespace
  UNION ALL SELECT c.oid, 'operator "' || c.oprname || '"' FROM pg_catalog.pg_operator c JOIN place p ON p.oid = c.oprnamespace
  UNION ALL SELECT oid, 'a cast' FROM pg_catalog.pg_cast
  UNION ALL SELECT oid, 'event trigger "' || evtname || '"' FROM pg_catalog.pg_event_trigger
  UNION ALL SELECT oid, 'a large object' FROM pg_catalog.pg_largeobject_metadata) o (oid, what)
WHERE oid >= 16384 ORDER BY oid LIMIT 1
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    dsn_option(parser, "the empty database, as PostgreSQL's connection string or URI; without it, "
                       "PostgreSQL's own variables count (PGHOST, PGSERVICE, ...)")
    parser.add_argument("--without", metavar="ROLE", action="append", default=[],
                        help="leave out what belongs to this role, and what uses it")
    parser.add_argument("--extension-version", metavar="VERSION", type=_version, default=None,
                        help="the version of the extension that the dump is of, if that is an older one")
    parser.add_argument("dump", metavar="DUMP", type=Path, help="a dump of pg_dump --format custom")


def run(options: argparse.Namespace) -> int:
    if options.dsn is None and not names_a_server():
        raise CommandFailed("it is not said into which database to restore",
                            "Give --dsn, or set PGDATABASE.")
    archive = Archive(options.dump, _pg_restore())
    with Target(None, options.dsn or "").connect() as connection:
        roles = _check(connection)
        _check_encoding(archive)
        entries, left = leave_out(archive.entries, options.without)
        _check_owners(entries, roles)
        superusers = {name for name, superuser in roles.items() if superuser}
        entries, unread = leave_unread(entries, superusers)
        plan = make_plan(entries, superusers)
        with connection.transaction():
            _restore(connection, archive, plan, options.extension_version)
    for entry in left:
        print(f"left out: {entry}" + (f' of role "{entry.owner}"' if entry.owner else ""))
    for entry in unread:
        print(f"not refreshed: {entry}" + (f', which role "{entry.owner}" can do: REFRESH MATERIALIZED VIEW' if entry.owner else ""))
    tables = sum(step.rows for step in plan)
    print(f"Restored {sum(len(step.entries) for step in plan) - tables} definitions and the rows of "
          f"{tables} tables.")
    return 0


def _version(text: str) -> str:
    if not re.fullmatch(r"\d+\.\d+\.\d+", text):
        raise argparse.ArgumentTypeError(f'"{text}" is not a version: write it like 0.2.0')
    return text


def _pg_restore() -> Path:
    """That of PostgreSQL 15: later ones write settings that it does not have."""
    found = shutil.which("pg_restore")
    try:
        program = postgres_build().bindir / "pg_restore"
    except PrividError:  # who speaks to another machine need not have a server
        program = Path(found or "pg_restore")
    if not program.exists():
        raise CommandFailed("could not find pg_restore",
                            "Install PostgreSQL's client: apt-get install postgresql-client-15.")
    return program


def _check(connection: Connection) -> dict[str, bool]:
    """Refuses a role or a database that will not do; tells which roles are superusers."""
    roles: dict[str, bool] = dict(connection.execute("SELECT rolname, rolsuper FROM pg_catalog.pg_roles").fetchall())
    role, database = connection.execute("SELECT current_user::text, current_database()::text").fetchall()[0]
    if not roles[role]:
        raise CommandFailed(f'role "{role}" is not a superuser', "Only a superuser can restore the extension's tables.")
    found = value(connection, _ANY_OBJECT)
    if found is not None:
        raise CommandFailed(f'database "{database}" is not empty: it has {found}',
                            "Restore into a new one: createdb --encoding UTF8 --template template0.")
    if value(connection, "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = current_database() "
                         "AND usename = 'privid_engine'"):
        raise CommandFailed(f'the engine is connected to database "{database}"', "Stop it first: systemctl stop privid-engine.")
    if value(connection, "SHOW server_encoding") != "UTF8":
        raise CommandFailed(f'database "{database}" is not in UTF8', "Make it with createdb --encoding UTF8 --template template0.")
    return roles


def _check_encoding(archive: Archive) -> None:
    said = [entry.statement for entry in archive.entries if entry.kind == "ENCODING"]
    if said != ["SET client_encoding = 'UTF8';\n"]:
        raise CommandFailed("the dump is not in UTF8", "Make one with pg_dump --format custom --encoding UTF8.")


def _check_owners(entries: list[Entry], roles: dict[str, bool]) -> None:
    for entry in entries:
        if entry.owner and entry.owner not in roles:
            raise CommandFailed(f'role "{entry.owner}" does not exist, and owns {entry}', _ROLES)


def _restore(connection: Connection, archive: Archive, plan: list[Step], version: str | None) -> None:
    """Whoever may connect meanwhile sees nothing of it before it is done."""
    connection.execute("SET check_function_bodies = off")  # as privid.is_restoring() expects it
    confined: Confined | None = None
    with progress(len(plan)) as bar:
        for step in plan:
            bar.step("definitions" if not step.rows else f"rows of {step.entries[0].name}")
            if step.phase == 1 and confined is None:
                confined = Confined(connection)
            if step.phase == 2 and confined is not None:
                confined.close()
                confined = None
            try:
                _do(connection, archive, step, confined, version)
            except psycopg.Error as error:
                raise _refused(step, error) from None
    if confined is not None:
        confined.close()


def _do(connection: Connection, archive: Archive, step: Step, confined: Confined | None, version: str | None) -> None:
    if step.role is not None:
        assert confined is not None
        if step.rows:
            insert_rows(confined, archive, step.entries[0])
        else:
            confined.run(step.role, archive.script(step.entries, owners=False).decode())
    elif step.rows:
        entry = step.entries[0]
        with archive.rows(entry) as pieces, connection.cursor() as cursor, cursor.copy(entry.copy.encode()) as copy:
            for piece in pieces:
                copy.write(piece)
    else:
        script = archive.script(step.entries, owners=True)
        if version and any(entry.kind == "EXTENSION" and entry.name == "privid" for entry in step.entries):
            script = script.replace(_CREATE, b"%s VERSION '%s'" % (_CREATE, version.encode()), 1)
        if step.entries[0].kind == "BLOBS":  # has a transaction of its own, and each statement in a line
            script = b"\n".join(line for line in script.splitlines() if line not in (b"BEGIN;", b"COMMIT;"))
        connection.execute(script)


def _refused(step: Step, error: psycopg.Error) -> CommandFailed:
    """What PostgreSQL said, and of what."""
    first, last = step.entries[0], step.entries[-1]
    which = f"{first}" if first is last else f"something from {first} to {last}"
    message = f"could not restore {which}: {error.diag.message_primary or str(error).strip().splitlines()[0]}"
    if step.role is not None:
        return CommandFailed(f'{message} (with the rights of role "{step.role}")',
                             f'Nothing was restored. Where the role lacks a right that it once had, grant it and dump again; or repeat '
                             f'with --without {step.role}, which leaves out what belongs to the role.')
    return CommandFailed(message, _ROLES if error.sqlstate == "42704" and "role" in message else "Nothing was restored.")
