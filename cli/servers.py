"""The PostgreSQL servers that run on this machine, and which of them use the installed library."""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

from .layout import Account
from .library import PostgresBuild

__all__ = ["Server", "running_servers"]

#: for all that is asked of a server, in seconds; and bytes of an answer
_PATIENCE, _LONGEST = 30.0, 1 << 20


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
        if not self.trusted:
            return None
        deadline = time.monotonic() + _PATIENCE
        names = self._ask("postgres", """
            SELECT datname FROM pg_database
            WHERE datallowconn AND coalesce(current_setting('extension_destdir', true), '') = ''""", deadline)
        found = {}
        for name in names or ():
            found[name] = answer = self._ask(name, "SELECT extname FROM pg_extension", deadline)
            if answer is None:
                return None
        return None if names is None else [name for name, answer in found.items() if extension in (answer or [])]

    @property
    def trusted(self) -> bool:
        """Whether a client of ours may run as the server's user: anybody can run what looks like a server.

        Who has a client's user can take it over, and make it say whatever he likes.
        """
        return self.account.is_self or (os.geteuid() == 0 and self.account.uid == _installed())

    def _ask(self, database: str, statement: LiteralString, deadline: float) -> list[str] | None:
        """As the server's own user, who is let in as its superuser where nobody changed that."""
        environment = {"PGHOST": self.sockets, "PGPORT": self.port, "PGDATABASE": database,
                       "PGCONNECT_TIMEOUT": "5"}
        command = [str(self.build.bindir / "psql"), "-XAtqwc", statement]
        try:
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, cwd="/", env=environment,
                                  # whose user that is may take it over: not with our terminal
                                  start_new_session=True, **self.account.popen()) as process:
                try:
                    said = _read(process, deadline)
                    code = process.wait(max(0.0, deadline - time.monotonic())) if said is not None else 1
                finally:
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
        except (OSError, ValueError, subprocess.SubprocessError):  # not our user, a name with NUL, or no answer
            return None
        return said.decode(errors="replace").splitlines() if said is not None and code == 0 else None


def _installed() -> int | None:
    """The user that PostgreSQL's packages make."""
    try:
        return pwd.getpwnam("postgres").pw_uid
    except KeyError:
        return None


def _read(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """What a process says until it ends; None if that is too much, or takes too long."""
    assert process.stdout is not None
    said, poll = b"", select.poll()
    poll.register(process.stdout, select.POLLIN)
    while len(said) <= _LONGEST and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        piece = os.read(process.stdout.fileno(), 65536)
        if not piece:
            return said
        said += piece
    return None


def _read_foreign(path: Path) -> str:
    """The beginning of a file that anybody may have put there: a link is not followed, and a FIFO does not hold us up."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        return file.read(4096).decode(errors="replace") if stat.S_ISREG(os.fstat(fd).st_mode) else ""


def running_servers(build: PostgresBuild) -> Iterator[Server]:
    """Those of one build whose processes this user may look at; not those of containers."""
    ours = build.pkglibdir.stat()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if (entry / "exe").readlink().parent != build.bindir.resolve():
                    continue
                theirs = Path(f"{entry}/root{build.pkglibdir}").stat()
                if not os.path.samestat(ours, theirs):
                    continue
                lines = _read_foreign(entry / "cwd" / "postmaster.pid").splitlines()
                if lines[0] == entry.name:
                    yield Server(build, int(entry.name), Account.of(entry.stat().st_uid),
                                 (entry / "cwd").readlink(), lines[3], lines[4] or lines[5])
