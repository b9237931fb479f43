"""A PostgreSQL with the schema of the room and nothing else of ours, for expressions over chunk and region."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from privid.model import Evaluate, Key, Span, Table
from privid.quantities import PG_EPOCH
from tests.conftest import copy_room_library

BIN = Path("/usr/lib/postgresql/15/bin")
ROOM = Path(__file__).resolve().parents[2] / "room" / "room.sql"


@pytest.fixture(scope="session")
def connection() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A cluster of its own, reachable by its socket only."""
    directory = Path(tempfile.mkdtemp(prefix="privid-calculus-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        os.chown(directory, pwd.getpwnam(user).pw_uid, -1)

    def run(program: str, *arguments: str) -> None:
        done = subprocess.run([BIN / program, "-D", directory / "data", *arguments], user=user, cwd=directory, capture_output=True,
                              text=True, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})
        assert done.returncode == 0, done.stdout + done.stderr

    library = copy_room_library(directory)
    try:
        run("initdb", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
        run("pg_ctl", "-w", "-s", "-l", str(directory / "log"), "-o", f"-k {directory} -c listen_addresses= -c fsync=off", "start")
        try:
            with psycopg.connect(f"host={directory} dbname=postgres user=postgres", autocommit=True) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                connection.execute(ROOM.read_text().replace("MODULE_PATHNAME", library).encode())
                # a hostile path: what the calculus writes must not depend on it
                connection.execute("SET search_path = nowhere")
                yield connection
        finally:
            run("pg_ctl", "-w", "-s", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def evaluate(connection: psycopg.Connection[tuple[object, ...]]) -> Evaluate:
    """Expressions over chunk and region, by PostgreSQL itself."""

    def evaluate(expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
        moments = ",".join(f"'{PG_EPOCH + timedelta(microseconds=table.chunk_microseconds(j))}'" for j in range(*span))
        statement = (f"SELECT {', '.join(expressions)} FROM (SELECT n, c::timestamptz AS chunk, text '{region}' AS region "
                     f"FROM unnest(ARRAY[{moments}]) WITH ORDINALITY u(c, n)) t ORDER BY n")
        result = connection.pgconn.exec_(statement.encode())
        assert not result.error_message, result.error_message.decode()

        def text(row: int, column: int) -> str | None:
            value = result.get_value(row, column)
            return None if value is None else value.decode()

        return [tuple(text(i, j) for j in range(result.nfields)) for i in range(result.ntuples)]

    return evaluate
