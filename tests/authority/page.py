"""Writes docs/authority.md: what each kind of role sees of others and can change there, as tried on a stack.

    python -m tests.authority.page        on a stack of its own
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import REPOSITORY, RunningStack
from tests.verify.statements_fuzz import own_stack

from .attempts import ELSEWHERE, everything
from .city import City
from .sight import Cell, look
from .visibility import SETTINGS, Street, measure

__all__ = ["PAGE", "RIGHTS", "SIGHTS", "page", "sights"]

PAGE = REPOSITORY / "docs" / "authority.md"

_HEAD = """# Who sees and does what

This page is written by the tests, from what a stack really shows. A city has an owner, a camera with a source, a mask, regions and a
share; an analyst with a program, an attached file, a table and a question. Others look at it through every relation and every function of
the extension, and name its things wherever they can:

| column | who |
|---|---|
| nobody | a role that may connect, and has no rights |
| stranger | an analyst without USAGE on the camera |
| colleague | an analyst with USAGE on it |
| analyst | the analyst himself |
| other owner | an owner of other cameras |
| owner | the camera's owner |
| monitor, reader | members of PostgreSQL's `pg_monitor` and `pg_read_all_data` |
| writer, signaller | members of `pg_write_all_data` and `pg_signal_backend` |
| maker, replicator | roles with CREATEROLE and REPLICATION |

A cell says what of the city is named in what one gets, and which tables one has changed. What is not in the table shows nothing to anybody
and changes nothing. PostgreSQL's own `pg_foreign_table` shows the options of tables to everybody who may connect, as it does for every
wrapper; those of servers, with their paths, are hidden.
"""

SIGHTS = """## What one analyst sees of another

The owner of a camera decides it with the option `visibility`. Two analysts may use the camera; the second also reads the first one's table.
Here is what the second one can tell of a release of the first one's, with each setting, on a machine that does nothing else:

| through | `open` | `own` |
|---|---|---|
"""

_REST = """
With `own` a role sees what that role did: what it was charged, shares in its name or in that of a role it is a member of, answers that it
was given, and what has been run for it. What others ran is run again for it, so that EXPLAIN and the clock say the same. Neither setting
hides:

- **that a machine is busy**: how long one waits for the lanes, in EXPLAIN's seconds and for the answer, whoever has them; what is kept of
  one's own runs leaves when all that the machine keeps is full;
- **that others are charged at all**: numbers of releases count those of all cameras, and PostgreSQL's own statistics and catalogs tell
  everybody how many rows tables have, who is connected, and the names and options of foreign tables;
- **that nothing is left**: a release that the camera cannot afford is refused, whoever has consumed it, and with refusals one can find out
  what is left. Where the shares that the owner has granted add up to no more than the camera's epsilon, who has a share in its own name is
  never refused because of others;
- **what somebody with rights passes on**, who acts as the same role, or as one that the other is a member of.
"""

RIGHTS = """## Functions with rights of their own

They act with the rights of the extension's owner. Who asks is the role that called them (`privid.invoker()`), whatever the session is.

| function | may be called by | what it does |
|---|---|---|
"""


_TRIED = """## What is tried beside that

Statements about the city, settings, triggers and commands of the command line (`--dsn` names the role). A dash is a refusal; **changes**
says what of the city has changed, a row about it as well; otherwise it may be done and changes nothing of it.

"""


def sights(seen: Mapping[str, Mapping[str, bool]]) -> str:
    """The section of what one analyst sees of another, by setting and way."""
    ways = next(iter(seen.values()))
    return SIGHTS + "".join(f"| {way} | " + " | ".join("seen" if found[way] else "-" for found in seen.values()) + " |\n"
                             for way in ways) + _REST


def page(stack: RunningStack, seen: Mapping[str, Mapping[str, Cell]], tried: Mapping[str, Mapping[str, Cell]], told: str) -> str:
    viewers = list(next(iter(seen.values())))
    lines = [_HEAD, "| through | " + " | ".join(viewers) + " |", "|---" * (len(viewers) + 1) + "|"]
    for name, cells in seen.items():
        if any(cell != Cell() for cell in cells.values()):
            lines.append(f"| `{name}` | " + " | ".join(str(cells[viewer]) for viewer in viewers) + " |")
    lines += ["", _TRIED + "| what | " + " | ".join(viewers) + " |", "|---" * (len(viewers) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cells[viewer].attempted() for viewer in viewers) + " |" for name, cells in tried.items()]
    lines += ["", "Of the other commands, it is shown elsewhere what they let whom do:", "", "| command | |", "|---|---|"]
    lines += [f"| `privid {name}` | {why} |" for name, why in ELSEWHERE.items()]
    return "\n".join([*lines, "", told, RIGHTS.rstrip("\n"), *_with_rights(stack), ""])


def _with_rights(stack: RunningStack) -> list[str]:
    rows = stack.run("""
        SELECT p.oid::regprocedure::text, coalesce(obj_description(p.oid, 'pg_proc'), ''),
               ARRAY(SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'everybody' ELSE a.grantee::regrole::text END
                     FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee <> p.proowner ORDER BY 1),
               p.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype)
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
        WHERE p.pronamespace = 'privid'::regnamespace AND (p.prosecdef OR l.lanname = 'privid')
        ORDER BY p.oid::regprocedure::text COLLATE "C" """, user="privid")
    return [f"| `{name}` | {', '.join(callers) or ('PostgreSQL alone, where it fires' if fires else 'superusers')} | {comment} |"
            for name, comment, callers, fires in rows]


if __name__ == "__main__":
    with own_stack() as made:
        told = {}
        for setting in SETTINGS:
            street = Street(made, setting)
            street.build()
            told[setting] = measure(street)
            street.tear_down()
        city = City(made)
        city.build()
        with tempfile.TemporaryDirectory() as folder:
            PAGE.write_text(page(made, look(city), everything(city, Path(folder)), sights(told)))
