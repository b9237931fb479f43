"""The PostgreSQL servers that run on this machine, and which of them use the installed library."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

from .layout import Account
from .library import PostgresBuild

__all__ = ["Server", "running_servers"]


@dataclass(frozen=True)
class Server:
    """A postmaster, and how to reach it on this machine."""

    build: PostgresBuild
    pid: int
    account: Account
    data: Path
    port: str
    sockets: str

    def preloaded(self, name: str) -> set[Path]:
        """Files of this name that the postmaster has loaded, also if they were replaced since."""
        maps = ""
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{self.pid}/maps").read_text(errors="replace")
        lines = [line.split(maxsplit=5) for line in maps.splitlines()]
        files = {Path(line[5].removesuffix(" (deleted)")) for line in lines if len(line) == 6}
        return {file for file in files if file.name == name}

    def databases_with(self, extension: str) -> list[str] | None:
        """Its databases that have an extension by installed files; None if that cannot be told.

        Debian's extension_destdir leads to a copy of the server's own.
        """
        names = self._ask("postgres", """
            SELECT datname FROM pg_database
            WHERE datallowconn AND coalesce(current_setting('extension_destdir', true), '') = ''""")
        if names is None:
            return None
        found = {name: self._ask(name, "SELECT extname FROM pg_extension") for name in names}
        if None in found.values():
            return None
        return [name for name, answer in found.items() if extension in (answer or [])]

    def _ask(self, database: str, statement: LiteralString) -> list[str] | None:
        """As the server's own user, who is let in as its superuser where nobody changed that."""
        environment = {"PGHOST": self.sockets, "PGPORT": self.port, "PGDATABASE": database,
                       "PGCONNECT_TIMEOUT": "5"}
        try:
            done = subprocess.run([str(self.build.bindir / "psql"), "-XAtqwc", statement],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=20, cwd="/", env=environment, check=False,
                                  **self.account.popen())
        except (OSError, subprocess.SubprocessError):  # not our user, or no answer
            return None
        return done.stdout.splitlines() if done.returncode == 0 else None


def running_servers(build: PostgresBuild) -> Iterator[Server]:
    """Those of one build whose processes this user may look at; not those of containers."""
    ours = build.pkglibdir.stat()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                if (entry / "exe").readlink().parent != build.bindir.resolve():
                    continue
                theirs = Path(f"{entry}/root{build.pkglibdir}").stat()
                if not os.path.samestat(ours, theirs):
                    continue
                lines = (entry / "cwd" / "postmaster.pid").read_text().splitlines()
                if lines[0] == entry.name:
                    yield Server(build, int(entry.name), Account.of(entry.stat().st_uid),
                                 (entry / "cwd").readlink(), lines[3], lines[4] or lines[5])
