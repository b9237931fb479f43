"""A client that speaks the protocol by itself: portals with names, of which it fetches a few rows at a time, as JDBC does."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import RunningStack

__all__ = ["Portals", "Refused", "open_portals"]


class Refused(Exception):
    """The server's error; its first argument is the SQLSTATE."""


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


class Portals:
    def __init__(self, sock: socket.socket, user: str) -> None:
        self._sock = sock
        self._stream = sock.makefile("rb")
        body = struct.pack("!I", 196608) + f"user\0{user}\0database\0privid\0\0".encode()
        sock.sendall(struct.pack("!I", len(body) + 4) + body)
        self._answer()

    def close(self) -> None:
        self._stream.close()

    def query(self, text: str) -> list[bytes]:
        """One message with statements."""
        self._sock.sendall(_message(b"Q", text.encode() + b"\0"))
        return self._answer()

    def execute(self, portal: str, text: str, rows: int) -> list[bytes]:
        """The first rows of a statement, whose portal stays open."""
        name = portal.encode() + b"\0"
        self._sock.sendall(_message(b"P", b"\0" + text.encode() + b"\0\0\0") + _message(b"B", name + b"\0" + bytes(6))
                           + _message(b"E", name + struct.pack("!I", rows)) + _message(b"S"))
        return self._answer()

    def _answer(self) -> list[bytes]:
        """The rows, until the server is ready again."""
        rows, error = list[bytes](), None
        while True:
            kind, (length,) = self._stream.read(1), struct.unpack("!I", self._stream.read(4))
            body = self._stream.read(length - 4)
            if kind == b"D":
                rows.append(body)
            elif kind == b"E":
                fields = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
                error = Refused(fields[b"C"], fields[b"M"])
            elif kind == b"Z":
                if error is not None:
                    raise error
                return rows


@contextmanager
def open_portals(stack: RunningStack, user: str) -> Iterator[Portals]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"{stack.layout.run}/.s.PGSQL.{stack.layout.socket_port}")
        client = Portals(sock, user)
        try:
            yield client
        finally:
            client.close()
