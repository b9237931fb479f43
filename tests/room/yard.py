"""A PostgreSQL as the allowance relies on it, and the processor time of what runs there."""

from __future__ import annotations

import contextlib
import gc
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.conftest import copy_room_library
from tests.verify.calculus_stand import own_postgres

__all__ = ["SETTINGS", "Yard", "own_yard"]

_ROOM = Path(__file__).resolve().parents[2] / "room"
#: what the room's database is made of
SCRIPTS = "".join((_ROOM / name).read_text() for name in ("room.sql", "keyed.sql"))

#: of privid.room.premises.Room; memory for sorts is small, since a program can choose their order
SETTINGS = {
    "work_mem": "256kB",
    "hash_mem_multiplier": "512",
    "enable_sort": "off",
    "enable_incremental_sort": "off",
    "enable_mergejoin": "off",
    "enable_nestloop": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "client_min_messages": "warning",
}


class Yard:
    """One session."""

    def __init__(self, conninfo: str) -> None:
        self.connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(
            conninfo, autocommit=True
        )
        for name, value in SETTINGS.items():
            self.connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def beside(self, database: str) -> Yard:
        """A session in another database of the same server, with the same settings."""
        return Yard(psycopg.conninfo.make_conninfo(self.connection.info.dsn, dbname=database))

    def close(self) -> None:
        self.connection.close()

    def run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def processor(self) -> float:
        """Seconds that the backend has computed, whatever else the machine does; the clock where
        that is not told."""
        try:
            told = Path(f"/proc/{self.connection.info.backend_pid}/schedstat").read_text()
        except OSError:
            return time.perf_counter()
        return int(told.split()[0]) / 1e9

    def seconds(self, statement: str, times: int = 1) -> float:
        """The least of a few runs."""
        found = []
        for _ in range(times):
            begun = self.processor()
            self.run(statement)
            found.append(self.processor() - begun)
        return min(found)

    def fill(self, **columns: str) -> None:
        """pg_temp.t with so many rows: `rows`, and an expression of i for each column."""
        rows = columns.pop("rows")
        types = {"plate": "text", "speed": "float8"}
        self.run("DROP TABLE IF EXISTS pg_temp.t")
        self.run(f"CREATE TEMP TABLE t ({', '.join(f'{name} {types[name]}' for name in columns)})")
        for name in columns:
            self.run(
                f"ALTER TABLE t ALTER {name} SET STORAGE PLAIN"
            )  # as the foreign scan has it: nothing to uncompress
        self.run(
            f"INSERT INTO t SELECT {', '.join(columns.values())} FROM generate_series(1, {rows}) i"
        )


@contextlib.contextmanager
def own_yard() -> Iterator[Yard]:
    """A server for the tests of time. Database postgres has PostgreSQL's own hash functions."""
    with contextlib.ExitStack() as stack:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ResourceWarning
            )  # the server outlives the object that started it, as it does in life
            layout = stack.enter_context(own_postgres())
            gc.collect()
        conninfo = psycopg.conninfo.make_conninfo(
            host=str(layout.run), port=str(layout.socket_port), dbname="privid", user="privid"
        )
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(
                SCRIPTS.replace("MODULE_PATHNAME", copy_room_library(layout.run)).encode()
            )
        yard = Yard(conninfo)
        try:
            yield yard
        finally:
            yard.close()
