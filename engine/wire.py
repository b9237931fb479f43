"""Framing of docs/protocol.md: uint32 length, one type byte, a body."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, NoReturn

from privid.errors import NoRule

__all__ = ["HELLO_LIMIT", "LIMIT", "Malformed", "pack", "pack_json", "parse_body", "read_message"]

#: longest message, type byte included; a hello needs far less, and until it is said nothing larger is read
LIMIT = 64 * 1024 * 1024
HELLO_LIMIT = 64 * 1024

_LENGTH = struct.Struct("<I")
_PIECE = 256 * 1024


class Malformed(Exception):
    """The peer does not speak the protocol; the connection ends."""


def read_message(sock: socket.socket, limit: int = LIMIT) -> tuple[str, bytes] | None:
    """The next message as type and body; None when the peer closed between messages."""
    head = _read(sock, 4, at_start=True)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length < 1:
        raise Malformed("message without a type")
    if length > limit:
        raise Malformed("message too long")
    content = _read(sock, length, at_start=False)
    assert content is not None
    return chr(content[0]), bytes(memoryview(content)[1:])


def _read(sock: socket.socket, count: int, *, at_start: bool) -> bytearray | None:
    # The buffer grows with what arrives, so that a length alone reserves no memory.
    content = bytearray()
    while len(content) < count:
        piece = sock.recv(min(count - len(content), _PIECE))
        if not piece:
            if at_start and not content:
                return None
            raise Malformed("message cut short")
        content += piece
    return content


def pack(kind: str, *body: bytes) -> bytes:
    """A whole message, ready to send."""
    length = 1 + sum(map(len, body))
    if length > LIMIT:
        raise ValueError("message longer than the protocol allows")
    return b"".join((_LENGTH.pack(length), kind.encode("ascii"), *body))


def pack_json(kind: str, body: dict[str, Any]) -> bytes:
    return pack(kind, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))


def parse_body(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; anything else is malformed."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise NoRule("statement is too complex to be analysed", detail="Its parts are nested too deeply.",
                     hint="Write it with fewer set operations and subqueries.") from error
    except ValueError as error:
        raise Malformed("body is not JSON") from error
    if not isinstance(value, dict):
        raise Malformed("body is not an object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are not JSON
