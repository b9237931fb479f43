"""Whoever listens where PostgreSQL should: a program that speaks as much of its protocol as an engine waits for.

    python -I pretender.py ADDRESS (clear | open)

listens on a TCP port of 127.0.0.1 or on a Unix socket. To every client it says that it wants the password in clear, or lets it in at once
and answers each statement with one row. What clients send goes to its standard output.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading

ROW = b"/etc/shadow"


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def answer(sock: socket.socket, mode: str) -> None:
    with contextlib.suppress(OSError, struct.error), sock, sock.makefile("rb") as stream:
        while True:
            length = struct.unpack("!I", stream.read(4))[0]
            if length != 8:
                break
            stream.read(4)
            sock.sendall(b"N")  # neither TLS nor GSSAPI
        stream.read(length - 4)
        if mode == "clear":
            sock.sendall(message(b"R", struct.pack("!I", 3)))
        else:
            parameters = (b"server_version\x0015.0\0", b"client_encoding\0UTF8\0", b"standard_conforming_strings\0on\0")
            sock.sendall(message(b"R", bytes(4)) + b"".join(message(b"S", each) for each in parameters) + message(b"Z", b"I"))
        while kind := stream.read(1):
            said = stream.read(struct.unpack("!I", stream.read(4))[0] - 4)
            print(kind.decode(), said, flush=True)
            if kind in b"QS":
                column = b"x\0" + struct.pack("!IhIhih", 0, 0, 25, -1, -1, 0)
                sock.sendall(message(b"T", b"\0\1" + column) + message(b"D", struct.pack("!HI", 1, len(ROW)) + ROW)
                             + message(b"C", b"SELECT 1\0") + message(b"Z", b"I"))


def main(address: str, mode: str) -> None:
    listener = socket.socket(socket.AF_INET if address.isdigit() else socket.AF_UNIX)
    listener.bind(("127.0.0.1", int(address)) if address.isdigit() else address)
    listener.listen()
    print(listener.getsockname()[1] if address.isdigit() else address, flush=True)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0], mode), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
