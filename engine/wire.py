"""Framing of docs/protocol.md: uint32 length, one type byte, a body."""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from typing import Any, NoReturn

from privid.errors import NoRule

__all__ = ["HELLO_LIMIT", "LIMIT", "Malformed", "pack", "pack_json", "parse_body", "read_length", "read_message", "read_rest",
           "skip_rest"]

#: longest message, type byte included; a hello needs far less, and until it is said nothing larger is read
LIMIT = 64 * 1024 * 1024
HELLO_LIMIT = 64 * 1024

_LENGTH = struct.Struct("<I")
_PIECE = 256 * 1024


class Malformed(Exception):
    """The peer does not speak the protocol; the connection ends."""


def read_message(sock: socket.socket, limit: int = LIMIT, deadline: float | None = None) -> tuple[str, bytes] | None:
    """The next message as type and body; None when the peer closed between messages. With a deadline, a time of the monotonic clock, the
    whole of it must have come by then, else TimeoutError."""
    length = read_length(sock, limit, deadline)
    return None if length is None else read_rest(sock, length, deadline)


def read_length(sock: socket.socket, limit: int = LIMIT, deadline: float | None = None) -> int | None:
    """How long that is, with its type; the rest is to be read, or skipped, next."""
    head = _read(sock, 4, deadline, at_start=True)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length < 1:
        raise Malformed("message without a type")
    if length > limit:
        raise Malformed("message too long")
    return int(length)


def read_rest(sock: socket.socket, length: int, deadline: float | None = None) -> tuple[str, bytes]:
    """Type and body of a message of that length."""
    content = _read(sock, length, deadline, at_start=False)
    assert content is not None
    return chr(content[0]), bytes(memoryview(content)[1:])


def skip_rest(sock: socket.socket, length: int) -> None:
    """The same for a message that is not to be kept: whoever sends it listens only when it is sent."""
    while length:
        piece = sock.recv(min(length, _PIECE))
        if not piece:
            raise Malformed("message cut short")
        length -= len(piece)


def _read(sock: socket.socket, count: int, deadline: float | None, *, at_start: bool) -> bytearray | None:
    # The buffer grows with what arrives, so that a length alone reserves no memory.
    content = bytearray()
    while len(content) < count:
        if deadline is not None:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
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
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_integer, parse_float=_finite)
        if b"\\u" in body:
            _check_text(value)
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


def _integer(digits: str) -> int:
    """What fits into PostgreSQL's longest integer; thousands of digits are not even read."""
    if len(digits) > 20 or not -(2**63) <= (value := int(digits)) < 2**63:
        raise ValueError(digits[:20])
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(digits[:20])
    return value


def _check_text(value: Any) -> None:
    """No text has a NUL or half a character, which no text of PostgreSQL's has: JSON can write both."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if "\0" in part or (not part.isascii() and any("\ud800" <= character <= "\udfff" for character in part)):
                raise Malformed("text that is none")
        elif isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list):
            waiting += part
