"""Writes docs/authority.md: what each kind of role sees of others and can change there, as tried on a stack.

    python -m tests.authority.page        on a stack of its own
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.conftest import REPOSITORY, RunningStack
from tests.verify.statements_fuzz import own_stack

from .city import City
from .sight import Cell, look

__all__ = ["PAGE", "page"]

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

A cell says what of the city is named in what one gets, and which tables one has changed. What is not in the table shows nothing to anybody
and changes nothing. PostgreSQL's own `pg_foreign_table` shows the options of tables to everybody who may connect, as it does for every
wrapper; those of servers, with their paths, are hidden.
"""

_RIGHTS = """## Functions with rights of their own

They act with the rights of the extension's owner. Who asks is the role that called them (`privid.invoker()`), whatever the session is.

| function | may be called by | what it does |
|---|---|---|
"""


def page(stack: RunningStack, seen: Mapping[str, Mapping[str, Cell]]) -> str:
    viewers = list(next(iter(seen.values())))
    lines = [_HEAD, "| through | " + " | ".join(viewers) + " |", "|---" * (len(viewers) + 1) + "|"]
    for name, cells in seen.items():
        if any(cell != Cell() for cell in cells.values()):
            lines.append(f"| `{name}` | " + " | ".join(str(cells[viewer]) for viewer in viewers) + " |")
    return "\n".join([*lines, "", _RIGHTS.rstrip("\n"), *_with_rights(stack), ""])


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
        city = City(made)
        city.build()
        PAGE.write_text(page(made, look(city)))
