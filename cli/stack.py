"""An embedded stack: PostgreSQL with the extension, and the engine, in one data directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from privid.closed import open_file
from privid.room.description import describe

from .bootstrap import bootstrap
from .closing import close_to_others
from .daemon import Engine
from .layout import Layout, default_data
from .library import copy_into, prune
from .postgres import Postgres
from .processes import wait_until
from .terminal import CommandFailed, progress

__all__ = ["Piece", "Stack"]


@dataclass(frozen=True)
class Piece:
    """One process of a stack, for status."""

    name: str
    running: bool
    detail: str


class Stack:
    """All that the commands do with a stack."""

    def __init__(self, data: Path | None = None) -> None:
        self.layout = Layout(data or default_data())
        self.layout.check()
        self.postgres = Postgres(self.layout)
        self.engine = Engine(self.layout)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One up or down at a time; the lock goes with the process that holds it."""
        path = self.layout.state / "lock"
        self.layout.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_open_lock(path)
        lock = open_file(path, os.O_RDWR)
        try:
            if not wait_until(lambda: _locks(lock), PATIENCE):
                raise CommandFailed(f'another privid up or down has been at work in "{self.layout.data}" for {PATIENCE:g} s',
                                    f'Wait for it, or end it: lslocks shows which process holds "{path}".')
            yield
        finally:
            os.close(lock)

    def up(self, port: int | None = None, videos: Path | None = None, lanes: int | None = None) -> None:
        """Creates what does not exist, starts what does not run, restarts what runs with settings of the past."""
        layout = self.layout
        layout.check_mine()
        foreign = not layout.exists and layout.data.is_dir() and any(p.name not in _OWN for p in layout.data.iterdir())
        if foreign:
            raise CommandFailed(f'directory "{layout.data}" is not empty and does not hold a stack',
                                "Give a new or empty directory with --data.")
        with progress(6) as bar:
            bar.step("creating the data directory")
            layout.create(videos)
            with self._alone():
                if self.engine.pid() is None:
                    _forget_open_lock(layout.data / "engine.lock")
                close_to_others(layout)
                if port is not None and port != (layout.port or 0):
                    _check_free(port)
                    layout.remember(port=port or None)
                if lanes is not None:
                    layout.remember(lanes=lanes or None)
                bar.step("creating the database cluster")
                self.postgres.create()
                bar.step("configuring PostgreSQL")
                place = copy_into(layout.lib, self.postgres.build)
                changed = self.postgres.configure(place)
                bar.step("starting PostgreSQL")
                if changed or (self.postgres.pid() is not None and not self.postgres.answers()):
                    self.engine.stop()
                    self.postgres.stop()
                if self.postgres.pid() is None:
                    self.postgres.start()
                prune(layout.lib, place)
                bootstrap(self.postgres)
                bar.step("starting the engine")
                if self.engine.pid() is None or self.engine.outdated() or self.engine.answers() is None:
                    self.engine.stop()
                    self.engine.start()
                bar.step("done")

    def down(self) -> bool:
        """Engine first, then PostgreSQL; True when anything ran."""
        if not self.layout.data.is_dir():
            return False
        self.layout.check_mine()
        with self._alone():
            engine = self.engine.stop()
            postgres = self.postgres.stop()
            for outside in (self.postgres.mount_point, self.layout.run):
                if not outside.is_relative_to(self.layout.data):
                    with contextlib.suppress(OSError):
                        outside.rmdir()  # made again by the next up
        return engine or postgres

    def pieces(self) -> list[Piece]:
        """What runs and what does not."""
        postgres, engine = self.postgres.pid(), self.engine.pid()
        ready = postgres is not None and self.postgres.answers()
        version = self.engine.answers() if engine is not None else None
        return [
            Piece("PostgreSQL", ready, f"pid {postgres}, {'answers' if ready else 'does not answer'}" if postgres else "not running"),
            Piece("engine", version is not None,
                  f"pid {engine}, {f'version {version}' if version else 'does not answer'}" if engine else "not running"),
            self._room(),
        ]

    def _room(self) -> Piece:
        """The engine's own PostgreSQL, in which releases are computed."""
        room = describe(self.layout.data)
        if not room.running:
            return Piece("room", False, "not running")
        return Piece("room", True, f"pid {room.pid}, {room.memory / (1 << 20):.0f} MB in {room.directory}")

    def psql_line(self, user: str = "analyst") -> str:
        """What to type to get in."""
        port = f" -p {self.layout.socket_port}" if self.layout.socket_port != 5432 else ""
        return f"psql -h {shlex.quote(str(self.layout.run))}{port} -U {user} privid"


#: what may be found in a directory where an earlier start was interrupted
_OWN = {"pg", "pg.new", "run", "log", "lib", "videos", "cache", "state", "engine.lock"}


#: how long an up or down waits for another one, in seconds: one that creates a stack on a busy machine takes a while
PATIENCE = 120.0


def _locks(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _forget_open_lock(path: Path) -> None:
    """A lock file that others could open, as older versions made them, may be held by anybody: another one takes its place."""
    with contextlib.suppress(FileNotFoundError):
        info = path.lstat()
        if stat.S_ISREG(info.st_mode) and info.st_mode & 0o077:
            path.unlink()


def _check_free(port: int) -> None:
    if port:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise CommandFailed(f"could not use port {port}: {error.strerror}", "Choose another one with --port.") from None
