"""A city that others look at: an owner with a camera, a mask, regions and a share; an analyst with a program, a file, a table, an answer.

Every name has a mark in it, so that whatever somebody sees of the city is found in any text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from privid.cli.processes import wait_until
from tests.conftest import LEVELS, RunningStack, write_video

__all__ = ["KINDS", "VIEWERS", "City", "kinds_in"]

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
        source = f"{names['source']}/{names['source']}.mp4"
        (stack.videos / names["source"]).mkdir()
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
        run("DROP SERVER southerncamera CASCADE", user="southernowner")
        for role in self.roles.values():
            run(f"DELETE FROM privid.executable_store WHERE owner = '{role}'", user="privid")
            run(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}", user="privid")

    def call(self, viewer: str, statement: sql.Composed) -> tuple[str, set[str]]:
        """What a role is told, and the tables of ours whose rows about the city it has changed. It is taken back."""
        with self.stack.connect("privid", autocommit=False) as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # what the engine posts meanwhile is not the role's doing
            session.execute("SET LOCAL statement_timeout = '20s'")
            before = _state(session)
            told: list[Any] = []
            session.add_notice_handler(lambda notice: told.append(notice.message_primary))
            session.execute("SAVEPOINT asked")
            session.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(self.roles[viewer])))
            try:
                cursor = session.execute(statement)
                told.append(cursor.fetchall() if cursor.description else [])
            except psycopg.Error as error:
                told.append((error.sqlstate, str(error), error.diag.message_detail, error.diag.message_hint))
                session.execute("ROLLBACK TO asked")
            session.execute("RESET SESSION AUTHORIZATION")
            after = _state(session)
            session.rollback()
        return str(told), {table for table in after if after[table] != before[table]}


def _state(session: psycopg.Connection[tuple[Any, ...]]) -> dict[str, str]:
    """A digest of the rows about the city in each table of the extension's."""
    tables = session.execute("SELECT relname FROM pg_class WHERE relnamespace = 'privid'::regnamespace AND relkind = 'r'").fetchall()
    found = {}
    for table, in tables:
        digest = sql.SQL("SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM privid.{} t WHERE t::text LIKE '%southern%'")
        found[table] = str(session.execute(digest.format(sql.Identifier(table))).fetchone())
    return found
