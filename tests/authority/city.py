"""A city that others look at: an owner with a camera, a mask, regions and a share; an analyst with a program, a file, a table, an answer.

Every name has a mark in it, so that whatever somebody sees of the city is found in any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from privid.cli.processes import wait_until
from tests.conftest import LEVELS, RunningStack, write_video

__all__ = ["KINDS", "VIEWERS", "City", "Sitting", "kinds_in"]

#: what a mark names
KINDS = ("camera", "source", "mask", "region", "program", "file", "table", "question", "owner", "analyst")
_MARK = re.compile(rf"southern({'|'.join(KINDS)})")

#: who looks at the city, and how that role is made
VIEWERS = {
    "nobody": "LOGIN",
    "stranger": "LOGIN IN ROLE privid_analyst",
    "colleague": "LOGIN IN ROLE privid_analyst",
    "analyst": "LOGIN IN ROLE privid_analyst",
    "other owner": "LOGIN IN ROLE privid_owner",
    "owner": "LOGIN IN ROLE privid_owner",
    "monitor": "LOGIN IN ROLE pg_monitor",
    "reader": "LOGIN IN ROLE pg_read_all_data",
    "writer": "LOGIN IN ROLE pg_write_all_data",
    "signaller": "LOGIN IN ROLE pg_signal_backend",
    "maker": "LOGIN CREATEROLE",
    "replicator": "LOGIN REPLICATION",
}


def kinds_in(text: str) -> set[str]:
    """What a text names of the city."""
    return set(_MARK.findall(text))


@dataclass
class City:
    """The city, and a session of the superuser's that can be anybody."""

    stack: RunningStack
    roles: dict[str, str] = field(default_factory=dict)

    def build(self) -> None:
        stack, names = self.stack, {kind: f"southern{kind}" for kind in KINDS}
        self.roles = {viewer: names.get(viewer, f"looks_{viewer.replace(' ', '_')}") for viewer in VIEWERS}
        for viewer, how in VIEWERS.items():
            stack.run(f"CREATE ROLE {self.roles[viewer]} {how}", user="privid")
        stack.run("CREATE SCHEMA common; GRANT ALL ON SCHEMA common TO PUBLIC", user="privid")
        source = f"{names['source']}/{names['source']}.mp4"
        (stack.videos / names["source"]).mkdir(exist_ok=True)
        stack.run("SELECT privid.grant_folder('southernowner', 'southernsource')", user="privid")
        write_video(stack.videos / source, LEVELS[:40])
        with stack.connect(names["owner"]) as owner:
            owner.execute(sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER privid OPTIONS (source {}, starts '2026-03-01 06:00+00', "
                                  "rho '1s', k '1', epsilon '100')").format(sql.Identifier(names["camera"]), sql.Literal(source)))
            owner.execute(sql.SQL("GRANT USAGE ON FOREIGN SERVER {} TO {}, {}").format(
                *map(sql.Identifier, (names["camera"], names["analyst"], self.roles["colleague"]))))
            owner.execute("SELECT privid.create_mask(%s, %s, ARRAY[polygon '((0,0),(9,0),(9,9),(0,9))'], '1s')",
                          (names["camera"], names["mask"]))
            owner.execute("SELECT privid.create_regions(%s, %s, %s)", (names["camera"], names["region"],
                                                                       '{"left": "((0,0),(31,0),(31,47),(0,47))"}'))
            owner.execute("SELECT privid.grant_budget(%s, %s, 50)", (names["camera"], names["analyst"]))
        stack.run(f"CREATE SCHEMA AUTHORIZATION {names['analyst']}", user="privid")
        stack.executable(names["program"], "#!/bin/sh\nexit 1\n", user=names["analyst"])
        with stack.connect(names["analyst"]) as analyst:
            analyst.execute("SELECT privid.attach(%s, %s, 'x')", (names["program"], names["file"]))
        stack.table(names["table"], names["camera"], names["program"], user=names["analyst"], end="2026-03-01 06:00:02+00")
        with stack.connect(names["analyst"]) as analyst:
            analyst.execute(f"SELECT count(*) AS {names['question']} FROM {names['table']}".encode())
        posted = "SELECT count(*) FROM privid.timetable t WHERE t::text LIKE '%southern%'"
        assert wait_until(lambda: stack.run(posted, user="privid") == [(0,)], 30)  # that it is over

    def tear_down(self) -> None:
        run = self.stack.run
        run("DROP SERVER IF EXISTS southerncamera CASCADE", user="privid")
        run("DROP SCHEMA common CASCADE", user="privid")
        for role in self.roles.values():
            run(f"DELETE FROM privid.executable_store WHERE owner = '{role}'", user="privid")
            run(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}", user="privid")

    @contextmanager
    def sitting(self, viewer: str) -> Iterator[Sitting]:
        """What a role does one after the other, each taken back."""
        with self.stack.connect("privid", autocommit=False) as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # what the engine posts meanwhile is not the role's doing
            session.execute("SET LOCAL statement_timeout = '20s'")
            yield Sitting(session, sql.Identifier(self.roles[viewer]))
            session.rollback()


class Sitting:
    """A session of the superuser's that is somebody for one statement at a time."""

    def __init__(self, session: psycopg.Connection[tuple[Any, ...]], role: sql.Identifier) -> None:
        self._session, self._role = session, role
        tables = session.execute("SELECT relname FROM pg_class WHERE relnamespace = 'privid'::regnamespace AND relkind = 'r'").fetchall()
        digest = sql.SQL("SELECT {}, (SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM privid.{} t "
                         "WHERE t::text LIKE '%southern%')")
        self._digests = sql.SQL(" UNION ALL ").join(digest.format(sql.Literal(name), sql.Identifier(name)) for name, in tables)
        self._notices: list[str | None] = []
        session.add_notice_handler(lambda notice: self._notices.append(notice.message_primary))
        self._before = self.state()

    def state(self) -> dict[str, str]:
        """A digest of the rows about the city in each table of the extension's, and of what the catalogs say of it."""
        found = {name: str(digest) for name, digest in self._session.execute(self._digests).fetchall()}
        return found | dict(self._session.execute(_CATALOGS).fetchall())

    def call(self, statement: sql.Composed) -> tuple[str, set[str], str | None]:
        """What the role is told, what it has changed of the city, and the SQLSTATE if it was refused. It is taken back."""
        session, told = self._session, list[Any]()
        refused: str | None
        self._notices.clear()
        session.execute("SAVEPOINT asked")
        session.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(self._role))
        try:
            cursor = session.execute(statement)
            told.append(cursor.fetchall() if cursor.description else [])
            refused = "warned" if any(notice is not None and _IN_VAIN.match(notice) for notice in self._notices) else None
            session.execute("RESET SESSION AUTHORIZATION")
            after = self.state()
        except psycopg.Error as error:
            told.append((error.sqlstate, str(error), error.diag.message_detail, error.diag.message_hint))
            refused, after = error.sqlstate or type(error).__name__, self._before
        session.execute("ROLLBACK TO asked")
        session.execute("RESET SESSION AUTHORIZATION")
        session.execute("RELEASE asked")
        return str(told + self._notices), {table for table in after if after[table] != self._before[table]}, refused


#: PostgreSQL's way of not doing what it does not refuse
_IN_VAIN = re.compile("no privileges |skipping ")

#: objects of the city outside of our own tables
_CATALOGS = """
    SELECT 'camera', md5(concat((SELECT string_agg(s::text, '|') FROM pg_foreign_server s WHERE s.srvname = 'southerncamera')))
    UNION ALL
    SELECT 'table', md5(concat((SELECT string_agg(concat(c.relname, c.relnamespace, c.relowner, c.relacl, t.ftoptions), '|') FROM pg_class c
                                JOIN pg_foreign_table t ON t.ftrelid = c.oid WHERE c.relname = 'southerntable')))
    UNION ALL
    SELECT 'event trigger', md5(concat((SELECT string_agg(e::text, '|' ORDER BY e.oid) FROM pg_event_trigger e)))
    UNION ALL
    SELECT 'function', md5(concat((SELECT string_agg(concat(p.oid, p.proowner, p.proacl, p.prosrc, p.proconfig), '|' ORDER BY p.oid)
                                   FROM pg_proc p WHERE p.pronamespace = 'privid'::regnamespace)))
    UNION ALL
    SELECT 'relation', md5(concat((SELECT string_agg(concat(c.oid, c.relowner, c.relacl), '|' ORDER BY c.oid) FROM pg_class c
                                   WHERE c.relnamespace = 'privid'::regnamespace)))
    UNION ALL
    SELECT 'role', md5(concat((SELECT string_agg(r::text, '|' ORDER BY r.oid) FROM pg_authid r),
                              (SELECT string_agg(m::text, '|' ORDER BY m::text) FROM pg_auth_members m),
                              (SELECT string_agg(d::text, '|' ORDER BY d::text) FROM pg_db_role_setting d)))"""
