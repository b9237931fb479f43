"""One engine process on a real PostgreSQL for the tests of this room."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from tests.conftest import write_video
from tests.engine.client import EngineProcess, running
from tests.guard import guarded
from tests.ledger.postgres import Database, temporary_server

#: tells the brightness of the first pixel; a shell starts in time on a busy machine, too
BRIGHTNESS = rb"""#!/bin/sh
od -An -tu1 -j128 -N1 "$1/frames.npy" > /tmp/v
read v < /tmp/v
printf '{"v": %d, "w": "secret-%d"}\n' "$v" "$v"
"""
#: loops for ever in every chunk
ENDLESS = b"def process(chunk):\n    while True:\n        pass\n"

COLUMNS = [{"name": "chunk", "attno": 1, "type": "timestamptz", "default": None},
           {"name": "v", "attno": 2, "type": "float8", "default": "0"},
           {"name": "w", "attno": 3, "type": "text", "default": "none"}]


class House:
    """The engine, its database, and requests as the library would write them."""

    def __init__(self, engine: EngineProcess, database: Database) -> None:
        self.engine, self.database = engine, database
        self._cameras = itertools.count()
        self._servers: dict[str, dict[str, str]] = {}

    def upload(self, name: str, content: bytes) -> None:
        self.database.rows("SELECT privid.upload(%s, %s)", name, content, user="ana")

    def video(self, levels: list[int]) -> str:
        """A video of its own, 10 frames per second, so that tests share no budget."""
        name = f"video-{next(self._cameras)}.mp4"
        # a mark in the last frame makes the content differ from every other
        write_video(self.engine.videos / name, [*levels, 255 - next(self._cameras)])
        return name

    def camera(self, source: str) -> str:
        return f"camera_{source.partition('.')[0]}"

    def server(self, source: str, **options: str) -> dict[str, Any]:
        """In the catalog too, which the engine looks at; of a wrapper without a handler, so that no library takes part."""
        name = self.camera(source)
        options = {"source": source, "starts": "2026-03-01 06:00+00", "rho": "0s", "k": "1", "epsilon": "10", **options}
        if self._servers.get(name) != options:
            with self.database.connect() as connection:
                place, listed = sql.Identifier(name), sql.SQL(", ").join(
                    sql.SQL("{} {}").format(sql.Identifier(option), sql.Literal(value)) for option, value in options.items())
                connection.execute(sql.SQL("DROP SERVER IF EXISTS {}").format(place))
                connection.execute(sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER plain OPTIONS ({})").format(place, listed))
                connection.execute(sql.SQL("ALTER SERVER {} OWNER TO olga").format(place))
                connection.execute(sql.SQL("GRANT USAGE ON FOREIGN SERVER {} TO ana").format(place))
            self._servers[name] = options
        oid = self.database.rows("SELECT oid::int8 FROM pg_foreign_server WHERE srvname = %s", name)[0][0]
        return {"name": name, "oid": oid, "owner": "olga", "options": options}

    def asked_by(self, role: str, *tables: dict[str, Any]) -> dict[str, Any]:
        """Who asks, and reads these tables."""
        oid = self.database.rows("SELECT oid::int8 FROM pg_roles WHERE rolname = %s", role)[0][0]
        return {"role": role, "role_oid": oid, "login": role,
                "readers": [{"role": oid, "server": table["server"]["oid"]} for table in tables]}

    def table(self, source: str, executable: str = "brightness", columns: list[dict[str, Any]] | None = None,
              server: dict[str, str] | None = None, **options: str) -> dict[str, Any]:
        return {"schema": "public", "name": "people", "oid": 2, "owner": "ana", "server": self.server(source, **(server or {})),
                "options": {"executable": executable, "begin": "2026-03-01 06:00+00", "end": "2026-03-01 06:00:02+00", "chunk": "1s",
                            "timeout": "600ms", "max_rows": "2", **options},
                "columns": COLUMNS if columns is None else columns}

    def request(self, table: dict[str, Any], **changes: Any) -> dict[str, Any]:
        """SELECT count(*), sum(range(v, 0, 255)) FROM people."""
        value = {"e": "col", "rel": 1, "col": 2, "name": "v", "type": "float8", "loc": 30}
        bounds = [{"e": "const", "value": text, "type": "float8", "loc": 40} for text in ("0", "255")]
        clamped = {"e": "call", "fn": "privid.range(float8,float8,float8)", "args": [value, *bounds], "type": "numeric", "loc": 20}
        return {**self.asked_by("ana", table), "database": self.database.name, "epsilon": "1", "reuse": False,
                "allowance": 10_000, "query": "SELECT zebra",
                "settings": {"TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres"}, "tables": [table],
                "select": {"from": [{"kind": "table", "rel": 1, "table": 0}], "where": None, "group": [], "distinct": False,
                           "limit": None, "offset": None,
                           "aggs": [{"name": "pg_catalog.count()", "args": [], "star": True, "distinct": False, "filter": None,
                                     "type": "int8", "loc": 7},
                                    {"name": "pg_catalog.sum(numeric)", "args": [clamped], "star": False, "distinct": False,
                                     "filter": None, "type": "numeric", "loc": 15}]}, **changes}


@pytest.fixture(scope="session")
def house() -> Iterator[House]:
    with open_house() as found:
        yield found


@contextmanager
def open_house() -> Iterator[House]:
    """For programs that are no tests, too."""
    directory = Path(tempfile.mkdtemp(prefix="privid-engine-"))
    directory.chmod(0o755)
    try:
        with temporary_server() as server:
            database = Database(server)
            data, videos = directory / "data", directory / "videos"
            data.mkdir()
            videos.mkdir()
            engine = EngineProcess(data, videos, server.conninfo(database.name, "privid_engine"), lanes=2)
            with running(engine):
                database.rows("CREATE FOREIGN DATA WRAPPER plain")
                found = House(engine, database)
                found.upload("brightness", BRIGHTNESS)
                found.upload("endless", ENDLESS)
                yield found
            database.ledger.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def small_disk() -> Iterator[Callable[[int], Path]]:
    """Makes a file system of so many megabytes, unmounted whatever becomes of the test."""
    with ExitStack() as made:

        def mount(megabytes: int) -> Path:
            path = Path(tempfile.mkdtemp(prefix="privid-small-"))
            made.enter_context(guarded(path, ["umount", "--lazy", path]))
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "small", path], check=True)
            return path

        yield mount
