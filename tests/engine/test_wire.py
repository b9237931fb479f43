"""Framing."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from privid.engine.wire import LIMIT, Malformed, pack, pack_json, parse_body, read_length, read_message, skip_rest
from privid.errors import NoRule


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def test_a_message_arrives_as_it_was_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].sendall(pack_json("R", {"a": "ü"}) + pack("Z"))
    assert read_message(pair[1]) == ("R", '{"a":"ü"}'.encode())
    assert read_message(pair[1]) == ("Z", b"")


def test_a_close_between_messages_is_not_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].close()
    assert read_message(pair[1]) is None


@pytest.mark.parametrize("sent", [b"\x05\0", b"\x05\0\0\0Rab", struct.pack("<I", 0), struct.pack("<I", LIMIT + 1) + b"R"])
def test_what_is_cut_short_empty_or_too_long_is_malformed(pair: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    pair[0].sendall(sent)
    pair[0].close()
    with pytest.raises(Malformed):
        read_message(pair[1])


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"a": NaN}', b'{"a":' + b"9" * 10_000 + b"}", b'{"a": 1} x'])
def test_a_body_that_is_not_a_json_object_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        parse_body(body)


def test_a_body_that_is_nested_too_deeply_is_a_statement_that_is_too_complex() -> None:
    with pytest.raises(NoRule, match="too complex"):
        parse_body(b"[" * 100_000)


def test_a_message_can_be_passed_over_by_its_length(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].sendall(pack("R", b"x" * 1000) + pack("Z"))
    length = read_length(pair[1])
    assert length == 1001
    skip_rest(pair[1], length)
    assert read_message(pair[1]) == ("Z", b"")
