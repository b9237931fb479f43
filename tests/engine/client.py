"""A small client of docs/protocol.md, and an engine process to talk to."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privid import __version__
from privid.engine.rows import decode_columns
from privid.model import Column

HELLO = {"protocol": 2, "version": __version__, "pid": 1, "login": "ana"}


class Refused(Exception):
    """An E message."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(f"{body['sqlstate']}: {body['message']}")
        self.sqlstate: str = body["sqlstate"]
        self.body = body


class Client:
    """One connection."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(path))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, kind: str, body: dict[str, Any] | bytes) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.socket.sendall(struct.pack("<I", 1 + len(content)) + kind.encode() + content)

    def receive(self) -> tuple[str, bytes]:
        length = struct.unpack("<I", self._exactly(4))[0]
        content = self._exactly(length)
        return chr(content[0]), content[1:]

    def _exactly(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            piece = self.socket.recv(count - len(content))
            if not piece:
                raise EOFError
            content += piece
        return content

    def ask(self, kind: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """A request and its answer; an E is raised."""
        self.send(kind, body)
        answer, content = self.receive()
        parsed: dict[str, Any] = json.loads(content)
        if answer == "E":
            raise Refused(parsed)
        return answer, parsed

    def scan(self, handle: str, table: int, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        """Rows of a table under a handle: the chunk's microseconds, then the untrusted columns."""
        self.send("S", {"handle": handle, "table": table})
        rows: list[tuple[Any, ...]] = []
        while True:
            kind, content = self.receive()
            if kind == "E":
                raise Refused(json.loads(content))
            if kind == "e":
                return rows
            assert kind == "B"
            place = 0
            while place < len(content):
                count, chunk, length = struct.unpack_from("<IqxH", content, place)
                start = place = place + 15 + length
                for _ in columns:
                    place += 4 + struct.unpack_from("<I", content, place)[0]
                rows += [(chunk, *row) for row in decode_columns(columns, content[start:place], count)]

    def closed(self) -> bool:
        """Whether the engine ends the connection without another word."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


class EngineProcess:
    """A real engine with its own data directory."""

    def __init__(self, data: Path, videos: Path, conninfo: str, *, lanes: int = 1, peer_uid: int | None = None) -> None:
        self.data, self.videos, self.conninfo = data, videos, conninfo
        self.socket = data / "engine.sock"
        self.log_file = data / "engine.log"
        self.options = ["--data", str(data), "--videos", str(videos), "--socket", str(self.socket), "--conninfo", conninfo,
                        "--peer-uid", str(os.getuid() if peer_uid is None else peer_uid), "--lanes", str(lanes)]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *before: str) -> None:
        """`before`: a command that starts it in a world of its own."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen([*before, sys.executable, "-m", "privid.engine", *self.options], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd="/")
        deadline = time.monotonic() + 60
        while '"engine started"' not in self.log_file.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log_file.read_text()
            time.sleep(0.05)

    def scratch(self) -> Path:
        """Its place in memory, as it sees it itself: nobody else does."""
        assert self.process is not None
        return Path(f"/proc/{self.process.pid}/root{self._noted()}")

    def place(self) -> Path:
        """What everybody sees of that."""
        return Path("/dev/shm") / Path(self._noted()).relative_to("/dev/shm").parts[0]

    def _noted(self) -> str:
        return (self.data / "engine.scratch").read_text().strip()

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(90)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_file.read_text().splitlines()]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if line["event"] == name]

    def connect(self, database: str | None = None, login: str = "ana") -> Client:
        client = Client(self.socket)
        try:
            client.ask("H", {**HELLO, "login": login, "database": database or self.conninfo.split("dbname=")[1].split()[0]})
        except BaseException:
            client.close()
            raise
        return client


@contextmanager
def running(engine: EngineProcess) -> Iterator[EngineProcess]:
    try:
        engine.start()
        yield engine
    finally:
        if engine.process is not None and engine.process.poll() is None:
            engine.stop()
