"""The engine of a stack as a process of its own: started detached, found again, asked whether it answers, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from psycopg.conninfo import make_conninfo

import privid
from privid.closed import open_file
from privid.errors import PrividError
from privid.sockets import remove_socket

from .layout import Layout
from .processes import PidFile, wait_until
from .terminal import CommandFailed

__all__ = ["Engine"]


class Engine:
    """One engine per stack. Started by root it stays root, to be able to give each lane of the sandbox a user of its own."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.pid_file = PidFile(layout.state / "engine.pid")

    @property
    def log(self) -> Path:
        return self.layout.log / "engine.log"

    def pid(self) -> int | None:
        return self.pid_file.pid()

    def started_as(self) -> list[str]:
        """The command line that belongs to this stack as it is configured now."""
        layout = self.layout
        conninfo = make_conninfo(**layout.server(), dbname="privid", user="privid_engine")
        return [sys.executable, "-m", "privid.engine", "--data", str(layout.data), "--videos", str(layout.videos),
                "--socket", str(layout.engine_socket), "--conninfo", conninfo, "--peer-uid", str(layout.account.uid),
                *(() if layout.lanes is None else ("--lanes", str(layout.lanes)))]

    def outdated(self) -> bool:
        """Whether the running engine was started with other options than it would be started with now."""
        return self.layout.remembered().get("engine") != self.started_as()

    def start(self) -> None:
        """Starts the engine and waits until it answers."""
        if self.log.exists() and self.log.stat().st_size > 10_000_000:
            self.log.rename(self.log.with_suffix(".log.1"))
        begin = self.log.stat().st_size if self.log.exists() else 0
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        with os.fdopen(open_file(self.log, os.O_WRONLY | os.O_APPEND), "ab") as log:
            process = subprocess.Popen(self.started_as(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd="/",
                                       env=environment, start_new_session=True)
        self.pid_file.write(process.pid)
        self.layout.remember(engine=self.started_as())
        if not wait_until(lambda: process.poll() is not None or self.answers() is not None, 60) or process.poll() is not None:
            self.pid_file.stop()
            with self.log.open("rb") as log:
                log.seek(begin)
                told = log.read().decode(errors="replace").strip().splitlines()
            raise CommandFailed("could not start the engine" + (f": {told[-1]}" if told else ""), f'See "{self.log}".')

    def answers(self) -> str | None:
        """The version of the engine behind the socket; None when nobody answers."""
        hello = b"H" + json.dumps({"protocol": 2, "version": privid.__version__, "pid": os.getpid(), "database": "privid",
                                   "login": "privid"}).encode()
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(5)
                sock.connect(str(self.layout.engine_socket))
                sock.sendall(struct.pack("<I", len(hello)) + hello)
                with sock.makefile("rb") as stream:
                    length = struct.unpack("<I", stream.read(4))[0]
                    answer = stream.read(min(length, 65536))
            body = json.loads(answer[1:])
        except (OSError, ValueError, struct.error):
            return None
        # an engine of another version says so in an error: it is alive, and not of use to us
        return str(body["version"]) if answer[:1] == b"h" else f"incompatible ({body.get('message')})"

    def stop(self) -> bool:
        """False when it was not running."""
        stopped = self.pid_file.stop()
        with contextlib.suppress(PrividError, CommandFailed):  # what else is there, in PostgreSQL's directory, is not ours to remove
            remove_socket(self.layout.engine_socket, {os.geteuid(), self.layout.account.uid})
        return stopped
