"""What can be told of a server through a connection alone, wherever it is.

Less can be told to a role with fewer rights; that is no error. Nothing is changed: what has to be
tried is tried in a transaction that is rolled back.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
from psycopg import errors, sql

import privid

from .finding import Finding
from .target import Connection, value

__all__ = ["examine_server", "readiness"]


def examine_server(connection: Connection) -> Iterator[Finding]:
    """Everything, as privid doctor tells it; the connection is a new one."""
    failed = False
    for finding in readiness(connection):
        failed = failed or finding.level == "FAIL"
        yield finding
    yield _transport(connection)
    if not failed:
        yield _package(connection)
        yield _rights(connection)
        yield _durability(connection)
        yield _engine(connection)


def readiness(connection: Connection) -> Iterator[Finding]:
    """What everything else needs, in the order in which it is mended; ends with what is missing.

    The connection is a new one: a call of the library would load it for this session.
    """
    preloaded = value(connection, "SELECT current_setting('privid.epsilon', true)") is not None
    yield Finding("PASS" if connection.info.server_version // 10000 == 15 else "FAIL", "server",
                  f"PostgreSQL {value(connection, 'SHOW server_version')}", "Use PostgreSQL 15.")
    database, encoding = connection.info.dbname, value(connection, "SHOW server_encoding")
    yield Finding("PASS" if encoding == "UTF8" else "CAUTION", "encoding",
                  f'database "{database}" is encoded in {encoding}',
                  "Texts of programs are UTF-8. Create the database with ENCODING 'UTF8' TEMPLATE "
                  "template0.")
    installed = value(connection, "SELECT extversion FROM pg_extension WHERE extname = 'privid'")
    if installed is None:
        yield Finding("FAIL", "extension",
                      f'extension "privid" is missing in database "{database}"',
                      "Run as a superuser: CREATE EXTENSION privid. If PostgreSQL does not find "
                      "it, run privid install on the server's machine.")
        return
    if not preloaded:
        yield Finding("FAIL", "preload", 'library "privid" is not preloaded',
                      "Add privid to shared_preload_libraries in postgresql.conf and restart the "
                      "server.")
        return
    yield Finding("PASS", "preload", "the server has preloaded the library")
    loaded = value(connection, "SELECT privid.library_version()")
    yield Finding("PASS" if installed == loaded else "FAIL", "versions",
                  f"extension {installed}, loaded library {loaded}",
                  f"Run as a superuser: ALTER EXTENSION privid UPDATE TO '{loaded}'.")


def _package(connection: Connection) -> Finding:
    """An engine must fit the server; who only asks can be of another version."""
    loaded, ours = value(connection, "SELECT privid.library_version()"), privid.__version__
    return Finding("PASS" if loaded == ours else "CAUTION", "package",
                   f"version {ours}" + (f", the server's is {loaded}" if loaded != ours else ""),
                   f"Use the package of version {loaded}.")


def _transport(connection: Connection) -> Finding:
    """Passwords, programs and answers travel here."""
    host = connection.info.host
    if host.startswith("/"):
        return Finding("PASS", "connection", f"by the socket in {host}")
    if connection.pgconn.ssl_in_use:
        return Finding("PASS", "connection", f"to {host}, encrypted")
    return Finding("CAUTION", "connection", f"to {host}, not encrypted",
                   "Set ssl = on at the server, hostssl in pg_hba.conf, and sslmode=verify-full "
                   "here.")


def _rights(connection: Connection) -> Finding:
    role = connection.info.user
    if value(connection, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
        return Finding("PASS", "role", f'"{role}" is a superuser')
    groups = {"privid_owner": "an owner", "privid_analyst": "an analyst",
              "privid_engine": "the engine"}
    kinds = [kind for group, kind in groups.items()
             if value(connection, "SELECT pg_has_role(%s, 'MEMBER')", group)]
    return Finding("PASS" if kinds else "CAUTION", "role",
                   f'"{role}" is {" and ".join(kinds) or "neither an owner nor an analyst"}',
                   f'Run as a superuser: GRANT privid_analyst TO "{role}", or GRANT privid_owner '
                   "for somebody with cameras.")


def _durability(connection: Connection) -> Finding:
    """A charge that a crash takes back could be spent twice."""
    off = [name for name in ("fsync", "full_page_writes")
           if value(connection, f"SHOW {name}") == "off"]
    return Finding("FAIL" if off else "PASS", "durability",
                   f"{' and '.join(off)} off" if off else "fsync is on",
                   "Switch it on: a crash could give back what was charged.")


def _engine(connection: Connection) -> Finding:
    """Whether the server reaches the engine, where this role has a way to make it ask."""
    probe = _probe(connection)
    if probe is None:
        return Finding("CAUTION", "engine",
                       f'could not be asked, for role "{connection.info.user}" may use no camera',
                       "Ask again as an owner, as a superuser, or once a camera is granted to the "
                       "role.")
    told = _ask(connection, probe)
    return Finding("FAIL" if told else "PASS", "engine", told or "answers through the server",
                   "Is it running (privid engine, on the server's machine)? Is privid.socket in "
                   "postgresql.conf its --socket? Its log tells of peers that it refused.")


def _probe(connection: Connection) -> sql.Composed | None:
    """What only the engine can refuse: a camera without video, a table that ends too early."""
    name = sql.Identifier(f"privid_doctor_{secrets.token_hex(8)}")
    folder = value(connection, """
        SELECT CASE WHEN (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN '.'
                    ELSE (SELECT min(folder) FROM privid.folders) END
        WHERE has_foreign_data_wrapper_privilege('privid', 'USAGE')""")
    if folder is not None:
        return sql.SQL("""CREATE SERVER {} FOREIGN DATA WRAPPER privid OPTIONS (
            source {}, starts '2000-01-01 00:00+00', rho '0s', k '0',
            epsilon '1')""").format(name, sql.Literal(f"{folder}/privid_doctor/none.mp4"))
    camera = value(connection, """
        SELECT s.srvname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
        WHERE w.fdwname = 'privid' AND has_server_privilege(s.oid, 'USAGE')
        ORDER BY s.oid LIMIT 1""")
    if camera is None:
        return None
    return sql.SQL("""CREATE FOREIGN TABLE pg_temp.{} (n float8 DEFAULT 0) SERVER {} OPTIONS (
        executable 'none', begin '2000-01-02 00:00+00', "end" '2000-01-01 00:00+00', chunk '1s',
        timeout '1s', max_rows '1')""").format(name, sql.Identifier(camera))


def _ask(connection: Connection, probe: sql.Composed) -> str | None:
    """None when it was the engine that refused the probe."""
    unreached: list[str] = []

    def note(notice: errors.Diagnostic) -> None:
        if notice.sqlstate == "PV004":
            unreached.append(notice.message_primary or "")

    connection.add_notice_handler(note)
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL lock_timeout = '5s'")
            connection.execute("SET LOCAL statement_timeout = '20s'")
            connection.execute(probe)
    except psycopg.Error as error:
        if error.sqlstate not in ("PV007", "PV009"):  # footage and windows, of which it knows
            return (error.diag.message_primary or str(error)).strip()
    return unreached[0] if unreached else None
