"""What else each kind of role tries on a city: statements, settings, event triggers, and the commands of the command line."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import av
import numpy as np
from psycopg import sql

from privid.cli.main import COMMANDS, main

from .city import VIEWERS, City, kinds_in
from .sight import Cell, cell

__all__ = ["ELSEWHERE", "everything"]

Cells = dict[str, dict[str, Cell]]

_TABLE = "CREATE FOREIGN TABLE common.{mine} (chunk timestamptz, v float8 DEFAULT 0) SERVER southerncamera OPTIONS (" \
         "executable 'southernprogram', begin '2026-03-01 06:00+00', " \
         "\"end\" '2026-03-01 06:00:02+00', chunk '1s', stride '0s', timeout '200ms', max_rows '1'{more})"
_CAMERA = "CREATE SERVER {mine} FOREIGN DATA WRAPPER privid OPTIONS (source '{source}', " \
          "starts '2026-03-01 06:00+00', rho '1s', k '1', epsilon '1')"

#: what a row of the page calls it -> the statement; whoever tries it names what he does not own
STATEMENTS = {
    "create a camera over its source": _CAMERA.format(mine="mine", source="southernsource/southernsource.mp4"),
    "create a camera beside it": _CAMERA.format(mine="mine", source="elsewhere.mp4"),
    "alter a camera": "ALTER SERVER southerncamera OPTIONS (SET epsilon '90')",
    "rename a camera": "ALTER SERVER southerncamera RENAME TO mine",
    "take a camera": "ALTER SERVER southerncamera OWNER TO CURRENT_USER",
    "drop a camera": "DROP SERVER southerncamera CASCADE",
    "grant a camera": "GRANT USAGE ON FOREIGN SERVER southerncamera TO looks_stranger",
    "take a camera's rights away": "REVOKE USAGE ON FOREIGN SERVER southerncamera FROM southernanalyst",
    "create a table on a camera": _TABLE.format(mine="mine", more=""),
    "create a table behind its mask": _TABLE.format(mine="mine", more=", mask 'southernmask'"),
    "ask through a table": "SELECT count(*) AS southernquestion FROM southernanalyst.southerntable",
    "preview a question": "EXPLAIN SELECT count(*) FROM southernanalyst.southerntable",
    "read a table raw": "SELECT * FROM southernanalyst.southerntable",
    "alter a table": "ALTER FOREIGN TABLE southernanalyst.southerntable OPTIONS (SET timeout '100ms')",
    "drop a table": "DROP FOREIGN TABLE southernanalyst.southerntable",
    "analyze a table": "ANALYZE southernanalyst.southerntable",
    "lock a table of the ledger": "LOCK TABLE privid.release_log",
    "lock programs": "LOCK TABLE privid.executable_store IN ACCESS EXCLUSIVE MODE",
    "truncate programs": "TRUNCATE privid.attachment_store",
    "make a trigger on the ledger": "CREATE TRIGGER mine BEFORE INSERT ON privid.release_log EXECUTE FUNCTION privid.refuse_others()",
    "move a sequence": "SELECT setval('privid.release_log_id_seq', 1000000)",
    "write in the language privid": "CREATE FUNCTION pg_temp.mine() RETURNS text LANGUAGE privid AS 'BEGIN RETURN privid.invoker(); END'",
    "replace a function": "CREATE OR REPLACE FUNCTION privid.acts_for(role text, other text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "make something in the schema privid": "CREATE TABLE privid.mine ()",
    "drop the extension": "DROP EXTENSION privid CASCADE",
    "alter the wrapper": "ALTER FOREIGN DATA WRAPPER privid NO VALIDATOR",
    "become the engine": "GRANT privid_engine TO CURRENT_USER",
    "become an owner": "GRANT privid_owner TO CURRENT_USER",
    "become the camera's owner": "GRANT southernowner TO CURRENT_USER",
    "act as the camera's owner": "SET LOCAL ROLE southernowner",
    "act as the engine": "SET LOCAL ROLE privid_engine",
    "switch triggers off": "SET LOCAL session_replication_role = replica",
    "hold the log back": "SELECT pg_create_physical_replication_slot('southern_slot', true, true)",
    "list the log of writes": "SELECT count(*) FROM pg_ls_waldir()",
    "read files": "SELECT pg_read_file('postgresql.conf')",
    "end the engine's sessions": "SELECT DISTINCT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'privid_engine'",
}
for _table in ("ledger", "history_log", "mask_store", "folder_grants", "consent_store", "share_grants", "program_failures",
               "quota_store", "quota_use", "quota_turns", "timetable", "executable_store", "attachment_store", "camera_state", "recordings",
               "release_log", "release_charges"):
    STATEMENTS[f"delete from {_table}"] = f"DELETE FROM privid.{_table}"

#: commands that are about no role of a database, and where it is shown what they let whom do
ELSEWHERE = {
    "up": "a stack is its user's: tests/cli/test_closed.py", "down": "a stack is its user's: tests/cli/test_closed.py",
    "status": "a stack is its user's: tests/cli/test_closed.py",
    "psql": "PostgreSQL's own: what a role may do in it is the rest of this page",
    "try": "asks no database: tests/cli/test_try.py", "restore": "superusers alone: tests/cli/test_restore.py",
    "install": "writes files of root's: tests/cli/test_install.py", "uninstall": "writes files of root's: tests/cli/test_install.py",
    "engine": "connects as privid_engine alone: tests/cli/test_beside.py",
}


def everything(city: City, folder: Path) -> Cells:
    """All that is tried here, by what the page calls it; commands last, because what they do stays done."""
    statements = {name: [statement] for name, statement in STATEMENTS.items()}
    return _attempt(city, statements | _settings(city) | _triggers(city)) | _commands(city, folder)


def _attempt(city: City, several: dict[str, list[str]]) -> Cells:
    found: Cells = {name: {} for name in several}
    for viewer in VIEWERS:
        with city.sitting(viewer) as sitting:
            for name, statements in several.items():
                found[name][viewer] = cell(sitting, [sql.SQL(statement).format() for statement in statements])
    return found


def _settings(city: City) -> dict[str, list[str]]:
    """Every setting, in every way in which one is set."""
    values = {"bool": "on", "real": "1", "integer": "1", "string": "southernsource"}
    found = {}
    for name, kind in city.stack.run("SELECT name, vartype FROM pg_settings WHERE name LIKE 'privid.%%' ORDER BY 1", user="privid"):
        found[f"`SHOW {name}`"] = [f"SHOW {name}"]
        found[f"`SET {name}`"] = [f"SET LOCAL {name} = '{values[kind]}'"]
        found[f"`ALTER ROLE ... SET {name}` of another"] = [f"ALTER ROLE southernowner SET {name} = '{values[kind]}'"]
        found[f"`ALTER DATABASE ... SET {name}`"] = [f"ALTER DATABASE privid SET {name} = '{values[kind]}'"]
        found[f"`ALTER SYSTEM SET {name}`"] = [f"ALTER SYSTEM SET {name} = '{values[kind]}'"]
    return found


def _triggers(city: City) -> dict[str, list[str]]:
    """Every event trigger, and the triggers of our tables."""
    found = {f"event trigger `{name}`": [f"ALTER EVENT TRIGGER {name} DISABLE", f"DROP EVENT TRIGGER {name}"]
             for name, in city.stack.run("SELECT evtname FROM pg_event_trigger ORDER BY 1", user="privid")}
    rows = city.stack.run("SELECT t.tgname, t.tgrelid::regclass::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
                          "WHERE NOT t.tgisinternal AND c.relnamespace = 'privid'::regnamespace ORDER BY 1, 2", user="privid")
    for name, table in rows:
        several = found.setdefault(f"trigger `{name}`", [])
        several += [f"ALTER TABLE {table} DISABLE TRIGGER {name}", f"DROP TRIGGER {name} ON {table}"]
    return found


def _commands(city: City, folder: Path) -> Cells:
    """Every command that speaks to a database, as everybody. What it does stays done."""
    program, query, picture = folder / "mine.py", folder / "mine.privid", folder / "mine.png"
    program.write_text("def process(chunk):\n    yield {}\n")
    query.write_text("SPLIT southerncamera BEGIN 2026-03-01T06:00Z END 2026-03-01T06:00:02Z BY TIME 1sec STRIDE 0sec INTO c;\n"
                     "PROCESS c USING mine TIMEOUT 1sec PRODUCING 1 ROWS WITH SCHEMA (v:NUMBER=0) INTO t;\nSELECT COUNT(*) FROM t;\n")
    stripes = np.tile(np.array([[[0]], [[255]]], dtype=np.uint8), (24, 64, 3)).reshape(48, 64, 3)
    with av.open(str(picture), "w", format="image2") as container:
        stream = container.add_stream("png", rate=1)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "rgb24"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(stripes, format="rgb24")))
        container.mux(stream.encode(None))
    lines = {
        "upload": ["--name", "mine", str(program)], "mask": ["--rho", "0.5s", "southerncamera", "southernmask2", str(picture)],
        "query": ["--explain", str(query)], "progress": ["--once"], "budget": ["southerncamera"], "exposure": ["southerncamera"],
        "ledger check": ["--engine-data", str(city.stack.data), "check"],
        "ledger accept-restore": ["--engine-data", str(city.stack.data), "--yes", "accept-restore"], "doctor": [],
    }
    assert {name.split()[0] for name in lines} | set(ELSEWHERE) == set(COMMANDS), "a new command is tried here, or it is said where it is"
    found: Cells = {f"`privid {name}`": {} for name in lines}
    for viewer in VIEWERS:
        server = f"host={city.stack.layout.run} port={city.stack.layout.socket_port} dbname=privid user={city.roles[viewer]}"
        for name, arguments in lines.items():
            with city.sitting(viewer) as sitting:
                before = sitting.state()
            told = io.StringIO()
            with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
                code = main([name.split()[0], "--dsn", server, *arguments])
            with city.sitting(viewer) as sitting:
                after = sitting.state()
            sees = kinds_in(told.getvalue()) - kinds_in(" ".join(arguments) + query.read_text() + city.roles[viewer])
            found[f"`privid {name}`"][viewer] = Cell(tuple(sorted(sees)), tuple(k for k in after if after[k] != before[k]), code == 0)
    return found
