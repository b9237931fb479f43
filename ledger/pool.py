"""The engine's connections to PostgreSQL: few, reused, made anew after a restart, and with nothing left to defaults."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import make_conninfo

from privid.errors import EngineUnavailable, PrividError, VersionMismatch
from privid.places import Places

from .turns import PATIENCE, Turns

__all__ = ["Connection", "Pool"]

Connection = psycopg.Connection[tuple[object, ...]]

#: Every session of the engine runs with these, whatever the server, database or role would set.
SETTINGS = {
    "synchronous_commit": "on",  # a charge is on disk before anything is computed
    "search_path": "pg_catalog",
    "default_transaction_isolation": "read committed",  # each statement after a lock sees what the lock waited for
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "lock_timeout": "20s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "120s",
    # The ledger is always looked up by its key; a table that grew since its last ANALYZE must not be read as a whole.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",  # by the key, whatever the values: there is nothing to plan twice
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
}


class Pool:
    """At most `size` connections, each lent to one thread at a time; no role has the last of them beside its others."""

    def __init__(self, conninfo: str, size: int = 4) -> None:
        self._conninfo = make_conninfo(conninfo, application_name="privid engine", client_encoding="utf8", connect_timeout=10)
        self._free = Places(size, max(1, size - 1), "engine is busy with other requests to PostgreSQL", PATIENCE)
        self.turns = Turns()
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lends a working connection; what PostgreSQL reports meanwhile becomes an error of ours."""
        with self._free.take():
            conn = self._take()
            try:
                with reported():
                    yield conn
            finally:
                self._give_back(conn)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """The same within one transaction, committed at the end of the block."""
        with self.connection() as conn, conn.transaction():
            yield conn

    @contextmanager
    def snapshot(self, *, writes: bool = False) -> Iterator[Connection]:
        """A transaction that reads all as of one moment, so that what is read by several statements fits together; and only reads, unless
        it is to write."""
        with self.connection() as conn:
            conn.isolation_level, conn.read_only = psycopg.IsolationLevel.REPEATABLE_READ, not writes
            try:
                with conn.transaction():
                    yield conn
            finally:
                if not conn.closed:
                    conn.isolation_level = conn.read_only = None

    def close(self) -> None:
        """Ends the idle connections; lent ones end when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for conn in idle:
            conn.close()

    def _take(self) -> Connection:
        while True:
            with self._lock:
                if self._closed:
                    raise EngineUnavailable("engine is shutting down", hint="Try again after it has been started.")
                conn = self._idle.pop() if self._idle else None
            if conn is None:
                return self._connect()
            try:
                conn.execute("SELECT")  # a restart of PostgreSQL shows here, before any work depends on the connection
                return conn
            except psycopg.Error:
                conn.close()

    def _connect(self) -> Connection:
        with reported():
            conn: Connection = psycopg.connect(self._conninfo, autocommit=True)
            try:
                # Also when the engine connects as a superuser, it works with the engine's rights only.
                conn.execute("SET ROLE privid_engine")
                conn.execute("SELECT pg_catalog.set_config(n, v, false) FROM unnest(%s::text[], %s::text[]) s(n, v)",
                             (list(SETTINGS), list(SETTINGS.values())))
            except BaseException:
                conn.close()
                raise
            return conn

    def _give_back(self, conn: Connection) -> None:
        if conn.info.transaction_status == pq.TransactionStatus.IDLE:
            with self._lock:
                if not self._closed:
                    self._idle.append(conn)
                    return
        conn.close()


@contextmanager
def reported() -> Iterator[None]:
    """Turns what psycopg raises into the family a client can act on."""
    try:
        yield
    except PrividError:
        raise
    except (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn, errors.UndefinedFunction,
            errors.InsufficientPrivilege, errors.UndefinedObject, errors.InvalidParameterValue) as error:
        raise VersionMismatch('extension "privid" is missing in the database or does not fit this engine', detail=_told(error),
                              hint="Run CREATE EXTENSION privid (or ALTER EXTENSION privid UPDATE) in the engine's database.") from error
    except errors.ReadOnlySqlTransaction as error:
        raise EngineUnavailable("could not charge a budget: PostgreSQL accepts no writes", detail=_told(error),
                                hint="Connect to the primary server; a standby cannot answer releases.") from error
    except psycopg.OperationalError as error:
        raise EngineUnavailable("engine could not reach PostgreSQL", detail=_told(error),
                                hint="Check that PostgreSQL is running and accepts the engine's connection, then try again.") from error


def _told(error: psycopg.Error) -> str:
    """One line of what PostgreSQL or libpq said, as a sentence."""
    text = (error.diag.message_primary or str(error)).strip().splitlines() or [type(error).__name__]
    return text[0].rstrip(".") + "."
