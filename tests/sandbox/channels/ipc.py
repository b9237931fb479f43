"""Objects of the kernel that have numbers or names: System V, message queues, keys, sockets."""

from __future__ import annotations

import ctypes
import socket

from .channel import CHUNKS, FACTS, KEPT, TABLES, Channel, call, libc

_CREATE, _VSOCK_ANY, _SESSION_KEYRING = 0o1000, 0xFFFFFFFF, -3
_SHMGET, _SEMGET, _MSGGET, _MQ_OPEN, _ADD_KEY, _KEYCTL = 29, 64, 68, 240, 248, 250


def key() -> int:
    """Of this run of the test, so that two runs at once do not meet."""
    return int(FACTS["key"])


def make(bit: int, number: int, *arguments: int) -> None:
    if bit:
        call(number, key(), *arguments, 0o666 | _CREATE)


def there(number: int, *arguments: int) -> str:
    try:
        call(number, key(), *arguments, 0)
    except FileNotFoundError:
        return "no"
    return "yes"


def make_queue(bit: int) -> None:
    if bit:
        small = (ctypes.c_long * 8)(0, 1, 8)
        call(_MQ_OPEN, f"privid-{key()}".encode(), 0o100 | 2, 0o666, small)


def see_queue(_: object) -> str:
    try:
        call(_MQ_OPEN, f"privid-{key()}".encode(), 0, 0, None)
    except FileNotFoundError:
        return "no"
    return "yes"


def add_key(bit: int) -> None:
    if bit:
        call(_ADD_KEY, b"user", f"privid-{key()}".encode(), b"1", ctypes.c_size_t(1), _SESSION_KEYRING)


def find_key(_: object) -> str:
    if libc.syscall(ctypes.c_long(_KEYCTL), 10, _SESSION_KEYRING, b"user", f"privid-{key()}".encode(), 0) >= 0:
        return "yes"
    return "no" if ctypes.get_errno() == 126 else f"error {ctypes.get_errno()}"


def bind(family: int, kind: int, address: object, bit: int) -> None:
    if bit:
        KEPT.append(bound := socket.socket(family, kind))
        bound.bind(address)  # type: ignore[arg-type]
        if kind == socket.SOCK_STREAM:
            bound.listen()


def taken(family: int, kind: int, address: object) -> str:
    with socket.socket(family, kind) as mine:
        try:
            mine.bind(address)  # type: ignore[arg-type]
        except OSError as error:
            if error.errno != 98:
                raise
            return "taken"
    return "free"


def _system_v(name: str, number: int, *arguments: int) -> Channel:
    return Channel(f"System V {name}", lambda bit: make(bit, number, *arguments), lambda _: there(number, *arguments),
                   ("filter", "ipc"), (CHUNKS, TABLES))


def _socket(name: str, family: int, kind: int, address: object, *opened_by: str) -> Channel:
    return Channel(name, lambda bit: bind(family, kind, address, bit), lambda _: taken(family, kind, address), opened_by)


CHANNELS = (
    _system_v("memory", _SHMGET, 4096),
    _system_v("semaphores", _SEMGET, 1),
    _system_v("messages", _MSGGET),
    Channel("POSIX message queue", make_queue, see_queue, ("filter", "ipc"), (CHUNKS, TABLES)),
    Channel("key ring", add_key, find_key, ("filter", "session key ring"), (CHUNKS, TABLES)),
    _socket("Unix socket", socket.AF_UNIX, socket.SOCK_STREAM, b"\0privid-channel", "filter", "net"),
    _socket("TCP port", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 54321), "filter", "net"),
    _socket("UDP port", socket.AF_INET6, socket.SOCK_DGRAM, ("::1", 54321), "filter", "net"),
    _socket("netlink port", socket.AF_NETLINK, socket.SOCK_RAW, (54321, 0), "filter", "net"),
    _socket("vsock port", 40, socket.SOCK_STREAM, (_VSOCK_ANY, 54321), "filter"),
)
