"""A PostgreSQL of the tests' own, with the extension's real script over a library that knows who asks, and of all else has the symbols."""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from privid.ledger import Ledger, ReleaseRecord
from privid.model import Camera, Executable, Footage, Grid, Table, VideoFile
from tests.guard import guarded

ROOT = Path(__file__).resolve().parents[2]
PG_CONFIG = os.environ.get("PG_CONFIG", "/usr/lib/postgresql/15/bin/pg_config")
STARTS = datetime(2026, 3, 1, 6, tzinfo=UTC)


def pg_config(option: str) -> str:
    return subprocess.run([PG_CONFIG, option], check=True, capture_output=True, text=True).stdout.strip()


class Server:
    """A cluster in a temporary directory, reachable by its Unix socket only."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.data, self.extension = directory, directory / "data", directory / "extension"
        self.bin = Path(pg_config("--bindir"))
        # PostgreSQL refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        self.names = (f"test_{n}" for n in itertools.count())

    def command(self, program: str, *arguments: str | Path) -> str:
        done = subprocess.run([self.bin / program, *arguments], user=self.user, capture_output=True, text=True, cwd=self.directory,
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self.directory)})
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"
        return done.stdout

    def create(self) -> None:
        self._place_extension()
        if self.user:
            os.chown(self.directory, pwd.getpwnam(self.user).pw_uid, -1)
        self.command("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
        settings = {"listen_addresses": "", "unix_socket_directories": self.directory, "extension_destdir": self.extension, "fsync": "off",
                    "max_connections": "40", "log_min_messages": "panic", "autovacuum": "off", "restart_after_crash": "on"}
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self.start()
        with self.connect("postgres") as conn:
            conn.execute("CREATE DATABASE prepared")
        with self.connect("prepared") as conn:
            conn.execute("CREATE EXTENSION privid")
            conn.execute("ALTER ROLE privid_engine LOGIN")
            for name, group in (("olga", "privid_owner"), ("oscar", "privid_owner"), ("ana", "privid_analyst"), ("ben", "privid_analyst")):
                conn.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE {}").format(sql.Identifier(name), sql.Identifier(group)))
            conn.execute("CREATE ROLE nobody LOGIN")
            conn.execute("SELECT privid.grant_folder('privid_owner', '.')")

    def _place_extension(self) -> None:
        """The script and control file as they are; the library is another room's, so one that has its symbols stands in."""
        share = self.extension / pg_config("--sharedir").lstrip("/") / "extension"
        library = self.extension / pg_config("--pkglibdir").lstrip("/") / "privid.so"
        share.mkdir(parents=True)
        library.parent.mkdir(parents=True)
        scripts = ""
        for file in (ROOT / "sql").glob("privid*"):
            shutil.copy(file, share)
            scripts += file.read_text()
        real = ROOT / "fdw" / "invoker.c"
        there = re.findall(r"PG_FUNCTION_INFO_V1\((\w+)\)", real.read_text())
        symbols = sorted({*re.findall(r"'MODULE_PATHNAME', '(\w+)'", scripts)} - {*there})
        stub = self.directory / "stub.c"
        stub.write_text("#include \"postgres.h\"\n#include \"fmgr.h\"\nPG_MODULE_MAGIC;\n" + "".join(
            f"PG_FUNCTION_INFO_V1({name});\nDatum {name}(PG_FUNCTION_ARGS) {{ PG_RETURN_VOID(); }}\n" for name in symbols))
        subprocess.run(["cc", "-shared", "-fPIC", "-I", pg_config("--includedir-server"), "-o", library, stub, real], check=True)
        for path in [self.directory, *self.directory.rglob("*")]:
            path.chmod(0o755)

    def start(self) -> None:
        self.command("pg_ctl", "-D", self.data, "-w", "-s", "-l", self.directory / "log", "start")

    def stop(self, mode: str = "fast") -> None:
        self.command("pg_ctl", "-D", self.data, "-w", "-s", "-m", mode, "stop")

    def ending(self) -> list[str | Path]:
        """A command that ends the server if it runs."""
        # pg_ctl refuses to be root, and says 4 or 1 where there is nothing to end
        step_down = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"] if self.user else []
        return ["sh", "-c", 'test ! -e "$1/postmaster.pid" || { shift; exec "$@"; }', "sh", self.data,
                *step_down, self.bin / "pg_ctl", "-D", self.data, "-w", "-s", "-m", "immediate", "stop"]

    def conninfo(self, database: str, user: str = "postgres") -> str:
        return f"host={self.directory} dbname={database} user={user}"

    def connect(self, database: str, user: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.conninfo(database, user), autocommit=True)


class Database:
    """A database with the extension, and a ledger on it."""

    def __init__(self, server: Server) -> None:
        self.server, self.name = server, next(server.names)
        with server.connect("postgres") as conn:
            conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE prepared").format(sql.Identifier(self.name)))
        self.ledger = self.open_ledger()

    def clear(self) -> None:
        """As CREATE EXTENSION left it (much faster than a new database)."""
        with self.connect() as conn:
            servers = conn.execute("SELECT srvname FROM pg_foreign_server").fetchall()
            for (name,) in servers:
                conn.execute(sql.SQL("DROP SERVER {} CASCADE").format(sql.Identifier(name)))
            conn.execute("SET session_replication_role = replica")  # history refuses to be emptied
            conn.execute("""TRUNCATE privid.history_log, privid.history_chains, privid.consent_store, privid.account_gifts,
                            privid.ledger_blocks, privid.camera_state, privid.share_grants, privid.share_accounts,
                            privid.share_ledger, privid.share_blocks, privid.mask_store, privid.region_store,
                            privid.recordings, privid.recording_files, privid.footage, privid.ledger, privid.release_log,
                            privid.release_charges, privid.executable_store, privid.program_failures RESTART IDENTITY CASCADE""")

    def open_ledger(self, size: int = 4) -> Ledger:
        return Ledger(self.server.conninfo(self.name, "privid_engine"), size)

    def connect(self, user: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        return self.server.connect(self.name, user)

    def rows(self, statement: str, *values: Any, user: str = "postgres") -> list[tuple[Any, ...]]:
        with self.connect(user) as conn:
            cursor = conn.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def steps(self, recording: int) -> list[tuple[int, Fraction]]:
        """Where the ledger rises or falls, and to what."""
        stored = [(frame, Fraction(spent)) for frame, spent in
                  self.rows("SELECT frame, spent FROM privid.ledger_levels WHERE recording = %s ORDER BY frame", recording)]
        # the first step of a block may be no step at all
        return [step for n, step in enumerate(stored) if step[1] != (stored[n - 1][1] if n else 0)]

    def create_server(self, camera: Camera, name: str | None = None) -> None:
        options = {"source": "x.mp4", "starts": camera.starts.isoformat(), "rho": f"{camera.rho}s", "k": str(camera.k),
                   "epsilon": str(camera.epsilon), "visibility": camera.visibility}
        with self.connect(camera.owner) as conn:
            conn.execute(sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER privid OPTIONS ({})").format(
                sql.Identifier(name or camera.name),
                sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(n), sql.Literal(v)) for n, v in options.items())))


@contextmanager
def temporary_server() -> Iterator[Server]:
    directory = Path(tempfile.mkdtemp(prefix="privid-ledger-"))
    server = Server(directory)
    with guarded(directory, server.ending()):
        server.create()
        yield server


def video_file(content: str, first_frame: int, frames: int) -> VideoFile:
    """A file of which only the content matters."""
    return VideoFile(f"{content}.mp4", sha256(content.encode()).hexdigest(), first_frame, frames)


def camera(name: str = "campus", *, files: str = "a", frames: int = 100, r: int = 4, k: int = 1, epsilon: str = "1",
           owner: str = "olga", fps: Fraction = Fraction(10)) -> Camera:
    """A camera whose files, one per letter, have equally many frames; its longest protected segment has r frames."""
    footage = Footage(tuple(video_file(letter, n * frames, frames) for n, letter in enumerate(files)), fps, 64, 48)
    return Camera(name, owner, STARTS, Fraction(r) / fps, k, Fraction(epsilon), Fraction(1, 10), footage)


def table(name: str = "people") -> Table:
    """A table of that camera's."""
    return Table(0, name, "ana", camera(), Grid(0, 10, 10, 10), (), Executable("x", "00", b""), Fraction(1), 1, False)


def record(key: str = "0" * 64, role: str = "ana", query: str = "SELECT count(*) FROM people") -> ReleaseRecord:
    return ReleaseRecord(role, query, "count(*) of people", key, Fraction(1, 2), "discrete Laplace")
