"""Two databases for a restore: one that is dumped, and one that its dump is restored into."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conftest import run_privid
from tests.ledger.postgres import Server

__all__ = ["Restoring"]


class Restoring:
    """Two databases: one that is dumped, and one that its dump is restored into."""

    def __init__(self, server: Server, name: str) -> None:
        self.server, self.old, self.new = server, f"{name}_old", f"{name}_new"
        self.file = server.directory / f"{name}.dump"
        self.socket = ("-h", server.directory, "-U", "postgres")
        server.command("createdb", *self.socket, "-T", "prepared", self.old)
        self.make_new()
        self.old_rows("CREATE SCHEMA ana AUTHORIZATION ana; CREATE SCHEMA ben AUTHORIZATION ben")

    def make_new(self) -> None:
        self.server.command("dropdb", *self.socket, "--if-exists", self.new)
        self.server.command("createdb", *self.socket, "-T", "template0", self.new)

    def old_rows(self, statement: str, user: str = "postgres") -> list[tuple[object, ...]]:
        return self._rows(self.old, statement, user)

    def new_rows(self, statement: str, user: str = "postgres") -> list[tuple[object, ...]]:
        return self._rows(self.new, statement, user)

    def _rows(self, database: str, statement: str, user: str) -> list[tuple[object, ...]]:
        with self.server.connect(database, user) as conn:
            cursor = conn.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def dump(self, *options: str) -> Path:
        self.server.command("pg_dump", *self.socket, "-Fc", *options, "-f", self.file, self.old)
        return self.file

    def restore(self, *options: str | Path, check: bool = True, user: str = "postgres",
                **variables: str) -> subprocess.CompletedProcess[str]:
        dsn = f"{self.server.conninfo(self.new, user)}"
        return run_privid("restore", self.file, "--dsn", dsn, *options, check=check, env={**os.environ, **variables})

    def refused(self, *options: str | Path, **others: str) -> str:
        """What is said; nothing is there afterwards."""
        done = self.restore(*options, check=False, **others)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        assert self.new_rows("SELECT nspname FROM pg_namespace WHERE oid >= 16384 AND nspname !~ '^pg_'") == []
        return done.stderr

    def ana_is_superuser(self) -> bool:
        """And no longer."""
        found = self.old_rows("SELECT rolsuper FROM pg_roles WHERE rolname = 'ana'")
        self.old_rows("ALTER ROLE ana NOSUPERUSER")
        return found == [(True,)]

    def close(self) -> None:
        for name in (self.old, self.new):
            self.server.command("dropdb", *self.socket, "--if-exists", "--force", name)
        self.file.unlink(missing_ok=True)
